//! What a worker reports of an attempt: complete, fail, release, renew. Every write is fenced under
//! the row's lock; a repetition finds the stored reply.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::error::{EngineError, Replacement, too_large};
use crate::failure::Failure;
use crate::flow::Limits;
use crate::identity::{ExecutionId, FlowKey};
use crate::mutants::mutated;
use crate::operations::cancel::stops_ready;
use crate::operations::claim::LeaseToken;
use crate::operations::finish::{self, Move};
use crate::state::{Cause, ClosePolicy, Outcome, State};
use crate::storage::{
    AttemptEnd, AttemptKey, Contention, Execution, ExecutionWrite, Lease, LeaseChange, NewEvent,
    Reported, Result, ResultChange, StorageError, Transaction,
};
use crate::time::{Timestamp, micros};
use crate::transact::{Body, Run, Verdict};

/// Reports of one call.
pub const REPORTS_MAX: usize = 1_000;

/// What a worker says of its attempt. The bytes are at most
/// [`Limits::result_max_bytes`](crate::flow::Limits::result_max_bytes).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// It succeeded, with this result.
    Complete(Arc<[u8]>),
    /// It failed; another attempt may succeed. Where none is left, the execution fails with this.
    FailRetryable(Arc<[u8]>),
    /// It failed for good.
    FailFatal(Arc<[u8]>),
    /// It was not tried to the end: the attempt is given back, up to
    /// [`Limits::give_backs_max`](crate::flow::Limits::give_backs_max) times an incarnation. Each
    /// further release stays charged, and where no attempt is left the execution fails with a
    /// result that says so.
    Release,
    /// It is to be tried again once so much time has passed: the attempt is given back, however
    /// often that happens.
    Snooze(Duration),
    /// It is to be gone on with once somebody resumes it: the attempt is given back.
    Suspend,
    /// It is not called for: the execution ends as skipped.
    Skip,
}

impl Report {
    /// The end that the attempt's history will show.
    pub fn end(&self) -> AttemptEnd {
        match self {
            Report::Complete(_) => AttemptEnd::Completed,
            Report::FailRetryable(_) => AttemptEnd::FailedRetryable,
            Report::FailFatal(_) => AttemptEnd::FailedFatal,
            Report::Release => AttemptEnd::Released,
            Report::Snooze(_) => AttemptEnd::Snoozed,
            Report::Suspend => AttemptEnd::Suspended,
            Report::Skip => AttemptEnd::Skipped,
        }
    }

    fn payload(&self) -> Cow<'_, [u8]> {
        match self {
            Report::Complete(bytes) | Report::FailRetryable(bytes) | Report::FailFatal(bytes) => {
                Cow::Borrowed(bytes)
            }
            Report::Snooze(delay) => Cow::Owned(micros(*delay).to_be_bytes().to_vec()),
            Report::Release | Report::Suspend | Report::Skip => Cow::Borrowed(&[]),
        }
    }

    /// Tells two reports of one attempt apart; the first eight bytes of a SHA-256.
    fn payload_hash(&self) -> u64 {
        let digest = Sha256::digest(self.payload());
        digest[..8].iter().fold(0, |hash, byte| hash << 8 | u64::from(*byte))
    }

    /// Bytes that may become the execution's result.
    fn result_bytes(&self) -> u64 {
        match self {
            Report::Complete(bytes) | Report::FailRetryable(bytes) | Report::FailFatal(bytes) => {
                bytes.len() as u64
            }
            Report::Release | Report::Snooze(_) | Report::Suspend | Report::Skip => 0,
        }
    }

    /// What is stored as the execution's result: of failures that may be tried again, the last; of
    /// releases the one for which no attempt is left.
    fn result(&self, reported: Reported, limits: &Limits) -> ResultChange {
        match self {
            Report::Complete(bytes) | Report::FailFatal(bytes) => {
                ResultChange::Set(Arc::clone(bytes))
            }
            Report::FailRetryable(bytes) if reported == Reported::Finished(Outcome::Failed) => {
                ResultChange::Set(Arc::clone(bytes))
            }
            Report::Release if reported == Reported::Finished(Outcome::Failed) => {
                let most = limits.give_backs_max;
                let message = format!(
                    "released more than {most} times (`give_backs_max`), and no attempt is left"
                );
                ResultChange::Set(Failure::within(&message, limits.result_max_bytes))
            }
            Report::FailRetryable(_)
            | Report::Release
            | Report::Snooze(_)
            | Report::Suspend
            | Report::Skip => ResultChange::Keep,
        }
    }
}

