//! The arguments of the verbs of the feed.

use sluicegate::storage::{
    EventId, EventKey, EventKind, EventPosition, FeedFilter, FeedQuery, LeaseChange, LeaseEvent,
    NewEvent, Position, Scope, StreamHead, Subscription, UnnumberedQuery, Verb, Wanted,
};

use super::{Built, Given, NOW, OUTCOMES, named};
use crate::conform::calls::Call;
use crate::conform::names::NOWHERE;

/// A verb of the feed with its argument.
pub(super) fn call(given: &Given<'_>, verb: Verb) -> Built<Call> {
    Ok(match verb {
        Verb::InsertEvents => Call::InsertEvents(given.rows(|row| given.event(row))?),
        // The database tells the number by the event's key.
        Verb::ReadEvent => {
            given.event_key(given.name("key")?)?;
            Call::ReadEvent(EventId(0))
        }
        Verb::LockStreamHead => Call::LockStreamHead(given.names.stream(given.stream()?)),
        Verb::LockUnnumberedEvents => Call::LockUnnumberedEvents(UnnumberedQuery {
            partitions: given.own_partition(),
            limit: given.number("limit", 100)?,
        }),
        Verb::WritePositions => Call::WritePositions(given.event_positions()?),
        Verb::WriteStreamHead => Call::WriteStreamHead(given.head()?),
        Verb::InsertSubscription => Call::InsertSubscription(given.subscription()?),
        Verb::LockSubscription => Call::LockSubscription(given.names.consumer(given.name("name")?)),
        Verb::WriteSubscription => Call::WriteSubscription(given.moved_subscription()?),
        Verb::ReadFeed => Call::ReadFeed(FeedQuery {
            stream: given.names.stream(given.stream()?),
            filter: FeedFilter {
                scope: Scope { partitions: given.own_partition(), ..Scope::default() },
                wanted: given.choice("wanted", &WANTED)?,
            },
            after: given.position("after", 0)?,
            limit: given.number("limit", 100)?,
        }),
        Verb::ReadSubscription => Call::ReadSubscription(given.names.consumer(given.name("name")?)),
        other => unreachable!("{other:?} is no verb of the feed"),
    })
}

/// The names that the arguments of a verb of the feed may have.
pub(super) fn arguments(verb: Verb) -> &'static [&'static str] {
    match verb {
        Verb::InsertEvents => &["rows", "incarnation", "lease", "outcome"],
        Verb::ReadEvent => &["key", "incarnation", "lease"],
        Verb::LockStreamHead => &["stream"],
        Verb::LockUnnumberedEvents => &["limit"],
        Verb::WritePositions => &["rows", "incarnation", "lease", "position"],
        Verb::WriteStreamHead => &["stream", "position", "horizon"],
        Verb::InsertSubscription | Verb::WriteSubscription => &["name", "position"],
        Verb::LockSubscription | Verb::ReadSubscription => &["name"],
        Verb::ReadFeed => &["stream", "after", "limit", "wanted"],
        other => unreachable!("{other:?} is no verb of the feed"),
    }
}

/// What an event may say of a lease.
const LEASES: [(&str, Option<LeaseEvent>); 4] = [
    ("none", None),
    ("released", Some(lease(1, LeaseChange::Released))),
    ("renewed", Some(lease(2, LeaseChange::Renewed))),
    ("expired", Some(lease(2, LeaseChange::Expired))),
];

const WANTED: [(&str, Wanted); 3] = [
    ("everything", Wanted::Everything),
    ("completions", Wanted::Completions),
    ("leases", Wanted::Leases),
];

const fn lease(attempt: u32, change: LeaseChange) -> LeaseEvent {
    LeaseEvent { attempt, change, expires_at: NOW }
}

/// The word of an argument for what an event says of a lease.
pub(in crate::conform) fn lease_word(lease: Option<LeaseEvent>) -> &'static str {
    LEASES.iter().find(|(_, known)| *known == lease).map_or("none", |(word, _)| word)
}

impl Given<'_> {
    /// The event of an execution that a step names.
    pub(super) fn event_key(&self, name: &str) -> Built<EventKey> {
        Ok(EventKey {
            execution: self.names.execution(named(name)?),
            incarnation: self.number("incarnation", 0)?,
            lease: self.choice("lease", &LEASES)?,
        })
    }

    fn event(&self, name: &str) -> Built<NewEvent> {
        let EventKey { execution, incarnation, lease } = self.event_key(name)?;
        let completed = EventKind::Completed { outcome: self.choice("outcome", &OUTCOMES)? };
        let kind = lease.map_or(completed, EventKind::Lease);
        Ok(NewEvent { execution, flow: self.flow()?.id, incarnation, kind, occurred_at: NOW })
    }

    fn stream(&self) -> Built<&str> {
        named(self.optional("stream")?.unwrap_or("own"))
    }

    fn own_partition(&self) -> std::ops::Range<u16> {
        let partition = self.names.partition.0;
        partition..partition + 1
    }

    fn position(&self, argument: &str, default: u64) -> Built<Position> {
        Ok(self.names.position(self.number(argument, default)?))
    }

    fn event_positions(&self) -> Built<Vec<EventPosition>> {
        let first = self.position("position", 1)?;
        let rows = self.list("rows")?.iter().zip(first.0..);
        rows.map(|(name, position)| {
            let key = self.event_key(name)?;
            if !name.starts_with(NOWHERE) && !self.seen.events().contains(&key) {
                return Err(format!("the session has not locked the event of `{name}`"));
            }
            Ok(EventPosition { key, position: Position(position) })
        })
        .collect()
    }

    fn head(&self) -> Built<StreamHead> {
        let stream = self.stream()?;
        if !stream.starts_with(NOWHERE) && self.seen.head().is_none() {
            return Err("the session has not locked the head of its stream".to_owned());
        }
        Ok(StreamHead {
            stream: self.names.stream(stream),
            last: self.position("position", 1)?,
            horizon: self.position("horizon", 0)?,
            ..self.names.first_head()
        })
    }

    fn subscription(&self) -> Built<Subscription> {
        Ok(Subscription {
            name: self.names.consumer(self.name("name")?),
            timeline: self.names.first_head().timeline,
            position: self.position("position", 0)?,
        })
    }

    fn moved_subscription(&self) -> Built<Subscription> {
        let row = self.subscription()?;
        let name = self.name("name")?;
        if !name.starts_with(NOWHERE) && self.seen.subscription(&row.name).is_none() {
            return Err(format!("the session has not locked the cursor of `{name}`"));
        }
        Ok(row)
    }
}
