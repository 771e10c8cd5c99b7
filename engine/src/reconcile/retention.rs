//! Retention: takes away events and flows that are over for longer than they are kept. Events go
//! first, from the oldest on, and the horizon of their stream moves with them, so that no cursor
//! meets a gap unawares; a flow goes as a whole, once none of its events is left. Never touches
//! what belongs to a flow that is not over.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::environment::Environment;
use crate::error::{EngineError, missing_group};
use crate::feed;
use crate::identity::{ExecutionId, FlowKey};
use crate::mutants::mutated;
use crate::operations::submit::INSERT_ROWS_MAX;
use crate::reconcile::summary::missing_summary;
use crate::reconcile::{Pass, Report, Visited};
use crate::replay::Standing;
use crate::storage::{
    Consistency, EndedFlow, EndedScan, EventKey, FeedFilter, FlowPage, NumberedEvent, Position,
    Result, Scope, SiblingRequest, Snapshot, Storage, StreamHead, StreamId, Summary, Transaction,
    Wanted,
};
use crate::time::Timestamp;
use crate::transact::{Body, Run, Verdict, transact};

/// Flows of one page.
const PAGE_ROWS: u32 = 100;

/// The transaction that takes a run of events away.
struct PruneEvents {
    /// Where the horizon was when they were chosen: all between it and them are among them.
    from: Position,
    events: Vec<EventKey>,
    /// The position of the last of them.
    to: Position,
}

impl Body for PruneEvents {
    /// False if somebody else has moved the horizon since, or the events are not as they were.
    type Out = bool;

    async fn run<T: Transaction>(&self, transaction: &mut T, _run: Run) -> Result<Verdict<bool>> {
        let head = transaction.lock_stream_head(&StreamId::EVENTS).await?;
        let head = head.ok_or_else(feed::missing_head)?;
        if head.horizon != self.from {
            return Ok(Verdict::Rollback(false));
        }
        // Places that were read may have been lost since with the tail of a log: events that have
        // none any more get theirs later, and the horizon must not stand in front of them.
        let events = if mutated!(S53) { &self.events[1..] } else { &self.events };
        if transaction.delete_events(events).await? != events.len() as u64 {
            return Ok(Verdict::Rollback(false));
        }
        if !mutated!(S50) {
            transaction.write_stream_head(&StreamHead { horizon: self.to, ..head }).await?;
        }
        Ok(Verdict::Commit(true))
    }
}

/// The transaction that takes a flow away, with everything that belongs to it.
struct PruneFlow {
    flow: FlowKey,
    /// It had ended by then, or it stays.
    ended_by: Timestamp,
}

/// What became of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pruned {
    /// It is gone.
    Gone,
    /// It stays, or was gone before.
    Nothing,
}

impl Body for PruneFlow {
    type Out = Pruned;

    /// Whoever opens a flow again locks it first, and takes the mark that it is over back: with
    /// both rows locked it stays over.
    async fn run<T: Transaction>(&self, transaction: &mut T, _run: Run) -> Result<Verdict<Pruned>> {
        let flow = self.flow;
        if transaction.lock_flow(&flow).await?.is_none() {
            return Ok(Verdict::Rollback(Pruned::Nothing));
        }
        let summary = transaction.lock_summaries(&[flow]).await?;
        let summary = summary.first().ok_or_else(|| missing_summary(flow))?;
        if !self.is_over(summary) && !mutated!(P53) {
            return Ok(Verdict::Rollback(Pruned::Nothing));
        }
        let members = transaction.read_standings(&flow).await?;
        let over = |one: &ExecutionId| !mutated!(P53) || ended(&members, *one);
        let ids: Vec<ExecutionId> = members.iter().map(|one| one.id).filter(over).collect();
        if !mutated!(S51) && !mutated!(P53) && has_events(transaction, &ids).await? {
            return Ok(Verdict::Rollback(Pruned::Nothing));
        }
        lock_members(transaction, &ids).await?;
        for chunk in ids.chunks(INSERT_ROWS_MAX) {
            self.take_members(transaction, chunk).await?;
        }
        if !mutated!(P53) {
            self.take_flow(transaction).await?;
        }
        Ok(Verdict::Commit(Pruned::Gone))
    }
}

impl PruneFlow {
    fn is_over(&self, summary: &Summary) -> bool {
        summary.ended_at.is_some_and(|ended_at| ended_at <= self.ended_by)
    }

    /// Takes locked executions away, with what leads into them and what they have been through.
    async fn take_members<T: Transaction>(
        &self,
        transaction: &mut T,
        ids: &[ExecutionId],
    ) -> Result<()> {
        let request = |group: &ExecutionId| SiblingRequest { group: *group, flow: self.flow.id };
        let requests: Vec<SiblingRequest> = ids.iter().map(request).collect();
        transaction.delete_edges(ids).await?;
        transaction.delete_groups(ids).await?;
        transaction.delete_sibling_requests(&requests).await?;
        transaction.delete_attempts(ids).await?;
        transaction.delete_executions(ids).await?;
        Ok(())
    }

    /// Takes away what stands beside a flow, and the flow.
    async fn take_flow<T: Transaction>(&self, transaction: &mut T) -> Result<()> {
        transaction.delete_requests(&self.flow).await?;
        transaction.delete_cancel_backlog(&[self.flow]).await?;
        transaction.delete_flow_changes(&self.flow).await?;
        transaction.delete_submission(&self.flow).await?;
        transaction.delete_summary(&self.flow).await?;
        transaction.delete_flow(&self.flow).await?;
        Ok(())
    }
}

