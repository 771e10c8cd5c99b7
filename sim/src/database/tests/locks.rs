//! Row locks: waiting, cycles and the one order.

use super::*;

/// Session a holds group 3; session b waits for it.
fn one_waits() -> (Database, SessionId, SessionId, Cursor) {
    let mut db = two_joins();
    let (a, b) = (db.open_session(1), db.open_session(2));
    lock_groups(&mut db, a, &[3]);
    let mut cursor = Cursor::default();
    assert_eq!(db.lock_groups(b, &mut cursor, &ids(&[3])), Step::Wait);
    assert!(db.is_blocked(b) && !db.is_blocked(a));
    (db, a, b, cursor)
}

#[test]
fn a_waiter_sees_the_version_that_the_holder_commits() {
    let (mut db, a, b, mut cursor) = one_waits();
    let decided = Group { satisfied: 2, decision: Decision::Satisfied, ..group(3, 2) };
    assert_eq!(done(db.write_groups(a, &mut Cursor::default(), &[decided])), 1);
    assert_eq!(db.lock_groups(b, &mut cursor, &ids(&[3])), Step::Wait);
    commit(&mut db, a);
    assert!(!db.is_blocked(b));
    assert_eq!(done(db.lock_groups(b, &mut cursor, &ids(&[3]))), [decided]);
    assert_eq!((db.counters.lock_waits, db.counters.deadlocks), (1, 0));
}

#[test]
fn a_waiter_sees_the_old_version_if_the_holder_rolls_back() {
    let (mut db, a, b, mut cursor) = one_waits();
    let decided = Group { decision: Decision::Satisfied, ..group(3, 2) };
    done(db.write_groups(a, &mut Cursor::default(), &[decided]));
    db.abort(a);
    assert!(!db.is_blocked(b));
    assert_eq!(done(db.lock_groups(b, &mut cursor, &ids(&[3]))), [group(3, 2)]);
}

#[test]
fn a_newcomer_may_take_a_freed_row_before_the_waiter() {
    let (mut db, a, b, mut cursor) = one_waits();
    db.abort(a);
    let newcomer = db.open_session(3);
    lock_groups(&mut db, newcomer, &[3]);
    assert!(db.is_blocked(b));
    assert_eq!(db.lock_groups(b, &mut cursor, &ids(&[3])), Step::Wait);
}

#[test]
fn an_aborted_waiter_leaves_nothing_behind() {
    let (mut db, a, b, _) = one_waits();
    db.abort(b);
    commit(&mut db, a);
    let c = db.open_session(3);
    assert_eq!(c, a, "the last freed session is reused first");
    assert!(!db.is_blocked(c));
    assert_eq!(lock_groups(&mut db, c, &[3, 4]).len(), 2);
}

#[test]
fn two_sessions_locking_two_groups_in_opposite_order_deadlock() {
    let mut db = two_joins();
    db.granular = true;
    let (a, b) = (db.open_session(1), db.open_session(2));
    lock_groups(&mut db, a, &[3]);
    lock_groups(&mut db, b, &[4]);
    let (mut of_a, mut of_b) = (Cursor::default(), Cursor::default());
    assert_eq!(db.lock_groups(a, &mut of_a, &ids(&[4])), Step::Wait);
    assert_eq!(db.lock_groups(b, &mut of_b, &ids(&[3])), Step::Deadlock(vec![b, a]));
    assert_eq!(db.counters.deadlocks, 1);
    db.abort(b);
    assert_eq!(done(db.lock_groups(a, &mut of_a, &ids(&[4]))).len(), 1);
}

#[test]
fn a_cycle_of_three_names_its_members_in_the_order_of_waiting() {
    let mut db = ready_to(3);
    let sessions = [db.open_session(1), db.open_session(2), db.open_session(3)];
    for (session, number) in sessions.into_iter().zip(1..) {
        lock(&mut db, session, &[number]);
    }
    let [a, b, c] = sessions;
    let mut wait =
        |session, number| db.lock_executions(session, &mut Cursor::default(), &ids(&[number]));
    assert_eq!(wait(a, 2), Step::Wait);
    assert_eq!(wait(b, 3), Step::Wait);
    assert_eq!(wait(c, 1), Step::Deadlock(vec![c, a, b]));
}

