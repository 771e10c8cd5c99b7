//! The sweeps that finish what an interruption left. Each is one pass over rows, in keyset order
//! and batches; many instances may run every one of them at once.

pub mod cancel_backlog;
mod clock_watch;
pub mod dependency;
mod failing;
pub mod reaper;
pub(crate) mod retention;
pub mod siblings;
pub(crate) mod summary;
#[cfg(feature = "system")]
pub mod supervisor;
mod table;

use std::ops::AddAssign;

use crate::environment::Environment;
use crate::error::EngineError;
use crate::identity::ExecutionId;
use crate::mutants::mutated;
use crate::storage::{Grant, Storage};
use crate::transact::{Body, RetryBudget, transact};

pub(crate) use clock_watch::{ClockWatch, Reading};
pub(crate) use failing::Failing;
pub use failing::{FAILING_MAX, FailingRow, Visited};
pub use table::Reconciler;

/// What a sweep works with.
pub struct Pass<'a, S, E> {
    /// Where the flows are.
    pub(crate) storage: &'a S,
    /// Time and randomness.
    pub(crate) environment: &'a E,
    /// How its transactions are restarted.
    pub(crate) budget: &'a RetryBudget,
    /// What fails, and is left alone for a while.
    pub(crate) failing: &'a Failing,
}

// Derived they would ask the same of the storage.
impl<S, E> Clone for Pass<'_, S, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, E> Copy for Pass<'_, S, E> {}

/// A transaction that can do without executions that cannot be read.
pub(crate) trait PassesOver: Body {
    /// Those that it does without.
    fn except(&self) -> &[ExecutionId];
    /// Does without one more when it is run again.
    fn pass_over(&mut self, execution: ExecutionId);
}

impl<S: Storage, E: Environment> Pass<'_, S, E> {
    /// Runs a transaction, and again without each execution that turns out not to be readable: it
    /// is in quarantine from then on.
    ///
    /// Errors: those of [`transact`]; `Unreadable` for an execution that it cannot do without.
    pub(crate) async fn around_unreadable<B: PassesOver>(
        &self,
        body: &mut B,
    ) -> Result<B::Out, EngineError> {
        loop {
            let result = transact(self.storage, self.environment, self.budget, body).await;
            let Err(EngineError::Unreadable { execution, .. }) = &result else { return result };
            if mutated!(P66) || body.except().contains(execution) {
                return result;
            }
            self.visited(Visited::Unreadable(*execution), &result);
            body.pass_over(*execution);
        }
    }
}

impl<S, E: Environment> Pass<'_, S, E> {
    /// True if that row is to be visited now: it has not failed, or its pause is over.
    pub(crate) fn is_due(&self, visited: Visited) -> bool {
        self.failing.is_due(visited, self.environment.monotonic())
    }

    /// The executions in quarantine: a call that needs none of them passes them over.
    pub(crate) fn quarantine(&self) -> Vec<ExecutionId> {
        self.failing.quarantine(self.environment.monotonic())
    }

    /// These can be read: they are in quarantine no more.
    pub(crate) fn has_read<'g>(&self, grants: impl IntoIterator<Item = &'g Grant>) {
        for grant in grants {
            self.failing.forget(Visited::Unreadable(grant.execution.id));
        }
    }

    /// Takes note of how a visit ended.
    pub(crate) fn visited<T, F: ToString>(&self, visited: Visited, result: &Result<T, F>) {
        match result {
            Ok(_) => self.failing.forget(visited),
            Err(error) => {
                let (now, random) = (self.environment.monotonic(), self.environment.random());
                self.failing.push_back(visited, error, now, random);
            }
        }
    }
}

/// What one tick did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Rows that the query returned.
    pub scanned: u64,
    /// Changes that were made.
    pub reconciled: u64,
    /// Rows that needed none.
    pub noop: u64,
    /// Rows that the filter left out; the filter is in the query, so that this stays zero.
    pub filtered: u64,
    /// Rows that failed and are left for a later tick, or failed before and are left alone for a
    /// while.
    pub errors: u64,
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Report) {
        self.scanned += other.scanned;
        self.reconciled += other.reconciled;
        self.noop += other.noop;
        self.filtered += other.filtered;
        self.errors += other.errors;
    }
}
