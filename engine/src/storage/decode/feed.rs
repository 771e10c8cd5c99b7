//! The rows of the feed: heads of streams, cursors of consumers, and pages of events.

use super::{Columns, FromColumns, Read};
use crate::storage::{
    ConsumerName, Event, FeedRows, NumberedEvent, Position, Result, StreamHead, StreamId,
    Subscription, Timeline,
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

/// The columns of an event in a row of the feed.
const EVENT_COLUMNS: [&str; 9] = [
    "id",
    "partition",
    "execution",
    "flow",
    "incarnation",
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
        *row.table() = "completion_event";
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
