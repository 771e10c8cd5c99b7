//! The dependency reconciler: terminal executions that are not propagated, and decided groups whose
//! downstream is still blocked. Looks at rows, never at events.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cascade::visit::Visitor;
use crate::environment::Environment;
use crate::error::EngineError;
use crate::mutants::mutated;
use crate::reconcile::Report;
use crate::storage::{
    Consistency, FeedFilter, FeedQuery, Page, Position, Scope, Snapshot, Storage, StreamId,
    UpstreamScan,
};
use crate::time::Timestamp;

/// One tick over everything that ended at least `stale` ago on the storage's clock; zero compares
/// no times. Follows what its own hops write.
///
/// Errors: of its scans; rows that fail are counted and found again by the next tick.
pub(crate) async fn tick<S: Storage, E: Environment>(
    visitor: Visitor<'_, S, E>,
    scope: &Scope,
    stale: Duration,
) -> Result<Report, EngineError> {
    let finished_by = if stale.is_zero() {
        None
    } else {
        let mut reader = visitor.pass.storage.snapshot(Consistency::Statement).await?;
        let now = reader.read_clock().await?;
        let now = if mutated!(P44) { visitor.pass.environment.wall_clock() } else { now };
        Some(now - stale)
    };
    let mut report = match mutated!(P45) {
        true => by_events(&visitor, scope, finished_by).await?,
        false => visitor.advance(scope, finished_by).await?,
    };
    report += visitor.repair(scope).await?;
    Ok(report)
}

/// A planted bug: what has no event is not looked at.
async fn by_events<S: Storage, E: Environment>(
    visitor: &Visitor<'_, S, E>,
    scope: &Scope,
    finished_by: Option<Timestamp>,
) -> Result<Report, EngineError> {
    let (stream, after, limit) = (StreamId::EVENTS, Position(0), u32::MAX);
    let page = Page { scope: scope.clone(), after: None, limit };
    let query = FeedQuery { stream, filter: FeedFilter::default(), after, limit };
    let mut reader = visitor.pass.storage.snapshot(Consistency::Statement).await?;
    let found = reader.scan_upstreams(&UpstreamScan { page, finished_by }).await?;
    let told = reader.read_feed(&query).await?.events;
    drop(reader);
    let mut report = Report::default();
    for id in found {
        if told.iter().any(|told| told.event.event.execution == id) {
            report += visitor.visit(BTreeSet::from([id])).await;
        }
    }
    Ok(report)
}
