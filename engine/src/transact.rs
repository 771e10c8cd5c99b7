//! The only retry loop: runs a [`Body`] on a transaction until it commits, is refused, or its
//! budget is spent. Never looks into what the body does.

use std::future::Future;
use std::time::Duration;

use crate::environment::Environment;
use crate::error::EngineError;
use crate::mutants::mutated;
use crate::storage::{CommitError, Contention, Result, Storage, StorageError, Transaction};

/// Whether this is a body's first run, or one after a commit whose answer was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// No commit of this body can have been applied.
    First,
    /// A commit of this body may have been applied: look for its stored effect first.
    AfterUnknownCommit,
}

/// What a body wants done with its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict<T> {
    /// Keep the writes.
    Commit(T),
    /// There is nothing to keep.
    Rollback(T),
}

/// One named transaction. It draws nothing: ids, jitter and limits are its fields, so that a re-run
/// does the same.
pub trait Body: Send + Sync {
    /// What it returns.
    type Out: Send;

    /// Runs the statements of the transaction, from its first lock to its last write.
    fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        run: Run,
    ) -> impl Future<Output = Result<Verdict<Self::Out>>> + Send;
}

/// How often and how patiently a transaction is restarted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryBudget {
    /// Runs in all; at least 1.
    pub runs_max: u32,
    /// The least wait between two runs.
    pub wait_base: Duration,
    /// The longest wait between two runs.
    pub wait_cap: Duration,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self {
            runs_max: 5,
            wait_base: Duration::from_millis(5),
            wait_cap: Duration::from_millis(500),
        }
    }
}

/// Runs the body until its transaction is over.
///
/// Waits between runs by "decorrelated jitter" (Brooker, "Exponential Backoff And Jitter", AWS
/// Architecture Blog, 2015). A lost acknowledgement restarts the body as
/// [`Run::AfterUnknownCommit`], from then on.
///
/// Errors: the last contention or unavailability once the budget is spent, [`EngineError::Unknown`]
/// if a commit without an answer is among the runs, and every other storage error at once.
pub async fn transact<S: Storage, E: Environment, B: Body>(
    storage: &S,
    environment: &E,
    budget: &RetryBudget,
    body: &B,
) -> Result<B::Out, EngineError> {
    assert!(budget.runs_max > 0, "a retry budget allows at least one run");
    let mut run = Run::First;
    let mut wait = budget.wait_base;
    let mut left = budget.runs_max;
    loop {
        let failure = match attempt(storage, body, run).await {
            Ok(out) => return Ok(out),
            Err(failure) => failure,
        };
        left -= 1;
        let error = match failure {
            CommitError::Unknown if mutated!(P48) => {
                return Err(EngineError::Contention(Contention::Serialization));
            }
            CommitError::Unknown => {
                run = Run::AfterUnknownCommit;
                EngineError::Unknown
            }
            CommitError::Storage(error) if is_final(&error) => return Err(error.into()),
            CommitError::Storage(_) if run == Run::AfterUnknownCommit => EngineError::Unknown,
            CommitError::Storage(error) => error.into(),
        };
        if left == 0 {
            tracing::debug!(%error, body = std::any::type_name::<B>(), "retry budget spent");
            return Err(error);
        }
        wait = decorrelated(environment.random(), budget, wait);
        environment.sleep(wait).await;
    }
}

/// True if no restart of the same transaction can help.
fn is_final(error: &StorageError) -> bool {
    use StorageError::{Corrupt, TooLarge, Unreadable, Unsupported};
    matches!(error, Corrupt(_) | Unreadable(..) | TooLarge(_) | Unsupported(_))
}

async fn attempt<S: Storage, B: Body>(
    storage: &S,
    body: &B,
    run: Run,
) -> Result<B::Out, CommitError> {
    let mut transaction = storage.begin().await?;
    match body.run(&mut transaction, run).await {
        Ok(Verdict::Commit(out)) => transaction.commit().await.map(|()| out),
        Ok(Verdict::Rollback(out)) => {
            transaction.rollback().await;
            Ok(out)
        }
        Err(error) => {
            transaction.rollback().await;
            Err(error.into())
        }
    }
}

fn decorrelated(random: u64, budget: &RetryBudget, previous: Duration) -> Duration {
    let base = crate::time::micros(budget.wait_base).unsigned_abs();
    let upper = crate::time::micros(previous).unsigned_abs().saturating_mul(3).max(base + 1);
    let cap = crate::time::micros(budget.wait_cap).unsigned_abs();
    Duration::from_micros((base + random % (upper - base)).min(cap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_stay_between_base_and_cap() {
        let budget = RetryBudget::default();
        let mut wait = budget.wait_base;
        for random in [0, 1, u64::MAX, 12_345_678_901, 7] {
            wait = decorrelated(random, &budget, wait);
            assert!(wait >= budget.wait_base && wait <= budget.wait_cap, "{wait:?}");
        }
    }
}
