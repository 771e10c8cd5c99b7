//! The verbs of the feed: the head of a stream, events without a position, and stored cursors. As
//! Postgres has them: a position is written after the event has committed.

use sluicegate::storage::{
    ConsumerName, EventPosition, FeedQuery, FeedRows, Inserted, NumberedEvent, Position, Result,
    Scope, StreamHead, StreamId, Subscription, Timeline, UnnumberedEvent, UnnumberedQuery,
};
use uuid::Uuid;

use super::Database;
use super::rows::{Outboxed, TableName};
use super::session::{Cursor, NOBODY, Progress, SessionId, Step};
use super::table::{Dirty, Slot};

/// The timeline of every simulated database.
const TIMELINE: Timeline = Timeline(Uuid::from_u128(0x7769_6e64));

impl Database {
    /// Makes the stream of all events, as the migration does.
    pub(super) fn make_stream(&mut self) {
        self.add_stream(StreamHead {
            stream: StreamId::EVENTS,
            timeline: TIMELINE,
            last: Position(0),
            horizon: Position(0),
        });
    }

    /// Adds a stream that is committed.
    pub fn add_stream(&mut self, head: StreamHead) {
        let place = self.heads.place(&head.stream, NOBODY);
        let slot = self.heads.insert(place, head.stream, head, NOBODY);
        self.heads.settle(slot);
    }

    /// Locks the head of a stream.
    pub fn lock_stream_head(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        stream: &StreamId,
    ) -> Step<Result<Option<StreamHead>>> {
        if self.start(cursor) {
            self.choose_by_key::<StreamHead>(session, cursor, std::slice::from_ref(stream));
        }
        let locked = self.lock_candidates(session, cursor, TableName::StreamHead);
        locked
            .map(|()| {
                let heads = self.reply(cursor, |db, slot| db.heads.visible(slot, session).copied());
                Ok(heads.into_iter().next())
            })
            .into()
    }

    /// Locks events without a position one by one in the order of their numbers, at most `limit`
    /// that have none once their lock is held. One that has got a position meanwhile is dropped;
    /// its lock stays.
    pub fn lock_unnumbered_events(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        query: &UnnumberedQuery,
    ) -> Step<Result<Vec<UnnumberedEvent>>> {
        if self.start(cursor) {
            self.choose_unnumbered(session, cursor, query);
        }
        let locked = self.lock_unnumbered(session, cursor, query.limit as usize);
        locked.map(|()| Ok(self.reply(cursor, |db, slot| db.unnumbered(slot, session)))).into()
    }

    /// Gives locked events their positions; returns how many had none.
    pub fn write_positions(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        rows: &[EventPosition],
    ) -> Step<Result<u64>> {
        if self.start(cursor) {
            for row in rows {
                let guard = |event: &Outboxed| event.position.is_none();
                self.choose_write(session, cursor, &row.key, guard);
            }
        }
        self.write_candidates(session, cursor, |event: &Outboxed, row| {
            let position = Some(rows[row].position);
            let placed = || Dirty::Written(Outboxed { position, ..event.clone() });
            event.position.is_none().then(placed)
        })
        .map(|()| Ok(self.written_keys::<Outboxed>(cursor).len() as u64))
        .into()
    }

    /// Moves the locked head of a stream on; returns how many heads it moved.
    pub fn write_stream_head(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        row: &StreamHead,
    ) -> Step<Result<u64>> {
        let forward = |head: &StreamHead| head.last <= row.last && head.horizon <= row.horizon;
        if self.start(cursor) {
            self.choose_write(session, cursor, &row.stream, forward);
        }
        self.write_candidates(session, cursor, |head: &StreamHead, _| {
            let (last, horizon) = (row.last, row.horizon);
            forward(head).then_some(Dirty::Written(StreamHead { last, horizon, ..*head }))
        })
        .map(|()| Ok(self.written_keys::<StreamHead>(cursor).len() as u64))
        .into()
    }

    /// Adds the cursor of a consumer; waits while another transaction holds its name in flight.
    pub fn insert_subscription(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        row: &Subscription,
    ) -> Step<Result<Inserted>> {
        self.start(cursor);
        let inserted = self.insert_or_find(session, &row.name, |_| row.clone());
        self.end_insert(cursor, inserted.map(Ok))
    }

