//! The public handle. Draws what a call needs once, runs its transaction and tells the dispatchers;
//! holds no state of any flow; what it remembers of rows that fail costs time when it is lost, and
//! nothing else.

mod attempts;
mod reads;
mod replays;
mod upkeep;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::cascade::HopLimits;
use crate::cascade::dispatcher::{self, DispatchOutcome};
use crate::cascade::visit::Visitor;
use crate::environment::{Environment, Notice};
use crate::error::{EngineError, invalid};
use crate::feed::{
    self, Consumer, Cursor, FeedFilter, FeedPage, FeedSettings, Subscriber, sequencer,
};
use crate::flow::{Additions, FlowSpec, Limits, ValidFlow};
use crate::identity::{
    ExecutionId, FlowId, FlowKey, Partition, PartitionCount, PartitionRouter, RequestId,
};
use crate::operations::cancel::{
    CancelExecution, CancelFlow, CancelReport, CancelledExecution, Cancelling,
};
use crate::operations::claim::{Claim, ClaimRequest, LeaseToken};
use crate::operations::complete_and_claim::CompleteAndClaim;
use crate::operations::describe::{self, Explanation, FlowDescription};
use crate::operations::extend::{Extend, Extended};
use crate::operations::inputs::Claimed;
use crate::operations::report::{Renew, Report, Reporting};
use crate::operations::set_policy::{PolicySet, SetPolicy};
use crate::operations::submit::{Submit, Submitted};
use crate::policy::JoinPolicy;
use crate::reconcile::reaper::Steps;
use crate::reconcile::{
    self, ClockWatch, Failing, Pass, cancel_backlog, dependency, reaper, siblings,
};
use crate::state::ClosePolicy;
use crate::storage::{Consistency, EventId, Reported, Scope, Storage};
use crate::transact::{RetryBudget, transact};

/// What an engine may be told to do differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Partitions of the database; fixed when its schema was made.
    pub partitions: PartitionCount,
    /// What a flow may hold.
    pub limits: Limits,
    /// How transactions are restarted.
    pub budget: RetryBudget,
    /// How much one hop does.
    pub hop: HopLimits,
    /// How long a terminal execution is left to the dispatchers before the reconciler takes it.
    pub stale: Duration,
    /// Rows of one page of the reaper.
    pub reaper_page_rows: u32,
    /// How far the storage's clock may step forward, against the reaper's monotonic clock, before
    /// the reaper lets every lease go on.
    pub clock_step_max: Duration,
    /// For how long it then does: as long as the longest lease of a worker, so that each holder
    /// renews or reports. Nothing is reaped meanwhile.
    pub lease_grace: Duration,
    /// Members that one transaction of a cancel, or of a sibling cancel, looks at.
    pub cancel_batch: u32,
    /// Flows of one page of the projector.
    pub projector_page_rows: u32,
    /// How the feed is numbered and read.
    pub feed: FeedSettings,
    /// How long flows that are over are kept, and their events; `None` keeps them for ever.
    /// Longer than any call that names one of them may be repeated: what a flow stored of calls
    /// goes with it, and so does its idempotency key.
    pub keep: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            partitions: PartitionCount::default(),
            limits: Limits::default(),
            budget: RetryBudget::default(),
            hop: HopLimits::default(),
            stale: Duration::from_secs(1),
            reaper_page_rows: 100,
            clock_step_max: Duration::from_secs(1),
            lease_grace: Duration::from_secs(30),
            cancel_batch: 1_000,
            projector_page_rows: 100,
            feed: FeedSettings::default(),
            keep: None,
        }
    }
}

/// Durable execution of flows on one storage. Cheap to clone.
///
/// Cancellation: dropping the future of a call leaves either all of its effect or none; calling
/// again with the same request id, key or lease token tells which.
#[derive(Clone, Debug)]
pub struct Engine<S, E> {
    storage: S,
    environment: E,
    settings: Arc<Settings>,
    failing: Arc<Failing>,
    clock: Arc<ClockWatch>,
}

