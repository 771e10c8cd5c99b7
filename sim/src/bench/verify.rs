//! Whether a measured run did what its shape calls for. A figure is printed only if it did; reads
//! one snapshot and never changes anything.

use std::collections::BTreeMap;

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::policy::Decision;
use sluicegate::state::{Outcome, State};
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::{
    Consistency, Edge, Event, EventId, ExecutionView, Group, Resolution, Snapshot, Storage,
    StorageError, all_readable,
};

use super::shapes::Shape;

/// Differences that are named; the rest is counted.
const NAMED_MAX: usize = 5;
/// Numbers in a row without an event after which the outbox is taken to end; a transaction that
/// was rolled back leaves some out.
const EVENT_GAP_MAX: u64 = 1_000;

/// What stands in the database of one flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Its executions.
    pub executions: Vec<ExecutionView>,
    /// Its groups.
    pub groups: Vec<Group>,
    /// Its edges.
    pub edges: Vec<Edge>,
    /// The completion events of its executions.
    pub events: Vec<Event>,
}

/// What must stand there.
#[derive(Clone, Debug)]
pub(crate) struct Expected<'a> {
    /// The graph.
    pub shape: &'a Shape,
    /// The flow.
    pub flow: FlowKey,
    /// How each node was ended from outside, by a worker or by its deadline.
    pub ended: Vec<Option<Outcome>>,
}

/// A group after everything drained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counters {
    edges: u32,
    satisfied: u32,
    unsatisfied: u32,
}

impl Counters {
    fn decision(self) -> Decision {
        match self {
            _ if self.unsatisfied > 0 => Decision::Impossible,
            _ if self.satisfied == self.edges => Decision::Satisfied,
            _ => Decision::Undecided,
        }
    }
}

/// Reads the whole outbox of a database, in the order of its numbers.
pub(crate) async fn read_events(storage: &BoxStorage) -> Result<Vec<Event>, StorageError> {
    let mut reader = storage.snapshot(Consistency::Snapshot).await?;
    let mut events = Vec::new();
    let mut missing = 0;
    let mut id = 1;
    while missing < EVENT_GAP_MAX {
        match reader.read_event(&EventId(id)).await? {
            Some(event) => {
                events.push(event);
                missing = 0;
            }
            None => missing += 1,
        }
        id += 1;
    }
    Ok(events)
}

/// Reads one flow, with those of the events that are of it.
pub(crate) async fn read(
    storage: &BoxStorage,
    flow: FlowKey,
    events: &[Event],
) -> Result<Seen, StorageError> {
    let mut reader = storage.snapshot(Consistency::Snapshot).await?;
    let executions = all_readable(reader.describe_executions(&flow).await?)?;
    let groups = all_readable(reader.describe_groups(&flow).await?)?;
    let edges = all_readable(reader.describe_edges(&flow).await?)?;
    let of_flow = |event: &&Event| event.event.flow == flow.id;
    let events = events.iter().filter(of_flow).cloned().collect();
    Ok(Seen { executions, groups, edges, events })
}

