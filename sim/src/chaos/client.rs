//! The client: submits the flows of a round under wall clocks right and wrong, and extends,
//! changes, cancels and replays some of them, until it is told to stop; resumes whatever is
//! suspended until the round is over. Never judges.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate::flow::{Limits, ValidFlow};
use sluicegate::identity::{ExecutionId, FlowId};
use sluicegate::state::ClosePolicy;
use sluicegate::storage::boxed::BoxStorage;

use super::database::Database;
use super::desk::Desk;
use super::ledger::Scope;
use super::{TICK_LONGEST, counts, visit, work};

/// Flows of one round at most.
const FLOWS_MAX: u32 = 400;
/// Flows of one round at least: submitted even after faults have stopped.
const FLOWS_MIN: u32 = 20;
/// The client lets workers catch up beyond so many open executions.
const OPEN_MAX: i64 = 90;
/// Flows that are submitted at a time.
const BATCH: u32 = 4;
/// The wait between two batches.
const PAUSE: Duration = Duration::from_millis(60);
/// Of so many flows one is replayed once it has ended.
const REPLAYED_OF: u32 = 3;
/// Flows that are replayed with each batch at most.
const REPLAYS_BY_BATCH: usize = 2;
/// After so many flows more, nothing but a replay is done to a flow.
const CHANGED_WITHIN: u32 = 9;
/// Of so many flows one is visited once so many more have been submitted.
const VISITED_OF: u32 = 8;
const VISITED_AFTER: u32 = 2;
/// The tag that is hung on flows.
const TAG: &str = "chaos.count";
/// Of so many suspensions one is left alone for a while, so that others may end it.
const LEFT_ALONE_OF: u64 = 4;
/// How many looks after the first one such a suspension is resumed.
const LOOKS_LEFT_ALONE: u32 = 5;
/// The wait between two looks at what is suspended.
const LOOK_AFTER: Duration = Duration::from_millis(250);

/// Flows that are known to be submitted, by their numbers.
type Flows = BTreeMap<u32, (FlowId, ValidFlow)>;

/// What is done to a flow.
#[derive(Clone, Copy, Debug)]
enum Act {
    Cancel(ClosePolicy),
    CancelExecution,
    Extend,
    SetPolicy,
    Tag,
}

/// What is done to a flow once so many have been submitted after it.
#[derive(Clone, Copy, Debug)]
struct Change {
    act: Act,
    after: u32,
}

/// What is done after each submit, in turn: soon, or so late that the flow may refuse it.
static CHANGES: [Change; 16] = [
    Change { act: Act::Tag, after: 3 },
    Change { act: Act::Extend, after: 1 },
    Change { act: Act::SetPolicy, after: 0 },
    Change { act: Act::CancelExecution, after: 3 },
    Change { act: Act::Tag, after: 3 },
    Change { act: Act::Extend, after: 9 },
    Change { act: Act::SetPolicy, after: 8 },
    Change { act: Act::Cancel(ClosePolicy::CancelPending), after: 4 },
    Change { act: Act::Tag, after: 3 },
    Change { act: Act::Extend, after: 1 },
    Change { act: Act::SetPolicy, after: 0 },
    Change { act: Act::CancelExecution, after: 3 },
    Change { act: Act::Tag, after: 3 },
    Change { act: Act::Extend, after: 9 },
    Change { act: Act::SetPolicy, after: 8 },
    Change { act: Act::Cancel(ClosePolicy::CancelAll), after: 4 },
];

/// Submits flows, and is responsible for them.
pub(super) struct Client {
    desks: Vec<Desk>,
    /// Whoever resumes.
    attendant: Desk,
    database: Database,
    seed: u64,
}

impl Client {
    /// A client at that storage, with a desk for each clock.
    pub(super) fn new(
        storage: &BoxStorage,
        database: Database,
        seed: u64,
        ledgers: &Path,
    ) -> Result<Self, String> {
        let desk = |skew_s: i64| Desk::new(storage, ledgers, &format!("client{skew_s}"), skew_s);
        let desks = [0, 3_600, -3_600].into_iter().map(desk).collect::<Result<_, String>>()?;
        let attendant = Desk::new(storage, ledgers, "attendant", 0)?;
        Ok(Self { desks, attendant, database, seed })
    }