impl<S: Storage, E: Environment> Engine<S, E> {
    /// An engine on that storage.
    pub fn new(storage: S, environment: E, settings: Settings) -> Self {
        Self {
            storage,
            environment,
            settings: Arc::new(settings),
            failing: Arc::default(),
            clock: Arc::default(),
        }
    }

    /// The settings that it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The storage that it works on.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// The environment that it was made with.
    pub fn environment(&self) -> &E {
        &self.environment
    }

    /// Routes ids to partitions.
    pub fn router(&self) -> PartitionRouter {
        PartitionRouter::new(self.settings.partitions)
    }

    /// A fresh request id.
    pub fn request_id(&self) -> RequestId {
        let pair = (self.environment.random(), self.environment.random());
        RequestId(uuid::Builder::from_random_bytes(bytes(pair)).into_uuid())
    }

    /// Submits a flow as a whole, once per idempotency key or flow id.
    ///
    /// Errors: `Invalid` with every offender before anything is written, `Conflict` if the key or
    /// id stands for other content.
    pub async fn submit(&self, spec: FlowSpec) -> Result<Submitted, EngineError> {
        self.submit_valid(&self.valid(spec)?, self.request_id()).await
    }

    /// Submits a flow that was validated before, as the given call.
    ///
    /// A repetition with the same request id and flow id finds its own effect. Errors: `Conflict`.
    pub async fn submit_valid(
        &self,
        valid: &ValidFlow,
        request: RequestId,
    ) -> Result<Submitted, EngineError> {
        let body = self.submission(valid, request);
        let submitted =
            transact(&self.storage, &self.environment, &self.settings.budget, &body).await??;
        self.environment.released(Notice { partition: submitted.flow().partition });
        Ok(submitted)
    }

    /// Wakes whoever works on that partition: for after the commit of a transaction in which
    /// `submit_in`, `complete_in` or `report_in` was called. Without it they find the work when
    /// they next look.
    pub fn committed(&self, partition: Partition) {
        self.environment.released(Notice { partition });
        self.environment.notify(Notice { partition });
    }

    /// Adds executions, edges and joins to a flow, all or none of them, and raises its revision.
    ///
    /// An edge may lead from any execution of the flow, and into one that is blocked and whose join
    /// is undecided; it is counted by that join, whose policy stays. Edges of upstreams that have
    /// ended are resolved at once, and what they decide is decided. A flow that is over is open
    /// again. Limits are those of the whole flow. With `expected_revision` nothing is added to a
    /// flow that has grown since it was read.
    ///
    /// Repeated with the same request id it answers the same. Errors: `Invalid` and `LimitExceeded`
    /// with every offender, `FlowNotFound`; `Refused` if the flow was closed by a cancel, is at
    /// another revision, or an edge leads into an execution that no longer waits; `Conflict` if the
    /// request id stands for another call.
    pub async fn extend(
        &self,
        flow: FlowId,
        additions: Additions,
        expected_revision: Option<u64>,
        request: RequestId,
    ) -> Result<Extended, EngineError> {
        let limits = self.settings.limits;
        let additions = additions.validate(&limits).map_err(|problems| invalid(&problems))?;
        let flow = self.settings.partitions.key(flow);
        let body = Extend { flow, additions, expected_revision, request, limits };
        let extended =
            transact(&self.storage, &self.environment, &self.settings.budget, &body).await??;
        self.committed(flow.partition);
        Ok(extended)
    }

    /// Grants leases on what may be claimed; an empty list if nothing may.
    ///
    /// A lease comes with what the upstreams pass on by named edges: how each ended, and what it
    /// returned if it succeeded, as of the decision of the join, so that every attempt is passed
    /// the same. Results of more than [`Limits::inputs_max_bytes`] in total are left to
    /// [`Engine::read_inputs`]. [`Limits::claim_max_bytes`] bounds what one claim brings: it may
    /// grant fewer leases than were asked for.
    ///
    /// Errors: `Invalid` for a request without lanes or with a zero lease.
    pub async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, EngineError> {
        request.check()?;
        if request.limit == 0 {
            return Ok(Vec::new());
        }
        let pass = self.pass();
        let mut body = self.claiming(request, pass.quarantine());
        let granted = pass.around_unreadable(&mut body).await?;
        pass.has_read(granted.iter().map(|one| &one.grant));
        Ok(granted)
    }