#[test]
fn a_granular_lock_yields_after_each_new_row_but_the_last() {
    let mut db = two_joins();
    db.granular = true;
    let a = db.open_session(1);
    let (mut cursor, keys) = (Cursor::default(), ids(&[4, 3]));
    assert_eq!(db.lock_groups(a, &mut cursor, &keys), Step::Yield);
    assert_eq!(db.locks_held(a), 1);
    let b = db.open_session(2);
    assert_eq!(db.lock_groups(b, &mut Cursor::default(), &ids(&[3])), Step::Wait, "3 came first");
    let locked = done(db.lock_groups(a, &mut cursor, &keys));
    assert_eq!(locked.iter().map(|group| group.downstream).collect::<Vec<_>>(), ids(&[3, 4]));
    assert_eq!(done(db.lock_groups(a, &mut Cursor::default(), &keys)).len(), 2, "no pause again");
}

#[test]
fn missing_rows_are_left_out() {
    let mut db = ready_to(2);
    let a = db.open_session(1);
    let locked = lock(&mut db, a, &[1, 2, 9]);
    assert_eq!(locked.iter().map(|row| row.id).collect::<Vec<_>>(), ids(&[1, 2]));
}

#[test]
fn a_row_in_flight_when_the_statement_starts_is_no_candidate() {
    let mut db = ready_to(1);
    let (a, b) = (db.open_session(1), db.open_session(2));
    let new = [member(5, State::Ready)];
    done(db.insert_executions(a, &mut Cursor::default(), &new));
    assert_eq!(lock(&mut db, a, &[5]).len(), 1, "its own session sees it");
    assert!(lock(&mut db, b, &[5]).is_empty());
    commit(&mut db, a);
    assert_eq!(lock(&mut db, b, &[5]).len(), 1);
}

#[test]
fn a_lock_out_of_order_is_reported_once() {
    let mut db = two_joins();
    let a = db.open_session(1);
    lock(&mut db, a, &[2]);
    assert_eq!(db.order_violation(), None);
    lock(&mut db, a, &[1]);
    let text = db.order_violation().expect("1 comes before 2");
    assert!(text.matches("execution").count() == 2 && text.contains("actor 1"), "{text}");
    assert_eq!(db.order_violation(), None);
    lock_groups(&mut db, a, &[3]);
    let text = db.order_violation().expect("groups come before executions");
    assert!(text.contains("edge_group") && text.contains("execution"), "{text}");
}

#[test]
fn locks_in_order_and_locks_held_before_are_no_violation() {
    let mut db = two_joins();
    let a = db.open_session(1);
    lock_groups(&mut db, a, &[3, 4]);
    lock(&mut db, a, &[1, 2]);
    lock(&mut db, a, &[1]);
    lock_groups(&mut db, a, &[3]);
    done(db.insert_groups(a, &mut Cursor::default(), &[group(9, 1)]));
    lock_groups(&mut db, a, &[9]);
    assert_eq!(db.order_violation(), None);
}

#[test]
fn a_wait_out_of_order_is_a_violation_before_the_lock_is_got() {
    let mut db = two_joins();
    let (a, b) = (db.open_session(1), db.open_session(2));
    lock(&mut db, a, &[1]);
    lock_groups(&mut db, b, &[3]);
    assert_eq!(db.lock_groups(a, &mut Cursor::default(), &ids(&[3])), Step::Wait);
    assert!(db.order_violation().is_some());
}

#[test]
fn a_take_counts_as_held_but_is_itself_in_no_order() {
    let mut db = ready_to(3);
    let a = db.open_session(1);
    done(db.take_executions(a, &mut Cursor::default(), &ids(&[3])));
    done(db.take_executions(a, &mut Cursor::default(), &ids(&[1])));
    assert_eq!(db.order_violation(), None);
    lock(&mut db, a, &[2]);
    assert!(db.order_violation().is_some());
}

#[test]
fn a_key_claimed_after_a_row_lock_is_a_violation() {
    let mut db = ready_to(1);
    let a = db.open_session(1);
    lock(&mut db, a, &[1]);
    done(db.insert_flow(a, &mut Cursor::default(), &flow()));
    assert!(db.order_violation().is_some());
}
