//! Rows that wait for a tick: of one that saw them, of one that is slow, of one that never comes.

use std::time::Duration;

use sluicegate::reconcile::Reconciler;

use super::*;
use crate::chaos::ticks::Tick;
use crate::liveness::Parts;

const SECOND: Duration = Duration::from_secs(1);

fn at(second: i64) -> Timestamp {
    Timestamp(second * 1_000_000)
}

fn tick(of: Reconciler, began_s: i64, lasted: Duration, errors: u64) -> Tick {
    Tick::new(of, at(began_s), lasted, errors)
}

/// Healed at zero: L1 is 2 seconds, and ticks come within 3 more. Ticks of every reconciler have
/// ended just now, and none of them has left a thing behind: what waits came after they began.
pub(super) fn healed(now: Timestamp) -> Healed {
    let l1 = Parts {
        session_limit: SECOND,
        backoff_longest: Duration::ZERO,
        clock_step: Duration::ZERO,
        stale_after: SECOND,
    };
    let ticks = Reconciler::ALL.iter().map(|one| Tick::new(*one, now, Duration::ZERO, 0));
    let (ticks, seen) = (ticks.collect(), Seen::new());
    Healed { at: Timestamp(0), l1, patience: SECOND * 3, ticks, seen }
}

fn waits(rows: &Rows, healed: &Healed) -> Option<String> {
    // While flows still drain: a drained one has another check of the same name.
    let violations = Evidence::new(rows, &[], seed(), Some(healed)).judge(When::Always);
    let found = violations.into_iter().find(|violation| violation.invariant == "I8");
    found.map(|violation| violation.finding.message)
}

/// True if something waits beyond L1 and the longest that a tick may keep off, 5 seconds in all.
fn late(tamper: impl Fn(&mut Rows)) -> bool {
    let mut rows = sound();
    tamper(&mut rows);
    let none = Healed { ticks: Vec::new(), ..healed(rows.now) };
    let late = waits(&rows, &healed(rows.now)).is_some();
    assert!(!late || waits(&rows, &none).is_some(), "without a tick it is all the more late");
    late
}

fn lease(granted_at: Timestamp, expires_at: Timestamp) -> Lease {
    Lease { nonce: 1, request: RequestId(uuid::Uuid::nil()), granted_at, expires_at }
}

#[test]
fn what_is_not_looked_after_within_l1_is_seen() {
    assert!(!late(|_| ()));
    assert!(late(|rows| of(rows, "a").propagated = false));
    assert!(late(|rows| {
        unend(of(rows, "a"), State::Active);
        of(rows, "a").lease = Some(lease(Timestamp(1), Timestamp(2)));
    }));
}

#[test]
fn a_deadline_that_nobody_looks_after_is_seen() {
    assert!(late(|rows| {
        unend(of(rows, "b"), State::Ready);
        of(rows, "b").deadline = Some(Timestamp(30));
    }));
    assert!(!late(|rows| of(rows, "b").deadline = Some(Timestamp(30))), "it ended in time");
}

#[test]
fn a_blocked_execution_behind_a_decided_group_is_seen_after_the_time_that_it_may_take() {
    let stranded = |now_s: i64, decision| {
        late(|rows| {
            rows.now = Timestamp(20 + now_s * 1_000_000);
            rows.groups[0].decision = decision;
            unend(of(rows, "b"), State::Blocked);
        })
    };
    for decision in [Decision::Satisfied, Decision::Impossible] {
        assert!(!stranded(10, decision), "the hop that decides may end only just in time");
        assert!(stranded(11, decision), "{decision:?}");
    }
    assert!(!stranded(11, Decision::Undecided), "it waits for its group");
}

/// What waits in rows of second 10, which were seen so at second 4.
fn standing(tamper: impl Fn(&mut Rows)) -> (Rows, Healed) {
    let mut rows = sound();
    (rows.now, of(&mut rows, "a").finished_at) = (at(4), Some(at(3)));
    tamper(&mut rows);
    let seen = Evidence::new(&rows, &[], seed(), None).seen(&Seen::new());
    rows.now = at(10);
    // So that only a tick convicts it.
    let healed = Healed { patience: SECOND * 20, ticks: Vec::new(), seen, ..healed(rows.now) };
    (rows, healed)
}

/// What it takes to convict one that stands, and what does not.
fn check_standing(of: Reconciler, other: Reconciler, tamper: impl Fn(&mut Rows)) {
    let (rows, healed) = standing(tamper);
    let judged = |ticks: &[Tick]| {
        let healed = Healed { ticks: ticks.to_vec(), ..healed.clone() };
        waits(&rows, &healed).is_some()
    };
    assert!(judged(&[tick(of, 6, SECOND, 0)]), "it saw it and left it");
    assert!(judged(&[tick(of, 6, SECOND, 0), tick(of, 8, SECOND, 1)]), "a later one failed");
    assert!(!judged(&[]), "none has come yet");
    assert!(!judged(&[tick(of, 5, SECOND * 5, 0)]), "a slow one had begun before");
    assert!(!judged(&[tick(of, 6, SECOND, 1)]), "it failed, perhaps because of this row");
    assert!(!judged(&[tick(other, 6, SECOND, 0)]), "another one has other rows to see");
    let unseen = Healed { seen: Seen::new(), ticks: vec![tick(of, 6, SECOND, 0)], ..healed };
    assert_eq!(waits(&rows, &unseen), None, "it may have been committed only just now");
}

