//! The drain of sibling requests: cancels the upstreams that decided joins no longer need. Level
//! triggered: a request stays until none of its upstreams can still be asked for.

use std::collections::BTreeMap;

use crate::cascade::siblings::{DropRequests, SiblingDrain};
use crate::environment::{Environment, Notice};
use crate::error::EngineError;
use crate::identity::{ExecutionId, FlowKey};
use crate::mutants::mutated;
use crate::reconcile::Report;
use crate::storage::{Consistency, Page, Scope, SiblingRequest, Snapshot, Storage};
use crate::transact::{RetryBudget, transact};

/// Requests of one page.
const PAGE_ROWS: u32 = 100;

/// One tick over the requests of the scope, in the order of their groups; those of one flow on a
/// page are served together, `batch` members a transaction.
///
/// Errors: of the scan; flows that fail are counted and found again by the next tick.
pub(crate) async fn tick<S: Storage, E: Environment>(
    storage: &S,
    environment: &E,
    budget: &RetryBudget,
    scope: &Scope,
    batch: u32,
) -> Result<Report, EngineError> {
    let mut report = Report::default();
    let mut after: Option<ExecutionId> = None;
    loop {
        let page = Page { scope: scope.clone(), after, limit: PAGE_ROWS };
        let found = {
            let mut reader = storage.snapshot(Consistency::Statement).await?;
            reader.scan_sibling_requests(&page).await?
        };
        report.scanned += found.len() as u64;
        after = found.last().map(|last| last.group);
        let full = found.len() == PAGE_ROWS as usize;
        let mut flows: BTreeMap<FlowKey, Vec<SiblingRequest>> = BTreeMap::new();
        for request in found {
            let flow = FlowKey { partition: request.group.partition, id: request.flow };
            flows.entry(flow).or_default().push(request);
        }
        for (flow, requests) in flows {
            let batch = batch as usize;
            let drain = SiblingDrain { flow, requests, batch };
            if serve(storage, environment, budget, &drain, &mut report).await.is_err() {
                report.errors += 1;
            }
        }
        if !full {
            return Ok(report);
        }
    }
}

async fn serve<S: Storage, E: Environment>(
    storage: &S,
    environment: &E,
    budget: &RetryBudget,
    drain: &SiblingDrain,
    report: &mut Report,
) -> Result<(), EngineError> {
    if mutated!(P29) {
        let SiblingDrain { flow, requests, .. } = drain;
        let first = DropRequests { flow: *flow, requests: requests.clone() };
        transact(storage, environment, budget, &first).await?;
    }
    loop {
        let drained = transact(storage, environment, budget, drain).await?;
        let changed = drained.cancelled.len() as u64 + drained.served as u64;
        report.reconciled += changed;
        report.noop += u64::from(changed == 0);
        if !drained.cancelled.is_empty() {
            environment.notify(Notice { partition: drain.flow.partition });
        }
        // A full batch that cancelled nothing has met others at work: they, or another tick, go on.
        if !drained.more || drained.cancelled.is_empty() {
            return Ok(());
        }
    }
}
