//! The verbs of the feed on Postgres, one function each. Never decides anything.

use super::link::Link;
use super::parameters::Parameters;
use super::transaction::inserted;
use crate::storage::decode;
use crate::storage::rows::in_order;
use crate::storage::{
    ConsumerName, EventPosition, FeedQuery, FeedRows, Inserted, Position, Result, StreamHead,
    StreamId, Subscription, UnnumberedEvent, UnnumberedQuery, Verb,
};

/// A position as stored; one that no event reaches stands behind all of them.
fn stored(position: Position) -> i64 {
    i64::try_from(position.0).unwrap_or(i64::MAX)
}

fn of_subscription(row: &Subscription) -> Parameters {
    Parameters::new().value(&*row.name.0).value(row.timeline.0).value(stored(row.position))
}

pub(super) async fn lock_stream_head(
    link: &mut Link,
    stream: &StreamId,
) -> Result<Option<StreamHead>> {
    link.read_one(Verb::LockStreamHead, Parameters::new().value(i64::from(stream.0))).await
}

pub(super) async fn lock_unnumbered_events(
    link: &mut Link,
    query: &UnnumberedQuery,
) -> Result<Vec<UnnumberedEvent>> {
    let parameters = Parameters::new()
        .value(i32::from(query.partitions.start))
        .value(i32::from(query.partitions.end))
        .value(i64::from(query.limit));
    link.read(Verb::LockUnnumberedEvents, parameters).await
}

pub(super) async fn write_positions(link: &mut Link, rows: &[EventPosition]) -> Result<u64> {
    let rows = in_order(rows, |row| row.key);
    let parameters = Parameters::new()
        .events(rows.iter().map(|row| row.key))
        .column(rows.iter().map(|row| stored(row.position)));
    link.execute(Verb::WritePositions, parameters).await
}

pub(super) async fn write_stream_head(link: &mut Link, row: &StreamHead) -> Result<u64> {
    let parameters = Parameters::new()
        .value(i64::from(row.stream.0))
        .value(stored(row.last))
        .value(stored(row.horizon));
    link.execute(Verb::WriteStreamHead, parameters).await
}

pub(super) async fn insert_subscription(link: &mut Link, row: &Subscription) -> Result<Inserted> {
    link.execute(Verb::InsertSubscription, of_subscription(row)).await.map(inserted)
}

pub(super) async fn lock_subscription(
    link: &mut Link,
    name: &ConsumerName,
) -> Result<Option<Subscription>> {
    link.read_one(Verb::LockSubscription, Parameters::new().value(&*name.0)).await
}

pub(super) async fn write_subscription(link: &mut Link, row: &Subscription) -> Result<u64> {
    link.execute(Verb::WriteSubscription, of_subscription(row)).await
}

pub(super) async fn read_feed(link: &mut Link, query: &FeedQuery) -> Result<FeedRows> {
    let scope = &query.filter.scope;
    let parameters = Parameters::new()
        .value(i64::from(query.stream.0))
        .value(stored(query.after))
        .value(i32::from(scope.partitions.start))
        .value(i32::from(scope.partitions.end))
        .value(scope.namespace.as_deref())
        .value(scope.instance_tag.as_deref())
        .value(query.filter.wanted.leases())
        .value(i64::from(query.limit));
    link.read(Verb::ReadFeed, parameters).await.map(decode::feed_rows)
}

pub(super) async fn read_subscription(
    link: &mut Link,
    name: &ConsumerName,
) -> Result<Option<Subscription>> {
    link.read_one(Verb::ReadSubscription, Parameters::new().value(&*name.0)).await
}
