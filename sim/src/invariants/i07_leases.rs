//! I7: one live lease, fenced; only its holder or the reaper, in time, ends it.

use sluicegate::state::{Cause, Outcome, State};
use sluicegate::storage::{Attempt, AttemptEnd, Execution, Lease, LeaseChange, NewEvent};
use sluicegate::time::Timestamp;

use super::{
    Context, Hearing, Invariant, Verdict, attempt_key, lease_ended, lease_granted, same_lease,
    started_again,
};
use crate::history::Observation;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "I7",
    title: "one live lease an execution; writes under it name it, and its end raises the epoch",
    commit: Some(check),
    observe: Some(check_told),
    quiescent: None,
    #[cfg(test)]
    rejects: tests::rejects,
};

fn check(context: &Context<'_>) -> Verdict {
    for (_, after) in context.written() {
        if after.lease.is_some() != (after.state == State::Active) {
            return Err(format!("a lease stands exactly while an execution is active: {after:?}"));
        }
    }
    let mut ends = 0;
    for (before, after) in context.moved() {
        let given_up = after.cause == Some(Cause::Unreadable);
        if before.lease.is_none() && takes_a_worker(before.state, after.state) && !given_up {
            return Err(format!("a worker wrote without a lease: {before:?}, {after:?}"));
        }
        if !raises_the_epoch(before, after) {
            return Err(format!("the epoch does not fence {before:?} from {after:?}"));
        }
        if !progresses(before, after) {
            return Err(format!(
                "progress moved without the live lease of its attempt: {before:?}, {after:?}"
            ));
        }
        if lease_ended(before, after) {
            ends += 1;
            check_end(context, before)?;
        } else if same_lease(before, after) && !renews(before, after) {
            return Err(format!(
                "a renewal changed more than a later expiry: {before:?}, {after:?}"
            ));
        }
    }
    // Each end has a row of its own in this commit: as many rows are no accepted write too many.
    if context.commit.attempts.len() != ends {
        let attempts = &context.commit.attempts;
        let count = attempts.len();
        return Err(format!("{count} attempts recorded for {ends} ended leases: {attempts:?}"));
    }
    check_events(context)
}

/// The feed tells of each lease that ended, and of grants and renewals if it is to, once.
fn check_events(context: &Context<'_>) -> Verdict {
    let events = context.commit.events.iter().map(|(_, event)| event);
    let mut expected = 0;
    for (before, after) in context.moved() {
        for event in changes(context, before, after).into_iter().flatten() {
            expected += 1;
            let (key, kind) = (event.key(), event.kind);
            if !events.clone().any(|told| told.key() == key && told.kind == kind) {
                return Err(format!("the feed is not told: {event:?}"));
            }
        }
    }
    // Each of them has an event of its own: as many are none too many.
    match events.clone().filter(|event| event.lease().is_some()).count() {
        told if told == expected => Ok(()),
        told => Err(format!("{told} events of {expected} changes of leases: {:?}", context.commit)),
    }
}

/// What became of the leases of an execution, in order.
fn changes(context: &Context<'_>, before: &Execution, after: &Execution) -> [Option<NewEvent>; 2] {
    let told = context.tells_grants;
    let of = |row: &Execution, change| NewEvent::of_lease(row, change, Timestamp(0));
    let ended = lease_ended(before, after).then(|| {
        let end = context.mirror.attempt(attempt_key(before))?.end;
        of(before, how_it_ended(end, after.state)?)
    });
    let goes_on = match (before.lease, after.lease) {
        (Some(old), Some(new)) if same_lease(before, after) => {
            (told && old.expires_at < new.expires_at).then(|| of(after, LeaseChange::Renewed))
        }
        _ => (told && lease_granted(before, after)).then(|| of(after, LeaseChange::Acquired)),
    };
    [ended.flatten(), goes_on.flatten()]
}

/// Nothing if the end of the execution tells it: its holder has reported that.
fn how_it_ended(end: AttemptEnd, led_to: State) -> Option<LeaseChange> {
    match end {
        AttemptEnd::Expired => Some(LeaseChange::Expired),
        AttemptEnd::Revoked => Some(LeaseChange::Revoked),
        _ => (!led_to.is_terminal()).then_some(LeaseChange::Released),
    }
}

