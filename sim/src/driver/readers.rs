//! What a reader is shown once nothing moves any more: lists under filters, page by page. Never
//! moves anything.

use sluicegate::identity::ExecutionId;
use std::rc::Rc;

use sluicegate::operations::list::{ExecutionEntry, ExecutionFilter, FlowFilter};
use sluicegate::state::{Outcome, State};
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::{Flow, Scope, Storage, Unreadable};
use sluicegate::summary::FlowStatus;
use sluicegate::{Engine, EngineError};

use crate::driver::statement::ModelStorage;
use crate::driver::universe::{Stores, Universe, schedule_alone};
use crate::driver::world::{SimEnvironment, world};
use crate::history::Observation;
use crate::invariants::Violation;

/// Rows of a page.
const PAGE_ROWS: u32 = 5;
/// Pages of a list at most.
const PAGES_MAX: u32 = 1_000;
/// Filters that one universe asks; which ones goes round with its number.
const ASKED: usize = 3;

impl Universe {
    /// Asks for lists under some filters and has them judged.
    pub(crate) fn read_lists(&mut self) -> Result<(), Violation> {
        let flow = world(|world| world.judge.mirror().flows().first().cloned());
        let Some(flow) = flow else { return Ok(()) };
        self.drop_ops();
        let scopes = scopes(&flow);
        let first = usize::try_from(self.plan.ids_seed % 1_000).unwrap_or(0) * ASKED;
        for number in first..first + ASKED {
            let scope = scopes[number % scopes.len()].clone();
            for seen in self.ask_lists(&flow, scope, number) {
                let seen = seen.map_err(|message| Violation { invariant: "I14", message })?;
                world(|world| world.judge.observe(&seen))?;
            }
        }
        Ok(())
    }

    fn ask_lists(&mut self, flow: &Flow, scope: Scope, number: usize) -> [Shown; 2] {
        let lane = match &self.stores {
            Stores::Model => None,
            Stores::Sqlite(lane) => Some(Rc::clone(lane)),
        };
        match lane {
            None => lists(&self.engine(0, ModelStorage { actor: 0 }), flow, scope, number),
            Some(lane) => {
                lists(&self.engine(0, BoxStorage::new(lane.storage(0))), flow, scope, number)
            }
        }
    }
}

/// A list; in words where it was not shown, which nothing excuses once nothing moves any more.
type Shown = Result<Observation, String>;

fn shown(answer: Option<Result<Observation, EngineError>>) -> Shown {
    let answer = answer.ok_or("a list is never shown")?;
    answer.map_err(|error| format!("a list is not shown: {error}"))
}

/// The list of flows and that of executions under one scope.
fn lists<S: Storage>(
    engine: &Engine<S, SimEnvironment>,
    flow: &Flow,
    scope: Scope,
    number: usize,
) -> [Shown; 2] {
    let statuses = match number % 3 {
        0 => vec![FlowStatus::Completed, FlowStatus::Cancelled],
        1 => vec![FlowStatus::Failed],
        _ => Vec::new(),
    };
    let states = match number % 4 {
        0 => vec![State::Terminal(Outcome::Succeeded)],
        1 => vec![State::Terminal(Outcome::Skipped), State::Blocked],
        _ => Vec::new(),
    };
    let flows = schedule_alone(list_flows(engine, scope.clone(), statuses));
    let one = number.is_multiple_of(2).then_some(flow.key);
    let executions = schedule_alone(list_executions(engine, scope, one, states));
    [shown(flows), shown(executions)]
}

async fn list_flows<S: Storage>(
    engine: &Engine<S, SimEnvironment>,
    scope: Scope,
    statuses: Vec<FlowStatus>,
) -> Result<Observation, EngineError> {
    let filter = FlowFilter { scope, statuses };
    let (mut flows, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = engine.list_flows(&filter, cursor, PAGE_ROWS).await?;
        flows.extend(page.rows.into_iter().map(|row| row.key));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let FlowFilter { scope, statuses } = filter;
    Ok(Observation::ListedFlows { scope, statuses, flows })
}

async fn list_executions<S: Storage>(
    engine: &Engine<S, SimEnvironment>,
    scope: Scope,
    flow: Option<sluicegate::identity::FlowKey>,
    states: Vec<State>,
) -> Result<Observation, EngineError> {
    let filter = ExecutionFilter { scope, flow: flow.map(|flow| flow.id), states };
    let (mut executions, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = engine.list_executions(&filter, cursor, PAGE_ROWS).await?;
        executions.extend(ids_of(page.rows, page.unreadable));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let ExecutionFilter { scope, states, .. } = filter;
    Ok(Observation::ListedExecutions { scope, flow, states, executions })
}

/// A page as one list, in the order in which it came.
fn ids_of(
    rows: Vec<ExecutionEntry>,
    unreadable: Vec<Unreadable<ExecutionId>>,
) -> impl Iterator<Item = ExecutionId> {
    let mut unreadable = unreadable.into_iter().map(|row| row.key).peekable();
    let mut rows = rows.into_iter().map(|row| row.id).peekable();
    std::iter::from_fn(move || match (rows.peek(), unreadable.peek()) {
        (Some(row), Some(other)) if other < row => unreadable.next(),
        (None, _) => unreadable.next(),
        _ => rows.next(),
    })
}

/// Scopes that a flow is in, and ones that it is next to.
fn scopes(flow: &Flow) -> Vec<Scope> {
    let partition = flow.key.partition.0;
    let tagged = |tag: String| Scope { instance_tag: Some(tag.into()), ..Scope::default() };
    let tenant = |namespace: &str| Scope { namespace: Some(namespace.into()), ..Scope::default() };
    let within = |partitions| Scope { partitions, ..Scope::default() };
    let tag = flow.instance_tag.as_deref().unwrap_or("none=none");
    let (key, value) = tag.split_once('=').unwrap_or((tag, ""));
    vec![
        Scope::default(),
        tagged(tag.to_owned()),
        tagged(format!("other-{key}={value}")),
        tagged(format!("{key}=other-{value}")),
        tenant(&flow.namespace),
        tenant("nobody"),
        within(partition..partition + 1),
        within(0..partition),
        within(partition + 1..u16::MAX),
        Scope { namespace: Some(flow.namespace.clone()), ..tagged(tag.to_owned()) },
    ]
}
