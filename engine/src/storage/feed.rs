//! The rows of the feed that cross the storage seam: events, where a stream stands, which of its
//! events it has yet to number, and how far its consumers have come. Plain data with no storage
//! behind it.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::identity::{ExecutionId, FlowId};
use crate::state::Outcome;
use crate::storage::{Execution, Scope};
use crate::time::Timestamp;

/// What became of a lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseChange {
    /// It was granted.
    Acquired,
    /// It was extended.
    Renewed,
    /// Its holder gave it back, and the execution goes on: it was released, snoozed, suspended, or
    /// had failed for another attempt.
    Released,
    /// The reaper ended it.
    Expired,
    /// A cancel ended it.
    Revoked,
}

/// What an event says of a lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct LeaseEvent {
    /// The attempt that it was granted for.
    pub attempt: u32,
    /// What became of it.
    pub change: LeaseChange,
    /// When it runs out, or would have run out, on the storage's clock.
    pub expires_at: Timestamp,
}

/// What happened to an execution. A lease ends before its execution does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum EventKind {
    /// Its lease began, goes on or ended. A report that ends the execution is told by that end
    /// alone.
    Lease(LeaseEvent),
    /// It ended.
    Completed {
        /// How.
        outcome: Outcome,
    },
}

/// What names an event: of an incarnation there is one completion event, and one event of each
/// change of a lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventKey {
    /// Whose event it is.
    pub execution: ExecutionId,
    /// In which incarnation.
    pub incarnation: u32,
    /// What it says of a lease; a completion event says nothing of one.
    pub lease: Option<LeaseEvent>,
}

/// Outbox row of something that happened, as inserted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NewEvent {
    /// Whose event it is.
    pub execution: ExecutionId,
    /// Its flow.
    pub flow: FlowId,
    /// Its incarnation.
    pub incarnation: u32,
    /// What happened.
    pub kind: EventKind,
    /// When it happened.
    pub occurred_at: Timestamp,
}

impl NewEvent {
    /// An event of the lease that this row holds; `None` if it holds none.
    pub fn of_lease(row: &Execution, change: LeaseChange, occurred_at: Timestamp) -> Option<Self> {
        let expires_at = row.lease?.expires_at;
        let lease = LeaseEvent { attempt: row.attempt, change, expires_at };
        Some(Self {
            execution: row.id,
            flow: row.flow,
            incarnation: row.incarnation,
            kind: EventKind::Lease(lease),
            occurred_at,
        })
    }

    /// What names it.
    pub fn key(&self) -> EventKey {
        let Self { execution, incarnation, .. } = *self;
        EventKey { execution, incarnation, lease: self.lease() }
    }

    /// What it says of a lease.
    pub fn lease(&self) -> Option<LeaseEvent> {
        match self.kind {
            EventKind::Lease(lease) => Some(lease),
            EventKind::Completed { .. } => None,
        }
    }

    /// How the execution ended, if it did.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.kind {
            EventKind::Lease(_) => None,
            EventKind::Completed { outcome } => Some(outcome),
        }
    }

    /// The order in which the events of one call are numbered.
    pub fn order(&self) -> (ExecutionId, u32, EventKind) {
        (self.execution, self.incarnation, self.kind)
    }
}

/// Number of an event; grows with insertion, not with commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId(pub u64);

/// Outbox row of something that happened, with the labels of its execution.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Event {
    /// Its number.
    pub id: EventId,
    /// What was inserted.
    pub event: NewEvent,
    /// Tenant label.
    pub namespace: Arc<str>,
    /// Deployment label.
    pub instance_tag: Option<Arc<str>>,
}

/// A stream of events. A database has one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId(pub u32);

impl StreamId {
    /// The stream of all events of a database.
    pub const EVENTS: StreamId = StreamId(0);
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

/// Which kinds of events are wanted.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Ends of executions.
    #[default]
    Completions,
    /// What becomes of leases.
    Leases,
    /// Both, in one order.
    Everything,
}

impl Wanted {
    /// Every choice.
    pub const ALL: [Wanted; 3] = [Wanted::Completions, Wanted::Leases, Wanted::Everything];

    /// True if events of that kind are wanted.
    pub fn includes(self, kind: &EventKind) -> bool {
        self.leases().is_none_or(|leases| leases == matches!(kind, EventKind::Lease(_)))
    }

    /// Whether lease events alone are wanted, or none of them; `None` if it does not matter.
    pub fn leases(self) -> Option<bool> {
        match self {
            Wanted::Completions => Some(false),
            Wanted::Leases => Some(true),
            Wanted::Everything => None,
        }
    }
}

/// Which events of the feed are wanted: by default every completion event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FeedFilter {
    /// Of which flows.
    pub scope: Scope,
    /// Of which kinds.
    pub wanted: Wanted,
}

impl From<Scope> for FeedFilter {
    /// Completion events of these flows.
    fn from(scope: Scope) -> Self {
        Self { scope, wanted: Wanted::default() }
    }
}

impl From<&Scope> for FeedFilter {
    /// Completion events of these flows.
    fn from(scope: &Scope) -> Self {
        scope.clone().into()
    }
}

impl From<Wanted> for FeedFilter {
    /// These kinds of events, of every flow.
    fn from(wanted: Wanted) -> Self {
        Self { scope: Scope::default(), wanted }
    }
}

/// A page of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedQuery {
    /// Which stream.
    pub stream: StreamId,
    /// Which of its events; applied before the limit.
    pub filter: FeedFilter,
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
