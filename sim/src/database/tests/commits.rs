//! What a commit reports, what a rollback leaves, and what copies and digests see.

use super::*;
use crate::history::Change;
use std::hash::{DefaultHasher, Hasher};

fn digest(db: &Database) -> u64 {
    let mut hasher = DefaultHasher::new();
    db.digest(&mut hasher);
    hasher.finish()
}

/// Resolves one edge into group 3.
fn resolve(db: &mut Database, upstream: u16) -> Commit {
    let a = db.open_session(1);
    let locked = lock_groups(db, a, &[3])[0];
    done(db.resolve_edges(a, &mut Cursor::default(), &[flip(upstream, 3)]));
    let after = Group { satisfied: locked.satisfied + 1, ..locked };
    done(db.write_groups(a, &mut Cursor::default(), &[after]));
    commit(db, a)
}

#[test]
fn a_commit_reports_each_written_row_before_and_after() {
    let mut db = two_joins();
    db.storage_now = Timestamp(NOW.0 + 5);
    let a = db.open_session(6);
    let now = done(db.clock(a, &mut Cursor::default()));
    db.storage_now = NOW;
    lock_groups(&mut db, a, &[3, 4]);
    let done_group = Group { satisfied: 1, ..group(4, 2) };
    done(db.resolve_edges(a, &mut Cursor::default(), &[flip(1, 4)]));
    done(db.write_groups(a, &mut Cursor::default(), &[done_group]));
    done(db.insert_flow_changes(a, &mut Cursor::default(), &[FLOW]));
    let mut report = resolve(&mut two_joins(), 1);
    assert!(db.commit(a, &mut report), "whatever the report held before");
    let edge_after =
        Edge { resolution: Resolution::Satisfied, upstream_incarnation: Some(0), ..edge(1, 4) };
    let expected = Commit {
        actor: 6,
        clock: Some(now),
        clock_highest: now,
        groups: vec![Change { before: Some(group(4, 2)), after: Some(done_group) }],
        edges: vec![Change { before: Some(edge(1, 4)), after: Some(edge_after) }],
        flow_changes: vec![FLOW],
        ..Commit::default()
    };
    assert_eq!(report, expected);
    assert_eq!(db.flow_changes().collect::<Vec<_>>(), [FLOW]);
}

#[test]
fn new_rows_are_reported_without_a_before() {
    let mut db = Database::new();
    let a = db.open_session(1);
    let row = member(1, State::Ready);
    done(db.insert_flow(a, &mut Cursor::default(), &flow()));
    done(db.insert_executions(a, &mut Cursor::default(), std::slice::from_ref(&row)));
    let report = commit(&mut db, a);
    assert_eq!(report.flows, [Change { before: None, after: Some(flow()) }]);
    assert_eq!(report.executions, [Change { before: None, after: Some(row.execution) }]);
    assert_eq!(report.clock, None);
}

#[test]
fn a_transaction_that_only_locked_wrote_nothing() {
    let mut db = two_joins();
    let a = db.open_session(1);
    lock_groups(&mut db, a, &[3]);
    lock(&mut db, a, &[1]);
    let mut report = Commit::default();
    assert!(!db.commit(a, &mut report));
    assert!(report.groups.is_empty() && report.executions.is_empty());
}

#[test]
fn a_rollback_leaves_the_committed_rows_and_no_lock() {
    let mut db = two_joins();
    let before = digest(&db);
    let a = db.open_session(1);
    lock_groups(&mut db, a, &[3]);
    done(db.resolve_edges(a, &mut Cursor::default(), &[flip(1, 3)]));
    move_to(&mut db, a, 3, State::Ready);
    done(db.insert_events(a, &mut Cursor::default(), &[event(1)]));
    db.abort(a);
    assert_eq!(digest(&db), before);
    let b = db.open_session(2);
    assert_eq!(lock_groups(&mut db, b, &[3]), [group(3, 2)]);
    assert_eq!(lock(&mut db, b, &[3])[0].state, State::Blocked);
}

#[test]
fn a_frozen_copy_does_not_move() {
    let mut db = two_joins();
    let a = db.open_session(1);
    lock_groups(&mut db, a, &[3]);
    done(db.resolve_edges(a, &mut Cursor::default(), &[flip(1, 3)]));
    let frozen = db.frozen();
    commit(&mut db, a);
    assert_eq!(frozen.edge(edge_key(1, 3)), Some(&edge(1, 3)));
    assert_eq!(frozen.describe_edges(&FLOW).unwrap().len(), 4);
    assert_ne!(digest(&frozen), digest(&db));
    let mut fork = frozen.clone();
    let b = fork.open_session(1);
    assert_eq!(lock_groups(&mut fork, b, &[3]).len(), 1, "no lock was copied");
}

#[test]
fn equal_rows_reached_in_different_orders_have_one_digest() {
    let (mut first, mut second) = (two_joins(), two_joins());
    resolve(&mut first, 1);
    let halfway = digest(&first);
    resolve(&mut first, 2);
    resolve(&mut second, 2);
    assert_ne!(halfway, digest(&second), "different edges are resolved");
    let a = second.open_session(1);
    done(second.insert_events(a, &mut Cursor::default(), &[event(1)]));
    second.abort(a);
    resolve(&mut second, 1);
    assert_eq!(digest(&first), digest(&second));
}

#[test]
fn the_digest_sees_committed_rows_only() {
    let mut db = ready_to(2);
    let before = digest(&db);
    let a = db.open_session(1);
    done(db.claim_executions(a, &mut Cursor::default(), &claim(1)));
    assert_eq!(digest(&db), before);
    commit(&mut db, a);
    assert_ne!(digest(&db), before);
}

#[test]
fn a_reset_database_is_as_a_new_one() {
    let mut db = two_joins();
    let (a, b) = (db.open_session(1), db.open_session(2));
    lock_groups(&mut db, a, &[3]);
    assert_eq!(db.lock_groups(b, &mut Cursor::default(), &ids(&[3])), Step::Wait);
    done(db.insert_events(a, &mut Cursor::default(), &[event(1)]));
    db.reset();
    assert_eq!(digest(&db), digest(&Database::new()));
    assert_eq!(db.next_interesting(Timestamp(0)), None);
    let sessions: Vec<SessionId> = (0..4).map(|actor| db.open_session(actor)).collect();
    assert_eq!(sessions, [1, 2, 3, 4]);
    assert!(sessions.iter().all(|session| !db.is_blocked(*session)));
    done(db.insert_executions(1, &mut Cursor::default(), &[member(1, DONE)]));
    done(db.insert_events(1, &mut Cursor::default(), &[event(1)]));
    assert_eq!(commit(&mut db, 1).events[0].0, sluicegate::storage::EventId(1));
}
