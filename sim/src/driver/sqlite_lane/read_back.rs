//! The rows that a transaction touched, read back before it commits.

use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::state::{ClosePolicy, Outcome, State};
use sluicegate::storage::{
    Edge, EdgeFlip, EventId, EventPosition, Execution, Flow, Position, Resolution, Result,
    Transaction,
};

use super::{Backend, Touched, now};
use crate::driver::world::World;
use crate::history::{Change, Commit};

/// Fills the world's commit with the rows as the open transaction sees them.
pub(super) fn read_back(world: &mut World, backend: &mut Backend, touched: &Touched) -> Result<()> {
    let executions: Vec<ExecutionId> = touched.executions.iter().copied().collect();
    let summaries: Vec<FlowKey> = touched.summaries.iter().copied().collect();
    let groups: Vec<ExecutionId> = touched.groups.iter().copied().collect();
    let executions = now(backend.lock_executions(&executions))?;
    let groups = now(backend.read_groups(&groups))?;
    let mirror = world.judge.mirror();
    let closed = |flow: &&Flow| flow.closing.is_some_and(|by| by != ClosePolicy::FlowOnly);
    // Its transactions come one after the other: what was closed before a claim commits was closed
    // before it began.
    let closed: Vec<FlowKey> = mirror.flows().iter().filter(closed).map(|flow| flow.key).collect();
    // So was what had been skipped before a replay commits.
    let skipped = |row: &&Execution| row.state == State::Terminal(Outcome::Skipped);
    let skipped = mirror.executions().iter().filter(skipped).map(|row| row.id);
    let replays = !touched.requests.is_empty();
    let mut rows = Commit {
        clock: touched.clock,
        closed_at_clock: closed.clone(),
        closed_at_claim: closed,
        skipped_at_look: skipped.filter(|_| replays).collect(),
        ..Commit::default()
    };
    for row in &touched.flows {
        let before = mirror.flow(row.key).cloned();
        rows.flows.push(Change { before, after: Some(row.clone()) });
    }
    for row in executions {
        let before = mirror.execution(row.id).copied();
        if before != Some(row) || mirror.is_damaged(row.id) {
            rows.executions.push(Change { before, after: Some(row) });
        }
    }
    for row in groups {
        // One that is damaged may be written anew as it was before.
        let before = mirror.group(row.downstream).copied();
        if before != Some(row) || mirror.is_damaged(row.downstream) {
            rows.groups.push(Change { before, after: Some(row) });
        }
    }
    let flipped = |edge: Edge, flip: Option<&EdgeFlip>| Edge {
        resolution: flip.map_or(Resolution::Pending, |flip| flip.resolution),
        upstream_incarnation: flip.map(|flip| flip.upstream_incarnation),
        input: flip.and_then(|flip| flip.input),
        ..edge
    };
    for row in &touched.edges {
        let after = match touched.flips.get(&row.key) {
            Some(flip) => flipped(row.clone(), flip.as_ref()),
            None => row.clone(),
        };
        rows.edges.push(Change { before: None, after: Some(after) });
    }
    for (key, flip) in &touched.flips {
        let Some(before) = mirror.edge(*key).cloned() else { continue };
        let after = Some(flipped(before.clone(), flip.as_ref()));
        rows.edges.push(Change { before: Some(before), after });
    }
    for row in now(backend.lock_summaries(&summaries))? {
        let before = mirror.summary(row.flow).copied();
        if before != Some(row) {
            rows.summaries.push(Change { before, after: Some(row) });
        }
    }
    rows.submissions.extend(touched.submissions.iter().cloned());
    rows.attempts.extend(&touched.attempts);
    // One writer: numbers are given out in the order of the commits, and are places in the feed.
    for (event, number) in touched.events.iter().zip(world.event_highest.0 + 1..) {
        rows.events.push((EventId(number), *event));
        rows.positions.push(EventPosition { key: event.key(), position: Position(number) });
    }
    for (group, after) in &touched.siblings {
        let before = mirror.sibling_request(*group).copied();
        if before != *after {
            rows.sibling_requests.push(Change { before, after: *after });
        }
    }
    for (key, after) in &touched.requests {
        let before = mirror.request(*key).cloned();
        rows.requests.push(Change { before, after: Some(after.clone()) });
    }
    for (flow, after) in &touched.backlog {
        let before = mirror.cancel_backlog().contains(flow).then_some(*flow);
        if before != *after {
            rows.cancel_backlog.push(Change { before, after: *after });
        }
    }
    rows.flow_changes.extend(&touched.changes);
    touched.gone.tell(mirror, &mut rows);
    world.commit = rows;
    Ok(())
}
