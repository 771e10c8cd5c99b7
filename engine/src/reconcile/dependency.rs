//! The dependency reconciler: terminal executions that are not propagated, and decided groups whose
//! downstream is still blocked. Looks at rows, never at events.

use std::time::Duration;

use crate::cascade::visit::Visitor;
use crate::environment::Environment;
use crate::error::EngineError;
use crate::reconcile::Report;
use crate::storage::{Consistency, Scope, Snapshot, Storage};

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
        let mut reader = visitor.storage.snapshot(Consistency::Statement).await?;
        Some(reader.read_clock().await? - stale)
    };
    let mut report = visitor.advance(scope, finished_by).await?;
    report += visitor.repair(scope).await?;
    Ok(report)
}
