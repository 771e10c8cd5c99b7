//! New rows, unique keys in flight and numbers of events.

use super::*;
use sluicegate::storage::{
    Attempt, AttemptEnd, AttemptKey, EventId, Inserted, Reported, SiblingRequest, StorageError,
    Submission, SubmissionKey,
};

fn submission(flow: u128) -> Submission {
    Submission {
        key: SubmissionKey { namespace: "tenant".into(), key: "key".into() },
        flow: FlowKey { id: FlowId(Uuid::from_u128(flow)), ..FLOW },
        content_hash: [0; 32],
        request: request(1),
    }
}

fn attempt(number: u16) -> Attempt {
    Attempt {
        key: AttemptKey { execution: id(number), incarnation: 0, attempt: 1 },
        epoch: 1,
        nonce: 2,
        end: AttemptEnd::Completed,
        reported: Reported::Finished(Outcome::Succeeded),
        payload_hash: 0,
        granted_at: NOW,
        ended_at: NOW,
    }
}

#[track_caller]
fn check_corrupt<T: Debug>(step: Step<Result<T>>, name: &str) {
    match step {
        Step::Done(Err(StorageError::Corrupt(text))) => assert!(text.contains(name), "{text}"),
        other => panic!("a duplicate in {name} went unseen: {other:?}"),
    }
}

/// Two sessions insert one key; the second waits.
fn race() -> (Database, SessionId, SessionId, Cursor) {
    let mut db = Database::new();
    let (a, b) = (db.open_session(1), db.open_session(2));
    let first = done(db.insert_submission(a, &mut Cursor::default(), &submission(1)));
    assert_eq!(first, Inserted::New);
    let mut cursor = Cursor::default();
    assert_eq!(db.insert_submission(b, &mut cursor, &submission(2)), Step::Wait);
    assert!(db.is_blocked(b));
    (db, a, b, cursor)
}

#[test]
fn a_key_in_flight_exists_once_its_holder_commits() {
    let (mut db, a, b, mut cursor) = race();
    commit(&mut db, a);
    assert_eq!(done(db.insert_submission(b, &mut cursor, &submission(2))), Inserted::Exists);
    let read = done(db.read_submission(b, &mut Cursor::default(), &submission(2).key));
    assert_eq!(read, Some(submission(1)));
    assert!(!db.commit(b, &mut Commit::default()));
}

#[test]
fn a_key_in_flight_is_new_once_its_holder_rolls_back() {
    let (mut db, a, b, mut cursor) = race();
    db.abort(a);
    assert_eq!(done(db.insert_submission(b, &mut cursor, &submission(2))), Inserted::New);
    assert_eq!(commit(&mut db, b).submissions, [submission(2)]);
    assert_eq!(db.submissions().count(), 1);
}

#[test]
fn a_flow_in_flight_is_waited_for_like_a_key() {
    let mut db = Database::new();
    let (a, b) = (db.open_session(1), db.open_session(2));
    assert_eq!(done(db.insert_flow(a, &mut Cursor::default(), &flow())), Inserted::New);
    assert_eq!(done(db.insert_flow(a, &mut Cursor::default(), &flow())), Inserted::Exists);
    let mut cursor = Cursor::default();
    assert_eq!(db.insert_flow(b, &mut cursor, &flow()), Step::Wait);
    assert_eq!(done(db.read_flow(b, &mut Cursor::default(), &FLOW)), None);
    commit(&mut db, a);
    assert_eq!(done(db.insert_flow(b, &mut cursor, &flow())), Inserted::Exists);
}

#[test]
fn waits_for_keys_close_cycles_too() {
    let (mut db, a, b, _) = race();
    let other = Flow { key: submission(2).flow, ..flow() };
    let c = db.open_session(3);
    done(db.insert_flow(c, &mut Cursor::default(), &other));
    assert_eq!(db.insert_flow(a, &mut Cursor::default(), &other), Step::Wait);
    let closing = db.insert_submission(c, &mut Cursor::default(), &submission(3));
    assert_eq!(closing, Step::Deadlock(vec![c, a]));
    assert!(db.is_blocked(b));
}

