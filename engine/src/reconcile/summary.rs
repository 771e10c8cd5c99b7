//! The projector: brings the summaries of flows up to date. Driven by change rows, which every
//! transaction that moves executions leaves; never by the numbers of anything, because a number is
//! drawn before its transaction commits. It alone marks a flow as over, in the summary.

use crate::environment::Environment;
use crate::error::EngineError;
use crate::identity::FlowKey;
use crate::mutants::mutated;
use crate::reconcile::{Pass, Report, Visited};
use crate::storage::{
    ChangeId, Consistency, CountQuery, FlowPage, Result, Scope, Snapshot, Storage, StorageError,
    Summary, Transaction,
};
use crate::summary::{Failures, FlowStatus, FlowSummary, Tally};
use crate::time::Timestamp;
use crate::transact::{Body, Run, Verdict, transact};

/// A flow, counted in the statements of one transaction.
struct Count {
    tally: Tally,
    status: FlowStatus,
}

/// Counts a flow. Each statement sees what had committed when it began.
async fn count<T: Transaction>(
    transaction: &mut T,
    flow: FlowKey,
    now: Option<Timestamp>,
) -> Result<Count> {
    let rows = transaction.count_executions(&CountQuery { flow, now }).await?;
    let tally = Tally::of(&rows);
    let unhandled = match tally.asks_for_failures() {
        true => transaction.unhandled_failure(&flow).await?,
        false => None,
    };
    let failures = if unhandled.is_some() { Failures::Unhandled } else { Failures::Handled };
    Ok(Count { tally, status: tally.status(failures) })
}

/// The transaction that counts a flow and leaves no trace.
pub(crate) struct CountFlow {
    pub(crate) flow: FlowKey,
}

impl Body for CountFlow {
    type Out = Option<(Tally, FlowStatus)>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        if transaction.read_flow(&self.flow).await?.is_none() {
            return Ok(Verdict::Rollback(None));
        }
        let now = transaction.clock().await?;
        let Count { tally, status } = count(transaction, self.flow, Some(now)).await?;
        Ok(Verdict::Rollback(Some((tally, status))))
    }
}

/// The transaction that projects one flow.
struct Project {
    flow: FlowKey,
}

/// What a projection came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Projected {
    /// It counted the flow and stored the summary.
    Stored,
    /// Another projector had taken the change rows, or the flow is gone.
    Nothing,
}

impl Body for Project {
    type Out = Projected;

    /// The lock keeps every other projector of the flow out. What had committed when the change
    /// rows were taken is in the next statement's count; what commits later has a change row left.
    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Projected>> {
        let flow = self.flow;
        let early = match mutated!(P54) {
            true => Some(count(transaction, flow, None).await?),
            false => None,
        };
        let locked = transaction.lock_summaries(&[flow]).await?;
        let Some(before) = locked.first().copied() else {
            return match transaction.read_flow(&flow).await? {
                Some(_) => Err(missing_summary(flow)),
                // Its time was over, and nothing of it is left.
                None => Ok(Verdict::Rollback(Projected::Nothing)),
            };
        };
        let changes = transaction.delete_flow_changes(&flow).await?;
        let Some(last) = changes.last().copied() else {
            return Ok(Verdict::Rollback(Projected::Nothing));
        };
        if mutated!(P63) && last <= before.last_change {
            return Ok(Verdict::Commit(Projected::Nothing));
        }
        let Count { tally, status } = match early {
            Some(count) => count,
            None => count(transaction, flow, None).await?,
        };
        let after = Summary {
            flow,
            counts: tally.counts,
            status,
            ended_at: tally.ended_at(),
            last_change: last.max(before.last_change),
        };
        transaction.write_summary(&after).await?;
        Ok(Verdict::Commit(Projected::Stored))
    }
}

/// A flow without its summary: the data was damaged.
pub(crate) fn missing_summary(flow: FlowKey) -> StorageError {
    StorageError::Corrupt(format!("flow {} has no summary", flow.id).into())
}

/// The summary that a flow starts with, which includes no change row.
pub(crate) fn first(flow: FlowKey, tally: &Tally) -> Summary {
    Summary {
        flow,
        counts: tally.counts,
        status: tally.status(Failures::Handled),
        ended_at: tally.ended_at(),
        last_change: ChangeId::default(),
    }
}

/// The summary without the mark that its flow is over, if it has it. The numbers are those of the
/// last projection; whoever re-opens a flow leaves a change row, so that the next one counts it.
pub(crate) fn reopened(row: &Summary) -> Option<Summary> {
    let marked = row.status.is_terminal() && !mutated!(S52);
    marked.then_some(Summary { status: FlowStatus::Open, ended_at: None, ..*row })
}

/// A stored summary in the published words.
pub(crate) fn shown(row: &Summary) -> FlowSummary {
    let tally = Tally { counts: row.counts, ..Tally::default() };
    FlowSummary {
        flow: row.flow.id,
        status: row.status,
        counts: tally.public(),
        total: row.counts.total(),
        ended_at: row.ended_at,
    }
}

/// One tick: pages of flows with change rows in key order, each flow in a transaction of its own,
/// so that one flow's trouble never stops its neighbours.
///
/// Errors: of the scan; flows that fail are counted and found again by the next tick.
pub(crate) async fn tick<S: Storage, E: Environment>(
    pass: Pass<'_, S, E>,
    scope: &Scope,
    page_rows: u32,
) -> Result<Report, EngineError> {
    let mut report = Report::default();
    let mut page = FlowPage { scope: scope.clone(), after: None, limit: page_rows };
    loop {
        let found = {
            let mut reader = pass.storage.snapshot(Consistency::Statement).await?;
            reader.scan_flow_changes(&page).await?
        };
        report.scanned += found.len() as u64;
        page.after = found.last().copied();
        for flow in &found {
            let visited = Visited::Summary(*flow);
            if !pass.is_due(visited) {
                report.errors += 1;
                continue;
            }
            let Pass { storage, environment, budget, .. } = pass;
            let done = transact(storage, environment, budget, &Project { flow: *flow }).await;
            pass.visited(visited, &done);
            match done {
                Ok(Projected::Stored) => report.reconciled += 1,
                Ok(Projected::Nothing) => report.noop += 1,
                Err(_) => report.errors += 1,
            }
        }
        if found.len() < page_rows as usize {
            return Ok(report);
        }
    }
}
