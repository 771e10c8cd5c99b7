//! The rows that cross the storage seam. Plain data with no storage behind it; the only code here
//! derives one field from another.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::identity::{ExecutionId, FlowId, FlowKey, Partition, RequestId};
use crate::policy::{AcceptSet, Decision, JoinPolicy};
use crate::retry::RetryPolicy;
use crate::state::{Cause, ClosePolicy, Outcome, State};
use crate::storage::{Guarded, ProgressMark, Tags};
use crate::time::Timestamp;

/// Whether an insert with `on conflict do nothing` wrote its row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Inserted {
    /// The row is new.
    New,
    /// A committed row with that key existed.
    Exists,
}

/// An idempotency key with the flow that it stands for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Submission {
    /// Namespace and key.
    pub key: SubmissionKey,
    /// The flow that was submitted under it.
    pub flow: FlowKey,
    /// Hash of the canonical spec.
    pub content_hash: [u8; 32],
    /// The call that wrote it.
    pub request: RequestId,
}

/// An idempotency key in its namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubmissionKey {
    /// Namespace of the flow.
    pub namespace: Arc<str>,
    /// The caller's key.
    pub key: Arc<str>,
}

/// A flow.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// Partition and id.
    pub key: FlowKey,
    /// Tenant label.
    pub namespace: Arc<str>,
    /// Deployment label, `key=value`.
    pub instance_tag: Option<Arc<str>>,
    /// How it was closed, if it was.
    pub closing: Option<ClosePolicy>,
    /// The call that closed it so.
    pub closed_by: Option<RequestId>,
    /// Grows with every extension.
    pub revision: u64,
    /// What operators have noted on it.
    pub tags: Tags,
    /// Hash of the canonical spec.
    pub content_hash: [u8; 32],
    /// The call that wrote it.
    pub request: RequestId,
    /// When it was submitted.
    pub created_at: Timestamp,
}

/// The live lease of an active execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lease {
    /// Random bits of the grant: a grant lost in a crash never matches a later one.
    pub nonce: u64,
    /// The claim that it answers.
    pub request: RequestId,
    /// When it was granted; an attempt's time limit counts from here.
    pub granted_at: Timestamp,
    /// When the reaper may end it; never moves back.
    pub expires_at: Timestamp,
}

/// The last resume of an execution: what a repetition of it is answered from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Resumed {
    /// The epoch of the suspension that it ended.
    pub epoch: u64,
    /// How it ended the execution; `None` if it made it ready.
    pub outcome: Option<Outcome>,
}

impl Resumed {
    /// The reply to the resume.
    pub fn reported(self) -> Reported {
        self.outcome.map_or(Reported::Requeued { delay_us: 0 }, Reported::Finished)
    }
}

/// What decisions read and write of an execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a row, each of them a column")]
pub struct Execution {
    /// Partition and id.
    pub id: ExecutionId,
    /// The flow that it belongs to.
    pub flow: FlowId,
    /// Stored state.
    pub state: State,
    /// Why it ended, once it has.
    pub cause: Option<Cause>,
    /// 0 at submit, one more at each replay.
    pub incarnation: u32,
    /// Terminal, and none of its out-edges is pending any more.
    pub propagated: bool,
    /// It has inbound edges, hence a group.
    pub has_in: bool,
    /// Some inbound edge has a name under which its upstream's result is passed on.
    pub has_inputs: bool,
    /// It has outbound edges.
    pub has_out: bool,
    /// Not to be claimed before.
    pub not_before: Timestamp,
    /// The reaper expires it then, whatever its state.
    pub deadline: Option<Timestamp>,
    /// Number of the last granted attempt; counted from 1 in each incarnation.
    pub attempt: u32,
    /// Attempts charged: grants less those that were given back.
    pub charged: u32,
    /// Attempts given back by a release; snoozes and suspensions give theirs back uncounted.
    pub give_backs: u32,
    /// The last suspension that was resumed.
    pub resumed: Option<Resumed>,
    /// How far it has said that it has come.
    pub progress: Option<ProgressMark>,
    /// Grows with every grant and every revocation.
    pub epoch: u64,
    /// The live lease; exists exactly while it is active.
    pub lease: Option<Lease>,
    /// When it ended, once it has.
    pub finished_at: Option<Timestamp>,
    /// Limits and delays of its attempts.
    pub retry: RetryPolicy,
}

