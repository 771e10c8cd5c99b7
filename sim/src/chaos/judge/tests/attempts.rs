//! Suspensions, progress and turn-overs that the judge must reject, and those that it lets pass.

use sluicegate::storage::{ProgressMark, Resumed};

use super::*;

const RESUMED: Reported = Reported::Requeued { delay_us: 0 };

/// `a` was suspended at epoch 2, was resumed, and completed at its second attempt.
fn resumed(rows: &mut Rows) {
    let past = first(rows, "a");
    (past.end, past.reported) = (AttemptEnd::Suspended, Reported::Suspended { epoch: 2 });
    let key = AttemptKey { attempt: 2, ..past.key };
    let (granted_at, ended_at) = (Timestamp(21), Timestamp(30));
    rows.attempts.push(Attempt { key, epoch: 4, nonce: 78, granted_at, ended_at, ..attempt("a") });
    tell(rows, 0, "a", LeaseChange::Released);
    let row = of(rows, "a");
    (row.attempt, row.epoch) = (2, 5);
    row.resumed = Some(Resumed { epoch: 2, outcome: None });
}

/// `a` is suspended at epoch 2.
fn suspended(rows: &mut Rows) {
    resumed(rows);
    rows.attempts.pop();
    let row = of(rows, "a");
    (row.attempt, row.charged, row.epoch, row.resumed) = (1, 0, 2, None);
    unend(row, State::Suspended);
}

/// What a judge says of such rows before they have drained.
fn judged(tamper: impl Fn(&mut Rows), told: Vec<Entry>) -> Vec<&'static str> {
    let mut rows = sound();
    tamper(&mut rows);
    let books = [Book { name: "worker".to_owned(), entries: told }];
    let violations = Evidence::new(&rows, &books, seed(), None).judge(When::Always);
    violations.iter().map(|violation| violation.invariant).collect()
}

#[test]
fn what_was_suspended_and_resumed_passes() {
    let told = || vec![Entry::resumed(id("a"), 2, RESUMED)];
    assert_eq!(judged(resumed, told()), [] as [&str; 0]);
    let later = |rows: &mut Rows| {
        resumed(rows);
        of(rows, "a").resumed = Some(Resumed { epoch: 3, outcome: Some(Outcome::Cancelled) });
    };
    assert_eq!(judged(later, told()), [] as [&str; 0], "a later resume took its place");
    let ended = |rows: &mut Rows| {
        suspended(rows);
        let row = of(rows, "a");
        (row.state, row.cause) = (State::Terminal(Outcome::Succeeded), Some(Cause::Deadline));
        (row.finished_at, row.epoch) = (Some(Timestamp(20)), 3);
    };
    assert_eq!(judged(ended, Vec::new()), [] as [&str; 0], "its deadline asks nobody");
}

#[test]
fn a_suspension_that_ends_by_itself_is_seen() {
    check("I9", |rows| {
        resumed(rows);
        of(rows, "a").resumed = None;
    });
    check("I9", |rows| {
        resumed(rows);
        of(rows, "a").resumed = Some(Resumed { epoch: 1, outcome: None });
    });
    check("I9", |rows| {
        suspended(rows);
        of(rows, "a").state = State::Ready;
    });
    check("I9", |rows| {
        suspended(rows);
        let row = of(rows, "a");
        (row.state, row.cause) = (State::Terminal(Outcome::Succeeded), Some(Cause::Handler));
        (row.finished_at, row.epoch) = (Some(Timestamp(20)), 3);
    });
}

#[test]
fn a_suspension_that_nobody_asked_for_is_seen() {
    assert!(!judged(suspended, Vec::new()).contains(&"I9"));
    check("I9", |rows| unend(of(rows, "b"), State::Suspended));
    check("I9", |rows| {
        suspended(rows);
        of(rows, "a").epoch = 3;
    });
}

#[test]
fn a_suspension_that_is_charged_is_seen() {
    check("I11", |rows| {
        resumed(rows);
        of(rows, "a").charged = 2;
    });
    check("I11", |rows| {
        resumed(rows);
        of(rows, "a").give_backs = 1;
    });
}

#[test]
fn an_acknowledged_resume_that_is_lost_is_seen() {
    let told = |reported| vec![Entry::resumed(id("a"), 2, reported)];
    check_told("I19", Entry::resumed(id("a"), 2, RESUMED));
    assert!(judged(suspended, told(RESUMED)).contains(&"I19"));
    let cancelled = Reported::Finished(Outcome::Cancelled);
    assert_eq!(judged(resumed, told(cancelled)), ["I19"], "another reply than the row has");
}

/// `a` said at its first attempt how far it had come.
fn progressed(sequence: u64) -> impl Fn(&mut Rows) {
    move |rows| {
        let mark = ProgressMark { attempt: 1, sequence };
        let value = work::progress(seed(), id("a"), 0, mark);
        of(rows, "a").progress = Some(mark);
        rows.progress.insert(id("a"), value.to_vec());
    }
}

#[test]
fn progress_that_no_attempt_reported_is_seen() {
    assert_eq!(judged(progressed(2), Vec::new()), [] as [&str; 0]);
    check("I9", progressed(9));
    check("I9", |rows| {
        progressed(2)(rows);
        rows.progress.clear();
    });
    check("I9", |rows| {
        progressed(2)(rows);
        of(rows, "a").progress = Some(ProgressMark { attempt: 1, sequence: 1 });
    });
    check("I9", |rows| {
        progressed(2)(rows);
        of(rows, "a").progress = Some(ProgressMark { attempt: 2, sequence: 2 });
    });
}

#[test]
fn acknowledged_progress_that_is_lost_or_moved_back_is_seen() {
    let told = |sequence| vec![Entry::Progressed { lease: lease("a"), sequence }];
    check_told("I19", Entry::Progressed { lease: lease("a"), sequence: 1 });
    assert_eq!(judged(progressed(1), told(2)), ["I19"]);
    assert_eq!(judged(progressed(2), told(1)), [] as [&str; 0]);
}

#[test]
fn a_claim_that_came_before_the_report_of_its_turn_over_is_seen() {
    let told = || Entry::TurnedOver { lease: lease("a"), granted: vec![lease("b")] };
    check_told("I19", told());
    let after = |rows: &mut Rows| {
        let next = first(rows, "b");
        (next.granted_at, next.ended_at) = (Timestamp(20), Timestamp(30));
    };
    assert_eq!(judged(after, vec![told()]), [] as [&str; 0]);
    let mut rows = sound();
    after(&mut rows);
    let granted = vec![ledger::Lease { nonce: 5, ..lease("b") }];
    check_told_of(&rows, "I19", Entry::TurnedOver { lease: lease("a"), granted });
}
