//! The Postgres backend. Never decides anything; its statements repeat guards.
//!
//! Transactions run at READ COMMITTED on connections of a pool of its own; whatever depends on
//! settings of the server is set by each session itself.

mod columns;
mod error;
mod feed;
mod flows;
mod growth;
mod inputs;
mod inside;
mod lent;
mod link;
mod listings;
mod migrate;
mod notices;
mod options;
mod parameters;
mod pool;
mod remains;
mod replay;
mod retention;
mod snapshot;
mod statements;
mod summaries;
mod transaction;

use std::sync::Arc;

use sqlx::postgres::PgConnection;

use crate::environment::Relay;
use crate::identity::PartitionCount;
use crate::storage::{Consistency, Result, Storage};
use crate::transact::Body;

pub use crate::storage::schema::{Migration, Migrations};
pub use error::OpenError;
pub use migrate::{MIGRATIONS, SCHEMA_VERSION};
pub use notices::RECONNECT_PAUSE_MAX;
pub use options::{
    ACQUIRE_TIMEOUT, CONNECTIONS_MAX, IDLE_IN_TRANSACTION_TIMEOUT, LOCK_TIMEOUT, PLANNING,
    PostgresOptions, STATEMENT_TIMEOUT,
};
pub use snapshot::PostgresSnapshot;
pub use transaction::PostgresTransaction;

use pool::Shared;

/// The oldest major version of the server.
pub const SERVER_VERSION_MIN: u32 = 13;

/// A database in Postgres.
#[derive(Clone)]
pub struct PostgresStorage {
    shared: Arc<Shared>,
}

impl PostgresStorage {
    /// Opens a database, applying what migrations it lacks unless the options say otherwise.
    ///
    /// Errors: each way in which a server or a schema may be unfit has its own; a database that is
    /// refused is left untouched. Cancellation: migrations are one transaction.
    pub async fn open(options: PostgresOptions) -> Result<Self, OpenError> {
        let first = migrate::open(&options).await?;
        Ok(Self { shared: Shared::new(options, first) })
    }

    /// The migrations that opening this database would apply; writes nothing.
    pub async fn pending(options: &PostgresOptions) -> Result<Vec<Migration>, OpenError> {
        migrate::pending(options).await
    }

    /// The SQL that makes the schema, for those who apply it themselves.
    pub fn sql_dump(options: &PostgresOptions) -> String {
        migrate::dump(options)
    }

    /// Drops the schema with everything in it: for tests and tools.
    pub async fn drop_schema(options: &PostgresOptions) -> Result<(), OpenError> {
        migrate::drop_schema(options).await
    }

    /// The partition count of the database.
    pub fn partitions(&self) -> PartitionCount {
        self.shared.options.partitions
    }

    /// Carries notices between this process and the others of the database, until it is dropped.
    ///
    /// It uses two connections of its own, one that listens and one that tells. Telling happens
    /// after the commits, many at once: inside of them it would make commits queue for one lock of
    /// the server. A lost connection is opened again with growing pauses of at most
    /// [`RECONNECT_PAUSE_MAX`]; since what was told meanwhile is lost, the process is woken then.
    /// Losing notices costs latency, never progress. Cancellation: dropping the future ends it.
    pub async fn relay<R: Relay>(&self, process: &R) {
        notices::relay(&self.shared.options, process).await;
    }

    /// Runs a body inside the caller's transaction.
    pub(crate) async fn run_in<B: Body>(
        &self,
        connection: &mut PgConnection,
        body: &B,
    ) -> Result<B::Out> {
        lent::run(&self.shared, connection, body).await
    }

    /// Closes the connections that are not lent out.
    pub async fn close(&self) {
        self.shared.close_idle().await;
    }
}

impl Storage for PostgresStorage {
    type Transaction = PostgresTransaction;
    type Snapshot = PostgresSnapshot;

    async fn begin(&self) -> Result<PostgresTransaction> {
        PostgresTransaction::begin(&self.shared).await
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<PostgresSnapshot> {
        PostgresSnapshot::open(&self.shared, consistency).await
    }
}
