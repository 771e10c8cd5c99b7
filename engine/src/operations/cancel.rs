//! Cancelling: a flow in one of three policies, or one execution. What is cancelled is found among
//! rows that are locked, waiting for each; what has ended is never touched.

use std::sync::Arc;

use uuid::Uuid;

use crate::error::EngineError;
use crate::identity::{ExecutionId, FlowKey, RequestId};
use crate::mutants::mutated;
use crate::operations::call::{Call, Opened};
use crate::operations::finish::{self, Move};
use crate::reconcile::PassesOver;
use crate::state::{Cause, ClosePolicy, Outcome, State};
use crate::storage::{
    AttemptEnd, Execution, Flow, Inserted, MemberQuery, Reported, Request, RequestKey, Result,
    ResultChange, StorageError, Transaction,
};
use crate::time::Timestamp;
use crate::transact::{Body, Run, Verdict};

/// How far the cancelling of a flow has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancelling {
    /// No member that the policy cancels is left, and nothing starts any more.
    Done,
    /// Members are left to be looked at; the reconciler of the cancel backlog goes on.
    InProgress {
        /// How many, at most.
        remaining: u64,
    },
}

/// What a call to cancel a flow has done until now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CancelReport {
    /// The policy that it closed the flow with.
    pub policy: ClosePolicy,
    /// The members that it cancelled, each once, as they were cancelled.
    pub cancelled: Vec<ExecutionId>,
    /// Whether these are all.
    pub progress: Cancelling,
}

/// What a call to cancel one execution did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CancelledExecution {
    /// It ended it.
    Cancelled,
    /// The execution had ended already, in this way.
    AlreadyEnded(Outcome),
}

/// True if a flow that is closed so lets nothing become ready.
pub(crate) fn stops_ready(closing: Option<ClosePolicy>) -> bool {
    matches!(closing, Some(ClosePolicy::CancelPending | ClosePolicy::CancelAll))
}

/// True if that policy cancels a member that stands so.
fn cancels(policy: ClosePolicy, member: &Execution, now: Timestamp) -> bool {
    let ready = member.state == State::Ready;
    if policy == ClosePolicy::CancelPending && ready {
        return !(mutated!(P21) || mutated!(P22) && member.not_before > now);
    }
    match (policy, member.state) {
        (ClosePolicy::CancelAll, State::Terminal(_)) => mutated!(P20),
        (ClosePolicy::FlowOnly, _) | (_, State::Terminal(_)) => false,
        (ClosePolicy::CancelPending, state) => state == State::Blocked,
        (ClosePolicy::CancelAll, _) => true,
    }
}

/// The end of an execution by a cancel; a live lease is revoked.
pub(crate) fn cancelled(before: &Execution, cause: Cause, now: Timestamp) -> Move {
    let mut after = finish::finished(before, Outcome::Cancelled, cause, now);
    let reported = Reported::Finished(Outcome::Cancelled);
    let mut attempt = finish::ended_attempt(before, AttemptEnd::Revoked, reported, 0, now);
    if mutated!(P23) {
        (after.lease, after.epoch, attempt) = (before.lease, before.epoch, None);
    }
    Move { before: *before, after, result: ResultChange::Keep, attempt }
}

/// Some members of a flow, looked at under their locks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// Those that were cancelled, in id order.
    pub cancelled: Vec<ExecutionId>,
    /// How many were looked at and have not ended: they run out.
    pub running: u64,
    /// Those that were passed over, because they cannot be read.
    pub passed_over: Vec<ExecutionId>,
    /// The last that was looked at; none once all of them were.
    pub next: Option<ExecutionId>,
}

impl Batch {
    /// Cancels what the policy cancels among at most `limit` members after `after`. The flow is
    /// locked, so that none is added; whoever moves one of them has read the flow before it was
    /// closed and holds its lock, or reads it as closed.
    pub(crate) async fn cancel<T: Transaction>(
        transaction: &mut T,
        flow: &Flow,
        after: Option<ExecutionId>,
        limit: u32,
        except: &[ExecutionId],
    ) -> Result<Self> {
        let Some(policy) = flow.closing.filter(|policy| stops_ready(Some(*policy))) else {
            return Ok(Self::default());
        };
        let query = MemberQuery { flow: flow.key, after, limit };
        let members = transaction.read_members(&query).await?;
        let full = members.len() >= limit as usize;
        let next = members.last().map(|last| last.id).filter(|_| full);
        if members.is_empty() {
            return Ok(Self::default());
        }
        let ids = members.iter().map(|member| member.id);
        let (passed_over, keys): (Vec<ExecutionId>, Vec<ExecutionId>) =
            ids.partition(|id| except.contains(id));
        let rows = match mutated!(P59) {
            true => transaction.take_executions(&keys).await?,
            false => transaction.lock_executions(&keys).await?,
        };
        let now = transaction.clock().await?;
        let doomed = rows.iter().filter(|row| cancels(policy, row, now));
        let moves: Vec<Move> = doomed.map(|row| cancelled(row, Cause::Flow, now)).collect();
        finish::record(transaction, &moves).await?;
        let cancelled: Vec<ExecutionId> = moves.iter().map(|one| one.after.id).collect();
        let open = rows.iter().filter(|row| !row.state.is_terminal());
        let running = open.filter(|row| cancelled.binary_search(&row.id).is_err()).count() as u64;
        Ok(Self { cancelled, running, passed_over, next })
    }
}

