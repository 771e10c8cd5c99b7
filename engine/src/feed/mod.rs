//! The feed: every event at least once, in the order of its execution, across restarts and commits
//! out of id order. A hint for others; nothing of the engine itself reads it.
//!
//! Events get their place in the stream after they have committed ([`sequencer`]), so that a reader
//! who has come to a place has seen everything before it.

pub mod consumer;
pub mod cursor;
pub mod sequencer;
pub mod subscribe;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::error::EngineError;
use crate::identity::{ExecutionId, FlowId};
use crate::mutants::mutated;
use crate::storage::{
    Consistency, FeedQuery, FeedRows, NumberedEvent, Position, Snapshot, Storage, StorageError,
    StreamHead, StreamId, Timeline,
};
use crate::time::Timestamp;

pub use crate::storage::{EventKind, FeedFilter, LeaseChange, LeaseEvent, Wanted};
pub use consumer::Consumer;
pub use cursor::Cursor;
pub use subscribe::Subscriber;

/// Events of one page at most.
pub const PAGE_ROWS_MAX: u32 = 1_000;

/// How the feed is written, numbered and read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeedSettings {
    /// Whether a lease that is granted is an event; one more row a claimed execution.
    pub acquired: bool,
    /// Whether a lease that is extended is an event; one more row a renewal.
    pub renewed: bool,
    /// Events that one transaction of the sequencer numbers at most; at least 1.
    pub batch_rows: u32,
    /// Events that a subscriber reads at once; at most [`PAGE_ROWS_MAX`], at least 1.
    pub page_rows: u32,
    /// How long a subscriber that has seen everything waits before it looks again unasked.
    pub poll: Duration,
}

impl Default for FeedSettings {
    fn default() -> Self {
        Self {
            acquired: false,
            renewed: false,
            batch_rows: 1_000,
            page_rows: 200,
            poll: Duration::from_millis(500),
        }
    }
}

/// One event of the feed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FeedEvent {
    /// Right behind this event: who goes on from here gets what follows it.
    pub cursor: Cursor,
    /// Whose event it is.
    pub execution: ExecutionId,
    /// Its flow.
    pub flow: FlowId,
    /// Its incarnation.
    pub incarnation: u32,
    /// Tenant label.
    pub namespace: Arc<str>,
    /// Deployment label.
    pub instance_tag: Option<Arc<str>>,
    /// When it happened, on the storage's clock.
    pub occurred_at: Timestamp,
    /// What happened.
    pub what: EventKind,
}

/// A page of the feed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FeedPage {
    /// Its events, in the order of the stream.
    pub events: Vec<FeedEvent>,
    /// Where the next page begins. Beyond the last event if nothing else matches the filter yet.
    pub next_cursor: Cursor,
}

impl FeedEvent {
    fn of(timeline: Timeline, row: NumberedEvent) -> Self {
        let NumberedEvent { position, event } = row;
        Self {
            cursor: Cursor { timeline, position },
            execution: event.event.execution,
            flow: event.event.flow,
            incarnation: event.event.incarnation,
            namespace: event.namespace,
            instance_tag: event.instance_tag,
            occurred_at: event.event.occurred_at,
            what: event.event.kind,
        }
    }
}

/// One statement: the events above a position and the head of the stream.
pub(crate) async fn read<S: Storage>(
    storage: &S,
    after: Position,
    filter: &FeedFilter,
    limit: u32,
) -> Result<(StreamHead, Vec<NumberedEvent>), EngineError> {
    let limit = limit.min(PAGE_ROWS_MAX);
    let mut filter = filter.clone();
    if mutated!(S72) && filter.wanted == Wanted::Leases {
        filter.wanted = Wanted::Everything;
    }
    let query = FeedQuery { stream: StreamId::EVENTS, filter, after, limit };
    let mut reader = storage.snapshot(Consistency::Statement).await?;
    let FeedRows { head, events } = reader.read_feed(&query).await?;
    Ok((head.ok_or_else(missing_head)?, events))
}

/// Where the stream stands.
pub(crate) async fn head<S: Storage>(storage: &S) -> Result<StreamHead, EngineError> {
    Ok(read(storage, Position(0), &FeedFilter::default(), 0).await?.0)
}

/// A page of the feed.
///
/// Errors: `CursorLost` and `CursorExpired`.
pub(crate) async fn page<S: Storage>(
    storage: &S,
    cursor: Cursor,
    filter: &FeedFilter,
    limit: u32,
) -> Result<FeedPage, EngineError> {
    let (head, rows) = read(storage, cursor.position, filter, limit).await?;
    cursor.check(&head)?;
    let full = rows.len() >= limit.min(PAGE_ROWS_MAX) as usize;
    let last = rows.last().map_or(cursor.position, |row| row.position);
    // The same statement saw head and events: below the head nothing else matches.
    let position = if full { last } else { head.last.max(last) };
    Ok(FeedPage {
        events: rows.into_iter().map(|row| FeedEvent::of(head.timeline, row)).collect(),
        next_cursor: Cursor { position, ..cursor },
    })
}

pub(crate) fn missing_head() -> StorageError {
    StorageError::Corrupt("the stream of events has no head".into())
}
