//! Summaries, the change rows that their locks cover, and what is counted of a flow.

use super::*;
use sluicegate::storage::{ChangeId, CountQuery, Summary};
use sluicegate::summary::{FlowStatus, StateCounts};

fn summary(ready: u64) -> Summary {
    let mut counts = StateCounts::default();
    counts.add(State::Ready, ready);
    let (ended_at, last_change) = (None, ChangeId(0));
    Summary { flow: FLOW, counts, status: FlowStatus::Open, ended_at, last_change }
}

fn with_summary() -> Database {
    let mut db = two_joins();
    let a = db.open_session(1);
    done(db.insert_summary(a, &mut Cursor::default(), &summary(1)));
    done(db.insert_flow_changes(a, &mut Cursor::default(), &[FLOW]));
    commit(&mut db, a);
    db
}

#[test]
fn a_second_projector_waits_and_finds_no_change_row_left() {
    let mut db = with_summary();
    let (a, b) = (db.open_session(1), db.open_session(2));
    assert_eq!(done(db.lock_summaries(a, &mut Cursor::default(), &[FLOW])), [summary(1)]);
    let mut waiting = Cursor::default();
    assert_eq!(db.lock_summaries(b, &mut waiting, &[FLOW]), Step::Wait);
    let taken = done(db.delete_flow_changes(a, &mut Cursor::default(), &FLOW));
    assert_eq!(taken, [ChangeId(1)]);
    assert_eq!(done(db.write_summary(a, &mut Cursor::default(), &summary(7))), 1);
    let report = commit(&mut db, a);
    assert_eq!(report.summaries[0].after, Some(summary(7)));
    assert_eq!(done(db.lock_summaries(b, &mut waiting, &[FLOW])), [summary(7)]);
    assert_eq!(done(db.delete_flow_changes(b, &mut Cursor::default(), &FLOW)), []);
    db.abort(b);
    assert_eq!(db.flow_changes().count(), 0);
}

#[test]
fn a_change_row_may_commit_after_one_with_a_higher_number() {
    let mut db = with_summary();
    let (early, late) = (db.open_session(1), db.open_session(2));
    done(db.insert_flow_changes(early, &mut Cursor::default(), &[FLOW]));
    done(db.insert_flow_changes(late, &mut Cursor::default(), &[FLOW]));
    commit(&mut db, late);
    let a = db.open_session(3);
    done(db.lock_summaries(a, &mut Cursor::default(), &[FLOW]));
    let taken = done(db.delete_flow_changes(a, &mut Cursor::default(), &FLOW));
    assert_eq!(taken, [ChangeId(1), ChangeId(3)]);
    db.abort(a);
    commit(&mut db, early);
    let a = db.open_session(3);
    done(db.lock_summaries(a, &mut Cursor::default(), &[FLOW]));
    let taken = done(db.delete_flow_changes(a, &mut Cursor::default(), &FLOW));
    assert_eq!(taken, [ChangeId(1), ChangeId(2), ChangeId(3)], "a rollback brought them back");
}

#[test]
#[should_panic(expected = "has not locked")]
fn change_rows_are_not_taken_without_the_lock_that_covers_them() {
    let mut db = with_summary();
    let a = db.open_session(1);
    let _ = db.delete_flow_changes(a, &mut Cursor::default(), &FLOW);
}

#[test]
fn a_count_sees_what_its_transaction_wrote_and_nothing_in_flight() {
    let mut db = two_joins();
    let query = CountQuery { flow: FLOW, now: None };
    let (a, b) = (db.open_session(1), db.open_session(2));
    let before = done(db.count_executions(b, &mut Cursor::default(), &query));
    move_to(&mut db, a, 3, State::Ready);
    assert_eq!(done(db.count_executions(b, &mut Cursor::default(), &query)), before);
    assert_ne!(done(db.count_executions(a, &mut Cursor::default(), &query)), before);
}
