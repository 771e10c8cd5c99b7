//! The rows of the feed: heads of streams, cursors of consumers, and pages of events.

use super::{Columns, FromColumns, Read, execution_id};
use crate::identity::FlowId;
use crate::storage::codes::{self, StoredLease};
use crate::storage::{
    ConsumerName, Event, EventKey, FeedRows, LeaseEvent, NewEvent, NumberedEvent, Position, Result,
    StreamHead, StreamId, Subscription, Timeline, UnnumberedEvent,
};

impl FromColumns for StreamHead {
    const TABLE: &'static str = "stream_head";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        Ok(StreamHead {
            stream: row.code("stream", |value| value.try_into().ok().map(StreamId))?,
            timeline: Timeline(row.id("timeline")?),
            last: row.position("last_position")?,
            horizon: row.position("horizon")?,
        })
    }
}

impl FromColumns for Subscription {
    const TABLE: &'static str = "subscription";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        Ok(Subscription {
            name: ConsumerName(row.name("name")?),
            timeline: Timeline(row.id("timeline")?),
            position: row.position("position")?,
        })
    }
}

/// What an event says of a lease; `None` if nothing.
fn lease_event(row: &mut impl Columns) -> Result<Option<LeaseEvent>> {
    let stored = StoredLease {
        attempt: row.code("lease_attempt", Some)?,
        change: row.code("lease_change", Some)?,
        expires_at: row.code("lease_expires_at", Some)?,
    };
    let lease = codes::lease_event_of(stored);
    let columns = "lease_attempt, lease_change, lease_expires_at";
    row.whole(columns, lease, || format!("{stored:?}"))
}

impl FromColumns for Event {
    const TABLE: &'static str = "event";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let id = row.event_id()?;
        let execution = execution_id(row, "execution")?;
        let flow = FlowId(row.id("flow")?);
        let incarnation = row.u32("incarnation")?;
        let lease = lease_event(row)?;
        let outcome = row.optional_code("outcome", codes::outcome_of)?;
        let stored = || format!("{lease:?}, {outcome:?}");
        let kind = row.whole("lease_change, outcome", codes::event_of(lease, outcome), stored)?;
        let occurred_at = row.timestamp("occurred_at")?;
        let event = NewEvent { execution, flow, incarnation, kind, occurred_at };
        let namespace = row.name("namespace")?;
        let instance_tag = row.text("instance_tag")?;
        Ok(Event { id, event, namespace, instance_tag })
    }
}

impl FromColumns for UnnumberedEvent {
    const TABLE: &'static str = "event";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let id = row.event_id()?;
        let execution = execution_id(row, "execution")?;
        let (incarnation, lease) = (row.u32("incarnation")?, lease_event(row)?);
        Ok(UnnumberedEvent { id, key: EventKey { execution, incarnation, lease } })
    }
}

/// The columns of an event in a row of the feed.
const EVENT_COLUMNS: [&str; 12] = [
    "id",
    "partition",
    "execution",
    "flow",
    "incarnation",
    "lease_attempt",
    "lease_change",
    "lease_expires_at",
    "outcome",
    "occurred_at",
    "namespace",
    "instance_tag",
];

/// A row of the feed: the head of its stream, and an event unless there is none.
pub(in crate::storage) type FeedRow = (StreamHead, Option<NumberedEvent>);

impl FromColumns for FeedRow {
    const TABLE: &'static str = "stream_head";

    fn from_columns(row: &mut impl Columns) -> Result<Self> {
        let head = StreamHead::from_columns(row)?;
        *row.table() = "event";
        let position =
            row.optional_code("position", |value| value.try_into().ok().map(Position))?;
        let Some(position) = position else {
            for column in EVENT_COLUMNS {
                row.integer(column)?;
            }
            return Ok((head, None));
        };
        Ok((head, Some(NumberedEvent { position, event: Event::from_columns(row)? })))
    }
}

/// The rows of one page of the feed.
pub(in crate::storage) fn feed_rows(rows: Vec<FeedRow>) -> FeedRows {
    let head = rows.first().map(|row| row.0);
    FeedRows { head, events: rows.into_iter().filter_map(|row| row.1).collect() }
}
