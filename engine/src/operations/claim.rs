//! Claiming: grants of leases to a worker. Never waits for a lock, never ends a lease.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::error::EngineError;
use crate::flow::Limits;
use crate::identity::{ExecutionId, FlowKey, RequestId};
use crate::mutants::mutated;
use crate::operations::finish::record_changes;
use crate::operations::inputs::{Claimed, Found, carry};
use crate::reconcile::PassesOver;
use crate::storage::{ClaimQuery, Grant, LeaseChange, NewEvent, Result, Transaction};
use crate::time::Timestamp;
use crate::transact::{Body, Run, Verdict};

/// Whether the caller has sent this request before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sent {
    /// Never.
    #[default]
    First,
    /// It may have taken effect: live grants that carry its request id are returned first.
    Again,
}

/// What a worker asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRequest {
    /// Identifies the call; a repetition carries the same.
    pub request: RequestId,
    /// Whether this is a repetition.
    pub sent: Sent,
    /// Name of the worker.
    pub worker: Arc<str>,
    /// Which process of that name.
    pub instance: Arc<str>,
    /// Only this tenant's work.
    pub namespace: Option<Arc<str>>,
    /// Only these partitions.
    pub partitions: Range<u16>,
    /// Only these lanes; at least one.
    pub lanes: Vec<Arc<str>>,
    /// Only these kinds; empty means every kind.
    pub kinds: Vec<Arc<str>>,
    /// At most so many leases.
    pub limit: u32,
    /// How long each lease lasts, counted by the worker from the moment it sent the request.
    pub lease: Duration,
}

/// A worker's right to write: quoted by every report and renewal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseToken {
    /// The execution.
    pub execution: ExecutionId,
    /// Its incarnation.
    pub incarnation: u32,
    /// The granted attempt.
    pub attempt: u32,
    /// The epoch of the grant.
    pub epoch: u64,
    /// The random bits of the grant.
    pub nonce: u64,
}

impl ClaimRequest {
    /// A first request for one execution of the lane `default`, of every kind, namespace and
    /// partition, with a lease of 30 seconds; the fields say what is to be otherwise.
    pub fn new(request: RequestId, worker: impl Into<Arc<str>>) -> Self {
        let worker = worker.into();
        Self {
            request,
            sent: Sent::First,
            instance: Arc::clone(&worker),
            worker,
            namespace: None,
            partitions: 0..u16::MAX,
            lanes: vec!["default".into()],
            kinds: Vec::new(),
            limit: 1,
            lease: Duration::from_secs(30),
        }
    }

    /// Refuses a request that no claim can serve.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if self.lanes.is_empty() {
            return Err(EngineError::Invalid("a claim names at least one lane".into()));
        }
        if self.lease.is_zero() {
            return Err(EngineError::Invalid("a lease lasts longer than zero".into()));
        }
        Ok(())
    }
}

impl Grant {
    /// The token of the granted lease.
    pub fn token(&self) -> LeaseToken {
        let lease = self.execution.lease.expect("a grant carries its lease");
        LeaseToken {
            execution: self.execution.id,
            incarnation: self.execution.incarnation,
            attempt: self.execution.attempt,
            epoch: self.execution.epoch,
            nonce: lease.nonce,
        }
    }
}

/// The transaction of a claim.
pub(crate) struct Claim {
    pub(crate) request: ClaimRequest,
    pub(crate) nonce: u64,
    /// Executions whose rows cannot be read.
    pub(crate) except: Vec<ExecutionId>,
    /// How much it may bring.
    pub(crate) limits: Limits,
    /// Whether the feed is to tell of grants.
    pub(crate) acquired: bool,
}

impl Body for Claim {
    type Out = Vec<Claimed>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        run: Run,
    ) -> Result<Verdict<Vec<Claimed>>> {
        let earlier = self.earlier(transaction, run).await?;
        if !earlier.is_empty() {
            let earlier = self.carry(transaction, earlier, Found::Again).await?;
            return Ok(Verdict::Rollback(earlier));
        }
        // A claim never waits, so that its clock, read first, is not old when it grants.
        let now = transaction.clock().await?;
        let grants = self.grant(transaction, now).await?;
        if grants.is_empty() {
            return Ok(Verdict::Rollback(Vec::new()));
        }
        record_changes(transaction, &flows_of(&grants)).await?;
        let claimed = self.carry(transaction, grants, Found::Granted).await?;
        Ok(Verdict::Commit(claimed))
    }
}

impl PassesOver for Claim {
    fn except(&self) -> &[ExecutionId] {
        &self.except
    }

    fn pass_over(&mut self, execution: ExecutionId) {
        self.except.push(execution);
        // A commit whose answer was lost may have been among the runs before.
        self.request.sent = Sent::Again;
    }
}

/// The flows of which something was granted.
pub(crate) fn flows_of(grants: &[Grant]) -> BTreeSet<FlowKey> {
    grants.iter().map(|grant| grant.execution.flow_key()).collect()
}

impl Claim {
    /// What an earlier run of this claim was granted and still holds.
    pub(crate) async fn earlier<T: Transaction>(
        &self,
        transaction: &mut T,
        run: Run,
    ) -> Result<Vec<Grant>> {
        if run == Run::First && self.request.sent == Sent::First {
            return Ok(Vec::new());
        }
        transaction.read_grants(&self.request.request).await
    }

    /// What was granted, with what its upstreams pass on.
    pub(crate) async fn carry<T: Transaction>(
        &self,
        transaction: &mut T,
        grants: Vec<Grant>,
        found: Found,
    ) -> Result<Vec<Claimed>> {
        let share = self.limits.claim_max_bytes / (grants.len() as u64).max(1);
        carry(transaction, grants, found, self.limits.inputs_max_bytes.min(share)).await
    }

    /// As many leases as may come with the payloads that the limits allow; at least one.
    fn grants_max(&self) -> u32 {
        let Limits { claim_max_bytes, payload_max_bytes, .. } = self.limits;
        let fitting = claim_max_bytes / payload_max_bytes.max(1);
        u32::try_from(fitting).unwrap_or(u32::MAX).max(1)
    }

    /// Grants what may be claimed, and tells the feed if it is to; waits for nobody.
    pub(crate) async fn grant<T: Transaction>(
        &self,
        transaction: &mut T,
        now: Timestamp,
    ) -> Result<Vec<Grant>> {
        let request = &self.request;
        if request.limit == 0 {
            return Ok(Vec::new());
        }
        let query = ClaimQuery {
            request: request.request,
            worker: Arc::clone(&request.worker),
            instance: Arc::clone(&request.instance),
            namespace: request.namespace.clone(),
            partitions: request.partitions.clone(),
            lanes: request.lanes.clone(),
            kinds: request.kinds.clone(),
            except: self.except.clone(),
            limit: request.limit.min(self.grants_max()),
            now,
            lease: request.lease,
            nonce: self.nonce,
            charge: u32::from(!mutated!(P38)),
        };
        let grants = transaction.claim_executions(&query).await?;
        if self.acquired && !grants.is_empty() {
            let granted =
                |grant: &Grant| NewEvent::of_lease(&grant.execution, LeaseChange::Acquired, now);
            let events: Vec<NewEvent> = grants.iter().filter_map(granted).collect();
            transaction.insert_events(&events).await?;
        }
        Ok(grants)
    }
}
