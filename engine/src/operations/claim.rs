//! Claiming: grants of leases to a worker. Never waits for a lock, never ends a lease.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::identity::{ExecutionId, RequestId};
use crate::mutants::mutated;
use crate::operations::finish::record_changes;
use crate::storage::{ClaimQuery, Grant, Result, Transaction};
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
}

impl Body for Claim {
    type Out = Vec<Grant>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        run: Run,
    ) -> Result<Verdict<Vec<Grant>>> {
        let request = &self.request;
        if run == Run::AfterUnknownCommit || request.sent == Sent::Again {
            let live = transaction.read_grants(&request.request).await?;
            if !live.is_empty() {
                return Ok(Verdict::Rollback(live));
            }
        }
        // A claim never waits, so that its clock, read first, is not old when it grants.
        let now = transaction.clock().await?;
        let query = ClaimQuery {
            request: request.request,
            worker: Arc::clone(&request.worker),
            instance: Arc::clone(&request.instance),
            namespace: request.namespace.clone(),
            partitions: request.partitions.clone(),
            lanes: request.lanes.clone(),
            kinds: request.kinds.clone(),
            limit: request.limit,
            now,
            lease: request.lease,
            nonce: self.nonce,
            charge: u32::from(!mutated!(P38)),
        };
        let grants = transaction.claim_executions(&query).await?;
        if grants.is_empty() {
            return Ok(Verdict::Rollback(grants));
        }
        record_changes(transaction, grants.iter().map(|grant| grant.execution.flow_key())).await?;
        Ok(Verdict::Commit(grants))
    }
}
