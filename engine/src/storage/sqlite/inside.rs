//! Calls of the engine inside a transaction of the caller's on SQLite: its own rows and the flow
//! commit or roll back together.

use std::sync::Arc;

use rusqlite::Transaction;

use super::SqliteStorage;
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::EngineError;
use crate::flow::FlowSpec;
use crate::operations::claim::LeaseToken;
use crate::operations::report::{Report, Reporting};
use crate::operations::submit::Submitted;
use crate::storage::Reported;

impl<E: Environment> Engine<SqliteStorage, E> {
    /// Submits a flow in the caller's transaction, which commits or rolls back both; see
    /// [`Engine::submit`]. Works on the caller's thread, as rusqlite does.
    ///
    /// The transaction is one of the database file of the storage, on a connection of the
    /// caller; begin it `immediate`, since one that has read before it writes may find that
    /// another writer came in between. The call runs in a savepoint: an error leaves the
    /// transaction as it was before, unless SQLite has ended it. Nothing is restarted here:
    /// contention comes back to the caller, who restarts the transaction. Waiting for other
    /// writers and the durability of the commit are as the caller's connection is set up.
    /// Afterwards [`Engine::committed`] wakes the workers.
    ///
    /// Errors: those of `submit`; `Unsupported` in a database with another partition count.
    pub fn submit_in(
        &self,
        transaction: &Transaction<'_>,
        spec: FlowSpec,
    ) -> Result<Submitted, EngineError> {
        let body = self.submission(&self.valid(spec)?, self.request_id());
        self.storage().run_in(transaction, &body)?
    }

    /// Reports the success of an attempt in the caller's transaction, so that what the handler
    /// wrote there and the completion commit or roll back together; see [`Engine::report`],
    /// and `submit_in` for what holds of the transaction.
    ///
    /// Errors: `LeaseLost` says what replaced the lease: roll back, the work is not ours;
    /// `LimitExceeded` for a result of more bytes than
    /// [`Limits::result_max_bytes`](crate::flow::Limits::result_max_bytes).
    pub fn complete_in(
        &self,
        transaction: &Transaction<'_>,
        token: LeaseToken,
        result: Arc<[u8]>,
    ) -> Result<Reported, EngineError> {
        self.report_in(transaction, token, Report::Complete(result))
    }

    /// Reports what became of an attempt in the caller's transaction, as `complete_in` does.
    pub fn report_in(
        &self,
        transaction: &Transaction<'_>,
        token: LeaseToken,
        report: Report,
    ) -> Result<Reported, EngineError> {
        let body = Reporting::of(vec![(token, report)], &self.settings().limits)?;
        let replies = self.storage().run_in(transaction, &body)?;
        replies.into_iter().next().expect("one report has one reply")
    }
}