    /// Submits flows of a round until it is told to stop, and the least number of them anyway.
    /// Returns the flows, whether they were acknowledged or not.
    pub(super) async fn submit(&self, round: u32, stop: &AtomicBool) -> Vec<ValidFlow> {
        let namespace = work::namespace(round);
        let mut flows = Vec::new();
        let (mut known, mut replayed) = (Flows::new(), BTreeSet::new());
        let mut next = 0;
        while next < FLOWS_MAX {
            if stop.load(Ordering::SeqCst) && next >= FLOWS_MIN {
                break;
            }
            let desk = &self.desks[(next / BATCH) as usize % self.desks.len()];
            let open = counts::open(&self.database, &namespace).await.unwrap_or(0);
            if open > OPEN_MAX && !stop.load(Ordering::SeqCst) {
                desk.pause(PAUSE).await;
                continue;
            }
            for number in next..next + BATCH {
                let drawn = work::flow(self.seed, round, number).validate(&Limits::default());
                let flow = drawn.expect("drawn flows are valid");
                if let Some(id) = desk.submit(&flow).await {
                    known.insert(number, (id, flow.clone()));
                }
                flows.extend(self.change(desk, round, number, &known).await);
                if number % VISITED_OF == VISITED_AFTER
                    && let Some((id, flow)) = known.get(&(number - VISITED_AFTER))
                {
                    let executions = &flow.spec().executions;
                    let at = work::pick(self.seed, round, number, executions.len());
                    visit::visit(desk, *id, &executions[at].name, TAG).await;
                }
                flows.push(flow);
            }
            next += BATCH;
            self.replay(desk, round, &known, &mut replayed).await;
            desk.pause(PAUSE).await;
        }
        flows
    }

    /// What is done to the flows that are known, once the flow of that number has been submitted.
    /// Returns what one of them may have grown to.
    async fn change(
        &self,
        desk: &Desk,
        round: u32,
        number: u32,
        known: &Flows,
    ) -> Option<ValidFlow> {
        let change = CHANGES[number as usize % CHANGES.len()];
        let number = number.checked_sub(change.after)?;
        let (id, flow) = known.get(&number)?;
        let spec = flow.spec();
        match change.act {
            Act::Cancel(policy) => desk.cancel(*id, policy).await,
            Act::CancelExecution => {
                let at = work::pick(self.seed, round, number, spec.executions.len());
                desk.cancel_execution(*id, &spec.executions[at].name).await;
            }
            Act::Tag => desk.tag(*id, TAG).await,
            Act::SetPolicy => {
                if let Some((join, policy)) = work::exchange(spec) {
                    desk.set_policy(*id, &join, policy).await;
                }
            }
            Act::Extend => {
                let additions = work::additions(self.seed, round, number, spec);
                desk.extend(*id, &additions).await;
                let grown = work::grown(spec, &additions).validate(&Limits::default());
                return Some(grown.expect("additions fit the flow that they were drawn for"));
            }
        }
        None
    }

    /// Replays some flows that have ended, each of them once. Nobody else changes such a flow, so
    /// that all of it has ended when the replay comes.
    async fn replay(
        &self,
        desk: &Desk,
        round: u32,
        known: &Flows,
        replayed: &mut BTreeSet<FlowId>,
    ) {
        let namespace = work::namespace(round);
        let Ok(ended) = counts::ended(&self.database, &namespace).await else { return };
        let last = known.last_key_value().map_or(0, |(number, _)| *number);
        let due = known.iter().filter(|(number, (id, _))| {
            let settled = **number + CHANGED_WITHIN < last
                && !self.desks.iter().any(|desk| desk.is_unsure(*id));
            **number % REPLAYED_OF == 0 && settled && ended.contains(id) && !replayed.contains(id)
        });
        let due: Vec<(u32, FlowId, &ValidFlow)> =
            due.take(REPLAYS_BY_BATCH).map(|(number, (id, flow))| (*number, *id, flow)).collect();
        for (number, id, flow) in due {
            let executions = &flow.spec().executions;
            let scope = match number / REPLAYED_OF % 3 {
                0 => Scope::Failed,
                1 => {
                    let at = work::pick(self.seed, round, number, executions.len());
                    Scope::From(desk.execution(id, &executions[at].name))
                }
                _ => Scope::All,
            };
            replayed.insert(id);
            desk.replay(id, scope).await;
        }
    }

    /// Resumes what is suspended in a round, some of it late, until it is told to stop.
    pub(super) async fn attend(&self, round: u32, stop: &AtomicBool) {
        assert!(
            LOOK_AFTER * (LOOKS_LEFT_ALONE + 1) < TICK_LONGEST,
            "a suspension ends within the time that the bound allows a reconciler"
        );
        let namespace = work::namespace(round);
        let mut looks: BTreeMap<(ExecutionId, u64), u32> = BTreeMap::new();
        while !stop.load(Ordering::SeqCst) {
            let suspended = counts::suspended(&self.database, &namespace).await;
            for (execution, epoch) in suspended.unwrap_or_default() {
                let seen = looks.entry((execution, epoch)).or_default();
                let patience = match work::bits(execution).is_multiple_of(LEFT_ALONE_OF) {
                    true => LOOKS_LEFT_ALONE,
                    false => 0,
                };
                if *seen >= patience {
                    self.attendant.resume(execution, epoch).await;
                }
                *seen += 1;
            }
            self.attendant.pause(LOOK_AFTER).await;
        }
    }
}