#[test]
fn a_second_event_of_one_incarnation_is_corrupt() {
    let mut db = seeded(&[member(1, DONE), member(2, DONE)], &[]);
    let a = db.open_session(1);
    done(db.insert_events(a, &mut Cursor::default(), &[event(1)]));
    commit(&mut db, a);
    let a = db.open_session(1);
    let rows = [event(2), event(1)];
    check_corrupt(db.insert_events(a, &mut Cursor::default(), &rows), "event");
    db.abort(a);
    assert_eq!(db.events().count(), 1);
    let a = db.open_session(1);
    let next = NewEvent { incarnation: 1, ..event(1) };
    done(db.insert_events(a, &mut Cursor::default(), &[next]));
}

#[test]
fn numbers_of_events_are_never_given_out_again() {
    let mut db = seeded(&[member(1, DONE)], &[]);
    let a = db.open_session(1);
    done(db.insert_events(a, &mut Cursor::default(), &[event(1)]));
    db.abort(a);
    assert_eq!(db.read_event(&EventId(1)), Ok(None));
    let a = db.open_session(1);
    done(db.insert_events(a, &mut Cursor::default(), &[event(1)]));
    assert_eq!(commit(&mut db, a).events, [(EventId(2), event(1))]);
    assert_eq!(db.read_event(&EventId(1)), Ok(None));
    let stored = db.read_event(&EventId(2)).unwrap().unwrap();
    assert_eq!((&*stored.namespace, stored.instance_tag.as_deref()), ("tenant", Some("env=test")));
}

#[test]
fn deleted_events_are_gone_and_new_ones_may_follow() {
    let mut db = seeded(&[member(1, DONE)], &[]);
    for _ in 0..2 {
        let a = db.open_session(1);
        done(db.insert_events(a, &mut Cursor::default(), &[event(1)]));
        commit(&mut db, a);
        assert_eq!(db.events().count(), 1);
        db.delete_all_events();
        assert_eq!(db.events().count(), 0);
    }
    assert_eq!(db.read_event(&EventId(2)), Ok(None));
}

#[test]
fn a_second_row_of_one_attempt_execution_group_or_edge_is_corrupt() {
    let attempt = attempt(1);
    let mut db = two_joins();
    let a = db.open_session(1);
    let cursor = Cursor::default;
    done(db.insert_attempts(a, &mut cursor(), &[attempt]));
    check_corrupt(db.insert_attempts(a, &mut cursor(), &[attempt]), "attempt");
    check_corrupt(db.insert_executions(a, &mut cursor(), &[member(1, DONE)]), "execution");
    check_corrupt(db.insert_groups(a, &mut cursor(), &[group(3, 1)]), "edge_group");
    check_corrupt(db.insert_edges(a, &mut cursor(), &[edge(1, 3)]), "edge");
    assert_eq!(done(db.read_attempt(a, &mut cursor(), &attempt.key)), Some(attempt));
    db.abort(a);
    assert_eq!(db.attempts().count(), 0);
}

#[test]
fn a_sibling_request_that_exists_stays() {
    let mut db = two_joins();
    let asked = |number| SiblingRequest { group: id(number), flow: FLOW.id };
    let a = db.open_session(1);
    done(db.insert_sibling_requests(a, &mut Cursor::default(), &[asked(4)]));
    commit(&mut db, a);
    let a = db.open_session(1);
    done(db.insert_sibling_requests(a, &mut Cursor::default(), &[asked(3), asked(4)]));
    let new = |row| Change { before: None, after: Some(row) };
    assert_eq!(commit(&mut db, a).sibling_requests, [new(asked(3))]);
    assert_eq!(db.sibling_requests().copied().collect::<Vec<_>>(), [asked(3), asked(4)]);
}

