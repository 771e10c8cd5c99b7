//! Claims and other takes.

use super::*;
use sluicegate::state::ClosePolicy;

fn claimed(db: &mut Database, session: SessionId, query: &ClaimQuery) -> Vec<ExecutionId> {
    let grants = done(db.claim_executions(session, &mut Cursor::default(), query));
    grants.iter().map(|grant| grant.execution.id).collect()
}

#[test]
fn a_claim_passes_over_locked_rows() {
    let mut db = ready_to(3);
    let (a, b) = (db.open_session(1), db.open_session(2));
    lock(&mut db, a, &[1]);
    assert_eq!(claimed(&mut db, b, &claim(1)), ids(&[2]));
    assert_eq!(claimed(&mut db, a, &claim(9)), ids(&[1, 3]));
    assert_eq!(claimed(&mut db, b, &claim(9)), ids(&[]));
}

#[test]
fn a_claim_writes_the_granted_row_and_its_worker() {
    let mut db = ready_to(1);
    let a = db.open_session(1);
    let before = *db.execution(id(1)).unwrap();
    let grants = done(db.claim_executions(a, &mut Cursor::default(), &claim(1)));
    assert_eq!(grants[0].execution, before.granted(&claim(1)));
    assert_eq!(grants[0].definition, member(1, State::Ready).definition);
    assert_eq!(state_of(&db, 1), State::Ready, "not yet committed");
    let commit = commit(&mut db, a);
    assert_eq!(commit.executions.len(), 1);
    assert_eq!(commit.executions[0].after, Some(grants[0].execution));
    let view = db.describe_execution(&id(1)).unwrap().unwrap();
    assert_eq!(view.worker.as_deref(), Some("worker"));
}

#[test]
fn claims_go_by_priority_with_ageing_then_not_before_then_id() {
    let row = |number: u16, priority: i32, not_before_us: i64| {
        let mut row = member(number, State::Ready);
        row.definition.priority = priority;
        row.execution.not_before = Timestamp(not_before_us);
        row
    };
    let step = sluicegate::storage::PRIORITY_STEP_US;
    let rows = [row(1, 0, 1), row(2, 0, 0), row(3, 1, step), row(4, 9, 0), row(5, 0, 0)];
    let mut db = seeded(&rows, &[]);
    let a = db.open_session(1);
    let query = ClaimQuery { now: Timestamp(step), ..claim(9) };
    assert_eq!(claimed(&mut db, a, &query), ids(&[4, 2, 5, 3, 1]));
}

/// Ready executions 1 to 6: the odd ones in lane `left`, the even ones in lane `right`.
fn two_lanes() -> Database {
    let row = |number: u16| {
        let mut row = member(number, State::Ready);
        row.definition.lane = if number % 2 == 1 { "left" } else { "right" }.into();
        row
    };
    seeded(&[1, 2, 3, 4, 5, 6].map(row), &[])
}

fn claim_of_both(limit: u32) -> ClaimQuery {
    ClaimQuery { lanes: vec!["right".into(), "left".into()], ..claim(limit) }
}

#[test]
fn a_claim_locks_up_to_its_limit_in_each_lane_and_grants_the_best_of_all() {
    let mut db = two_lanes();
    let (a, b) = (db.open_session(1), db.open_session(2));
    assert_eq!(claimed(&mut db, a, &claim_of_both(2)), ids(&[1, 2]));
    assert_eq!(db.locks_held(a), 4, "3 and 4 are locked and not granted");
    assert_eq!(claimed(&mut db, b, &claim_of_both(9)), ids(&[5, 6]));
    commit(&mut db, b);
    let commit_of_a = commit(&mut db, a);
    assert_eq!(commit_of_a.executions.len(), 2, "a row that was not granted is not written");
    let c = db.open_session(3);
    assert_eq!(claimed(&mut db, c, &claim_of_both(9)), ids(&[3, 4]));
}

#[test]
fn a_claim_walks_its_lanes_one_after_the_other() {
    let mut db = two_lanes();
    db.granular = true;
    let (a, b) = (db.open_session(1), db.open_session(2));
    let mut cursor = Cursor::default();
    assert_eq!(db.claim_executions(a, &mut cursor, &claim_of_both(1)), Step::Yield);
    let free = done(db.take_executions(b, &mut Cursor::default(), &ids(&[2])));
    assert_eq!(free, [], "the first row of the first lane is locked");
    lock(&mut db, b, &[1]);
    let grants = done(db.claim_executions(a, &mut cursor, &claim_of_both(1)));
    assert_eq!(grants.iter().map(|grant| grant.execution.id).collect::<Vec<_>>(), ids(&[2]));
    let free = done(db.take_executions(b, &mut Cursor::default(), &ids(&[3, 4])));
    assert_eq!(free.iter().map(|row| row.id).collect::<Vec<_>>(), ids(&[4]));
}

