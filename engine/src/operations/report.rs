//! What a worker reports of an attempt: complete, fail, release, renew. Every write is fenced under
//! the row's lock; a repetition finds the stored reply.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::error::{EngineError, Replacement};
use crate::mutants::mutated;
use crate::operations::claim::LeaseToken;
use crate::operations::finish::{self, Move};
use crate::state::{Cause, ClosePolicy, Outcome, State};
use crate::storage::{
    AttemptEnd, AttemptKey, Execution, ExecutionWrite, Lease, Reported, Result, ResultChange,
    Transaction,
};
use crate::time::{Timestamp, micros};
use crate::transact::{Body, Run, Verdict};

/// How often an incarnation may give attempts back.
pub const GIVE_BACKS_MAX: u32 = 100;

/// What a worker says of its attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// It succeeded, with this result.
    Complete(Arc<[u8]>),
    /// It failed; another attempt may succeed.
    FailRetryable(Arc<[u8]>),
    /// It failed for good.
    FailFatal(Arc<[u8]>),
    /// It was not tried to the end: the attempt is given back.
    Release,
}

impl Report {
    /// The end that the attempt's history will show.
    pub fn end(&self) -> AttemptEnd {
        match self {
            Report::Complete(_) => AttemptEnd::Completed,
            Report::FailRetryable(_) => AttemptEnd::FailedRetryable,
            Report::FailFatal(_) => AttemptEnd::FailedFatal,
            Report::Release => AttemptEnd::Released,
        }
    }

    fn payload(&self) -> &[u8] {
        match self {
            Report::Complete(bytes) | Report::FailRetryable(bytes) | Report::FailFatal(bytes) => {
                bytes
            }
            Report::Release => &[],
        }
    }

    /// Tells two reports of one attempt apart; the first eight bytes of a SHA-256.
    fn payload_hash(&self) -> u64 {
        let digest = Sha256::digest(self.payload());
        digest[..8].iter().fold(0, |hash, byte| hash << 8 | u64::from(*byte))
    }

    fn result(&self) -> ResultChange {
        match self {
            Report::Complete(bytes) | Report::FailFatal(bytes) => {
                ResultChange::Set(Arc::clone(bytes))
            }
            Report::FailRetryable(_) | Report::Release => ResultChange::Keep,
        }
    }
}

/// True if the token names the live lease of the row.
fn holds(row: &Execution, token: &LeaseToken) -> bool {
    let names_attempt = row.incarnation == token.incarnation && row.attempt == token.attempt;
    let names_grant =
        row.epoch == token.epoch && row.lease.is_some_and(|lease| lease.nonce == token.nonce);
    if mutated!(P32) {
        return row.state == State::Active;
    }
    if mutated!(P34) {
        return !row.state.is_terminal() && names_attempt && row.epoch == token.epoch;
    }
    row.state == State::Active && names_attempt && names_grant
}

fn replacement(row: &Execution) -> EngineError {
    EngineError::LeaseLost(Replacement {
        state: row.state,
        incarnation: row.incarnation,
        attempt: row.attempt,
        epoch: row.epoch,
    })
}

/// What ending a lease without an outcome leads to: the next attempt, or the end of them.
pub(crate) struct Retry {
    /// The row after it.
    pub after: Execution,
    /// What the caller is told.
    pub reported: Reported,
}

/// Decides where an execution goes whose attempt ended without a final outcome.
///
/// `exhausted` is the outcome when no attempt is left; a flow closed with `CancelPending` or
/// `CancelAll` lets nothing become ready.
pub(crate) fn retry(
    before: &Execution,
    closing: Option<ClosePolicy>,
    exhausted: Outcome,
    delay: Duration,
    now: Timestamp,
) -> Retry {
    let closed = matches!(closing, Some(ClosePolicy::CancelPending | ClosePolicy::CancelAll));
    let end = if closed {
        Some((Outcome::Cancelled, Cause::Flow))
    } else if before.charged >= before.retry.max_attempts {
        Some((exhausted, Cause::AttemptsExhausted))
    } else {
        None
    };
    match end {
        Some((outcome, cause)) => Retry {
            after: finish::finished(before, outcome, cause, now),
            reported: Reported::Finished(outcome),
        },
        None => Retry {
            after: finish::requeued(before, now + delay),
            reported: Reported::Requeued { delay_us: micros(delay) },
        },
    }
}

/// The transaction of a report.
pub(crate) struct Reporting {
    pub(crate) token: LeaseToken,
    pub(crate) report: Report,
}