    /// Locks the cursor of a consumer.
    pub fn lock_subscription(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        name: &ConsumerName,
    ) -> Step<Result<Option<Subscription>>> {
        if self.start(cursor) {
            self.choose_by_key::<Subscription>(session, cursor, std::slice::from_ref(name));
        }
        let locked = self.lock_candidates(session, cursor, TableName::Subscription);
        locked
            .map(|()| {
                let found =
                    self.reply(cursor, |db, slot| db.subscriptions.visible(slot, session).cloned());
                Ok(found.into_iter().next())
            })
            .into()
    }

    /// Moves the locked cursor of a consumer forward; returns how many cursors it moved.
    pub fn write_subscription(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        row: &Subscription,
    ) -> Step<Result<u64>> {
        let forward = |stored: &Subscription| {
            stored.timeline == row.timeline && stored.position < row.position
        };
        if self.start(cursor) {
            self.choose_write(session, cursor, &row.name, forward);
        }
        self.write_candidates(session, cursor, |stored: &Subscription, _| {
            forward(stored).then(|| Dirty::Written(row.clone()))
        })
        .map(|()| Ok(self.written_keys::<Subscription>(cursor).len() as u64))
        .into()
    }

    /// Events of a stream above a position, with the head of the stream.
    pub fn read_feed(&self, query: &FeedQuery) -> Result<FeedRows> {
        let Some(head) = self.heads.see(&query.stream, NOBODY) else {
            return Ok(FeedRows { head: None, events: Vec::new() });
        };
        let numbered = self.sets.numbered_after(query.after);
        let events = numbered.filter_map(|(position, slot)| {
            let event = &self.events.visible(slot, NOBODY)?.event;
            let wanted = query.filter.wanted.includes(&event.event.kind)
                && in_scope(event, &query.filter.scope);
            wanted.then(|| NumberedEvent { position, event: event.clone() })
        });
        Ok(FeedRows { head: Some(*head), events: events.take(query.limit as usize).collect() })
    }

    /// The cursor of a consumer.
    pub fn read_subscription(&self, name: &ConsumerName) -> Result<Option<Subscription>> {
        Ok(self.subscriptions.see(name, NOBODY).cloned())
    }

    /// Fixes the candidates: visible events of these partitions that have no position.
    fn choose_unnumbered(&self, session: SessionId, cursor: &mut Cursor, query: &UnnumberedQuery) {
        let wanted = |slot: Slot| {
            let found = self.unnumbered(slot, session)?;
            let partition = found.key.execution.partition.0;
            query.partitions.contains(&partition).then_some((found.id, slot))
        };
        let own = self.session(session).owned.iter();
        let own = own.filter(|target| target.table == TableName::Event).map(|target| target.slot);
        let mut found: Vec<_> = self.sets.unnumbered.iter().chain(own).filter_map(wanted).collect();
        found.sort_unstable();
        found.dedup();
        cursor.candidates.extend(found.into_iter().map(|(_, slot)| slot));
    }

    fn lock_unnumbered(
        &mut self,
        session: SessionId,
        cursor: &mut Cursor,
        limit: usize,
    ) -> Progress<()> {
        while cursor.got < limit
            && let Some(slot) = cursor.candidates.get(cursor.at).copied()
        {
            let acquired = self.acquire(session, TableName::Event.row(slot))?;
            cursor.at += 1;
            if self.unnumbered(slot, session).is_some() {
                cursor.candidates[cursor.got] = slot;
                cursor.got += 1;
            }
            let wants_more = cursor.got < limit && cursor.at < cursor.candidates.len();
            self.pause_after(acquired, wants_more)?;
        }
        cursor.candidates.truncate(cursor.got);
        Ok(())
    }

    /// An event as the session sees it, if it has no position.
    fn unnumbered(&self, slot: Slot, session: SessionId) -> Option<UnnumberedEvent> {
        let row = self.events.visible(slot, session).filter(|row| row.position.is_none())?;
        Some(UnnumberedEvent { id: row.event.id, key: row.event.event.key() })
    }
}

fn in_scope(event: &sluicegate::storage::Event, scope: &Scope) -> bool {
    scope.partitions.contains(&event.event.execution.partition.0)
        && scope.namespace.as_ref().is_none_or(|wanted| *wanted == event.namespace)
        && (scope.instance_tag.is_none() || scope.instance_tag == event.instance_tag)
}
