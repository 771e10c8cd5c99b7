//! What must hold once flows have drained: they have ended within L2, and as a sequential evaluator
//! says.

use std::collections::BTreeMap;

use sluicegate::identity::FlowId;
use sluicegate::storage::{Attempt, AttemptEnd, Execution, codes};

use super::super::ledger::Entry;
use super::super::work;
use super::{Evidence, Finding, Verdict, wrong};
use crate::history::{Change, Commit, Holder, Observation};
use crate::invariants::Judge;

/// Stuck executions that a message names.
const STUCK_SHOWN: usize = 5;

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