/// Transitions that nobody but the holder of a lease may cause.
fn takes_a_worker(from: State, to: State) -> bool {
    let by_worker =
        matches!(to, State::Suspended | State::Terminal(Outcome::Succeeded | Outcome::Failed));
    by_worker && from != to
}

fn raises_the_epoch(before: &Execution, after: &Execution) -> bool {
    let grant = before.attempt.checked_add(1) == Some(after.attempt)
        && before.incarnation == after.incarnation;
    match (lease_ended(before, after), lease_granted(before, after)) {
        (false, false) => match before.lease {
            Some(_) => after.epoch == before.epoch,
            None => after.epoch >= before.epoch,
        },
        (true, false) => after.epoch > before.epoch,
        (false, true) => after.epoch == before.epoch + 1 && grant,
        (true, true) => after.epoch > before.epoch + 1 && grant,
    }
}

/// Progress is that of the attempt which holds the lease, before and after; only a replay clears
/// it. No fault spoils its columns.
fn progresses(before: &Execution, after: &Execution) -> bool {
    if started_again(before, after) {
        return after.progress.is_none();
    }
    let held = before.lease.is_some() && same_lease(before, after);
    let own = after.progress.is_some_and(|progress| progress.attempt == after.attempt);
    before.progress == after.progress || (held && own)
}

/// Under one lease nothing moves but its expiry, forward, and progress; an extension may add an
/// out-edge.
fn renews(before: &Execution, after: &Execution) -> bool {
    let (Some(old), Some(new)) = (before.lease, after.lease) else {
        return true;
    };
    let renewed = Lease { expires_at: new.expires_at, ..old };
    let (has_out, progress) = (after.has_out, after.progress);
    let expected = Execution { lease: Some(renewed), has_out, progress, ..*before };
    new.expires_at >= old.expires_at && expected == *after
}

fn check_end(context: &Context<'_>, before: &Execution) -> Verdict {
    let attempt = context.mirror.attempt(attempt_key(before));
    let Some(attempt) = attempt.filter(|attempt| names_lease(attempt, before)) else {
        return Err(format!(
            "the end of the lease in {before:?} has no row that names it, but {attempt:?}"
        ));
    };
    if attempt.end == AttemptEnd::Expired && !was_over(context, before) {
        let (clock, highest) = (context.commit.clock, context.commit.clock_highest);
        return Err(format!(
            "the reaper ended the lease in {before:?} at {clock:?}; the clock never showed more \
             than {highest:?}"
        ));
    }
    Ok(())
}

fn names_lease(attempt: &Attempt, before: &Execution) -> bool {
    before.lease.is_some_and(|lease| {
        attempt.epoch == before.epoch
            && attempt.nonce == lease.nonce
            && attempt.granted_at == lease.granted_at
    })
}

/// The clock is read after the lock, hence in this transaction; it can step back, so that the
/// highest reading of the universe is what the row is held against.
fn was_over(context: &Context<'_>, before: &Execution) -> bool {
    let over_at = before.attempt_over_at().into_iter().chain(before.deadline).min();
    let highest = context.commit.clock_highest;
    context.commit.clock.is_some() && over_at.is_some_and(|over_at| over_at <= highest)
}

/// A worker that was told of a grant, or that what it reported was accepted, did hold that lease.
fn check_told(hearing: &Hearing<'_>) -> Verdict {
    let observation = hearing.observation;
    if let Observation::LetGoOn { ended: ended @ 1.. } = observation {
        return Err(format!("the clock has just stepped forward, and {ended} leases are ended"));
    }
    let known = match observation {
        Observation::Granted { holder } | Observation::Progressed { holder, .. } => {
            hearing.mirror.holds(holder) || hearing.mirror.attempt_of(holder).is_some()
        }
        Observation::Reported { holder, .. } => {
            let taken = |end| matches!(end, AttemptEnd::Expired | AttemptEnd::Revoked);
            hearing.mirror.attempt_of(holder).is_some_and(|attempt| !taken(attempt.end))
        }
        _ => true,
    };
    if known {
        return Ok(());
    }
    Err(format!("a worker was told of a lease that it did not hold: {observation:?}"))
}

