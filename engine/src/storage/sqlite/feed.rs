//! The verbs of the feed on SQLite, one function each. Positions are the numbers of events, which
//! one writer gives out in the order in which it commits. Never decides anything.

use rusqlite::{named_params, params};

use super::columns::query;
use super::pool::Session;
use super::sql;
use super::transaction::change;
use crate::storage::codes;
use crate::storage::decode;
use crate::storage::rows::in_order;
use crate::storage::{
    ConsumerName, EventPosition, FeedQuery, FeedRows, Inserted, Position, Result, StreamHead,
    StreamId, Subscription, UnnumberedEvent, UnnumberedQuery,
};

/// A position as stored; one that no event reaches stands behind all of them.
fn stored(position: Position) -> i64 {
    i64::try_from(position.0).unwrap_or(i64::MAX)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "every verb has this form")]
pub(super) fn lock_stream_head(
    session: Session<'_>,
    stream: &StreamId,
) -> Result<Option<StreamHead>> {
    let mut statement = session.prepare(sql!(lock_stream_head))?;
    Ok(query(&mut statement, params![stream.0])?.into_iter().next())
}

pub(super) fn lock_unnumbered_events(
    session: Session<'_>,
    unnumbered: &UnnumberedQuery,
) -> Result<Vec<UnnumberedEvent>> {
    let mut statement = session.prepare(sql!(lock_unnumbered_events))?;
    let partitions = &unnumbered.partitions;
    query(&mut statement, params![partitions.start, partitions.end, unnumbered.limit])
}

pub(super) fn write_positions(session: Session<'_>, rows: &[EventPosition]) -> Result<u64> {
    let mut changed = 0;
    for row in in_order(rows, |row| row.key) {
        let execution = row.key.execution;
        let lease = codes::lease_event(row.key.lease);
        let parameters = params![
            stored(row.position),
            execution.partition.0,
            execution.uuid.as_bytes(),
            row.key.incarnation,
            lease.attempt,
            lease.change,
            lease.expires_at,
        ];
        changed += u64::from(change(session, sql!(write_positions), parameters)? == 1);
    }
    Ok(changed)
}

pub(super) fn write_stream_head(session: Session<'_>, row: &StreamHead) -> Result<u64> {
    let parameters = params![stored(row.last), stored(row.horizon), row.stream.0];
    Ok(u64::from(change(session, sql!(write_stream_head), parameters)? == 1))
}

pub(super) fn insert_subscription(session: Session<'_>, row: &Subscription) -> Result<Inserted> {
    let parameters = params![&*row.name.0, row.timeline.0.as_bytes(), stored(row.position)];
    let rows = change(session, sql!(insert_subscription), parameters)?;
    Ok(if rows == 1 { Inserted::New } else { Inserted::Exists })
}

pub(super) fn lock_subscription(
    session: Session<'_>,
    name: &ConsumerName,
) -> Result<Option<Subscription>> {
    let mut statement = session.prepare(sql!(lock_subscription))?;
    Ok(query(&mut statement, params![&*name.0])?.into_iter().next())
}

pub(super) fn write_subscription(session: Session<'_>, row: &Subscription) -> Result<u64> {
    let parameters = params![stored(row.position), &*row.name.0, row.timeline.0.as_bytes()];
    Ok(u64::from(change(session, sql!(write_subscription), parameters)? == 1))
}

pub(super) fn read_feed(session: Session<'_>, feed: &FeedQuery) -> Result<FeedRows> {
    let mut statement = session.prepare(sql!(read_feed))?;
    let scope = &feed.filter.scope;
    let parameters = named_params! {
        ":stream": feed.stream.0,
        ":after": stored(feed.after),
        ":partition_from": scope.partitions.start,
        ":partition_to": scope.partitions.end,
        ":namespace": scope.namespace.as_deref(),
        ":instance_tag": scope.instance_tag.as_deref(),
        ":leases": feed.filter.wanted.leases(),
        ":limit": feed.limit,
    };
    Ok(decode::feed_rows(query(&mut statement, parameters)?))
}

pub(super) fn read_subscription(
    session: Session<'_>,
    name: &ConsumerName,
) -> Result<Option<Subscription>> {
    let mut statement = session.prepare(sql!(read_subscription))?;
    Ok(query(&mut statement, params![&*name.0])?.into_iter().next())
}
