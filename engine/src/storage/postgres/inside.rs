//! Calls of the engine inside a transaction of the caller's on Postgres: its own rows and the flow
//! commit or roll back together.

use std::sync::Arc;

use sqlx::postgres::PgConnection;

use super::PostgresStorage;
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::EngineError;
use crate::flow::FlowSpec;
use crate::operations::claim::LeaseToken;
use crate::operations::report::{Report, Reporting};
use crate::operations::submit::Submitted;
use crate::storage::Reported;

impl<E: Environment> Engine<PostgresStorage, E> {
    /// Submits a flow in the caller's transaction, which commits or rolls back both; see
    /// [`Engine::submit`].
    ///
    /// The connection has a transaction open, at READ COMMITTED, on the database of the storage
    /// (a `sqlx::Transaction` is passed as `&mut *transaction`). The call runs in a savepoint:
    /// an error leaves the transaction as it was before, unless the connection is gone. Nothing
    /// is restarted here: contention comes back to the caller, who restarts the transaction,
    /// and so does a lost commit, after which the same call with the same idempotency key or
    /// flow id tells whether it was applied. Time limits are those of the caller's session, and
    /// so is the durability of its commit. Afterwards [`Engine::committed`] wakes the workers.
    ///
    /// Cancellation: the transaction is to be rolled back. Errors: those of `submit`;
    /// `Unsupported` without an open transaction, at another isolation level, or in a database
    /// with another partition count.
    pub async fn submit_in(
        &self,
        connection: &mut PgConnection,
        spec: FlowSpec,
    ) -> Result<Submitted, EngineError> {
        let body = self.submission(&self.valid(spec)?, self.request_id());
        self.storage().run_in(connection, &body).await?
    }

    /// Reports the success of an attempt in the caller's transaction, so that what the handler
    /// wrote there and the completion commit or roll back together; see [`Engine::report`],
    /// and `submit_in` for what holds of the transaction.
    ///
    /// Errors: `LeaseLost` says what replaced the lease: roll back, the work is not ours;
    /// `LimitExceeded` for a result of more bytes than
    /// [`Limits::result_max_bytes`](crate::flow::Limits::result_max_bytes).
    pub async fn complete_in(
        &self,
        connection: &mut PgConnection,
        token: LeaseToken,
        result: Arc<[u8]>,
    ) -> Result<Reported, EngineError> {
        self.report_in(connection, token, Report::Complete(result)).await
    }

    /// Reports what became of an attempt in the caller's transaction, as `complete_in` does.
    pub async fn report_in(
        &self,
        connection: &mut PgConnection,
        token: LeaseToken,
        report: Report,
    ) -> Result<Reported, EngineError> {
        let body = Reporting::of(vec![(token, report)], &self.settings().limits)?;
        let replies = self.storage().run_in(connection, &body).await?;
        replies.into_iter().next().expect("one report has one reply")
    }
}