/// The reply of a call to cancel a flow, as its request keeps it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Kept {
    /// Members that are left to be looked at.
    pub remaining: u64,
    /// Members that it cancelled.
    pub cancelled: Vec<ExecutionId>,
}

impl Kept {
    /// Eight bytes for what remains, then the ids, of sixteen bytes each.
    pub(crate) fn bytes(&self) -> Arc<[u8]> {
        let ids = self.cancelled.iter().flat_map(|id| id.uuid.into_bytes());
        self.remaining.to_be_bytes().into_iter().chain(ids).collect()
    }

    pub(crate) fn of(row: &Request) -> Result<Self> {
        let broken = || {
            let id = row.key.request;
            StorageError::Corrupt(format!("the reply of request {id} cannot be read").into())
        };
        let (remaining, ids) = row.reply.split_first_chunk::<8>().ok_or_else(broken)?;
        let (ids, rest) = ids.as_chunks::<16>();
        if !rest.is_empty() {
            return Err(broken());
        }
        let partition = row.key.flow.partition;
        let id = |bytes: &[u8; 16]| ExecutionId { partition, uuid: Uuid::from_bytes(*bytes) };
        let cancelled = ids.iter().map(id).collect();
        Ok(Self { remaining: u64::from_be_bytes(*remaining), cancelled })
    }

    fn progress(&self) -> Cancelling {
        match self.remaining {
            0 => Cancelling::Done,
            remaining => Cancelling::InProgress { remaining },
        }
    }
}

/// The transaction that closes a flow and cancels the first of its members.
pub(crate) struct CancelFlow {
    pub(crate) flow: FlowKey,
    pub(crate) policy: ClosePolicy,
    pub(crate) request: RequestId,
    /// Members that it looks at, at most.
    pub(crate) batch: u32,
    /// Members that it passes over, because they cannot be read.
    pub(crate) except: Vec<ExecutionId>,
}

impl PassesOver for CancelFlow {
    fn except(&self) -> &[ExecutionId] {
        &self.except
    }

    fn pass_over(&mut self, execution: ExecutionId) {
        self.except.push(execution);
    }
}

impl Body for CancelFlow {
    type Out = Result<CancelReport, EngineError>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        let call = Call::new(self.flow, self.request, &["cancel_flow", self.policy.name()]);
        let flow = match call.open(transaction).await? {
            Ok(Opened::New(flow)) => flow,
            Ok(Opened::Known(flow, known)) => {
                let reply = self.earlier(transaction, &flow, &known).await?;
                return Ok(Verdict::Rollback(Ok(reply)));
            }
            Err(refused) => return Ok(Verdict::Rollback(Err(refused))),
        };
        if let (Some(policy), Some(by)) = (flow.closing, flow.closed_by)
            && policy >= self.policy
        {
            let closer = RequestKey { request: by, ..call.key };
            let known = transaction.read_request(&closer).await?;
            let known = known.ok_or_else(|| missing_request(closer))?;
            let kept = Kept::of(&known)?;
            let progress = kept.progress();
            let reply = CancelReport { policy, cancelled: kept.cancelled, progress };
            return Ok(Verdict::Rollback(Ok(reply)));
        }
        let flow = Flow { closing: Some(self.policy), closed_by: Some(self.request), ..flow };
        let kept = self.close(transaction, &flow).await?;
        call.keep(transaction, kept.bytes()).await?;
        let progress = kept.progress();
        let reply = CancelReport { policy: self.policy, cancelled: kept.cancelled, progress };
        Ok(Verdict::Commit(Ok(reply)))
    }
}

