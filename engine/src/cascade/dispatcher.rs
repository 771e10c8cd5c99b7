//! The hot path: drives cascades as completions arrive. Keeps no state and trusts no event; an
//! event only says where to look.

use std::collections::BTreeSet;

use crate::cascade::visit::Visitor;
use crate::environment::Environment;
use crate::error::EngineError;
use crate::storage::{Consistency, EventId, Snapshot, Storage};

/// What a dispatched event led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DispatchOutcome {
    /// Nothing was left to do, or there is no such event.
    NoOp,
    /// So many edges were resolved and upstreams propagated.
    Advanced(u64),
}

/// Advances the execution that an event names.
///
/// Errors: of the read only; a hop that fails stays visible to the reconciler.
pub(crate) async fn dispatch<S: Storage, E: Environment>(
    visitor: Visitor<'_, S, E>,
    event: EventId,
) -> Result<DispatchOutcome, EngineError> {
    let row = {
        let mut reader = visitor.pass.storage.snapshot(Consistency::Statement).await?;
        reader.read_event(&event).await?
    };
    let Some(row) = row else { return Ok(DispatchOutcome::NoOp) };
    let report = visitor.visit(BTreeSet::from([row.event.execution])).await;
    Ok(match report.reconciled {
        0 => DispatchOutcome::NoOp,
        advanced => DispatchOutcome::Advanced(advanced),
    })
}