/// True if the token names the live lease of the row.
pub(crate) fn holds(row: &Execution, token: &LeaseToken) -> bool {
    let names_attempt = row.incarnation == token.incarnation && row.attempt == token.attempt;
    let nonces = |lease: Lease| lease.nonce == token.nonce || mutated!(P62);
    let names_grant = row.epoch == token.epoch && row.lease.is_some_and(nonces);
    if mutated!(P32) {
        return row.state == State::Active;
    }
    if mutated!(P23) {
        return names_attempt && names_grant;
    }
    if mutated!(P34) {
        return !row.state.is_terminal() && names_attempt && row.epoch == token.epoch;
    }
    row.state == State::Active && names_attempt && names_grant
}

pub(crate) fn replacement(row: &Execution) -> EngineError {
    EngineError::LeaseLost(Replacement {
        state: row.state,
        incarnation: row.incarnation,
        attempt: row.attempt,
        epoch: row.epoch,
    })
}

/// What the end of a lease or of a suspension leads to.
pub(crate) struct Retry {
    /// The row after it.
    pub after: Execution,
    /// What the caller is told.
    pub reported: Reported,
}

/// Decides where an execution goes whose attempt or suspension ended without a final outcome.
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
    let end = if stops_ready(closing) {
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

/// The reply to one report: what it led to, or why it counts for nothing.
pub(crate) type Reply = Result<Reported, EngineError>;

/// What reports lead to, under the locks of what they report.
pub(crate) struct Settled {
    /// In the order of the reports.
    pub replies: Vec<Reply>,
    /// What is to be written, in id order.
    pub moves: Vec<Move>,
    /// The storage's clock after the locks, if it was asked.
    pub now: Option<Timestamp>,
}

/// The transaction of a report, or of several of different executions.
pub(crate) struct Reporting {
    pub(crate) reports: Vec<(LeaseToken, Report)>,
    limits: Limits,
}

/// The planted bug that lets a worker complete what the reaper has requeued.
fn completes_too_late(token: &LeaseToken, report: &Report, row: &Execution) -> bool {
    let completes = matches!(report, Report::Complete(_));
    mutated!(P33) && completes && row.state == State::Ready && row.attempt == token.attempt
}

fn may_requeue(report: &Report) -> bool {
    matches!(report, Report::FailRetryable(_) | Report::Release | Report::Snooze(_))
}

fn decide(
    report: &Report,
    row: &Execution,
    closing: Option<ClosePolicy>,
    give_backs_max: u32,
    now: Timestamp,
) -> Retry {
    let backoff = row.retry.backoff.delay(row.id, row.attempt);
    let backoff = if mutated!(P37) { Duration::ZERO } else { backoff };
    let finished = |outcome| Retry {
        after: finish::finished(row, outcome, Cause::Handler, now),
        reported: Reported::Finished(outcome),
    };
    match report {
        Report::Complete(_) => finished(Outcome::Succeeded),
        Report::FailFatal(_) => finished(Outcome::Failed),
        Report::FailRetryable(_) => retry(row, closing, Outcome::Failed, backoff, now),
        Report::Release => {
            retry(&released(row, give_backs_max), closing, Outcome::Failed, Duration::ZERO, now)
        }
        Report::Snooze(_) if mutated!(S02) => {
            retry(row, closing, Outcome::Failed, Duration::ZERO, now)
        }
        Report::Snooze(delay) if mutated!(E24) => {
            retry(&released(row, give_backs_max), closing, Outcome::Failed, *delay, now)
        }
        Report::Snooze(delay) => retry(&uncharged(row), closing, Outcome::Failed, *delay, now),
        Report::Suspend => {
            let after = finish::suspended(row);
            Retry { after, reported: Reported::Suspended { epoch: after.epoch } }
        }
        Report::Skip => finished(Outcome::Skipped),
    }
}

/// The row without the charge of its last attempt.
fn uncharged(row: &Execution) -> Execution {
    Execution { charged: row.charged.saturating_sub(1), ..*row }
}

/// The row with its attempt given back, if its incarnation may still give one back: a release is
/// worth another attempt at once, so that what is released for ever would never come to an end.
fn released(row: &Execution, give_backs_max: u32) -> Execution {
    let may = row.charged > 0 && (row.give_backs < give_backs_max || mutated!(E24B));
    match may {
        true => Execution { give_backs: row.give_backs + 1, ..uncharged(row) },
        false => *row,
    }
}

/// The reply that an earlier run of this report stored, or what replaced the lease.
async fn replay<T: Transaction>(
    transaction: &mut T,
    token: &LeaseToken,
    report: &Report,
    row: &Execution,
) -> Result<Reply> {
    let key = AttemptKey {
        execution: token.execution,
        incarnation: token.incarnation,
        attempt: token.attempt,
    };
    let stored = transaction.read_attempt(&key).await?.filter(|stored| {
        stored.epoch == token.epoch
            && stored.nonce == token.nonce
            && stored.end == report.end()
            && stored.payload_hash == report.payload_hash()
            && !mutated!(P65)
    });
    Ok(stored.map(|stored| stored.reported).ok_or_else(|| replacement(row)))
}

impl Reporting {
    /// Refuses reports that cannot be served together, and results that are too large: a failure
    /// that may be tried again as well, for nobody knows before the lock whether it will be kept.
    pub(crate) fn of(
        reports: Vec<(LeaseToken, Report)>,
        limits: &Limits,
    ) -> Result<Self, EngineError> {
        let mut named: BTreeSet<ExecutionId> = BTreeSet::new();
        for (token, report) in &reports {
            let id = token.execution;
            if !named.insert(id) {
                return Err(EngineError::Invalid(format!("execution {id} is reported twice")));
            }
            let (bytes, limit) = (report.result_bytes(), limits.result_max_bytes);
            if bytes > limit {
                let subject = format!("result of execution {id}");
                return Err(too_large(&subject, bytes, "result_max_bytes", limit));
            }
        }
        if reports.len() > REPORTS_MAX {
            let count = reports.len();
            let reason = format!("{count} reports at once, at most {REPORTS_MAX}");
            return Err(EngineError::LimitExceeded(reason));
        }
        let bytes = reports.iter().map(|(_, report)| report.result_bytes()).sum();
        if bytes > limits.reports_max_bytes {
            let limit = limits.reports_max_bytes;
            return Err(too_large("what one call reports", bytes, "reports_max_bytes", limit));
        }
        Ok(Self { reports, limits: *limits })
    }

    /// Writes what was settled; returns the flows that the projector is to be told of.
    pub(crate) async fn write<T: Transaction>(
        &self,
        transaction: &mut T,
        moves: &[Move],
    ) -> Result<BTreeSet<FlowKey>> {
        finish::write_within(transaction, moves, self.limits.statement_max_bytes).await
    }

    /// How the flows of these rows were closed; asked only if something may become ready again.
    async fn closings<T: Transaction>(
        transaction: &mut T,
        held: &[(&Report, Execution)],
    ) -> Result<BTreeMap<FlowKey, ClosePolicy>> {
        let requeued = held.iter().filter(|(report, _)| may_requeue(report));
        let flows: BTreeSet<FlowKey> = requeued.map(|(_, row)| row.flow_key()).collect();
        if flows.is_empty() {
            return Ok(BTreeMap::new());
        }
        let flows: Vec<FlowKey> = flows.into_iter().collect();
        Ok(transaction.read_closings(&flows).await?.into_iter().collect())
    }

    /// The planted bug that takes a deadlock for the loss of every lease.
    fn lost(&self) -> Settled {
        let lost = |token: &LeaseToken| Replacement {
            state: State::Active,
            incarnation: token.incarnation,
            attempt: token.attempt,
            epoch: token.epoch,
        };
        let replies =
            self.reports.iter().map(|(token, _)| Err(EngineError::LeaseLost(lost(token))));
        Settled { replies: replies.collect(), moves: Vec::new(), now: None }
    }

    /// Locks what is reported and decides what becomes of it; writes nothing yet.
    pub(crate) async fn settle<T: Transaction>(&self, transaction: &mut T) -> Result<Settled> {
        let keys: BTreeSet<ExecutionId> =
            self.reports.iter().map(|(token, _)| token.execution).collect();
        let keys: Vec<ExecutionId> = keys.into_iter().collect();
        let locked = transaction.lock_executions(&keys).await;
        if mutated!(P40) && locked == Err(StorageError::Contention(Contention::Deadlock)) {
            return Ok(self.lost());
        }
        let rows = locked?;
        let rows: BTreeMap<ExecutionId, Execution> =
            rows.into_iter().map(|row| (row.id, row)).collect();
        let mut replies: BTreeMap<ExecutionId, Reply> = BTreeMap::new();
        let mut held: Vec<(&Report, Execution)> = Vec::new();
        for (token, report) in &self.reports {
            let id = token.execution;
            match rows.get(&id) {
                None => {
                    replies.insert(id, Err(EngineError::ExecutionNotFound(id)));
                }
                Some(row) if holds(row, token) || completes_too_late(token, report, row) => {
                    held.push((report, *row));
                }
                Some(row) => {
                    replies.insert(id, replay(transaction, token, report, row).await?);
                }
            }
        }
        let mut moves = Vec::with_capacity(held.len());
        let mut now = None;
        if !held.is_empty() {
            let now = *now.insert(transaction.clock().await?);
            let closings = Self::closings(transaction, &held).await?;
            held.sort_unstable_by_key(|(_, row)| row.id);
            for (report, row) in held {
                let closing = closings.get(&row.flow_key()).copied();
                let Retry { after, reported } =
                    decide(report, &row, closing, self.limits.give_backs_max, now);
                let (end, hash) = (report.end(), report.payload_hash());
                let attempt = finish::ended_attempt(&row, end, reported, hash, now);
                moves.push(Move {
                    before: row,
                    after,
                    result: report.result(reported, &self.limits),
                    attempt,
                });
                replies.insert(row.id, Ok(reported));
            }
        }
        let in_order = self.reports.iter().map(|(token, _)| replies.remove(&token.execution));
        let replies = in_order.map(|reply| reply.expect("each execution is reported once"));
        Ok(Settled { replies: replies.collect(), moves, now })
    }
}

impl Body for Reporting {
    type Out = Vec<Reply>;

    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Vec<Reply>>> {
        let settled = self.settle(transaction).await?;
        let flows = self.write(transaction, &settled.moves).await?;
        finish::record_changes(transaction, &flows).await?;
        Ok(match settled.moves.is_empty() {
            true => Verdict::Rollback(settled.replies),
            false => Verdict::Commit(settled.replies),
        })
    }
}

/// The transaction of a renewal.
///
/// A lease that has run out goes on as long as nothing has ended it, as it does for reports: only
/// the reaper knows whether its time has passed or the clock has stepped, and what no other attempt
/// has followed is held by its worker alone.
pub(crate) struct Renew {
    pub(crate) token: LeaseToken,
    pub(crate) lease: Duration,
    /// Whether the feed is to tell.
    pub(crate) renewed: bool,
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
        if mutated!(E21) && lease.expires_at <= now {
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
        if self.renewed {
            let event = NewEvent::of_lease(&after, LeaseChange::Renewed, now);
            transaction.insert_events(event.as_slice()).await?;
        }
        Ok(Verdict::Commit(Ok(left)))
    }
}
