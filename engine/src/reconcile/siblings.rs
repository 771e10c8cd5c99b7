//! The drain of sibling requests: cancels the upstreams that decided joins no longer need. Level
//! triggered: a request stays until none of its upstreams can still be asked for.

use std::collections::BTreeMap;

use crate::cascade::siblings::{DropRequests, SiblingDrain};
use crate::environment::{Environment, Notice};
use crate::error::EngineError;
use crate::identity::{ExecutionId, FlowKey};
use crate::mutants::mutated;
use crate::reconcile::{Pass, Report, Visited};
use crate::storage::{Consistency, Page, Scope, SiblingRequest, Snapshot, Storage};
use crate::transact::transact;

/// Requests of one page.
const PAGE_ROWS: u32 = 100;

/// One tick over the requests of the scope, in the order of their groups; those of one flow on a
/// page are served together, `batch` members a transaction.
///
/// Errors: of the scan; flows that fail are counted and found again by the next tick.
pub(crate) async fn tick<S: Storage, E: Environment>(
    pass: Pass<'_, S, E>,
    scope: &Scope,
    batch: u32,
) -> Result<Report, EngineError> {
    let mut report = Report::default();
    let mut after: Option<ExecutionId> = None;
    loop {
        let page = Page { scope: scope.clone(), after, limit: PAGE_ROWS };
        let found = {
            let mut reader = pass.storage.snapshot(Consistency::Statement).await?;
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
            let except = pass.quarantine();
            let mut drain = SiblingDrain { flow, requests, batch, except };
            let visited = Visited::Siblings(flow);
            if !pass.is_due(visited) {
                report.errors += 1;
                continue;
            }
            let served = serve(pass, &mut drain, &mut report).await;
            pass.visited(visited, &served);
            report.errors += u64::from(served.is_err());
        }
        if !full {
            return Ok(report);
        }
    }
}

async fn serve<S: Storage, E: Environment>(
    pass: Pass<'_, S, E>,
    drain: &mut SiblingDrain,
    report: &mut Report,
) -> Result<(), EngineError> {
    let Pass { storage, environment, budget, .. } = pass;
    if mutated!(P29) {
        let SiblingDrain { flow, requests, .. } = drain;
        let first = DropRequests { flow: *flow, requests: requests.clone() };
        transact(storage, environment, budget, &first).await?;
    }
    loop {
        let drained = pass.around_unreadable(drain).await?;
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