/// What a handler and a reader see of an execution; written once.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Definition {
    /// Unique in its flow.
    pub name: Arc<str>,
    /// The handler that it needs.
    pub kind: Arc<str>,
    /// The queue that it is claimed from.
    pub lane: Arc<str>,
    /// Higher goes first; one step is worth a minute of waiting.
    pub priority: i32,
    /// Tenant label, as its flow's.
    pub namespace: Arc<str>,
    /// Deployment label, as its flow's.
    pub instance_tag: Option<Arc<str>>,
    /// Input of the handler.
    pub payload: Arc<[u8]>,
}

/// An execution as inserted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NewExecution {
    /// Its changing part.
    pub execution: Execution,
    /// Its constant part.
    pub definition: Definition,
}

/// An execution as a snapshot shows it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ExecutionView {
    /// Its changing part.
    pub execution: Execution,
    /// Its constant part.
    pub definition: Definition,
    /// The worker that holds the lease.
    pub worker: Option<Arc<str>>,
    /// What its handler returned.
    pub result: Option<Arc<[u8]>>,
    /// What it last reported while it worked.
    pub progress: Option<Arc<[u8]>>,
}

/// The guard of an execution's update: columns of the target row only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExecutionGuard {
    /// The state that it moves from.
    pub state: State,
    /// The epoch that it was read with.
    pub epoch: u64,
}

/// What an update does to the stored result.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ResultChange {
    /// Nothing.
    Keep,
    /// Stores these bytes.
    Set(Arc<[u8]>),
    /// Removes it, and the progress with it.
    Clear,
}

/// One guarded update of an execution that this transaction has locked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ExecutionWrite {
    /// Zero rows change where it does not hold.
    pub guard: ExecutionGuard,
    /// The new row; a lease in it keeps its worker, none clears it. The flow, the retry policy and
    /// the progress in it are not looked at.
    pub after: Execution,
    /// What happens to the result.
    pub result: ResultChange,
}

/// What may be claimed, by whom and until when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimQuery {
    /// The claim's request id, stored in each lease.
    pub request: RequestId,
    /// Name of the worker.
    pub worker: Arc<str>,
    /// Which process of that name.
    pub instance: Arc<str>,
    /// Only this tenant's.
    pub namespace: Option<Arc<str>>,
    /// Only these partitions.
    pub partitions: Range<u16>,
    /// Only these lanes.
    pub lanes: Vec<Arc<str>>,
    /// Only these kinds; empty means every kind.
    pub kinds: Vec<Arc<str>>,
    /// None of these, whose rows cannot be read.
    pub except: Vec<ExecutionId>,
    /// At most so many.
    pub limit: u32,
    /// The storage's clock, read by its own verb before this one.
    pub now: Timestamp,
    /// How long each lease lasts.
    pub lease: Duration,
    /// The random bits of these grants.
    pub nonce: u64,
    /// Attempts charged with each grant.
    pub charge: u32,
}

/// A claimed execution.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Grant {
    /// The row after the grant.
    pub execution: Execution,
    /// Its constant part.
    pub definition: Definition,
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AttemptEnd {
    /// The worker reported success.
    Completed,
    /// The worker reported a failure that may be tried again.
    FailedRetryable,
    /// The worker reported a failure that is final.
    FailedFatal,
    /// The worker gave the attempt back.
    Released,
    /// The reaper ended the lease.
    Expired,
    /// A cancel ended the lease.
    Revoked,
    /// The worker gave the attempt back, to be tried again later.
    Snoozed,
    /// The worker reported that the work is not called for.
    Skipped,
    /// The worker gave the attempt back, to be gone on with once it is resumed.
    Suspended,
}

