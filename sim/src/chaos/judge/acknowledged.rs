//! What must hold of everything that a process was told.

use sluicegate::identity::ExecutionId;
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{Attempt, AttemptEnd, codes};

use super::super::ledger::{Entry, Lease};
use super::{Evidence, Finding, Verdict};

pub(super) fn nothing_acknowledged_is_lost(evidence: &Evidence<'_>) -> Verdict {
    for (book, entry) in entries(evidence) {
        let (kept, flow) = match entry {
            Entry::Submitted { flow, executions, edges } => {
                (submitted(evidence, *flow) == (*executions, *edges), Some(*flow))
            }
            Entry::FlowCancelled { flow, cancelled } => {
                (cancelled.iter().all(|id| was_cancelled(evidence, *id)), Some(*flow))
            }
            Entry::Granted { lease } => (granted(evidence, lease), flow_of(evidence, lease)),
            Entry::Reported { lease, end, kind, value } => {
                let told = (*end, *kind, *value);
                let kept = attempt(evidence, lease).is_some_and(|row| stored(row) == told);
                (kept, flow_of(evidence, lease))
            }
            Entry::Began { .. } | Entry::Lost { .. } | Entry::Answered { .. } => continue,
        };
        if !kept {
            return Err(Finding {
                message: format!("{book} was told {entry:?}, which is lost"),
                flow,
            });
        }
    }
    Ok(())
}

pub(super) fn lost_leases_were_taken(evidence: &Evidence<'_>) -> Verdict {
    for (book, entry) in entries(evidence) {
        let Entry::Lost { lease } = entry else { continue };
        let row = attempt(evidence, lease);
        let taken =
            row.is_some_and(|row| matches!(row.end, AttemptEnd::Expired | AttemptEnd::Revoked));
        if !taken {
            let message = format!("{book} was told {entry:?}, but its attempt is {row:?}");
            return Err(Finding { message, flow: flow_of(evidence, lease) });
        }
    }
    Ok(())
}

fn entries<'e>(evidence: &'e Evidence<'_>) -> impl Iterator<Item = (&'e str, &'e Entry)> {
    let books = evidence.books.iter();
    books.flat_map(|book| book.entries.iter().map(|entry| (book.name.as_str(), entry)))
}

/// How many executions and edges the flow has.
fn submitted(evidence: &Evidence<'_>, flow: sluicegate::identity::FlowId) -> (usize, usize) {
    let executions = evidence.rows.executions.iter().filter(|row| row.flow == flow);
    let edges = executions.clone().map(|row| evidence.into(row.id).len()).sum();
    (executions.count(), edges)
}

/// An execution ended with its flow.
fn was_cancelled(evidence: &Evidence<'_>, id: ExecutionId) -> bool {
    evidence.executions.get(&id).is_some_and(|row| {
        row.state == State::Terminal(Outcome::Cancelled) && row.cause == Some(Cause::Flow)
    })
}

/// A grant is live, or its end is recorded.
fn granted(evidence: &Evidence<'_>, lease: &Lease) -> bool {
    let live = evidence.executions.get(&lease.execution).is_some_and(|row| {
        let live = row.lease.is_some_and(|live| live.nonce == lease.nonce);
        live && (row.attempt, row.epoch) == (lease.attempt, lease.epoch)
    });
    live || attempt(evidence, lease).is_some()
}

/// The end of exactly that lease.
fn attempt<'e>(evidence: &'e Evidence<'_>, lease: &Lease) -> Option<&'e Attempt> {
    let mut attempts = evidence.attempts(lease.execution).iter().copied();
    attempts.find(|row| {
        (row.key.incarnation, row.key.attempt) == (lease.incarnation, lease.attempt)
            && (row.epoch, row.nonce) == (lease.epoch, lease.nonce)
    })
}

fn stored(row: &Attempt) -> (u8, i64, i64) {
    let reported = codes::reported(row.reported);
    (codes::attempt_end(row.end), reported.kind, reported.value)
}

fn flow_of(evidence: &Evidence<'_>, lease: &Lease) -> Option<sluicegate::identity::FlowId> {
    evidence.executions.get(&lease.execution).map(|row| row.flow)
}