#[cfg(test)]
mod tests {
    use sluicegate::replay::ReplayScope;
    use sluicegate::state::{Outcome, State};
    use sluicegate::storage::{
        Attempt, AttemptEnd, EventId, EventKind, Execution, LeaseChange, LeaseEvent, NewEvent,
        ProgressMark, Reported,
    };
    use sluicegate::time::Timestamp;

    use crate::history::{Commit, Holder, Observation};
    use crate::invariants::Judge;
    use crate::invariants::testing::{History, LEASE, RETRY_DELAY, Story, after, id};
    use crate::mirror::Damaged;

    fn completed(tamper: impl Fn(&mut Commit)) -> Story {
        Story::chain().grant("a").complete("a", Outcome::Succeeded).tamper(tamper)
    }

    fn recorded(tamper: impl Fn(&mut Attempt)) -> Story {
        completed(|commit| tamper(&mut commit.attempts[0]))
    }

    fn granted(tamper: impl Fn(&mut Execution)) -> Story {
        Story::chain().grant("a").tamper(|commit| tamper(after(&mut commit.executions[0])))
    }

    fn expired() -> Story {
        Story::chain().grant("a").wait(LEASE).end("a", AttemptEnd::Expired)
    }

    fn change_told(commit: &mut Commit, change: LeaseChange) {
        let (_, event) = &mut commit.events[0];
        let lease = LeaseEvent { change, ..event.lease().unwrap() };
        event.kind = EventKind::Lease(lease);
    }

    #[test]
    fn grants_and_renewals_are_told_if_they_are_to_be() {
        let silent = || Story::chain().grant("a").wait(LEASE / 2).renew("a").ends("a renewal");
        let told =
            || Story::chain().telling().grant("a").wait(LEASE / 2).renew("a").ends("a renewal");
        assert_eq!(silent().judge(Judge::new().only("I7")), Ok(()));
        assert_eq!(told().judge(Judge::new().only("I7").telling()), Ok(()));
        for (history, judge) in [(silent(), Judge::new().telling()), (told(), Judge::new())] {
            let violation = history.judge(judge.only("I7")).unwrap_err();
            assert_eq!(violation.1.invariant, "I7");
        }
    }

    /// The feed is told too little, too much, or something else.
    fn wrongly_told() -> Vec<History> {
        vec![
            expired().tamper(|commit| commit.events.clear()).ends("an expired lease is not told"),
            expired()
                .tamper(|commit| change_told(commit, LeaseChange::Revoked))
                .ends("an expired lease is told as a revoked one"),
            expired()
                .tamper(|commit| commit.events.push(commit.events[0]))
                .ends("an expired lease is told twice"),
            Story::chain()
                .grant("a")
                .cancel_sibling("a")
                .tamper(|commit| commit.events.retain(|(_, event)| event.lease().is_none()))
                .ends("a revoked lease is not told"),
            Story::chain()
                .grant("a")
                .end("a", AttemptEnd::Released)
                .tamper(|commit| commit.events.clear())
                .ends("a released lease is not told"),
            completed(|commit| {
                let row = commit.executions[0].before.unwrap();
                let told = NewEvent::of_lease(&row, LeaseChange::Released, row.not_before).unwrap();
                commit.events.push((EventId(99), told));
            })
            .ends("a report that ended the execution is told as a lease given back"),
            Story::chain()
                .grant("a")
                .tamper(|commit| {
                    let row = *after(&mut commit.executions[0]);
                    let told = NewEvent::of_lease(&row, LeaseChange::Acquired, row.not_before);
                    commit.events.push((EventId(99), told.unwrap()));
                })
                .ends("a grant is told although none is to be"),
        ]
    }

    pub(super) fn rejects() -> Vec<History> {
        let mut histories = wrongly_told();
        histories.extend(wrongly_done());
        histories.extend(wrongly_progressed());
        histories
    }