impl Reporting {
    /// The planted bug that lets a worker complete what the reaper has requeued.
    fn completes_too_late(&self, row: &Execution) -> bool {
        let completes = matches!(self.report, Report::Complete(_));
        mutated!(P33) && completes && row.state == State::Ready && row.attempt == self.token.attempt
    }

    fn decide(&self, row: &Execution, closing: Option<ClosePolicy>, now: Timestamp) -> Retry {
        let backoff = row.retry.backoff.delay(row.id, row.attempt);
        let backoff = if mutated!(P37) { Duration::ZERO } else { backoff };
        let finished = |outcome| Retry {
            after: finish::finished(row, outcome, Cause::Handler, now),
            reported: Reported::Finished(outcome),
        };
        match &self.report {
            Report::Complete(_) => finished(Outcome::Succeeded),
            Report::FailFatal(_) => finished(Outcome::Failed),
            Report::FailRetryable(_) => retry(row, closing, Outcome::Failed, backoff, now),
            Report::Release => {
                let give_back = row.give_backs < GIVE_BACKS_MAX && row.charged > 0;
                let returned = Execution {
                    charged: row.charged - u32::from(give_back),
                    give_backs: row.give_backs + u32::from(give_back),
                    ..*row
                };
                retry(&returned, closing, Outcome::Failed, Duration::ZERO, now)
            }
        }
    }

    /// The reply that an earlier run of this report stored, or what replaced the lease.
    async fn replay<T: Transaction>(
        &self,
        transaction: &mut T,
        row: &Execution,
    ) -> Result<Result<Reported, EngineError>> {
        let key = AttemptKey {
            execution: self.token.execution,
            incarnation: self.token.incarnation,
            attempt: self.token.attempt,
        };
        let stored = transaction.read_attempt(&key).await?.filter(|stored| {
            stored.epoch == self.token.epoch
                && stored.nonce == self.token.nonce
                && stored.end == self.report.end()
                && stored.payload_hash == self.report.payload_hash()
        });
        Ok(stored.map(|stored| stored.reported).ok_or_else(|| replacement(row)))
    }
}

impl Body for Reporting {
    type Out = Result<Reported, EngineError>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        let rows = transaction.lock_executions(&[self.token.execution]).await?;
        let Some(row) = rows.first().copied() else {
            let missing = EngineError::ExecutionNotFound(self.token.execution);
            return Ok(Verdict::Rollback(Err(missing)));
        };
        if !(holds(&row, &self.token) || self.completes_too_late(&row)) {
            return Ok(Verdict::Rollback(self.replay(transaction, &row).await?));
        }
        let now = transaction.clock().await?;
        let may_requeue = matches!(self.report, Report::FailRetryable(_) | Report::Release);
        let closing = match may_requeue {
            true => transaction.read_closings(&[row.flow_key()]).await?.first().map(|row| row.1),
            false => None,
        };
        let Retry { after, reported } = self.decide(&row, closing, now);
        let attempt = finish::ended_attempt(
            &row,
            self.report.end(),
            reported,
            self.report.payload_hash(),
            now,
        );
        let result = self.report.result();
        finish::record(transaction, &[Move { before: row, after, result, attempt }]).await?;
        Ok(Verdict::Commit(Ok(reported)))
    }
}

/// The transaction of a renewal.
pub(crate) struct Renew {
    pub(crate) token: LeaseToken,
    pub(crate) lease: Duration,
}

impl Body for Renew {
    type Out = Result<Duration, EngineError>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        let rows = transaction.lock_executions(&[self.token.execution]).await?;
        let Some(row) = rows.first() else {
            let missing = EngineError::ExecutionNotFound(self.token.execution);
            return Ok(Verdict::Rollback(Err(missing)));
        };
        let Some(lease) = row.lease.filter(|_| holds(row, &self.token)) else {
            return Ok(Verdict::Rollback(Err(replacement(row))));
        };
        let now = transaction.clock().await?;
        if lease.expires_at <= now {
            return Ok(Verdict::Rollback(Err(replacement(row))));
        }
        let expires_at = lease.expires_at.max(now + self.lease);
        let left = expires_at.since(now);
        if expires_at == lease.expires_at {
            return Ok(Verdict::Rollback(Ok(left)));
        }
        let after = Execution { lease: Some(Lease { expires_at, ..lease }), ..*row };
        let write = ExecutionWrite { guard: row.guard(), after, result: ResultChange::Keep };
        let written = transaction.write_executions(&[write]).await?;
        assert!(written.len() == 1, "a locked execution changed under its lock");
        Ok(Verdict::Commit(Ok(left)))
    }
}
