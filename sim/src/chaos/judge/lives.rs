//! What must hold of single executions: their events, leases, columns and attempts.

use std::collections::BTreeSet;

use sluicegate::state::{Cause, State};
use sluicegate::storage::{Attempt, AttemptEnd, Execution, Reported};
use sluicegate::time::Timestamp;

use super::{Evidence, Verdict, wrong};

pub(super) fn one_event_for_each_end(evidence: &Evidence<'_>) -> Verdict {
    for row in &evidence.rows.executions {
        let events = evidence.events(row.id);
        let due: Vec<u32> = match row.state.is_terminal() {
            true => (0..=row.incarnation).collect(),
            false => (0..row.incarnation).collect(),
        };
        let incarnations: Vec<u32> = events.iter().map(|event| event.incarnation).collect();
        if incarnations != due {
            return wrong(row, format!("{} with events {events:?}", row.state.name()));
        }
        if let (Some(outcome), Some(event)) = (row.state.outcome(), events.last())
            && event.outcome() != Some(outcome)
        {
            return wrong(row, format!("{} but its event says {event:?}", outcome.name()));
        }
    }
    match evidence.events.keys().find(|id| !evidence.executions.contains_key(id)) {
        Some(id) => Err(super::Finding {
            message: format!("an event of {id}, which does not exist"),
            flow: None,
        }),
        None => Ok(()),
    }
}

pub(super) fn leases_follow_each_other(evidence: &Evidence<'_>) -> Verdict {
    for row in &evidence.rows.executions {
        let mut grants: Vec<(u64, u64)> = Vec::new();
        grants.extend(evidence.attempts(row.id).iter().map(|past| (past.epoch, past.nonce)));
        grants.extend(row.lease.map(|lease| (row.epoch, lease.nonce)));
        if !grants.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            return wrong(row, format!("epochs do not rise: {grants:?}"));
        }
        if grants.iter().map(|grant| grant.1).collect::<BTreeSet<_>>().len() < grants.len() {
            return wrong(row, format!("a nonce comes twice: {grants:?}"));
        }
        if row.lease.is_none() && grants.last().is_some_and(|grant| grant.0 >= row.epoch) {
            return wrong(row, format!("epoch {} after the lease of {grants:?}", row.epoch));
        }
    }
    Ok(())
}

pub(super) fn states_are_legal(evidence: &Evidence<'_>) -> Verdict {
    for row in &evidence.rows.executions {
        let terminal = row.state.is_terminal();
        let agrees = [
            ("a lease iff active", row.lease.is_some() == (row.state == State::Active)),
            ("an end iff terminal", row.finished_at.is_some() == terminal),
            ("a cause iff terminal", row.cause.is_some() == terminal),
            ("propagated only once terminal", terminal || !row.propagated),
            ("a group iff it has inbound edges", {
                row.has_in == evidence.groups.contains_key(&row.id)
            }),
            ("inbound edges iff it says so", row.has_in != evidence.into(row.id).is_empty()),
            ("outbound edges iff it says so", row.has_out != evidence.out_of(row.id).is_empty()),
            ("blocked only with a group", row.state != State::Blocked || row.has_in),
        ];
        if let Some((rule, _)) = agrees.iter().find(|(_, holds)| !holds) {
            return wrong(row, format!("broken: {rule}: {row:?}"));
        }
    }
    Ok(())
}

pub(super) fn attempts_are_counted(evidence: &Evidence<'_>) -> Verdict {
    for row in &evidence.rows.executions {
        let past = evidence.life(row.id, row.incarnation);
        let numbers: Vec<u32> = past.iter().map(|attempt| attempt.key.attempt).collect();
        let ended = row.attempt - u32::from(row.state == State::Active && row.attempt > 0);
        if numbers != (1..=ended).collect::<Vec<u32>>() {
            return wrong(row, format!("attempt {} after {past:?}", row.attempt));
        }
        lives_are_whole(evidence, row)?;
        let count = |ended: &dyn Fn(AttemptEnd) -> bool| {
            let count = past.iter().filter(|attempt| ended(attempt.end)).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let released = count(&|end| end == AttemptEnd::Released);
        let waited = count(&|end| matches!(end, AttemptEnd::Snoozed | AttemptEnd::Suspended));
        if !counts(row, released, waited) {
            return wrong(row, format!("{released} released and {waited} waited, but {row:?}"));
        }
    }
    Ok(())
}

/// What must hold of the attempts of every life, those included that a replay has ended for good.
fn lives_are_whole(evidence: &Evidence<'_>, row: &Execution) -> Verdict {
    for incarnation in 0..=row.incarnation {
        let past = evidence.life(row.id, incarnation);
        if !past.iter().map(|attempt| attempt.key.attempt).eq((1..).take(past.len())) {
            return wrong(row, format!("an attempt is missing among {past:?}"));
        }
        if past.iter().any(|attempt| attempt.ended_at < attempt.granted_at) {
            return wrong(row, format!("an attempt ended before it began: {past:?}"));
        }
        if let Some(pair) = past.windows(2).find(|pair| !waited(row, pair[0], pair[1])) {
            return wrong(row, format!("a retry did not wait its delay: {pair:?}"));
        }
    }
    let known = |attempt: &&Attempt| attempt.key.incarnation <= row.incarnation;
    match evidence.attempts(row.id).iter().copied().find(|attempt| !known(attempt)) {
        Some(attempt) => wrong(row, format!("an attempt of a life to come: {attempt:?}")),
        None => Ok(()),
    }
}

/// An attempt whose report ended a life is the last of it, and its event says the same.
pub(super) fn ends_are_as_reported(evidence: &Evidence<'_>) -> Verdict {
    for row in &evidence.rows.executions {
        for attempt in evidence.attempts(row.id) {
            let Reported::Finished(outcome) = attempt.reported else { continue };
            let incarnation = attempt.key.incarnation;
            let last = evidence.life(row.id, incarnation).last().copied() == Some(*attempt);
            let end = evidence.end_of(row.id, incarnation);
            if !last || end != Some(outcome) {
                return wrong(row, format!("ended as {end:?} with or after {attempt:?}"));
            }
        }
    }
    Ok(())
}

/// The backoff after a failure lies between the end of an attempt and the grant of the next, and so
/// does the delay that the end of an attempt led to.
fn waited(row: &Execution, past: &Attempt, next: &Attempt) -> bool {
    // Who was given up has lost the policy that its attempts were delayed by.
    let retried = matches!(past.end, AttemptEnd::FailedRetryable | AttemptEnd::Expired)
        && row.cause != Some(Cause::Unreadable);
    let delay = row.retry.backoff.delay(row.id, past.key.attempt);
    let told = match past.reported {
        Reported::Requeued { delay_us } => Timestamp(past.ended_at.0.saturating_add(delay_us)),
        Reported::Finished(_) | Reported::Suspended { .. } => past.ended_at,
    };
    next.granted_at >= told && (!retried || next.granted_at >= past.ended_at + delay)
}

/// A snooze and a suspension give their attempt back, and do not count among those that may be:
/// only releases do, of which each life has one at most.
fn counts(row: &Execution, released: u32, waited: u32) -> bool {
    row.give_backs == released
        && row.attempt.checked_sub(released + waited) == Some(row.charged)
        && row.charged <= row.retry.max_attempts
}