    fn claiming(&self, request: ClaimRequest, except: Vec<ExecutionId>) -> Claim {
        let Settings { limits, feed, .. } = &*self.settings;
        let (limits, acquired) = (*limits, feed.acquired);
        Claim { request, nonce: self.environment.random(), except, limits, acquired }
    }

    /// Reports what became of an attempt.
    ///
    /// A repetition returns the reply that the first one stored. Errors: `LeaseLost` says what
    /// replaced the lease; `LimitExceeded` if the result has more bytes than
    /// [`Limits::result_max_bytes`]. Then nothing has changed.
    pub async fn report(&self, token: LeaseToken, report: Report) -> Result<Reported, EngineError> {
        let replies = self.report_all(vec![(token, report)]).await?;
        replies.into_iter().next().expect("one report has one reply")
    }

    /// Reports what became of several attempts, in one transaction; the replies come in the order
    /// of the reports, each as that of [`Engine::report`].
    ///
    /// A lost lease concerns its own report only. Errors: `Invalid` if two reports name one
    /// execution, `LimitExceeded` beyond
    /// [`REPORTS_MAX`](crate::operations::report::REPORTS_MAX) and for a result of more bytes than
    /// [`Limits::result_max_bytes`], or results of more than [`Limits::reports_max_bytes`]
    /// together; then nothing was reported.
    pub async fn report_all(
        &self,
        reports: Vec<(LeaseToken, Report)>,
    ) -> Result<Vec<Result<Reported, EngineError>>, EngineError> {
        let body = Reporting::of(reports, &self.settings.limits)?;
        if body.reports.is_empty() {
            return Ok(Vec::new());
        }
        let replies =
            transact(&self.storage, &self.environment, &self.settings.budget, &body).await?;
        self.notify_finished(&body, &replies);
        Ok(replies)
    }

    /// Reports what became of attempts and claims what comes next, in one transaction: what
    /// [`Engine::report_all`] and then [`Engine::claim`] do, with fewer statements and one commit.
    ///
    /// The replies come in the order of the reports; a lost lease concerns its own report only, and
    /// the claim is served all the same. Repeated with the same tokens, reports and request id
    /// after a lost answer, [`Sent::Again`](crate::operations::claim::Sent), it finds both effects.
    /// Errors: those of the two calls; then neither was done.
    pub async fn complete_and_claim(
        &self,
        reports: Vec<(LeaseToken, Report)>,
        request: ClaimRequest,
    ) -> Result<(Vec<Result<Reported, EngineError>>, Vec<Claimed>), EngineError> {
        request.check()?;
        let reporting = Reporting::of(reports, &self.settings.limits)?;
        let pass = self.pass();
        let claim = self.claiming(request, pass.quarantine());
        let mut body = CompleteAndClaim { reporting, claim };
        let (replies, grants) = pass.around_unreadable(&mut body).await?;
        pass.has_read(grants.iter().map(|one| &one.grant));
        self.notify_finished(&body.reporting, &replies);
        Ok((replies, grants))
    }

    /// Extends a lease; returns the time it now has left, to be counted from the moment the renewal
    /// was sent. The expiry never moves back.
    ///
    /// A lease that has run out goes on, too, as long as nothing has ended it: its time may only
    /// seem to be over, because the storage's clock has stepped. Errors: `ExecutionNotFound`;
    /// `LeaseLost` says what replaced the lease.
    pub async fn renew(&self, token: LeaseToken, lease: Duration) -> Result<Duration, EngineError> {
        let body = Renew { token, lease, renewed: self.settings.feed.renewed };
        transact(&self.storage, &self.environment, &self.settings.budget, &body).await?
    }