/// What the end of an attempt led to; also the stored reply of the call that ended it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reported {
    /// The execution ended.
    Finished(Outcome),
    /// It will be ready again after this delay, in microseconds.
    Requeued {
        /// Microseconds from the report.
        delay_us: i64,
    },
    /// It waits until this suspension is resumed.
    Suspended {
        /// The epoch of the suspension, by which it is resumed.
        epoch: u64,
    },
}

/// One attempt of one incarnation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AttemptKey {
    /// The execution.
    pub execution: ExecutionId,
    /// Its incarnation.
    pub incarnation: u32,
    /// Its attempt.
    pub attempt: u32,
}

/// History row of an ended attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Attempt {
    /// Which attempt.
    pub key: AttemptKey,
    /// Epoch of the lease that ended.
    pub epoch: u64,
    /// Nonce of the lease that ended.
    pub nonce: u64,
    /// How it ended.
    pub end: AttemptEnd,
    /// What it led to.
    pub reported: Reported,
    /// Hash of what the caller sent along.
    pub payload_hash: u64,
    /// When the lease was granted.
    pub granted_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// All inbound edges of one downstream, with one policy and one decision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Group {
    /// The downstream, which names the group.
    pub downstream: ExecutionId,
    /// Its flow.
    pub flow: FlowId,
    /// How it decides.
    pub policy: JoinPolicy,
    /// Number of edges.
    pub edges: u32,
    /// Edges resolved as satisfied.
    pub satisfied: u32,
    /// Edges resolved as unsatisfied.
    pub unsatisfied: u32,
    /// Its decision.
    pub decision: Decision,
}

/// How an edge stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Resolution {
    /// Its upstream has not ended, or the hop has not come by.
    Pending,
    /// Its upstream ended with an accepted outcome.
    Satisfied,
    /// Its upstream ended with another.
    Unsatisfied,
}

/// The two ends of an edge; the downstream leads, as in its primary key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EdgeKey {
    /// The execution that waits.
    pub downstream: ExecutionId,
    /// The execution that it waits for.
    pub upstream: ExecutionId,
}

/// An edge.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Edge {
    /// Its ends.
    pub key: EdgeKey,
    /// The outcomes that satisfy it.
    pub accepts: AcceptSet,
    /// How it stands.
    pub resolution: Resolution,
    /// Incarnation of the upstream that resolved it.
    pub upstream_incarnation: Option<u32>,
    /// How the upstream ended, of an edge that was satisfied by the time its group decided.
    pub input: Option<Outcome>,
    /// Name under which the downstream's handler sees the upstream's result.
    pub passes_as: Option<Arc<str>>,
}

/// A pending edge beside the present row of its upstream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PendingEdge {
    /// Its ends.
    pub key: EdgeKey,
    /// The outcomes that satisfy it.
    pub accepts: AcceptSet,
    /// State of the upstream.
    pub upstream_state: State,
    /// Incarnation of the upstream.
    pub upstream_incarnation: u32,
}

/// One guarded flip of a pending edge whose group this transaction has locked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EdgeFlip {
    /// Which edge.
    pub key: EdgeKey,
    /// How it is resolved; never `Pending`.
    pub resolution: Resolution,
    /// Incarnation of the upstream that resolves it.
    pub upstream_incarnation: u32,
    /// How the upstream ended, if the edge counts for the decision of its group as satisfied.
    pub input: Option<Outcome>,
    /// Zero rows change where the edge is not pending any more.
    pub guarded: Guarded,
}

/// A decided group that asks for the cancellation of its unresolved upstreams.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SiblingRequest {
    /// The group, by its downstream.
    pub group: ExecutionId,
    /// Its flow.
    pub flow: FlowId,
}

/// What a scan looks at; applied in the query, before its limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// These partitions.
    pub partitions: Range<u16>,
    /// Only this tenant's.
    pub namespace: Option<Arc<str>>,
    /// Only this deployment's, `key=value`.
    pub instance_tag: Option<Arc<str>>,
}