#[test]
fn what_a_tick_saw_and_left_is_seen() {
    let (dependency, reaper) = (Reconciler::Dependency, Reconciler::Reaper);
    check_standing(dependency, reaper, |rows| of(rows, "a").propagated = false);
    check_standing(dependency, reaper, |rows| {
        rows.groups[0].decision = Decision::Satisfied;
        unend(of(rows, "b"), State::Blocked);
    });
    check_standing(reaper, dependency, |rows| {
        unend(of(rows, "a"), State::Active);
        of(rows, "a").lease = Some(lease(at(2), at(3)));
    });
    check_standing(reaper, dependency, |rows| {
        unend(of(rows, "b"), State::Ready);
        of(rows, "b").deadline = Some(at(3));
    });
}

#[test]
fn a_tick_is_held_only_to_what_stood_for_long_enough_before_it() {
    let unpropagated = |rows: &mut Rows| of(rows, "a").propagated = false;
    let (rows, healed) = standing(unpropagated);
    let judged = |healed: Healed| waits(&rows, &healed).is_some();
    let dependency = |began_s| vec![tick(Reconciler::Dependency, began_s, SECOND, 0)];
    assert!(!judged(Healed { at: at(5), ticks: dependency(7), ..healed.clone() }), "faults");
    assert!(judged(Healed { at: at(5), ticks: dependency(8), ..healed.clone() }));
    let (mut again, healed) = standing(unpropagated);
    of(&mut again, "a").finished_at = Some(at(6));
    let healed = Healed { ticks: dependency(8), ..healed };
    assert_eq!(waits(&again, &healed), None, "what was seen was another life");
    let leased = |expires_at| {
        move |rows: &mut Rows| {
            unend(of(rows, "a"), State::Active);
            of(rows, "a").lease = Some(lease(at(2), expires_at));
        }
    };
    for (expires_s, convicted) in [(6, true), (7, false), (11, false)] {
        let (rows, healed) = standing(leased(at(expires_s)));
        let healed = Healed { ticks: vec![tick(Reconciler::Reaper, 8, SECOND, 0)], ..healed };
        assert_eq!(waits(&rows, &healed).is_some(), convicted, "it runs out at {expires_s}");
    }
}

#[test]
fn a_wait_is_seen_when_it_began_and_forgotten_when_it_is_over() {
    let mut rows = sound();
    of(&mut rows, "a").propagated = false;
    let seen = |rows: &Rows, before: &Seen| Evidence::new(rows, &[], seed(), None).seen(before);
    let first = seen(&rows, &Seen::new());
    assert_eq!(first.values().collect::<Vec<_>>(), [&NOW]);
    rows.now = at(200);
    assert_eq!(seen(&rows, &first), first);
    assert_eq!(seen(&sound(), &first), Seen::new());
}

#[test]
fn a_row_that_waits_is_given_the_time_that_ticks_were_measured_to_last_up_to_a_limit() {
    let mut rows = sound();
    rows.now = at(14);
    of(&mut rows, "a").propagated = false;
    let judged = |now_s: i64, lasted_s: u32, began_s: i64| {
        let slow = tick(Reconciler::Dependency, began_s, SECOND * lasted_s, 0);
        let rows = Rows { now: at(now_s), ..rows.clone() };
        let healed = healed(rows.now);
        let ticks = healed.ticks.iter().cloned().chain([slow]).collect();
        waits(&rows, &Healed { ticks, ..healed }).is_some()
    };
    assert!(!judged(13, 4, 1), "4 seconds twice, and 5");
    assert!(judged(14, 4, 1));
    assert!(judged(14, 4, -1), "under faults that may be");
    assert!(!judged(32, 100, 1));
    assert!(judged(33, 100, 1), "however long they last");
}

#[test]
fn a_reconciler_of_which_no_tick_completes_is_seen_although_nothing_waits() {
    for silent in Reconciler::ALL {
        let judged = |now_s: i64, ticks: &[Tick]| {
            let rows = Rows { now: at(now_s), ..sound() };
            let mut healed = healed(rows.now);
            healed.ticks.retain(|tick| !tick.is_of(*silent));
            healed.ticks.extend(ticks.iter().cloned());
            waits(&rows, &healed)
        };
        assert_eq!(judged(5, &[]), None, "it need not have come yet");
        let name = silent.name();
        let message = format!("no tick of {name} completed or was answered for 6s after faults");
        assert_eq!(judged(6, &[]), Some(message.clone()));
        assert_eq!(judged(9, &[tick(*silent, -2, SECOND * 5, 1)]), Some(message), "3 to 9");
        assert_eq!(judged(6, &[tick(*silent, -2, SECOND * 5, 1)]), None);
        let going = |lasted| Tick::going(*silent, at(-2), lasted);
        assert_eq!(judged(6, &[going(SECOND * 5)]), None, "it was answered at 3");
        assert!(judged(9, &[going(SECOND * 5)]).is_some(), "and then no more");
    }
}

#[test]
fn a_tick_that_goes_on_has_brought_nothing_on_yet() {
    let mut rows = sound();
    of(&mut rows, "a").propagated = false;
    rows.now = at(4);
    let mut healed = healed(rows.now);
    healed.seen = Evidence::new(&rows, &[], seed(), None).seen(&Seen::new());
    healed.seen.values_mut().for_each(|since| *since = at(0));
    healed.ticks = vec![Tick::going(Reconciler::Dependency, at(3), SECOND)];
    let judged = |healed: &Healed| waits(&rows, healed);
    assert_eq!(judged(&healed), None);
    healed.ticks = vec![Tick::new(Reconciler::Dependency, at(3), SECOND, 0)];
    assert!(judged(&healed).is_some(), "one that has ended should have seen it");
}