#[test]
fn a_claim_leaves_what_it_did_not_ask_for() {
    let change = |number: u16, change: &dyn Fn(&mut NewExecution)| {
        let mut row = member(number, State::Ready);
        change(&mut row);
        row
    };
    let rows = [
        change(1, &|row| row.definition.lane = "slow".into()),
        change(2, &|row| row.definition.kind = "deploy".into()),
        change(3, &|row| row.definition.namespace = "other".into()),
        change(4, &|row| row.execution.not_before = Timestamp(NOW.0 + 1)),
        member(5, State::Blocked),
        member(6, State::Ready),
    ];
    let mut db = seeded(&rows, &[]);
    let namespace = Some("tenant".into());
    let query = ClaimQuery { kinds: vec!["build".into()], namespace, ..claim(9) };
    let elsewhere = ClaimQuery { partitions: 2..9, ..query.clone() };
    let a = db.open_session(1);
    assert_eq!(claimed(&mut db, a, &elsewhere), ids(&[]));
    assert_eq!(claimed(&mut db, a, &query), ids(&[6]));
    assert_eq!(claimed(&mut db, a, &claim(9)), ids(&[2, 3]));
}

/// A granular claim of two that has got 1 and is about to look at 2.
fn claim_at_its_second_row() -> (Database, SessionId, Cursor) {
    let mut db = ready_to(3);
    db.granular = true;
    let a = db.open_session(1);
    let mut cursor = Cursor::default();
    assert_eq!(db.claim_executions(a, &mut cursor, &claim(2)), Step::Yield);
    (db, a, cursor)
}

#[test]
fn a_claim_rechecks_each_row_on_its_newest_version_and_keeps_the_lock_of_a_dropped_one() {
    let (mut db, a, mut cursor) = claim_at_its_second_row();
    let b = db.open_session(2);
    move_to(&mut db, b, 2, State::Terminal(Outcome::Cancelled));
    commit(&mut db, b);
    assert_eq!(db.claim_executions(a, &mut cursor, &claim(2)), Step::Yield, "2 is dropped");
    let grants = done(db.claim_executions(a, &mut cursor, &claim(2)));
    assert_eq!(grants.iter().map(|g| g.execution.id).collect::<Vec<_>>(), ids(&[1, 3]));
    let c = db.open_session(3);
    assert_eq!(db.lock_executions(c, &mut Cursor::default(), &ids(&[2])), Step::Wait);
    let commit = commit(&mut db, a);
    assert_eq!(commit.executions.len(), 2, "a dropped row is not written");
}

#[test]
fn a_claim_passes_over_a_row_that_was_locked_after_its_snapshot() {
    let (mut db, a, mut cursor) = claim_at_its_second_row();
    let b = db.open_session(2);
    lock(&mut db, b, &[2]);
    let grants = done(db.claim_executions(a, &mut cursor, &claim(2)));
    assert_eq!(grants.iter().map(|g| g.execution.id).collect::<Vec<_>>(), ids(&[1, 3]));
}

#[test]
fn a_claim_keeps_reading_the_flow_as_it_was_in_its_snapshot() {
    let (mut db, a, mut cursor) = claim_at_its_second_row();
    close(&mut db, ClosePolicy::CancelAll);
    assert_eq!(done(db.claim_executions(a, &mut cursor, &claim(2))).len(), 2);
    let b = db.open_session(2);
    assert_eq!(claimed(&mut db, b, &claim(2)), ids(&[]), "a later claim sees it closed");
}

#[test]
fn a_flow_that_only_runs_out_is_still_claimed() {
    let mut db = ready_to(1);
    close(&mut db, ClosePolicy::FlowOnly);
    let a = db.open_session(1);
    assert_eq!(claimed(&mut db, a, &claim(2)), ids(&[1]));
}

/// Closes the flow; no verb does so yet.
fn close(db: &mut Database, policy: ClosePolicy) {
    let slot = db.flows.find(&FLOW).unwrap();
    db.flows.row_mut(slot).committed.as_mut().unwrap().closing = Some(policy);
}

#[test]
fn a_claim_sees_what_its_own_transaction_made_ready() {
    let mut late = member(1, State::Active);
    late.execution.not_before = Timestamp(5);
    let mut db = seeded(&[late, member(2, State::Ready)], &[]);
    let a = db.open_session(1);
    move_to(&mut db, a, 1, State::Ready);
    assert_eq!(claimed(&mut db, a, &claim(9)), ids(&[2, 1]));
    db.abort(a);
    assert_eq!((state_of(&db, 1), state_of(&db, 2)), (State::Active, State::Ready));
}

#[test]
fn a_take_gets_the_free_rows_in_id_order() {
    let mut db = ready_to(3);
    let (a, b) = (db.open_session(1), db.open_session(2));
    lock(&mut db, a, &[2]);
    let taken = done(db.take_executions(b, &mut Cursor::default(), &ids(&[3, 2, 1, 8])));
    assert_eq!(taken.iter().map(|row| row.id).collect::<Vec<_>>(), ids(&[1, 3]));
    assert_eq!(db.locks_held(b), 2);
}
