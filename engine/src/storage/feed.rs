//! The rows of the feed that cross the storage seam: where a stream stands, which events it has yet
//! to number, and how far its consumers have come. Plain data with no storage behind it.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::identity::ExecutionId;
use crate::storage::{Event, EventId, Scope};

/// A stream of completion events. A database has one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId(pub u32);

impl StreamId {
    /// The stream of all completion events of a database.
    pub const COMPLETIONS: StreamId = StreamId(0);
}

/// The place of an event in its stream, from 1 on; 0 stands before all of them.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Position(pub u64);

/// Random bits of a database, drawn when its schema is made: a copy that went its own way keeps
/// them, a database that was made anew has others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timeline(pub Uuid);

/// Where a stream stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamHead {
    /// Which stream.
    pub stream: StreamId,
    /// Of which database.
    pub timeline: Timeline,
    /// The highest position that was given out.
    pub last: Position,
    /// Every event above this position is still there.
    pub horizon: Position,
}

/// Which events to number next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnnumberedQuery {
    /// Of these partitions.
    pub partitions: Range<u16>,
    /// At most so many.
    pub limit: u32,
}

/// What names a completion event: an execution and its incarnation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventKey {
    /// Whose end it records.
    pub execution: ExecutionId,
    /// In which incarnation.
    pub incarnation: u32,
}

/// A locked event that has no position.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UnnumberedEvent {
    /// Its number, which grows with insertion.
    pub id: EventId,
    /// Which event.
    pub key: EventKey,
}

/// The position that an event is given.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventPosition {
    /// Which event.
    pub key: EventKey,
    /// Its place in the stream.
    pub position: Position,
}

/// A page of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedQuery {
    /// Which stream.
    pub stream: StreamId,
    /// Which of its events; applied before the limit.
    pub scope: Scope,
    /// Exclusive cursor.
    pub after: Position,
    /// At most so many.
    pub limit: u32,
}

/// An event with its place in the stream.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NumberedEvent {
    /// Its place.
    pub position: Position,
    /// What happened, with its labels.
    pub event: Event,
}

/// A page of a stream beside where the stream stands, as one statement sees them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedRows {
    /// Where the stream stands; nothing if there is no such stream.
    pub head: Option<StreamHead>,
    /// Its events, by position.
    pub events: Vec<NumberedEvent>,
}

/// Names a consumer of the feed whose cursor is stored.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConsumerName(pub Arc<str>);

/// How far a consumer has come.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Subscription {
    /// Who.
    pub name: ConsumerName,
    /// The database that its position belongs to.
    pub timeline: Timeline,
    /// It has acknowledged everything up to here.
    pub position: Position,
}
