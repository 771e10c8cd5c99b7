//! What must hold of everything that a process was told.

use sluicegate::identity::{ExecutionId, FlowId};
use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::codes::StoredReport;
use sluicegate::storage::{Attempt, AttemptEnd, Reported, codes};
use sluicegate::time::Timestamp;

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
            Entry::Granted { lease } => {
                (granted_at(evidence, lease).is_some(), flow_of(evidence, lease.execution))
            }
            Entry::Reported { lease, end, kind, value } => {
                let told = (*end, *kind, *value);
                let kept = attempt(evidence, lease).is_some_and(|row| stored(row) == told);
                (kept, flow_of(evidence, lease.execution))
            }
            Entry::TurnedOver { lease, granted } => {
                (turned_over(evidence, lease, granted), flow_of(evidence, lease.execution))
            }
            Entry::Progressed { lease, sequence } => {
                (progressed(evidence, lease, *sequence), flow_of(evidence, lease.execution))
            }
            Entry::Resumed { execution, epoch, kind, value } => {
                let told = StoredReport { kind: *kind, value: *value };
                (resumed(evidence, *execution, *epoch, told), flow_of(evidence, *execution))
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
            return Err(Finding { message, flow: flow_of(evidence, lease.execution) });
        }
    }
    Ok(())
}

fn entries<'e>(evidence: &'e Evidence<'_>) -> impl Iterator<Item = (&'e str, &'e Entry)> {
    let books = evidence.books.iter();
    books.flat_map(|book| book.entries.iter().map(|entry| (book.name.as_str(), entry)))
}

/// How many executions and edges the flow has.
fn submitted(evidence: &Evidence<'_>, flow: FlowId) -> (usize, usize) {
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

/// When it was granted: a grant is live, or its end is recorded.
fn granted_at(evidence: &Evidence<'_>, lease: &Lease) -> Option<Timestamp> {
    let live = evidence.executions.get(&lease.execution).and_then(|row| {
        let live = row.lease.filter(|live| live.nonce == lease.nonce);
        live.filter(|_| (row.attempt, row.epoch) == (lease.attempt, lease.epoch))
    });
    let ended = || attempt(evidence, lease).map(|past| past.granted_at);
    live.map(|live| live.granted_at).or_else(ended)
}

/// A report, and what was claimed with it: none of it before the attempt had ended.
fn turned_over(evidence: &Evidence<'_>, lease: &Lease, granted: &[Lease]) -> bool {
    attempt(evidence, lease).is_some_and(|past| {
        granted.iter().all(|next| granted_at(evidence, next) >= Some(past.ended_at))
    })
}

/// The last progress is that one or a later one, unless a replay has cleared it.
fn progressed(evidence: &Evidence<'_>, lease: &Lease, sequence: u64) -> bool {
    evidence.executions.get(&lease.execution).is_some_and(|row| {
        let told = (lease.attempt, sequence);
        let stands = row.progress.is_some_and(|mark| (mark.attempt, mark.sequence) >= told);
        row.incarnation > lease.incarnation || stands
    })
}

/// There was that suspension; it was the last one to be resumed, with that reply, or one before.
fn resumed(
    evidence: &Evidence<'_>,
    execution: ExecutionId,
    epoch: u64,
    told: StoredReport,
) -> bool {
    let suspended = Reported::Suspended { epoch };
    let was = evidence.attempts(execution).iter().any(|past| past.reported == suspended);
    let Some(row) = evidence.executions.get(&execution) else { return false };
    let waits = row.state == State::Suspended && row.epoch == epoch;
    let stands = row.resumed.is_some_and(|last| {
        let reply = match last.outcome {
            Some(outcome) => Reported::Finished(outcome),
            None => Reported::Requeued { delay_us: 0 },
        };
        last.epoch > epoch || (last.epoch == epoch && codes::reported(reply) == told)
    });
    was && stands && !waits
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

fn flow_of(evidence: &Evidence<'_>, id: ExecutionId) -> Option<FlowId> {
    evidence.executions.get(&id).map(|row| row.flow)
}
