//! I11: attempts are counted at the grant, given back within limits, and wait their delay.

use sluicegate::state::{Cause, State};
use sluicegate::storage::{Attempt, AttemptEnd, Execution, Reported};
use sluicegate::time::micros;

use super::{Context, Invariant, Verdict, attempt_key, lease_ended, lease_granted, started_again};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I11",
    title: "attempts charged are grants less give-backs, within limits; no claim before its time",
    commit: Some(check),
    observe: None,
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

/// Attempts that an incarnation may give back by releases, in every universe: so few that their
/// bound is come upon.
pub(crate) const GIVE_BACKS_MAX: u32 = 1;

fn check(context: &Context<'_>) -> Verdict {
    let alive = |one: &(&Execution, &Execution)| !started_again(one.0, one.1);
    for (before, after) in context.moved().filter(|one| !alive(one)) {
        let used = [after.attempt, after.charged, after.give_backs] != [0; 3];
        if used || after.not_before > context.commit.clock_highest {
            return Err(format!("it does not start afresh: {before:?}, {after:?}"));
        }
    }
    for (before, after) in context.moved().filter(alive) {
        let ended = lease_ended(before, after);
        let attempt = ended.then(|| context.mirror.attempt(attempt_key(before))).flatten();
        if !counts(before, after, attempt) {
            return Err(format!("miscounted after {attempt:?}: {before:?}, {after:?}"));
        }
        if attempt.is_some_and(|attempt| !gives_up(after, attempt)) {
            return Err(format!("gave up too early after {attempt:?}: {before:?}, {after:?}"));
        }
        if lease_granted(before, after) && !is_due(context, before, after) {
            return Err(format!("claimed before its time: {before:?}, {after:?}"));
        }
        let timely = match attempt {
            Some(attempt) if after.state == State::Ready => waits(before, after, attempt),
            _ => ended || keeps_its_time(before, after),
        };
        if !timely {
            return Err(format!("not the delay after {attempt:?}: {before:?}, {after:?}"));
        }
    }
    Ok(())
}

/// An attempt that could be tried again ends its execution only if it was the last, or too late;
/// one that waited never does.
fn gives_up(after: &Execution, attempt: &Attempt) -> bool {
    use AttemptEnd::{Expired, FailedRetryable, Released, Snoozed};
    let charged = match attempt.end {
        Expired | FailedRetryable => true,
        Released => after.give_backs == GIVE_BACKS_MAX,
        _ => false,
    };
    match after.cause {
        Some(Cause::AttemptsExhausted) => charged && after.charged == after.retry.max_attempts,
        Some(Cause::Handler) => !charged && !matches!(attempt.end, Released | Snoozed),
        _ => true,
    }
}

fn counts(before: &Execution, after: &Execution, attempt: Option<&Attempt>) -> bool {
    let end = attempt.map(|attempt| attempt.end);
    let released = end == Some(AttemptEnd::Released) && before.give_backs < GIVE_BACKS_MAX;
    let waited = matches!(end, Some(AttemptEnd::Snoozed | AttemptEnd::Suspended));
    let charged = before.charged.checked_add(u32::from(lease_granted(before, after)));
    after.give_backs == before.give_backs + u32::from(released)
        && after.charged.checked_add(u32::from(released || waited)) == charged
        && after.charged <= after.retry.max_attempts
}

/// The grant's own reading of the clock lies at or after the time that the row waits for.
fn is_due(context: &Context<'_>, before: &Execution, after: &Execution) -> bool {
    let waits_until = if lease_ended(before, after) { after.not_before } else { before.not_before };
    after.lease.is_some_and(|lease| {
        lease.granted_at >= waits_until && lease.granted_at <= context.commit.clock_highest
    })
}

/// After the end of an attempt: the backoff after a failure, the reported delay after a snooze, and
/// no more than that after a release.
fn waits(before: &Execution, after: &Execution, attempt: &Attempt) -> bool {
    let Reported::Requeued { delay_us } = attempt.reported else { return false };
    let waited = after.not_before.0.saturating_sub(attempt.ended_at.0);
    let kept = match attempt.end {
        AttemptEnd::FailedRetryable | AttemptEnd::Expired => {
            let delay = micros(before.retry.backoff.delay(before.id, before.attempt));
            waited == delay && delay_us == delay
        }
        AttemptEnd::Snoozed => waited == delay_us,
        _ => waited <= delay_us,
    };
    kept && after.charged < after.retry.max_attempts
}

