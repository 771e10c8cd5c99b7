//! Events that were not told, or told otherwise than they happened.

use super::*;

/// The invariants that sound rows break for a consumer that was handed this.
fn read(tamper: impl Fn(&mut Vec<Entry>)) -> Vec<&'static str> {
    let rows = sound();
    let mut entries = handed(&rows);
    tamper(&mut entries);
    let violations = judge_read(&rows, told(), entries);
    violations.iter().map(|violation| violation.invariant).collect()
}

#[test]
fn what_comes_again_because_it_was_not_acknowledged_passes() {
    let again = |entries: &mut Vec<Entry>| {
        let second = entries[2].clone();
        entries.extend([Entry::Opened, entries[1].clone(), second]);
    };
    assert_eq!(read(again), [] as [&str; 0]);
    let behind = |entries: &mut Vec<Entry>| {
        let second = entries[2].clone();
        entries.insert(2, Entry::Acknowledged { position: 1 });
        entries.extend([Entry::Opened, second]);
    };
    assert_eq!(read(behind), [] as [&str; 0]);
}

#[test]
fn an_event_that_nobody_was_handed_is_seen() {
    for at in [1, 2] {
        assert_eq!(read(|entries| drop(entries.remove(at))), ["I17"]);
    }
}

#[test]
fn what_comes_again_although_it_was_acknowledged_is_seen() {
    let again = |entries: &mut Vec<Entry>| {
        let first = entries[1].clone();
        entries.extend([Entry::Acknowledged { position: 2 }, Entry::Opened, first]);
    };
    assert_eq!(read(again), ["I17"]);
    assert_eq!(read(|entries| entries.push(entries[1].clone())), ["I17"], "in one session");
}

#[test]
fn an_event_that_is_another_one_the_second_time_is_seen() {
    let other = |entries: &mut Vec<Entry>| {
        let (_, event) = event(1, "b");
        entries.extend([Entry::Opened, handed_at(1, &event)]);
    };
    assert_eq!(read(other), ["I17"]);
    let elsewhere = |entries: &mut Vec<Entry>| {
        let (_, event) = event(2, "b");
        entries.push(handed_at(3, &event));
    };
    assert_eq!(read(elsewhere), ["I17"]);
    let unknown = |entries: &mut Vec<Entry>| {
        let (_, event) = event(3, "b");
        entries.push(handed_at(3, &NewEvent { incarnation: 1, ..event }));
    };
    assert_eq!(read(unknown), ["I17"], "no row has it");
    let nothing = |entries: &mut Vec<Entry>| {
        let Entry::Handed(event) = &mut entries[1] else { unreachable!("an event is handed") };
        event.outcome = None;
    };
    assert_eq!(read(nothing), ["I17"]);
}

#[test]
fn events_of_an_execution_out_of_order_are_seen() {
    let mut rows = sound();
    let past = first(&mut rows, "a");
    (past.end, past.reported) = (AttemptEnd::Revoked, Reported::Finished(Outcome::Cancelled));
    tell(&mut rows, 0, "a", LeaseChange::Revoked);
    let order = |positions: [u64; 3]| {
        let events = [&rows.lease_events[0], &rows.events[0], &rows.events[1]];
        let mut placed: Vec<_> = positions.into_iter().zip(events).collect();
        placed.sort_by_key(|(position, _)| *position);
        let placed = placed.into_iter().map(|(position, (_, event))| handed_at(position, event));
        let violations = judge_read(&rows, Vec::new(), placed.collect());
        violations.iter().any(|violation| violation.invariant == "I17")
    };
    assert!(!order([1, 2, 3]));
    assert!(!order([2, 3, 1]), "two executions have no order");
    assert!(order([2, 1, 3]), "its lease ended before it did");
}

#[test]
fn an_end_of_a_lease_that_is_not_told_is_seen() {
    let ended = |end, reported| {
        move |rows: &mut Rows| {
            let past = first(rows, "a");
            (past.end, past.reported) = (end, reported);
        }
    };
    let requeued = Reported::Requeued { delay_us: 0 };
    let cancelled = Reported::Finished(Outcome::Cancelled);
    let expired = Reported::Finished(Outcome::Expired);
    for (end, reported, change) in [
        (AttemptEnd::Snoozed, requeued, LeaseChange::Released),
        (AttemptEnd::Expired, requeued, LeaseChange::Expired),
        (AttemptEnd::Expired, expired, LeaseChange::Expired),
        (AttemptEnd::Revoked, cancelled, LeaseChange::Revoked),
    ] {
        check("I17", ended(end, reported));
        let mut rows = sound();
        ended(end, reported)(&mut rows);
        tell(&mut rows, 0, "a", change);
        let violations = Evidence::new(&rows, &[], seed(), None).judge(When::Always);
        assert!(violations.iter().all(|violation| violation.invariant != "I17"), "{end:?}");
    }
    check("I17", |rows| tell(rows, 0, "a", LeaseChange::Released));
    check("I17", |rows| {
        ended(AttemptEnd::Snoozed, requeued)(rows);
        tell(rows, 0, "a", LeaseChange::Expired);
    });
}