    /// Advances the execution that an event names.
    pub async fn dispatch(&self, event: EventId) -> Result<DispatchOutcome, EngineError> {
        dispatcher::dispatch(self.visitor(), event).await
    }

    /// What dispatcher `index` of the `dispatchers` of one process looks at: partitions are routed
    /// to them, so that they do not queue on one group.
    pub fn routed(&self, scope: &Scope, index: u16, dispatchers: u16) -> Scope {
        let partitions = self.router().share_of(&scope.partitions, index, dispatchers);
        Scope { partitions, ..scope.clone() }
    }

    /// One pass of a dispatcher: every terminal, unpropagated execution of the scope, at once.
    pub async fn dispatch_pass(&self, scope: &Scope) -> Result<reconcile::Report, EngineError> {
        self.visitor().advance(scope, None).await
    }

    /// One tick of the dependency reconciler.
    pub async fn dependency_tick(&self, scope: &Scope) -> Result<reconcile::Report, EngineError> {
        dependency::tick(self.visitor(), scope, self.settings.stale).await
    }

    /// Cancels a flow: closes it, and cancels the members that the policy names, the first
    /// [`Settings::cancel_batch`] of them at once and the others by the reconciler of the backlog.
    ///
    /// In a flow closed with [`ClosePolicy::CancelPending`] or [`ClosePolicy::CancelAll`] nothing
    /// becomes ready any more: what would is cancelled instead. Members that have ended stay as
    /// they are. The same or a weaker policy again answers what the call that closed the flow has
    /// done, a stronger one escalates. Repeated with the same request id it answers how far it has
    /// come.
    /// Errors: `FlowNotFound`; `Conflict` if the request id stands for another call.
    pub async fn cancel_flow(
        &self,
        flow: FlowId,
        policy: ClosePolicy,
        request: RequestId,
    ) -> Result<CancelReport, EngineError> {
        let flow = self.settings.partitions.key(flow);
        let (pass, batch) = (self.pass(), self.settings.cancel_batch);
        let mut body = CancelFlow { flow, policy, request, batch, except: pass.quarantine() };
        let report = pass.around_unreadable(&mut body).await??;
        if !report.cancelled.is_empty() {
            self.environment.notify(Notice { partition: flow.partition });
        }
        Ok(report)
    }

    /// Cancels a flow as [`Engine::cancel_flow`] does and goes on until no member that the policy
    /// cancels is left. A replay that opens the flow meanwhile ends the wait; the report then says
    /// that the cancel is in progress.
    ///
    /// Cancellation: dropped, the reconciler goes on. Errors: those of `cancel_flow`, and of the
    /// batch that failed; what was cancelled stays so. `Unreadable` if nothing but members that
    /// cannot be read is left.
    pub async fn cancel_flow_and_wait(
        &self,
        flow: FlowId,
        policy: ClosePolicy,
        request: RequestId,
    ) -> Result<CancelReport, EngineError> {
        let mut opened = false;
        loop {
            let report = self.cancel_flow(flow, policy, request).await?;
            if opened || report.progress == Cancelling::Done {
                return Ok(report);
            }
            let key = self.settings.partitions.key(flow);
            let (mut done, batch) = (reconcile::Report::default(), self.settings.cancel_batch);
            let drained = cancel_backlog::drain(self.pass(), key, batch, &mut done).await?;
            opened = drained.opened;
            if let (Some(execution), 0) = (drained.passed_over.first(), done.reconciled) {
                let reason = "the cancel of its flow waits for it to be mended".to_owned();
                return Err(EngineError::Unreadable { execution: *execution, reason });
            }
        }
    }