/// Only the end of an attempt moves the time of a row that waits for it or has used it.
fn keeps_its_time(before: &Execution, after: &Execution) -> bool {
    before.not_before == after.not_before
        || matches!(before.state, State::Blocked | State::Suspended)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate::state::{Cause, Outcome};
    use sluicegate::storage::{AttemptEnd, Execution};
    use sluicegate::time::Timestamp;

    use crate::invariants::Judge;
    use crate::invariants::testing::{History, LEASE, RETRY_DELAY, Story, after};

    fn granted(tamper: impl Fn(&mut Execution)) -> Story {
        Story::chain().grant("a").tamper(|commit| tamper(after(&mut commit.executions[0])))
    }

    fn requeued(end: AttemptEnd, tamper: impl Fn(&mut Execution)) -> Story {
        let story = Story::chain().grant("a").wait(LEASE).end("a", end);
        story.tamper(|commit| tamper(after(&mut commit.executions[0])))
    }

    pub(super) fn rejects() -> Vec<History> {
        let exhausted = || {
            Story::chain().tamper(|commit| {
                let rows = commit.executions.iter_mut().map(after);
                rows.for_each(|row| row.give_backs = super::GIVE_BACKS_MAX);
            })
        };
        let tick = Duration::from_micros(1);
        vec![
            Story::chain()
                .grant("a")
                .wait(LEASE)
                .complete("a", Outcome::Expired)
                .ends("gave up with attempts left"),
            Story::chain()
                .grant("a")
                .complete("a", Outcome::Failed)
                .tamper(|commit| commit.attempts[0].end = AttemptEnd::FailedRetryable)
                .ends("retryable failure taken for a fatal one"),
            granted(|row| row.charged = 0).ends("grant not charged"),
            granted(|row| row.charged = 2).ends("grant charged twice"),
            granted(|row| row.give_backs = 1).ends("grant gives back"),
            Story::second_life()
                .grant("a")
                .tamper(|commit| after(&mut commit.executions[0]).charged = 2)
                .ends("charged for its first life"),
            requeued(AttemptEnd::FailedRetryable, |row| row.charged = 0).ends("failure given back"),
            requeued(AttemptEnd::Released, |row| row.charged = 1).ends("release not given back"),
            requeued(AttemptEnd::Released, |row| row.give_backs = 0).ends("give-back not counted"),
            requeued(AttemptEnd::Snoozed, |row| row.charged = 1).ends("snooze not given back"),
            requeued(AttemptEnd::Snoozed, |row| row.give_backs = 1)
                .ends("snooze counted among the releases"),
            exhausted()
                .grant("a")
                .end("a", AttemptEnd::Snoozed)
                .tamper(|commit| after(&mut commit.executions[0]).charged = 1)
                .ends("snooze charged once releases are spent"),
            Story::chain()
                .grant("a")
                .complete("a", Outcome::Failed)
                .tamper(|commit| {
                    commit.attempts[0].end = AttemptEnd::Snoozed;
                    let row = after(&mut commit.executions[0]);
                    (row.cause, row.charged) = (Some(Cause::AttemptsExhausted), 0);
                })
                .ends("failed although it only waited"),
            requeued(AttemptEnd::Snoozed, |row| row.not_before = Timestamp(0))
                .ends("snooze without its delay"),
            Story::chain()
                .grant("a")
                .suspend("a")
                .tamper(|commit| after(&mut commit.executions[0]).charged = 1)
                .ends("suspension not given back"),
            Story::chain()
                .grant("a")
                .suspend("a")
                .tamper(|commit| after(&mut commit.executions[0]).give_backs = 1)
                .ends("suspension counted among the give-backs"),
            exhausted()
                .grant("a")
                .end("a", AttemptEnd::Released)
                .ends("more give-backs than allowed"),
            requeued(AttemptEnd::FailedRetryable, |row| row.not_before = Timestamp(0))
                .ends("failure without its delay"),
            requeued(AttemptEnd::Expired, |row| row.not_before = row.not_before + tick)
                .ends("expiry with another delay"),
            requeued(AttemptEnd::FailedRetryable, |_| {})
                .wait(RETRY_DELAY.saturating_sub(tick))
                .grant("a")
                .ends("claimed a moment too early"),
            requeued(AttemptEnd::FailedRetryable, |_| {})
                .alter("a", |row| row.not_before = row.not_before - tick)
                .ends("delay cut short"),
            Story::chain()
                .grant("a")
                .tamper(|commit| {
                    let lease = after(&mut commit.executions[0]).lease.as_mut().unwrap();
                    lease.granted_at = commit.clock_highest + tick;
                })
                .ends("granted in the future"),
            (0..4)
                .fold(Story::chain(), |story, _| {
                    let story = story.grant("a").end("a", AttemptEnd::FailedRetryable);
                    story.wait(RETRY_DELAY)
                })
                .ends("requeued without an attempt left"),
        ]
    }

    #[test]
    fn release_beyond_the_limit_of_give_backs_stays_charged() {
        let history = Story::chain()
            .tamper(|commit| {
                let rows = commit.executions.iter_mut().map(after);
                rows.for_each(|row| row.give_backs = super::GIVE_BACKS_MAX);
            })
            .grant("a")
            .end("a", AttemptEnd::Released)
            .tamper(|commit| {
                let row = after(&mut commit.executions[0]);
                (row.charged, row.give_backs) = (1, super::GIVE_BACKS_MAX);
            })
            .ends("at the limit");
        assert_eq!(history.judge(Judge::new().only("I11")).err(), None);
    }
}
