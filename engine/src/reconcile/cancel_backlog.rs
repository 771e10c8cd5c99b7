//! The drain of the cancel backlog: what a cancelled flow has left to cancel, batch by batch. Level
//! triggered: a flow stays on the list until every member has ended.

use crate::environment::{Environment, Notice};
use crate::error::EngineError;
use crate::identity::{ExecutionId, FlowKey};
use crate::operations::cancel::{Batch, Kept, missing_request, stops_ready};
use crate::reconcile::{Pass, PassesOver, Report, Visited};
use crate::state::{ClosePolicy, State};
use crate::storage::{
    Consistency, FlowPage, Member, MemberQuery, Request, RequestKey, Result, Scope, Snapshot,
    Storage, Transaction,
};
use crate::transact::{Body, Run, Verdict};

/// Flows of one page.
const PAGE_ROWS: u32 = 100;

/// The transaction that looks at the next members of a cancelled flow.
struct CancelNext {
    flow: FlowKey,
    after: Option<ExecutionId>,
    batch: u32,
    /// Members that it passes over, because they cannot be read.
    except: Vec<ExecutionId>,
}

/// What a transaction of a pass has done.
struct Looked {
    batch: Batch,
    /// The flow is not cancelled, or no longer.
    opened: bool,
}

impl PassesOver for CancelNext {
    fn except(&self) -> &[ExecutionId] {
        &self.except
    }

    fn pass_over(&mut self, execution: ExecutionId) {
        self.except.push(execution);
    }
}

impl Body for CancelNext {
    type Out = Looked;

    async fn run<T: Transaction>(&self, transaction: &mut T, _run: Run) -> Result<Verdict<Looked>> {
        let Some(flow) = transaction.lock_flow(&self.flow).await? else {
            return self.take_off(transaction, Looked::nothing()).await;
        };
        let stops = |policy: &ClosePolicy| stops_ready(Some(*policy));
        let (Some(policy), Some(by)) = (flow.closing.filter(stops), flow.closed_by) else {
            return self.take_off(transaction, Looked::nothing()).await;
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
            policy == ClosePolicy::CancelAll
                || matches!(member.state, State::Blocked | State::Ready)
                || self.except.contains(&member.id)
        };
        let remaining = match &rest {
            Some(rest) => rest.iter().filter(pending).count() as u64,
            None if batch.next.is_none() => batch.passed_over.len() as u64,
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
            None => batch.next.is_none() && batch.running == 0 && batch.passed_over.is_empty(),
        };
        let looked = Looked { batch, opened: false };
        if all_ended {
            return self.take_off(transaction, looked).await;
        }
        Ok(match kept == before {
            true => Verdict::Rollback(looked),
            false => Verdict::Commit(looked),
        })
    }
}

impl Looked {
    /// The flow is not cancelled.
    fn nothing() -> Self {
        Self { batch: Batch::default(), opened: true }
    }
}

impl CancelNext {
    /// At the end of a pass of several transactions, every member that has not ended. What the
    /// earlier ones did may be lost by now, if commits are not durable, and what they saw may have
    /// been replayed and closed by another call: the end of a pass tells nothing that this
    /// transaction does not see.
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
        looked: Looked,
    ) -> Result<Verdict<Looked>> {
        transaction.delete_cancel_backlog(&[self.flow]).await?;
        Ok(Verdict::Commit(looked))
    }
}

/// What a pass over the members of a cancelled flow has come to.
pub(crate) struct Drained {
    /// Members that it passed over, because they cannot be read.
    pub passed_over: Vec<ExecutionId>,
    /// The flow is not cancelled, or no longer.
    pub opened: bool,
}

/// One pass over the members of a cancelled flow.
///
/// Errors: of the transaction that failed; those before it stay done.
pub(crate) async fn drain<S: Storage, E: Environment>(
    pass: Pass<'_, S, E>,
    flow: FlowKey,
    batch: u32,
    report: &mut Report,
) -> Result<Drained, EngineError> {
    let except = pass.quarantine();
    let mut passed_over = Vec::new();
    let mut next = CancelNext { flow, after: None, batch, except };
    loop {
        let looked = pass.around_unreadable(&mut next).await?;
        let done = &looked.batch;
        passed_over.extend(&done.passed_over);
        report.reconciled += done.cancelled.len() as u64;
        report.noop += done.running;
        report.errors += done.passed_over.len() as u64;
        if !done.cancelled.is_empty() {
            pass.environment.notify(Notice { partition: flow.partition });
        }
        if done.next.is_none() {
            return Ok(Drained { passed_over, opened: looked.opened });
        }
        next = CancelNext { after: done.next, ..next };
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