    fn wrongly_progressed() -> Vec<History> {
        let holder_of_two = Holder { attempt: 2, ..Story::chain().grant("a").holder("a") };
        vec![
            Story::chain()
                .grant("a")
                .told(Observation::Progressed { holder: holder_of_two, sequence: 1 })
                .ends("progress of a grant that never was"),
            expired().progress("a", 1, 1).ends("progress without a lease"),
            expired()
                .wait(RETRY_DELAY)
                .grant("a")
                .progress("a", 1, 1)
                .ends("progress of an older attempt"),
            Story::chain()
                .grant("a")
                .complete("a", Outcome::Succeeded)
                .tamper(|commit| {
                    let progress = Some(ProgressMark { attempt: 1, sequence: 1 });
                    after(&mut commit.executions[0]).progress = progress;
                })
                .ends("progress along with the end of its lease"),
            Story::chain()
                .grant("a")
                .progress("a", 1, 1)
                .alter("a", |row| row.progress = None)
                .ends("progress lost"),
            Story::chain()
                .grant("a")
                .progress("a", 1, 1)
                .complete("a", Outcome::Failed)
                .damaged("a", Damaged::ExecutionUnreadable)
                .alter("a", |row| row.progress = None)
                .ends("progress forgotten by whoever gave it up"),
            Story::chain()
                .grant("a")
                .progress("a", 1, 1)
                .complete("a", Outcome::Failed)
                .hop(&["a"])
                .asks(ReplayScope::Failed)
                .again(&["a", "b"])
                .tamper(|commit| {
                    let progress = Some(ProgressMark { attempt: 1, sequence: 1 });
                    let mut rows = commit.executions.iter_mut().map(after);
                    rows.find(|row| row.id == id("a")).unwrap().progress = progress;
                })
                .ends("progress kept by a replay"),
        ]
    }

    fn wrongly_done() -> Vec<History> {
        let story = Story::chain().grant("a");
        let holder = story.holder("a");
        let reported = Reported::Finished(Outcome::Succeeded);
        let holder_of_two = Holder { attempt: 2, ..holder };
        let zombie =
            Observation::Reported { holder: holder_of_two, end: AttemptEnd::Completed, reported };
        let unknown = Observation::Granted { holder: Holder { nonce: 0, ..holder } };
        vec![
            granted(|row| row.lease = None).ends("active without a lease"),
            granted(|row| row.state = State::Ready).ends("lease without being active"),
            granted(|row| row.epoch -= 1).ends("grant keeps the epoch"),
            granted(|row| row.attempt -= 1).ends("grant keeps the attempt"),
            completed(|commit| after(&mut commit.executions[0]).epoch -= 1)
                .ends("end keeps the epoch"),
            completed(|commit| commit.attempts.clear()).ends("end without a row"),
            recorded(|attempt| attempt.epoch -= 1).ends("another epoch accepted"),
            recorded(|attempt| attempt.nonce ^= 1).ends("another nonce accepted"),
            recorded(|attempt| attempt.key.attempt += 1).ends("another attempt accepted"),
            recorded(|attempt| attempt.key.incarnation += 1).ends("another incarnation accepted"),
            expired()
                .record("a", AttemptEnd::Completed)
                .ends("accepted although the reaper has requeued"),
            Story::chain().grant("a").end("a", AttemptEnd::Expired).ends("reaped too early"),
            expired().tamper(|commit| commit.clock = None).ends("reaped without a clock"),
            Story::chain()
                .grant("a")
                .wait(LEASE / 2)
                .renew("a")
                .wait(LEASE / 2)
                .end("a", AttemptEnd::Expired)
                .ends("reaped by the expiry before its renewal"),
            story
                .alter("a", |row| {
                    row.lease.as_mut().unwrap().expires_at = Timestamp(0);
                })
                .ends("renewal moves back"),
            Story::chain()
                .grant("a")
                .renew("a")
                .tamper(|commit| after(&mut commit.executions[0]).charged -= 1)
                .ends("renewal changes something else"),
            Story::chain()
                .grant("a")
                .alter("a", |row| {
                    row.lease.as_mut().unwrap().nonce ^= 1;
                    row.attempt += 1;
                    row.epoch += 1;
                })
                .ends("granted over a live lease"),
            Story::chain().grant("a").told(unknown).ends("grant that never was"),
            Story::chain()
                .told(Observation::LetGoOn { ended: 1 })
                .ends("reaped because the clock has stepped"),
            expired()
                .grant("a")
                .complete("a", Outcome::Succeeded)
                .told(zombie)
                .ends("report accepted under the lease of another attempt"),
            expired()
                .record("a", AttemptEnd::Completed)
                .tamper(|commit| commit.attempts.clear())
                .ends("accepted without a trace although the reaper has requeued"),
        ]
    }
}
