//! What must hold of the calls that change a flow: submits, cancels, extensions, policies, tags.

use std::collections::{BTreeMap, BTreeSet};

use sluicegate::identity::{ExecutionId, FlowId};
use sluicegate::policy::JoinPolicy;
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::codes;

use super::super::ledger::Entry;
use super::super::work;
use super::{Evidence, Finding, Verdict};

/// Whether what was told of a call is in the rows of its flow, if it was told of one.
pub(super) fn kept(evidence: &Evidence<'_>, entry: &Entry) -> Option<(bool, Option<FlowId>)> {
    let (kept, flow) = match entry {
        Entry::Submitted { flow, executions, edges } => {
            (submitted(evidence, *flow) == (*executions, *edges), flow)
        }
        Entry::FlowCancelled { flow, cancelled } => {
            let ended = |id| was_cancelled(evidence, id, Cause::Flow);
            (cancelled.iter().all(|id| ended(*id)), flow)
        }
        Entry::ExecutionCancelled { flow, execution, had_ended } => {
            let kept = match had_ended {
                None => was_cancelled(evidence, *execution, Cause::Operator),
                Some(code) => evidence.end_of(*execution, 0).map(codes::outcome) == Some(*code),
            };
            (kept, flow)
        }
        Entry::GivenUp { flow, execution, had_ended } => {
            let kept = match had_ended {
                None => was_given_up(evidence, *execution),
                Some(code) => evidence.end_of(*execution, 0).map(codes::outcome) == Some(*code),
            };
            (kept, flow)
        }
        Entry::Extended { flow, revision, executions, edges } => {
            (extended(evidence, *flow, *revision, executions, edges), flow)
        }
        Entry::NotExtended { flow, executions } => {
            let there = |id| evidence.executions.contains_key(id);
            (!executions.iter().any(there), flow)
        }
        Entry::PolicySet { flow, join, policy } => {
            (policy_of(evidence, *join) == Some(*policy), flow)
        }
        Entry::PolicyKept { flow, join, policy } => {
            (policy_of(evidence, *join).is_some_and(|kept| kept != *policy), flow)
        }
        Entry::Replayed { flow, members, .. } => {
            let again = |id| evidence.executions.get(id).is_some_and(|row| row.incarnation > 0);
            (members.iter().all(again), flow)
        }
        Entry::Tagged { flow, tag, value } => (tagged(evidence, *flow, tag, *value), flow),
        _ => return None,
    };
    Some((kept, Some(*flow)))
}

/// How many executions and edges the flow was submitted with.
fn submitted(evidence: &Evidence<'_>, flow: FlowId) -> (usize, usize) {
    let members = || evidence.members(flow);
    let edges = members().flat_map(|row| evidence.into(row.id));
    let edges = edges.filter(|edge| {
        !evidence.was_added(edge.key.upstream) && !evidence.was_added(edge.key.downstream)
    });
    (members().filter(|row| !evidence.was_added(row.id)).count(), edges.count())
}

/// The first life of an execution was cancelled, for that reason as long as its row can tell: the
/// client cancels nothing that it has replayed.
fn was_cancelled(evidence: &Evidence<'_>, id: ExecutionId, cause: Cause) -> bool {
    let cancelled = evidence.end_of(id, 0) == Some(Outcome::Cancelled);
    cancelled
        && evidence.executions.get(&id).is_some_and(|row| {
            let stands = row.state == State::Terminal(Outcome::Cancelled);
            row.incarnation > 0 || (stands && row.cause == Some(cause))
        })
}

/// The only life of an execution has failed for that reason: nothing spoilt is replayed.
fn was_given_up(evidence: &Evidence<'_>, id: ExecutionId) -> bool {
    let failed = State::Terminal(Outcome::Failed);
    evidence.end_of(id, 0) == Some(Outcome::Failed)
        && evidence
            .executions
            .get(&id)
            .is_some_and(|row| row.state == failed && row.cause == Some(Cause::Unreadable))
}

fn extended(
    evidence: &Evidence<'_>,
    flow: FlowId,
    revision: u64,
    executions: &[ExecutionId],
    edges: &[(ExecutionId, ExecutionId)],
) -> bool {
    let grown = evidence.flows.get(&flow).is_some_and(|row| row.revision >= revision);
    let member = |id| evidence.executions.get(id).is_some_and(|row| row.flow == flow);
    let edge = |(upstream, downstream): &(ExecutionId, ExecutionId)| {
        evidence.into(*downstream).iter().any(|edge| edge.key.upstream == *upstream)
    };
    grown && executions.iter().all(member) && edges.iter().all(edge)
}

fn policy_of(evidence: &Evidence<'_>, join: ExecutionId) -> Option<JoinPolicy> {
    evidence.groups.get(&join).map(|group| group.policy)
}

/// The tag has that value or a later one: a repeated call takes nothing back.
fn tagged(evidence: &Evidence<'_>, flow: FlowId, tag: &str, value: u64) -> bool {
    let stored = evidence.flows.get(&flow).and_then(|row| row.tags.get(tag));
    stored.and_then(|stored| stored.parse::<u64>().ok()).is_some_and(|stored| stored >= value)
}

pub(super) fn extensions_are_whole(evidence: &Evidence<'_>) -> Verdict {
    let mut added: BTreeMap<FlowId, Vec<&str>> = BTreeMap::new();
    for row in &evidence.rows.executions {
        if evidence.was_added(row.id) {
            added.entry(row.flow).or_default().push(&evidence.rows.names[&row.id]);
        }
    }
    for flow in &evidence.rows.flows {
        let names = added.get(&flow.id).map_or(&[][..], Vec::as_slice);
        let due = names.first().and_then(|name| work::added_with(name)).unwrap_or(0);
        if names.len() != due || flow.revision != u64::from(due > 0) {
            let revision = flow.revision;
            let message = format!("at revision {revision} with {names:?} of {due} additions");
            return Err(Finding { message, flow: Some(flow.id) });
        }
    }
    Ok(())
}

pub(super) fn calls_are_answered_as_planned(evidence: &Evidence<'_>) -> Verdict {
    let spoilt: BTreeSet<ExecutionId> = evidence
        .entries()
        .filter_map(|(_, entry)| match entry {
            Entry::Spoilt { execution } => Some(*execution),
            _ => None,
        })
        .collect();
    for (book, entry) in evidence.entries() {
        if let Entry::Erred { flow, unreadable, .. } = entry
            && unreadable.is_none_or(|id| !spoilt.contains(&id))
        {
            let message = format!("{book} was told {entry:?}");
            return Err(Finding { message, flow: *flow });
        }
    }
    Ok(())
}
