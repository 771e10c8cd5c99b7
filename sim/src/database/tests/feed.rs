//! The feed: events that commit out of the order of their numbers, and what they get for places.

use sluicegate::storage::{
    EventPosition, FeedFilter, FeedQuery, Position, StreamHead, StreamId, UnnumberedQuery,
};

use super::*;

fn all(limit: u32) -> UnnumberedQuery {
    UnnumberedQuery { partitions: 0..u16::MAX, limit }
}

/// Numbers what has no place, up to the limit, and commits; the executions in that order.
fn sequence(db: &mut Database, limit: u32) -> Vec<ExecutionId> {
    let session = db.open_session(0);
    let stream = StreamId::EVENTS;
    let head = done(db.lock_stream_head(session, &mut Cursor::default(), &stream)).unwrap();
    let events = done(db.lock_unnumbered_events(session, &mut Cursor::default(), &all(limit)));
    let places = events.iter().zip(head.last.0 + 1..);
    let rows: Vec<EventPosition> = places
        .map(|(event, place)| EventPosition { key: event.key, position: Position(place) })
        .collect();
    let written = done(db.write_positions(session, &mut Cursor::default(), &rows));
    assert_eq!(written, rows.len() as u64);
    let last = rows.last().map_or(head.last, |row| row.position);
    let moved = StreamHead { last, ..head };
    assert_eq!(done(db.write_stream_head(session, &mut Cursor::default(), &moved)), 1);
    assert_eq!(commit(db, session).positions, rows);
    events.iter().map(|event| event.key.execution).collect()
}

/// Places and numbers of the events of the feed.
fn feed(db: &Database) -> Vec<(u64, u64)> {
    let (stream, filter) = (StreamId::EVENTS, FeedFilter::default());
    let query = FeedQuery { stream, filter, after: Position(0), limit: 99 };
    let rows = db.read_feed(&query).unwrap();
    rows.events.iter().map(|row| (row.position.0, row.event.id.0)).collect()
}

#[test]
fn an_event_that_commits_late_gets_a_late_place_although_its_number_is_low() {
    let mut db = seeded(&[member(1, DONE), member(2, DONE)], &[]);
    let (early, late) = (db.open_session(0), db.open_session(1));
    done(db.insert_events(late, &mut Cursor::default(), &[event(1)]));
    done(db.insert_events(early, &mut Cursor::default(), &[event(2)]));
    commit(&mut db, early);
    assert_eq!(sequence(&mut db, 9), ids(&[2]));
    commit(&mut db, late);
    assert_eq!(sequence(&mut db, 9), ids(&[1]));
    assert_eq!(feed(&db), [(1, 2), (2, 1)]);
}

#[test]
fn a_second_sequencer_waits_for_the_head_and_finds_what_is_left() {
    let mut db = seeded(&[member(1, DONE), member(2, DONE)], &[]);
    let session = db.open_session(0);
    done(db.insert_events(session, &mut Cursor::default(), &[event(1), event(2)]));
    commit(&mut db, session);
    let (first, second) = (db.open_session(0), db.open_session(1));
    let stream = StreamId::EVENTS;
    done(db.lock_stream_head(first, &mut Cursor::default(), &stream));
    let mut waiting = Cursor::default();
    assert_eq!(db.lock_stream_head(second, &mut waiting, &stream), Step::Wait);
    db.abort(first);
    assert!(!db.is_blocked(second));
    assert!(done(db.lock_stream_head(second, &mut waiting, &stream)).is_some());
    db.abort(second);
    assert_eq!(sequence(&mut db, 1), ids(&[1]));
    assert_eq!(sequence(&mut db, 9), ids(&[2]));
    db.delete_all_events();
    assert_eq!(sequence(&mut db, 9), []);
    assert_eq!(feed(&db), []);
}

#[test]
fn the_head_after_events_is_out_of_order() {
    let mut db = seeded(&[member(1, DONE)], &[]);
    let session = db.open_session(0);
    done(db.insert_events(session, &mut Cursor::default(), &[event(1)]));
    commit(&mut db, session);
    let session = db.open_session(0);
    done(db.lock_unnumbered_events(session, &mut Cursor::default(), &all(9)));
    assert_eq!(db.order_violation(), None);
    done(db.lock_stream_head(session, &mut Cursor::default(), &StreamId::EVENTS));
    let words = db.order_violation().unwrap();
    assert!(words.contains("stream_head"), "{words}");
}