impl Default for Scope {
    fn default() -> Self {
        Self { partitions: 0..u16::MAX, namespace: None, instance_tag: None }
    }
}

/// A keyset page over a scope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// What it looks at.
    pub scope: Scope,
    /// Exclusive cursor.
    pub after: Option<ExecutionId>,
    /// At most so many rows.
    pub limit: u32,
}

/// A page of terminal executions that are not propagated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamScan {
    /// Which rows.
    pub page: Page,
    /// Only those that ended by then, on the storage's clock; `None` compares no times.
    pub finished_by: Option<Timestamp>,
}

/// A page of executions that the reaper may have to act on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OverdueScan {
    /// Which rows.
    pub page: Page,
    /// The storage's clock, read by its own verb.
    pub now: Timestamp,
}

/// A walk down the pending edges of some upstreams of one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanQuery {
    /// Terminal executions of one partition.
    pub upstreams: Vec<ExecutionId>,
    /// At most so many groups.
    pub limit: u32,
}

impl PlanQuery {
    /// The partition that it walks; none without upstreams.
    pub fn partition(&self) -> Option<Partition> {
        let partition = self.upstreams.first()?.partition;
        let alone = self.upstreams.iter().all(|upstream| upstream.partition == partition);
        assert!(alone, "a plan walks one partition");
        Some(partition)
    }
}

impl Grant {
    /// The claim order, of which this is a unique key: the lowest first.
    pub fn claim_key(&self) -> (i64, Timestamp, ExecutionId) {
        let execution = &self.execution;
        let rank = claim_rank(execution, self.definition.priority);
        (rank, execution.not_before, execution.id)
    }
}

impl Execution {
    /// The guard for an update of this row.
    pub fn guard(&self) -> ExecutionGuard {
        ExecutionGuard { state: self.state, epoch: self.epoch }
    }

    /// The flow with its partition.
    pub fn flow_key(&self) -> FlowKey {
        FlowKey { partition: self.id.partition, id: self.flow }
    }

    /// When the present attempt is over by its lease or its time limit; `None` without a lease.
    pub fn attempt_over_at(&self) -> Option<Timestamp> {
        let lease = self.lease?;
        let limit = self.retry.attempt_timeout().map(|limit| lease.granted_at + limit);
        Some(limit.map_or(lease.expires_at, |limit| limit.min(lease.expires_at)))
    }

    /// The reaper's predicate: the attempt or the whole execution is over at `now`.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        let passed = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        !self.state.is_terminal() && (passed(self.deadline) || passed(self.attempt_over_at()))
    }

    /// The predicate of a claim over the row itself.
    pub fn is_claimable(&self, now: Timestamp) -> bool {
        self.state == State::Ready && self.not_before <= now
    }

    /// The row after a grant.
    #[must_use]
    pub fn granted(&self, query: &ClaimQuery) -> Execution {
        Execution {
            state: State::Active,
            attempt: self.attempt + 1,
            charged: self.charged + query.charge,
            epoch: self.epoch + 1,
            lease: Some(Lease {
                nonce: query.nonce,
                request: query.request,
                granted_at: query.now,
                expires_at: query.now + query.lease,
            }),
            ..*self
        }
    }
}

/// Microseconds of waiting that one step of priority is worth.
pub const PRIORITY_STEP_US: i64 = 60_000_000;

/// The claim order: the lowest first. All rows age alike, so that the key of a row is constant.
pub fn claim_rank(execution: &Execution, priority: i32) -> i64 {
    execution.not_before.0.saturating_sub(i64::from(priority) * PRIORITY_STEP_US)
}

/// The rows of a call in key order, as they are locked and written.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) fn in_order<T, K: Ord>(rows: &[T], key: impl Fn(&T) -> K) -> Vec<&T> {
    let mut ordered: Vec<&T> = rows.iter().collect();
    ordered.sort_by_key(|row| key(row));
    let distinct = ordered.windows(2).all(|pair| key(pair[0]) != key(pair[1]));
    crate::mutants::ensure_rule!(distinct, "a key stands twice in the list of a verb");
    ordered
}