#[test]
fn many_rows_at_once_are_stored_like_rows_one_by_one() {
    let members: Vec<_> = (1..=40).rev().map(|number| member(number, State::Blocked)).collect();
    let edges: Vec<_> = (1..=39).rev().map(|number| edge(number, 40)).collect();
    let at_once = seeded(&members, &edges);
    let mut one_by_one = Database::new();
    let a = one_by_one.open_session(1);
    for row in &members {
        done(one_by_one.insert_executions(a, &mut Cursor::default(), std::slice::from_ref(row)));
    }
    for row in &edges {
        done(one_by_one.insert_edges(a, &mut Cursor::default(), std::slice::from_ref(row)));
    }
    commit(&mut one_by_one, a);
    let executions = |db: &Database| db.executions().copied().collect::<Vec<_>>();
    assert_eq!(executions(&at_once), executions(&one_by_one));
    assert!(at_once.edges().eq(one_by_one.edges()));
    for number in 1..=39 {
        let out: Vec<_> = at_once.out_edges(id(number)).map(|edge| edge.key).collect();
        assert_eq!(out, [edge_key(number, 40)]);
    }
}

#[test]
fn a_key_that_comes_twice_in_one_large_statement_is_corrupt_and_leaves_nothing() {
    let mut rows: Vec<_> = (1..=20).map(|number| member(number, State::Ready)).collect();
    rows.push(member(7, State::Blocked));
    let mut db = Database::new();
    let a = db.open_session(1);
    check_corrupt(db.insert_executions(a, &mut Cursor::default(), &rows), "execution");
    db.abort(a);
    assert_eq!(db.executions().count(), 0);
    let a = db.open_session(1);
    done(db.insert_executions(a, &mut Cursor::default(), &rows[..20]));
    commit(&mut db, a);
    assert_eq!(db.executions().count(), 20);
    assert_eq!(state_of(&db, 7), State::Ready);
}

#[test]
fn an_event_or_an_attempt_of_no_execution_is_corrupt() {
    let mut db = ready_to(1);
    let a = db.open_session(1);
    let events = [event(1), event(2)];
    check_corrupt(db.insert_events(a, &mut Cursor::default(), &events), "event");
    db.abort(a);
    let attempts = [attempt(2)];
    let b = db.open_session(1);
    check_corrupt(db.insert_attempts(b, &mut Cursor::default(), &attempts), "attempt");
}

#[test]
fn events_of_one_statement_are_numbered_in_key_order() {
    let mut db = ready_to(2);
    let a = db.open_session(1);
    done(db.insert_events(a, &mut Cursor::default(), &[event(2), event(1)]));
    let commit = commit(&mut db, a);
    let numbered = commit.events.iter().map(|(id, event)| (id.0, event.execution));
    assert_eq!(numbered.collect::<Vec<_>>(), [(1, id(1)), (2, id(2))]);
}

#[test]
fn an_insert_waits_for_an_update_of_the_row_whose_key_it_wants() {
    let mut db = two_joins();
    let (writer, inserter) = (db.open_session(1), db.open_session(2));
    lock_groups(&mut db, writer, &[3]);
    let taken = db.insert_groups(inserter, &mut Cursor::default(), &[group(3, 1)]);
    assert!(matches!(taken, Step::Done(Err(StorageError::Corrupt(_)))), "a lock is no update");
    db.abort(inserter);
    done(db.write_groups(writer, &mut Cursor::default(), &[group(3, 2)]));
    let inserter = db.open_session(2);
    let mut cursor = Cursor::default();
    assert_eq!(db.insert_groups(inserter, &mut cursor, &[group(3, 1)]), Step::Wait);
    commit(&mut db, writer);
    let taken = db.insert_groups(inserter, &mut cursor, &[group(3, 1)]);
    assert!(matches!(taken, Step::Done(Err(StorageError::Corrupt(_)))));
}

#[test]
fn rows_go_in_by_key_so_that_two_inserts_queue_up() {
    let mut db = two_joins();
    let (first, second) = (db.open_session(1), db.open_session(2));
    done(db.insert_groups(first, &mut Cursor::default(), &[group(8, 1)]));
    let rows = [group(9, 1), group(8, 1), group(7, 1)];
    assert_eq!(db.insert_groups(second, &mut Cursor::default(), &rows), Step::Wait);
    done(db.insert_groups(first, &mut Cursor::default(), &[group(9, 1)]));
}
