//! What must hold of everything that a process was told: of attempts here, of flows in `calls`.

use sluicegate::identity::{ExecutionId, FlowId};
use sluicegate::state::State;
use sluicegate::storage::codes::StoredReport;
use sluicegate::storage::{Attempt, AttemptEnd, Reported, codes};
use sluicegate::time::Timestamp;

use super::super::ledger::{Entry, Lease};
use super::{Evidence, Finding, Verdict, calls};

pub(super) fn nothing_acknowledged_is_lost(evidence: &Evidence<'_>) -> Verdict {
    for (book, entry) in evidence.entries() {
        let kept = calls::kept(evidence, entry).or_else(|| attempt_kept(evidence, entry));
        if let Some((false, flow)) = kept {
            let message = format!("{book} was told {entry:?}, which is lost");
            return Err(Finding { message, flow });
        }
    }
    Ok(())
}

/// Whether what was told of an attempt is in the rows of its flow, if it was told of one.
fn attempt_kept(evidence: &Evidence<'_>, entry: &Entry) -> Option<(bool, Option<FlowId>)> {
    let (kept, execution) = match entry {
        Entry::Granted { lease } => (granted_at(evidence, lease).is_some(), lease.execution),
        Entry::Reported { lease, end, kind, value } => {
            let told = (*end, *kind, *value);
            let kept = attempt(evidence, lease).is_some_and(|row| stored(row) == told);
            (kept, lease.execution)
        }
        Entry::TurnedOver { lease, granted } => {
            (turned_over(evidence, lease, granted), lease.execution)
        }
        Entry::Progressed { lease, sequence } => {
            (progressed(evidence, lease, *sequence), lease.execution)
        }
        Entry::Resumed { execution, epoch, kind, value } => {
            let told = StoredReport { kind: *kind, value: *value };
            (resumed(evidence, *execution, *epoch, told), *execution)
        }
        _ => return None,
    };
    Some((kept, flow_of(evidence, execution)))
}

pub(super) fn lost_leases_were_taken(evidence: &Evidence<'_>) -> Verdict {
    for (book, entry) in evidence.entries() {
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

/// When it was granted: a grant is live, or its end is recorded.
fn granted_at(evidence: &Evidence<'_>, lease: &Lease) -> Option<Timestamp> {
    let live = evidence.executions.get(&lease.execution).and_then(|row| {
        let live = row.lease.filter(|live| live.nonce == lease.nonce);
        let named = (lease.incarnation, lease.attempt, lease.epoch);
        live.filter(|_| (row.incarnation, row.attempt, row.epoch) == named)
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

pub(super) fn flow_of(evidence: &Evidence<'_>, id: ExecutionId) -> Option<FlowId> {
    evidence.executions.get(&id).map(|row| row.flow)
}