/// Reads the flows and judges each; an error names what is wrong.
pub(crate) async fn verify(storage: &BoxStorage, expected: &[Expected<'_>]) -> Result<(), String> {
    let said = |error: StorageError| format!("the result cannot be read: {error}");
    let events = read_events(storage).await.map_err(said)?;
    for one in expected {
        let seen = read(storage, one.flow, &events).await.map_err(said)?;
        let wrong = one.differences(&seen);
        if !wrong.is_empty() {
            let named = wrong.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
            let count = wrong.len();
            let flow = one.flow.id;
            return Err(format!("flow {flow} is not as its shape calls for ({count}): {named}"));
        }
    }
    Ok(())
}

impl Expected<'_> {
    /// Every node ended from outside in the same way.
    pub(crate) fn all(shape: &Shape, flow: FlowKey, outcome: Outcome) -> Expected<'_> {
        Expected { shape, flow, ended: vec![Some(outcome); shape.nodes] }
    }

    /// Only these first nodes were ended from outside.
    pub(crate) fn first(
        shape: &Shape,
        flow: FlowKey,
        nodes: usize,
        outcome: Outcome,
    ) -> Expected<'_> {
        let ended = (0..shape.nodes).map(|node| (node < nodes).then_some(outcome)).collect();
        Expected { shape, flow, ended }
    }

    /// The state of every node and the counters of every group once all is drained: an evaluation
    /// in the order of the nodes, which is topological.
    fn drained(&self) -> (Vec<State>, Vec<Counters>) {
        let mut groups = vec![Counters::default(); self.shape.nodes];
        let mut outbound: Vec<Vec<usize>> = vec![Vec::new(); self.shape.nodes];
        for (from, to) in &self.shape.edges {
            groups[*to].edges += 1;
            outbound[*from].push(*to);
        }
        let mut states = Vec::with_capacity(self.shape.nodes);
        for node in 0..self.shape.nodes {
            let state = match self.ended[node] {
                Some(outcome) => State::Terminal(outcome),
                None => match groups[node].decision() {
                    Decision::Satisfied => State::Ready,
                    Decision::Impossible => State::Terminal(Outcome::Skipped),
                    Decision::Undecided => State::Blocked,
                },
            };
            states.push(state);
            let Some(outcome) = state.outcome() else { continue };
            let accepted = self.shape.accepts.contains(outcome);
            for to in &outbound[node] {
                groups[*to].satisfied += u32::from(accepted);
                groups[*to].unsatisfied += u32::from(!accepted);
            }
        }
        (states, groups)
    }

    /// Everything in which the database differs from what the shape calls for.
    pub(crate) fn differences(&self, seen: &Seen) -> Vec<String> {
        let (states, groups) = self.drained();
        let ids: Vec<ExecutionId> =
            (0..self.shape.nodes).map(|node| self.flow.execution(&Shape::name(node))).collect();
        let nodes: BTreeMap<ExecutionId, usize> =
            ids.iter().enumerate().map(|(node, id)| (*id, node)).collect();
        let mut wrong = Vec::new();
        self.judge_executions(seen, &nodes, &states, &mut wrong);
        judge_groups(seen, &nodes, &groups, &mut wrong);
        self.judge_edges(seen, &ids, &states, &mut wrong);
        self.judge_events(seen, &nodes, &states, &mut wrong);
        wrong
    }

    fn judge_executions(
        &self,
        seen: &Seen,
        nodes: &BTreeMap<ExecutionId, usize>,
        states: &[State],
        wrong: &mut Vec<String>,
    ) {
        if seen.executions.len() != self.shape.nodes {
            wrong.push(format!("{} executions", seen.executions.len()));
        }
        for view in &seen.executions {
            let row = &view.execution;
            let Some(node) = nodes.get(&row.id) else {
                wrong.push(format!("an execution `{}`", view.definition.name));
                continue;
            };
            let state = states[*node];
            if row.state != state {
                let (is, must) = (row.state.name(), state.name());
                wrong.push(format!("node {node} is {is} and not {must}"));
            }
            // Whatever has ended has told everything that depends on it.
            if row.propagated != state.is_terminal() {
                wrong.push(format!("node {node} says propagated = {}", row.propagated));
            }
            if row.incarnation != 0 || row.attempt > 1 || row.lease.is_some() {
                wrong.push(format!("node {node} is at attempt {}", row.attempt));
            }
        }
    }

    fn judge_edges(
        &self,
        seen: &Seen,
        ids: &[ExecutionId],
        states: &[State],
        wrong: &mut Vec<String>,
    ) {
        let mut rows: BTreeMap<(ExecutionId, ExecutionId), &Edge> = BTreeMap::new();
        for edge in &seen.edges {
            rows.insert((edge.key.upstream, edge.key.downstream), edge);
        }
        if rows.len() != self.shape.edges.len() || rows.len() != seen.edges.len() {
            wrong.push(format!("{} edges", seen.edges.len()));
        }
        for (from, to) in &self.shape.edges {
            let must = match states[*from].outcome() {
                None => Resolution::Pending,
                Some(outcome) if self.shape.accepts.contains(outcome) => Resolution::Satisfied,
                Some(_) => Resolution::Unsatisfied,
            };
            let row = rows.get(&(ids[*from], ids[*to]));
            let is = row.map(|edge| (edge.resolution, edge.upstream_incarnation));
            let incarnation = (must != Resolution::Pending).then_some(0);
            if is != Some((must, incarnation)) {
                wrong.push(format!("edge {from} -> {to} is {is:?} and not {must:?}"));
            }
        }
    }

    fn judge_events(
        &self,
        seen: &Seen,
        nodes: &BTreeMap<ExecutionId, usize>,
        states: &[State],
        wrong: &mut Vec<String>,
    ) {
        let mut told: Vec<Vec<Outcome>> = vec![Vec::new(); self.shape.nodes];
        for row in &seen.events {
            match nodes.get(&row.event.execution) {
                Some(node) if row.event.incarnation == 0 => told[*node].extend(row.event.outcome()),
                _ => wrong.push(format!("event {} is of nobody", row.id.0)),
            }
        }
        for (node, told) in told.iter().enumerate() {
            let must: Vec<Outcome> = states[node].outcome().into_iter().collect();
            if *told != must {
                wrong.push(format!("node {node} has the events {told:?}"));
            }
        }
    }
}

fn judge_groups(
    seen: &Seen,
    nodes: &BTreeMap<ExecutionId, usize>,
    groups: &[Counters],
    wrong: &mut Vec<String>,
) {
    let joins = groups.iter().filter(|group| group.edges > 0).count();
    if seen.groups.len() != joins {
        wrong.push(format!("{} groups and not {joins}", seen.groups.len()));
    }
    for row in &seen.groups {
        let is =
            Counters { edges: row.edges, satisfied: row.satisfied, unsatisfied: row.unsatisfied };
        let node = nodes.get(&row.downstream);
        let must = node.map(|node| groups[*node]);
        let decided = must.is_some_and(|must| row.decision == must.decision());
        if must != Some(is) || !decided {
            wrong.push(format!("group {node:?} is {is:?}, {:?}", row.decision));
        }
    }
}

#[cfg(test)]
mod tests;