    /// Cancels one execution; a live lease is revoked. The reason is kept with the request.
    ///
    /// Repeated with the same request id it answers the same. Errors: `ExecutionNotFound`;
    /// `Conflict` if the request id stands for another call.
    pub async fn cancel_execution(
        &self,
        execution: ExecutionId,
        reason: &str,
        request: RequestId,
    ) -> Result<CancelledExecution, EngineError> {
        let body = CancelExecution { execution, reason: reason.into(), request };
        let done =
            transact(&self.storage, &self.environment, &self.settings.budget, &body).await??;
        if done == CancelledExecution::Cancelled {
            self.environment.notify(Notice { partition: execution.partition });
        }
        Ok(done)
    }

    /// Exchanges the policy of the group of a downstream, as long as none of its edges is resolved.
    ///
    /// Repeated with the same request id it answers the same. Errors: `FlowNotFound`;
    /// `ExecutionNotFound` if the flow has no such downstream or it has no inbound edges; `Invalid`
    /// if the policy does not fit the number of edges; `Refused` once an edge is resolved or the
    /// group has decided; `Conflict` if the request id stands for another call.
    pub async fn set_edge_group_policy(
        &self,
        flow: FlowId,
        downstream: ExecutionId,
        policy: JoinPolicy,
        request: RequestId,
    ) -> Result<PolicySet, EngineError> {
        let flow = self.settings.partitions.key(flow);
        let body = SetPolicy { flow, downstream, policy, request };
        transact(&self.storage, &self.environment, &self.settings.budget, &body).await?
    }

    /// One tick of the sibling drain: cancels what decided joins no longer need.
    pub async fn sibling_tick(&self, scope: &Scope) -> Result<reconcile::Report, EngineError> {
        siblings::tick(self.pass(), scope, self.settings.cancel_batch).await
    }

    /// One tick of the cancel backlog: goes on with the flows that are being cancelled.
    pub async fn cancel_backlog_tick(
        &self,
        scope: &Scope,
    ) -> Result<reconcile::Report, EngineError> {
        cancel_backlog::tick(self.pass(), scope, self.settings.cancel_batch).await
    }

    /// One tick of the reaper. After a forward step of the storage's clock it ends nothing for a
    /// while: see [`Settings::lease_grace`].
    pub async fn reaper_tick(&self, scope: &Scope) -> Result<reconcile::Report, EngineError> {
        let Settings { reaper_page_rows, clock_step_max, lease_grace, .. } = *self.settings;
        let clock = &*self.clock;
        let steps = Steps { clock, step_max: clock_step_max, grace: lease_grace };
        reaper::tick(self.pass(), scope, reaper_page_rows, steps).await
    }

    /// A flow with its executions, groups and counters, all of one instant.
    pub async fn describe_flow(&self, flow: FlowId) -> Result<FlowDescription, EngineError> {
        let key = self.settings.partitions.key(flow);
        let mut reader = self.storage.snapshot(Consistency::Snapshot).await?;
        describe::flow(&mut reader, key).await
    }

    /// Why an execution stands where it stands, and what would move it.
    pub async fn explain(&self, execution: ExecutionId) -> Result<Explanation, EngineError> {
        let mut reader = self.storage.snapshot(Consistency::Snapshot).await?;
        describe::explain(&mut reader, execution).await
    }

    /// One tick of the sequencer: gives every committed event of the scope's partitions its place
    /// in the feed. The labels of the scope do not matter. Many may run at once.
    ///
    /// Errors: of a batch; those before it are done.
    pub async fn sequencer_tick(&self, scope: &Scope) -> Result<reconcile::Report, EngineError> {
        let Settings { budget, feed, .. } = &*self.settings;
        sequencer::tick(&self.storage, &self.environment, budget, scope, feed).await
    }

    /// Before every event of the feed that is still there.
    pub async fn cursor_oldest(&self) -> Result<Cursor, EngineError> {
        Ok(Cursor::oldest(&feed::head(&self.storage).await?))
    }

    /// Behind every event that has its place in the feed.
    pub async fn cursor_now(&self) -> Result<Cursor, EngineError> {
        Ok(Cursor::newest(&feed::head(&self.storage).await?))
    }

