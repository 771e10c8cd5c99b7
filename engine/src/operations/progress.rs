//! How far a worker has come: stored under its lease, without ending it. Never moves a state.

use std::sync::Arc;

use crate::error::{EngineError, too_large};
use crate::flow::Limits;
use crate::mutants::mutated;
use crate::operations::claim::LeaseToken;
use crate::operations::report::{holds, replacement};
use crate::state::State;
use crate::storage::{Execution, ProgressMark, ProgressWrite, Result, Transaction};
use crate::transact::{Body, Run, Verdict};

/// The transaction of a report of progress.
pub(crate) struct ReportProgress {
    token: LeaseToken,
    sequence: u64,
    value: Arc<[u8]>,
}

impl ReportProgress {
    /// Refuses a value that is too large.
    pub(crate) fn of(
        token: LeaseToken,
        sequence: u64,
        value: Arc<[u8]>,
        limits: &Limits,
    ) -> Result<Self, EngineError> {
        let (bytes, limit) = (value.len() as u64, limits.progress_max_bytes);
        if bytes > limit {
            let subject = format!("progress of execution {}", token.execution);
            return Err(too_large(&subject, bytes, "progress_max_bytes", limit));
        }
        Ok(Self { token, sequence, value })
    }

    fn mark(&self) -> ProgressMark {
        ProgressMark { attempt: self.token.attempt, sequence: self.sequence }
    }
}

/// True if the row has heard of this report, or of a later one of the same attempt. What an earlier
/// attempt has said stands only until the next one speaks.
fn has_heard(stored: Option<ProgressMark>, report: ProgressMark) -> bool {
    stored.is_some_and(|stored| {
        stored.attempt == report.attempt && stored.sequence >= report.sequence
    })
}

/// The planted bug that lets an attempt whose lease has ended speak for the one that runs.
fn spoke_before(row: &Execution, token: &LeaseToken) -> bool {
    let earlier = row.incarnation == token.incarnation && row.attempt > token.attempt;
    mutated!(S60) && row.state == State::Active && earlier
}

impl Body for ReportProgress {
    type Out = Result<(), EngineError>;

    /// A lease that has run out counts as long as nobody has ended it, so that no clock is asked.
    async fn run<T: Transaction>(
        &self,
        transaction: &mut T,
        _run: Run,
    ) -> Result<Verdict<Self::Out>> {
        let key = self.token.execution;
        let rows = transaction.lock_executions(&[key]).await?;
        let Some(row) = rows.first() else {
            return Ok(Verdict::Rollback(Err(EngineError::ExecutionNotFound(key))));
        };
        if !holds(row, &self.token) && !spoke_before(row, &self.token) {
            return Ok(Verdict::Rollback(Err(replacement(row))));
        }
        let progress = self.mark();
        if has_heard(row.progress, progress) && !mutated!(S61) {
            return Ok(Verdict::Rollback(Ok(())));
        }
        let value = Arc::clone(&self.value);
        let write = ProgressWrite { key, epoch: row.epoch, progress, value };
        let written = transaction.write_progress(&write).await?;
        assert!(written == 1, "a locked execution changed under its lock");
        Ok(Verdict::Commit(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_heard_of_once_it_or_a_later_one_of_its_attempt_is_stored() {
        let mark = |(attempt, sequence)| ProgressMark { attempt, sequence };
        let heard = |stored: Option<(u32, u64)>, report| has_heard(stored.map(mark), mark(report));
        assert!(!heard(None, (1, 0)));
        assert!(!heard(Some((1, 3)), (1, 4)));
        assert!(heard(Some((1, 3)), (1, 3)));
        assert!(heard(Some((1, 3)), (1, 2)));
        assert!(!heard(Some((1, 3)), (2, 0)), "the first of another attempt");
    }
}