impl CancelFlow {
    /// Closes the flow and cancels the first batch of its members.
    async fn close<T: Transaction>(&self, transaction: &mut T, flow: &Flow) -> Result<Kept> {
        let written = transaction.write_flow(flow).await?;
        assert!(written == 1, "a locked flow vanished");
        let batch = Batch::cancel(transaction, flow, None, self.batch, &self.except).await?;
        let remaining = match batch.next {
            None => batch.passed_over.len() as u64,
            after => {
                let rest = MemberQuery { flow: self.flow, after, limit: u32::MAX };
                transaction.read_members(&rest).await?.len() as u64 + batch.passed_over.len() as u64
            }
        };
        if (remaining > 0 || batch.running > 0) && !mutated!(P30) {
            transaction.insert_cancel_backlog(&[self.flow]).await?;
        }
        Ok(Kept { remaining, cancelled: batch.cancelled })
    }

    /// What this call has done, if it was made before; a stronger one may have gone on since. A
    /// replay may have opened the flow as well, and a weaker one closed it then, which says nothing
    /// of this one.
    async fn earlier<T: Transaction>(
        &self,
        transaction: &mut T,
        flow: &Flow,
        known: &Request,
    ) -> Result<CancelReport> {
        let kept = Kept::of(known)?;
        let stronger = flow.closing >= Some(self.policy);
        let closer = flow.closed_by.filter(|by| stronger && *by != self.request);
        let progress = match closer {
            None => kept.progress(),
            Some(request) => {
                let key = RequestKey { request, ..known.key };
                let later = transaction.read_request(&key).await?;
                Kept::of(&later.ok_or_else(|| missing_request(key))?)?.progress()
            }
        };
        Ok(CancelReport { policy: self.policy, cancelled: kept.cancelled, progress })
    }
}

/// The transaction that cancels one execution.
pub(crate) struct CancelExecution {
    pub(crate) execution: ExecutionId,
    pub(crate) reason: Arc<str>,
    pub(crate) request: RequestId,
}

impl Body for CancelExecution {
    type Out = Result<CancelledExecution, EngineError>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        let id = self.execution;
        let rows = transaction.lock_executions(&[id]).await?;
        let Some(row) = rows.first() else {
            return Ok(Verdict::Rollback(Err(EngineError::ExecutionNotFound(id))));
        };
        let words = ["cancel_execution", &id.to_string(), &self.reason];
        let call = Call::new(row.flow_key(), self.request, &words);
        match call.known(transaction).await? {
            Ok(None) => {}
            Ok(Some(_)) => return Ok(Verdict::Rollback(Ok(CancelledExecution::Cancelled))),
            Err(refused) => return Ok(Verdict::Rollback(Err(refused))),
        }
        if let State::Terminal(outcome) = row.state
            && !mutated!(P20)
        {
            return Ok(Verdict::Rollback(Ok(CancelledExecution::AlreadyEnded(outcome))));
        }
        let now = transaction.clock().await?;
        let one = cancelled(row, Cause::Operator, now);
        finish::record(transaction, std::slice::from_ref(&one)).await?;
        let reply = Arc::from(self.reason.as_bytes());
        match call.record(transaction, reply).await? {
            Inserted::New => Ok(Verdict::Commit(Ok(CancelledExecution::Cancelled))),
            // Another call has taken the id in this flow since it was looked for.
            Inserted::Exists => Ok(Verdict::Rollback(Err(call.other_content()))),
        }
    }
}

pub(crate) fn missing_request(key: RequestKey) -> StorageError {
    StorageError::Corrupt(format!("request {} of a closed flow has no row", key.request).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{FlowId, PartitionCount};

    fn flow() -> FlowKey {
        PartitionCount::default().key(FlowId::from_parts(1, [1; 10]))
    }

    fn request(reply: Arc<[u8]>) -> Request {
        let key = RequestKey { flow: flow(), request: RequestId(Uuid::nil()) };
        Request { key, content_hash: [0; 32], reply }
    }

    #[test]
    fn a_kept_reply_reads_back() {
        for cancelled in [vec![], vec![flow().execution("a"), flow().execution("b")]] {
            let kept = Kept { remaining: u64::MAX, cancelled };
            assert_eq!(Kept::of(&request(kept.bytes())), Ok(kept));
        }
    }

    #[test]
    fn a_reply_that_nothing_writes_is_corrupt() {
        for bytes in [&[][..], &[0; 7], &[0; 9], &[0; 23]] {
            let read = Kept::of(&request(Arc::from(bytes)));
            assert!(matches!(read, Err(StorageError::Corrupt(_))), "{bytes:?}");
        }
    }
}