    /// A page of the feed: events behind the cursor that the filter wants, of a [`Scope`] alone its
    /// completion events; at most `limit` of them and never more than
    /// [`PAGE_ROWS_MAX`](feed::PAGE_ROWS_MAX), in the order of the stream.
    ///
    /// Errors: `CursorExpired` if events behind the cursor are gone, `CursorLost` if it belongs to
    /// another timeline; never a silent gap.
    pub async fn read_feed(
        &self,
        cursor: Cursor,
        filter: impl Into<FeedFilter>,
        limit: u32,
    ) -> Result<FeedPage, EngineError> {
        feed::page(&self.storage, cursor, &filter.into(), limit).await
    }

    /// Subscribes to the events behind the cursor that the filter wants, of a [`Scope`] alone its
    /// completion events; see [`Subscriber::next`] and [`Subscriber::into_stream`].
    pub fn subscribe(&self, cursor: Cursor, filter: impl Into<FeedFilter>) -> Subscriber<S, E> {
        let (storage, environment) = (self.storage.clone(), self.environment.clone());
        Subscriber::new(storage, environment, self.settings.feed, filter.into(), cursor)
    }

    /// Opens the consumer of that name, whose cursor is stored. A new one begins with the oldest
    /// event that is left; one that exists goes on behind what it has acknowledged.
    ///
    /// Cancellation: dropping the future may leave a new consumer behind. Errors: `Invalid` for a
    /// name that is empty or too long.
    pub async fn consumer(
        &self,
        name: &str,
        filter: impl Into<FeedFilter>,
    ) -> Result<Consumer<S, E>, EngineError> {
        let (storage, environment) = (self.storage.clone(), self.environment.clone());
        let Settings { budget, feed, .. } = *self.settings;
        Consumer::open(storage, environment, budget, feed, name, filter.into()).await
    }

    /// The key of a flow of this database.
    pub fn flow_key(&self, flow: FlowId) -> FlowKey {
        self.settings.partitions.key(flow)
    }

    /// A flow that the limits allow, or every offender.
    pub(crate) fn valid(&self, spec: FlowSpec) -> Result<ValidFlow, EngineError> {
        spec.validate(&self.settings.limits).map_err(|problems| invalid(&problems))
    }

    /// The transaction of a submit, with all that it draws.
    pub(crate) fn submission(&self, valid: &ValidFlow, request: RequestId) -> Submit {
        let id = valid.spec().flow_id.unwrap_or_else(|| self.flow_id());
        let bytes_max = self.settings.limits.statement_max_bytes;
        Submit::new(valid, self.settings.partitions.key(id), request, bytes_max)
    }

    fn flow_id(&self) -> FlowId {
        let pair = (self.environment.random(), self.environment.random());
        let random = bytes(pair);
        let unix_ms = self.environment.wall_clock().unix_ms();
        FlowId::from_parts(unix_ms, random[..10].try_into().expect("ten bytes"))
    }

    /// Wakes the dispatchers of every partition in which a report ended an execution.
    fn notify_finished(&self, reporting: &Reporting, replies: &[Result<Reported, EngineError>]) {
        let finished = reporting.reports.iter().zip(replies);
        let finished = finished.filter(|(_, reply)| matches!(reply, Ok(Reported::Finished(_))));
        let partitions: BTreeSet<Partition> =
            finished.map(|((token, _), _)| token.execution.partition).collect();
        for partition in partitions {
            self.environment.notify(Notice { partition });
        }
    }

    fn visitor(&self) -> Visitor<'_, S, E> {
        Visitor { pass: self.pass(), limits: &self.settings.hop }
    }

    fn pass(&self) -> Pass<'_, S, E> {
        Pass {
            storage: &self.storage,
            environment: &self.environment,
            budget: &self.settings.budget,
            failing: &self.failing,
        }
    }
}

fn bytes(pair: (u64, u64)) -> [u8; 16] {
    (u128::from(pair.0) << 64 | u128::from(pair.1)).to_be_bytes()
}
