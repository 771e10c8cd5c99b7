//! The drain of the cancel backlog: what a cancelled flow has left to cancel, batch by batch. Level
//! triggered: a flow stays on the list until every member has ended.

use crate::environment::{Environment, Notice};
use crate::error::EngineError;
use crate::identity::{ExecutionId, FlowKey};
use crate::operations::cancel::{Batch, Kept, missing_request, stops_ready};
use crate::reconcile::{Pass, Report, Visited};
use crate::state::State;
use crate::storage::{
    Consistency, FlowPage, Member, MemberQuery, Request, RequestKey, Result, Scope, Snapshot,
    Storage, Transaction,
};
use crate::transact::{Body, Run, Verdict, transact};

/// Flows of one page.
const PAGE_ROWS: u32 = 100;

/// The transaction that looks at the next members of a cancelled flow.
struct CancelNext {
    flow: FlowKey,
    after: Option<ExecutionId>,
    batch: u32,
    /// Members that earlier batches of this pass have left running.
    running: u64,
    /// Members that it passes over, because they cannot be read.
    except: Vec<ExecutionId>,
}

impl Body for CancelNext {
    type Out = Batch;

    async fn run<T: Transaction>(&self, transaction: &mut T, _run: Run) -> Result<Verdict<Batch>> {
        let Some(flow) = transaction.lock_flow(&self.flow).await? else {
            return self.take_off(transaction, Batch::default()).await;
        };
        let (true, Some(by)) = (stops_ready(flow.closing), flow.closed_by) else {
            return self.take_off(transaction, Batch::default()).await;
        };
        let batch = Batch::cancel(transaction, &flow, self.after, self.batch, &self.except).await?;
        let key = RequestKey { flow: flow.key, request: by };
        let known = transaction.read_request(&key).await?;
        let known = known.ok_or_else(|| missing_request(key))?;
        let before = Kept::of(&known)?;
        // Beside members that cannot be read only the end of a pass counts, so that a pass which
        // changes nothing writes nothing.
        let runs_out = if self.except.is_empty() { batch.running } else { 0 };
        let seen = batch.cancelled.len() as u64 + runs_out;
        let rest = self.rest(transaction, &batch).await?;
        let pending = |member: &&Member| {
            matches!(member.state, State::Blocked | State::Ready)
                || self.except.contains(&member.id)
        };
        let remaining = match &rest {
            Some(rest) => rest.iter().filter(pending).count() as u64,
            None if batch.next.is_none() => batch.passed_over,
            // Done is what only the end of a pass tells; a call that is done stays so.
            None => before.remaining.saturating_sub(seen).max(u64::from(before.remaining > 0)),
        };
        let mut kept = before.clone();
        kept.cancelled.extend(&batch.cancelled);
        kept.remaining = remaining;
        if kept != before {
            let row = Request { reply: kept.bytes(), ..known };
            let written = transaction.write_request(&row).await?;
            assert!(written == 1, "a request vanished under the lock of its flow");
        }
        let all_ended = match &rest {
            Some(rest) => rest.is_empty(),
            None => batch.next.is_none() && self.running + batch.running + batch.passed_over == 0,
        };
        if all_ended {
            return self.take_off(transaction, batch).await;
        }
        Ok(match kept == before {
            true => Verdict::Rollback(batch),
            false => Verdict::Commit(batch),
        })
    }
}

impl CancelNext {
    /// At the end of a pass of several transactions, every member that has not ended. What the
    /// earlier ones did may be lost by now, if commits are not durable: the end of a pass tells
    /// nothing that this transaction does not see.
    async fn rest<T: Transaction>(
        &self,
        transaction: &mut T,
        batch: &Batch,
    ) -> Result<Option<Vec<Member>>> {
        if batch.next.is_some() || self.after.is_none() {
            return Ok(None);
        }
        let all = MemberQuery { flow: self.flow, after: None, limit: u32::MAX };
        transaction.read_members(&all).await.map(Some)
    }

    async fn take_off<T: Transaction>(
        &self,
        transaction: &mut T,
        batch: Batch,
    ) -> Result<Verdict<Batch>> {
        transaction.delete_cancel_backlog(&[self.flow]).await?;
        Ok(Verdict::Commit(batch))
    }
}

/// One pass over the members of a cancelled flow; returns those that it passed over, because they
/// cannot be read.
///
/// Errors: of the transaction that failed; those before it stay done.
pub(crate) async fn drain<S: Storage, E: Environment>(
    pass: Pass<'_, S, E>,
    flow: FlowKey,
    batch: u32,
    report: &mut Report,
) -> Result<Vec<ExecutionId>, EngineError> {
    let Pass { storage, environment, budget, .. } = pass;
    let mut next = CancelNext { flow, after: None, batch, running: 0, except: pass.quarantine() };
    loop {
        let done = transact(storage, environment, budget, &next).await;
        if pass.passes_over(&done, &mut next.except) {
            continue;
        }
        let done = done?;
        report.reconciled += done.cancelled.len() as u64;
        report.noop += done.running;
        report.errors += done.passed_over;
        if !done.cancelled.is_empty() {
            environment.notify(Notice { partition: flow.partition });
        }
        next.running += done.running + done.passed_over;
        next.after = done.next;
        if done.next.is_none() {
            return Ok(next.except);
        }
    }
}

/// One tick over the backlog of the scope, in key order.
///
/// Errors: of the scan; flows that fail are counted and found again by the next tick.
pub(crate) async fn tick<S: Storage, E: Environment>(
    pass: Pass<'_, S, E>,
    scope: &Scope,
    batch: u32,
) -> Result<Report, EngineError> {
    let mut report = Report::default();
    let mut after: Option<FlowKey> = None;
    loop {
        let page = FlowPage { scope: scope.clone(), after, limit: PAGE_ROWS };
        let found = {
            let mut reader = pass.storage.snapshot(Consistency::Statement).await?;
            reader.scan_cancel_backlog(&page).await?
        };
        report.scanned += found.len() as u64;
        after = found.last().copied();
        for flow in &found {
            let visited = Visited::Backlog(*flow);
            if !pass.is_due(visited) {
                report.errors += 1;
                continue;
            }
            let drained = drain(pass, *flow, batch, &mut report).await;
            pass.visited(visited, &drained);
            report.errors += u64::from(drained.is_err());
        }
        if found.len() < PAGE_ROWS as usize {
            return Ok(report);
        }
    }
}
