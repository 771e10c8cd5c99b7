//! Resuming a suspended execution: once a suspension, which its epoch names. Whoever repeats the
//! call finds the reply in the row.

use std::time::Duration;

use crate::error::EngineError;
use crate::identity::ExecutionId;
use crate::mutants::mutated;
use crate::operations::finish::{self, Move};
use crate::operations::report::{self, Reply, Retry};
use crate::state::{Outcome, State};
use crate::storage::{Execution, Reported, Result, ResultChange, Resumed, Transaction};
use crate::transact::{Body, Run, Verdict};

/// The transaction of a resume.
pub(crate) struct Resume {
    pub(crate) execution: ExecutionId,
    /// Of the suspension.
    pub(crate) epoch: u64,
}

impl Resume {
    /// The reply, if this suspension was the last that was resumed.
    fn stored(&self, row: &Execution) -> Option<Reported> {
        let resumed = row.resumed.filter(|resumed| resumed.epoch == self.epoch)?;
        (!mutated!(S13)).then(|| resumed.reported())
    }

    fn is_of(&self, row: &Execution) -> bool {
        row.state == State::Suspended && (row.epoch == self.epoch || mutated!(S10))
    }

    fn refused(&self, row: &Execution) -> EngineError {
        EngineError::Refused(format!(
            "execution {} is not suspended at epoch {}: it is {} at incarnation {}, attempt {}, \
             epoch {}",
            self.execution,
            self.epoch,
            row.state.name(),
            row.incarnation,
            row.attempt,
            row.epoch,
        ))
    }
}

impl Body for Resume {
    type Out = Reply;

    async fn run<T: Transaction>(&self, transaction: &mut T, _run: Run) -> Result<Verdict<Reply>> {
        let rows = transaction.lock_executions(&[self.execution]).await?;
        let Some(row) = rows.first() else {
            return Ok(Verdict::Rollback(Err(EngineError::ExecutionNotFound(self.execution))));
        };
        if let Some(reported) = self.stored(row) {
            return Ok(Verdict::Rollback(Ok(reported)));
        }
        if !self.is_of(row) {
            return Ok(Verdict::Rollback(Err(self.refused(row))));
        }
        let now = transaction.clock().await?;
        let closings = transaction.read_closings(&[row.flow_key()]).await?;
        let closing = closings.first().map(|(_, closing)| *closing);
        let closing = closing.filter(|_| !mutated!(S12));
        let Retry { mut after, reported } =
            report::retry(row, closing, Outcome::Failed, Duration::ZERO, now);
        after.resumed = Some(Resumed { epoch: self.epoch, outcome: after.state.outcome() });
        let one = Move { before: *row, after, result: ResultChange::Keep, attempt: None };
        finish::record(transaction, &[one]).await?;
        Ok(Verdict::Commit(Ok(reported)))
    }
}