/// Locks every group of these executions by id, then the executions. One without its group is
/// damaged, and what may still lead into it has no lock: its flow stays.
async fn lock_members<T: Transaction>(transaction: &mut T, ids: &[ExecutionId]) -> Result<()> {
    let mut groups = BTreeSet::new();
    for chunk in ids.chunks(INSERT_ROWS_MAX) {
        let locked = transaction.lock_groups(chunk).await?;
        groups.extend(locked.into_iter().map(|group| group.downstream));
    }
    for chunk in ids.chunks(INSERT_ROWS_MAX) {
        let locked = transaction.lock_executions(chunk).await?;
        let alone = locked.iter().find(|row| row.has_in && !groups.contains(&row.id));
        if let Some(alone) = alone {
            return Err(missing_group(alone.id));
        }
    }
    Ok(())
}

/// True if an event of these executions is left: somebody may still have to see it.
async fn has_events<T: Transaction>(transaction: &mut T, ids: &[ExecutionId]) -> Result<bool> {
    for chunk in ids.chunks(INSERT_ROWS_MAX) {
        if transaction.count_events(chunk).await? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The planted bug that takes whatever has ended asks each member.
fn ended(members: &[Standing], id: ExecutionId) -> bool {
    members.iter().any(|one| one.id == id && one.state.is_terminal())
}

/// One tick: events from the oldest on, then flows in the order in which they ended, all of which
/// are over for at least `keep` on the storage's clock. A flow of which an event is left waits.
///
/// Events are one stream for all flows: a scope that names a namespace or an instance tag leaves
/// them alone, whatever its partitions. Errors: of the scans; flows that fail are counted and found
/// again by the next tick.
pub(crate) async fn tick<S: Storage, E: Environment>(
    pass: Pass<'_, S, E>,
    scope: &Scope,
    keep: Duration,
) -> Result<Report, EngineError> {
    let ended_by = {
        let mut reader = pass.storage.snapshot(Consistency::Statement).await?;
        reader.read_clock().await? - keep
    };
    let mut report = Report::default();
    if scope.namespace.is_none() && scope.instance_tag.is_none() {
        report += prune_events(pass, ended_by).await?;
    }
    report += prune_flows(pass, scope, ended_by).await?;
    if mutated!(P53) {
        report += prune_what_has_ended(pass, scope, ended_by).await?;
    }
    Ok(report)
}

/// Takes events away page by page, up to the first that is younger.
async fn prune_events<S: Storage, E: Environment>(
    pass: Pass<'_, S, E>,
    occurred_by: Timestamp,
) -> Result<Report, EngineError> {
    let everything = FeedFilter { wanted: Wanted::Everything, ..FeedFilter::default() };
    let mut report = Report::default();
    let mut from = feed::head(pass.storage).await?.horizon;
    loop {
        let (_, rows) = feed::read(pass.storage, from, &everything, feed::PAGE_ROWS_MAX).await?;
        let full = rows.len() >= feed::PAGE_ROWS_MAX as usize;
        let old = |row: &&NumberedEvent| row.event.event.occurred_at <= occurred_by;
        let old: Vec<_> = rows.iter().take_while(old).collect();
        let Some(last) = old.last() else { return Ok(report) };
        report.scanned += old.len() as u64;
        let events = old.iter().map(|row| row.event.event.key()).collect();
        let body = PruneEvents { from, events, to: last.position };
        let Pass { storage, environment, budget, .. } = pass;
        if !transact(storage, environment, budget, &body).await? {
            report.noop += old.len() as u64;
            return Ok(report);
        }
        report.reconciled += old.len() as u64;
        if !full || old.len() < rows.len() {
            return Ok(report);
        }
        from = body.to;
    }
}

/// Takes flows away page by page, each in a transaction of its own.
async fn prune_flows<S: Storage, E: Environment>(
    pass: Pass<'_, S, E>,
    scope: &Scope,
    ended_by: Timestamp,
) -> Result<Report, EngineError> {
    let mut report = Report::default();
    let mut after: Option<EndedFlow> = None;
    loop {
        let scan = EndedScan { scope: scope.clone(), ended_by, after, limit: PAGE_ROWS };
        let found = {
            let mut reader = pass.storage.snapshot(Consistency::Statement).await?;
            reader.scan_ended_flows(&scan).await?
        };
        report.scanned += found.len() as u64;
        after = found.last().copied();
        for EndedFlow { flow, .. } in &found {
            prune(pass, *flow, ended_by, &mut report).await;
        }
        if found.len() < PAGE_ROWS as usize {
            return Ok(report);
        }
    }
}

async fn prune<S: Storage, E: Environment>(
    pass: Pass<'_, S, E>,
    flow: FlowKey,
    ended_by: Timestamp,
    report: &mut Report,
) {
    let visited = Visited::Retention(flow);
    if !pass.is_due(visited) {
        report.errors += 1;
        return;
    }
    let Pass { storage, environment, budget, .. } = pass;
    let pruned = transact(storage, environment, budget, &PruneFlow { flow, ended_by }).await;
    pass.visited(visited, &pruned);
    match pruned {
        Ok(Pruned::Gone) => report.reconciled += 1,
        Ok(Pruned::Nothing) => report.noop += 1,
        Err(_) => report.errors += 1,
    }
}

/// The planted bug that takes what has ended of flows that have not.
async fn prune_what_has_ended<S: Storage, E: Environment>(
    pass: Pass<'_, S, E>,
    scope: &Scope,
    ended_by: Timestamp,
) -> Result<Report, EngineError> {
    let page = FlowPage { scope: scope.clone(), after: None, limit: PAGE_ROWS };
    let moving = {
        let mut reader = pass.storage.snapshot(Consistency::Statement).await?;
        reader.scan_flow_changes(&page).await?
    };
    let mut report = Report::default();
    for flow in moving {
        prune(pass, flow, ended_by, &mut report).await;
    }
    Ok(report)
}
