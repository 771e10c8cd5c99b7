//! Guarded writes, with the locks that the rules demand and without.

use super::*;

#[test]
#[should_panic(expected = "a write of execution")]
fn a_write_of_an_unlocked_execution_is_refused() {
    let mut db = ready_to(1);
    let a = db.open_session(1);
    let write = to_state(db.execution(id(1)).unwrap(), DONE);
    let _ = db.write_executions(a, &mut Cursor::default(), &[write]);
}

#[test]
#[should_panic(expected = "a write of edge ")]
fn a_write_of_an_edge_whose_group_is_unlocked_is_refused() {
    let mut db = two_joins();
    let a = db.open_session(1);
    lock_groups(&mut db, a, &[3]);
    let _ = db.resolve_edges(a, &mut Cursor::default(), &[flip(1, 4)]);
}

#[test]
#[should_panic(expected = "a write of edge_group")]
fn a_write_of_an_unlocked_group_is_refused() {
    let mut db = two_joins();
    let a = db.open_session(1);
    let _ = db.write_groups(a, &mut Cursor::default(), &[group(3, 2)]);
}

#[test]
fn a_write_whose_guard_does_not_hold_changes_nothing() {
    let mut db = ready_to(3);
    let a = db.open_session(1);
    let locked = lock(&mut db, a, &[1, 2, 3]);
    let mut writes: Vec<_> = locked.iter().rev().map(|row| to_state(row, DONE)).collect();
    writes[1].guard.epoch = 5;
    let written = done(db.write_executions(a, &mut Cursor::default(), &writes));
    assert_eq!(written, ids(&[1, 3]));
    let commit = commit(&mut db, a);
    assert_eq!(commit.executions.len(), 2);
    assert_eq!(state_of(&db, 2), State::Ready);
}

#[test]
fn a_write_sees_what_its_own_transaction_wrote() {
    let mut db = ready_to(1);
    let a = db.open_session(1);
    move_to(&mut db, a, 1, State::Active);
    let after = move_to(&mut db, a, 1, DONE);
    let commit = commit(&mut db, a);
    assert_eq!(commit.executions.len(), 1);
    assert_eq!(commit.executions[0].before, Some(member(1, State::Ready).execution));
    assert_eq!(commit.executions[0].after, Some(after));
}

#[test]
fn results_are_kept_set_and_cleared_and_a_worker_goes_with_the_lease() {
    let mut db = ready_to(1);
    let mut check = |state: State, result: ResultChange, seen: Option<&[u8]>| {
        let a = db.open_session(1);
        let before = lock(&mut db, a, &[1])[0];
        let write = ExecutionWrite { result, ..to_state(&before, state) };
        done(db.write_executions(a, &mut Cursor::default(), &[write]));
        commit(&mut db, a);
        let view = db.describe_execution(&id(1)).unwrap().unwrap();
        assert_eq!(view.result.as_deref(), seen);
        assert_eq!(view.worker, None);
    };
    check(State::Active, ResultChange::Set(Arc::from([1, 2])), Some(&[1, 2]));
    check(DONE, ResultChange::Keep, Some(&[1, 2]));
    check(State::Ready, ResultChange::Clear, None);
    let a = db.open_session(1);
    done(db.claim_executions(a, &mut Cursor::default(), &claim(1)));
    move_to(&mut db, a, 1, State::Active);
    commit(&mut db, a);
    let view = db.describe_execution(&id(1)).unwrap().unwrap();
    assert_eq!(view.worker.as_deref(), Some("worker"), "the lease is still there");
}

#[test]
fn an_edge_is_flipped_once_unless_the_guard_is_gone() {
    let mut db = two_joins();
    let a = db.open_session(1);
    lock_groups(&mut db, a, &[3]);
    let mut resolve = |flips: &[EdgeFlip]| done(db.resolve_edges(a, &mut Cursor::default(), flips));
    assert_eq!(resolve(&[flip(2, 3), flip(1, 3)]), [edge_key(1, 3), edge_key(2, 3)]);
    assert_eq!(resolve(&[flip(1, 3)]), []);
    assert_eq!(resolve(&[EdgeFlip { guarded: Guarded::No, ..flip(1, 3) }]), [edge_key(1, 3)]);
    let commit = commit(&mut db, a);
    assert_eq!(commit.edges.len(), 2);
    assert_eq!(db.edge(edge_key(1, 3)).unwrap().upstream_incarnation, Some(0));
    assert_eq!(db.edge(edge_key(1, 4)).unwrap().resolution, Resolution::Pending);
}

#[cfg(feature = "mutants")]
#[test]
fn under_a_planted_bug_an_unlocked_write_waits_and_rechecks_its_guard() {
    let _planted = Planted::any();
    for (holder_commits, written) in [(true, vec![]), (false, ids(&[1]))] {
        let mut db = ready_to(1);
        let (a, b) = (db.open_session(1), db.open_session(2));
        let stale = to_state(db.execution(id(1)).unwrap(), State::Active);
        move_to(&mut db, a, 1, DONE);
        let mut cursor = Cursor::default();
        let rows = [stale];
        assert_eq!(db.write_executions(b, &mut cursor, &rows), Step::Wait);
        if holder_commits {
            commit(&mut db, a);
        } else {
            db.abort(a);
        }
        assert_eq!(done(db.write_executions(b, &mut cursor, &rows)), written);
        assert_eq!(db.locks_held(b), 1, "the lock stays, whatever the guard says");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn under_a_planted_bug_two_flips_of_one_edge_meet_on_the_edge() {
    let _planted = Planted::any();
    let mut db = two_joins();
    let (a, b) = (db.open_session(1), db.open_session(2));
    done(db.resolve_edges(a, &mut Cursor::default(), &[flip(1, 3)]));
    let mut cursor = Cursor::default();
    assert_eq!(db.resolve_edges(b, &mut cursor, &[flip(1, 3)]), Step::Wait);
    commit(&mut db, a);
    assert_eq!(done(db.resolve_edges(b, &mut cursor, &[flip(1, 3)])), []);
}

#[cfg(feature = "mutants")]
#[test]
fn under_a_planted_bug_an_unlocked_write_is_held_to_the_lock_order() {
    let _planted = Planted::any();
    let mut db = two_joins();
    let a = db.open_session(1);
    lock(&mut db, a, &[3]);
    done(db.write_groups(a, &mut Cursor::default(), &[group(3, 2)]));
    assert!(db.order_violation().is_some());
}
