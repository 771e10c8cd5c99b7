//! What must hold once faults have stopped: cascades move on within L1, flows end within L2, and
//! they end as a sequential evaluator says.

use std::collections::BTreeMap;

use sluicegate::identity::FlowId;
use sluicegate::policy::Decision;
use sluicegate::state::State;
use sluicegate::storage::{Attempt, AttemptEnd, Execution, Resolution, codes};
use sluicegate::time::Timestamp;

use super::super::ledger::Entry;
use super::super::work;
use super::{Evidence, Finding, Healed, Verdict, wrong};
use crate::history::{Change, Commit, Holder, Observation};
use crate::invariants::Judge;

/// Stuck executions that a message names.
const STUCK_SHOWN: usize = 5;

/// Once healed for that long, nothing that only a tick has to see waits longer than that.
pub(super) fn nothing_waits_beyond_l1(evidence: &Evidence<'_>) -> Verdict {
    let Some(healed) = evidence.healed else { return Ok(()) };
    let since = |at: Timestamp| evidence.rows.now.since(at.max(healed.at));
    for row in &evidence.rows.executions {
        if let Some(at) = row.finished_at
            && !row.propagated
            && since(at) > healed.bound
        {
            let waited = since(at);
            return wrong(row, format!("ended and not propagated for {waited:?} after faults"));
        }
        let deadline = row.deadline.filter(|_| !row.state.is_terminal());
        if let Some(over_at) = [row.attempt_over_at(), deadline].into_iter().flatten().min()
            && since(over_at) > healed.bound
        {
            let waited = since(over_at);
            return wrong(row, format!("its time is over for {waited:?} and it is not reaped"));
        }
        if row.state == State::Blocked
            && let Some(at) = decided_by(evidence, row, healed)
            && evidence.rows.now.since(at) > healed.bound
        {
            let waited = evidence.rows.now.since(at);
            return wrong(row, format!("blocked for {waited:?} behind a group that is decided"));
        }
    }
    Ok(())
}

/// By when the group of an execution was decided, if it is: no row holds the time, but each
/// resolved edge was resolved within L1 of the end of its upstream.
fn decided_by(evidence: &Evidence<'_>, row: &Execution, healed: Healed) -> Option<Timestamp> {
    let group = evidence.groups.get(&row.id)?;
    if group.decision == Decision::Undecided {
        return None;
    }
    let edges = evidence.into(row.id).iter();
    let resolved = edges.filter(|edge| edge.resolution != Resolution::Pending);
    let upstreams = resolved.filter_map(|edge| evidence.executions.get(&edge.key.upstream));
    let ends = upstreams.filter_map(|upstream| upstream.finished_at);
    Some(ends.max().unwrap_or(healed.at).max(healed.at) + healed.bound)
}

pub(super) fn everything_has_ended(evidence: &Evidence<'_>) -> Verdict {
    let rows = evidence.rows.executions.iter();
    let stuck: Vec<&Execution> =
        rows.filter(|row| !row.state.is_terminal() || !row.propagated).collect();
    let Some(first) = stuck.first() else { return Ok(()) };
    let shown = stuck.iter().take(STUCK_SHOWN);
    let shown: Vec<String> =
        shown.map(|row| format!("{} is {}", row.id, row.state.name())).collect();
    wrong(first, format!("{} executions are stuck: {}", stuck.len(), shown.join("; ")))
}

pub(super) fn ends_equal_the_evaluators(evidence: &Evidence<'_>) -> Verdict {
    for attempt in &evidence.rows.attempts {
        as_drawn(evidence, attempt)?;
    }
    let mut told_of = observations(evidence);
    let mut judge = Judge::new().only("I18");
    for (flow, commit) in commits(evidence) {
        judge.reset(false);
        let told = |error: crate::invariants::Violation| Finding {
            message: error.message,
            flow: Some(flow),
        };
        judge.commit(&commit, None).map_err(told)?;
        for observation in told_of.remove(&flow).unwrap_or_default() {
            judge.observe(&observation).map_err(told)?;
        }
        judge.quiescent().map_err(told)?;
    }
    Ok(())
}

/// A worker reports what the seed says, or somebody else ended its attempt.
fn as_drawn(evidence: &Evidence<'_>, attempt: &Attempt) -> Verdict {
    if matches!(attempt.end, AttemptEnd::Expired | AttemptEnd::Revoked) {
        return Ok(());
    }
    let key = attempt.key;
    let drawn = work::fate(evidence.seed, key.execution, key.incarnation, key.attempt);
    let drawn = drawn.report.end();
    if attempt.end == drawn {
        return Ok(());
    }
    let flow = evidence.executions.get(&key.execution).map(|row| row.flow);
    Err(Finding { message: format!("the seed says {drawn:?} of {attempt:?}"), flow })
}

/// Each flow as if one commit had made it.
fn commits(evidence: &Evidence<'_>) -> BTreeMap<FlowId, Commit> {
    let new = |row| Change { before: None, after: Some(row) };
    let mut commits: BTreeMap<FlowId, Commit> = BTreeMap::new();
    for row in &evidence.rows.executions {
        let commit = commits.entry(row.flow).or_default();
        commit.executions.push(new(*row));
        for edge in evidence.into(row.id) {
            commit.edges.push(Change { before: None, after: Some((*edge).clone()) });
        }
        commit.attempts.extend(evidence.attempts(row.id).iter().copied().copied());
    }
    for group in &evidence.rows.groups {
        let change = Change { before: None, after: Some(*group) };
        commits.entry(group.flow).or_default().groups.push(change);
    }
    commits
}

/// The acknowledged reports of each flow, as the judge of universes is told them.
fn observations(evidence: &Evidence<'_>) -> BTreeMap<FlowId, Vec<Observation>> {
    let mut observations: BTreeMap<FlowId, Vec<Observation>> = BTreeMap::new();
    for entry in evidence.books.iter().flat_map(|book| &book.entries) {
        if let Entry::Reported { lease, end, kind, value } = entry
            && let Some(row) = evidence.executions.get(&lease.execution)
            && let Some(end) = codes::attempt_end_of(i64::from(*end))
            && let Some(reported) =
                codes::reported_of(codes::StoredReport { kind: *kind, value: *value })
        {
            let holder = Holder {
                execution: lease.execution,
                incarnation: lease.incarnation,
                attempt: lease.attempt,
                epoch: lease.epoch,
                nonce: lease.nonce,
            };
            let told = Observation::Reported { holder, end, reported };
            observations.entry(row.flow).or_default().push(told);
        }
    }
    observations
}
