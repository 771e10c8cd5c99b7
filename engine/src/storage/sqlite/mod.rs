//! The SQLite backend: one file, or memory. Never decides anything; its statements repeat guards.
//!
//! A transaction is `begin immediate`, so it is the only writer from its first statement to its
//! last: Lock and Take are plain selects. Readers see what has committed and wait for nobody.

mod columns;
mod error;
mod feed;
mod flows;
mod growth;
mod inputs;
mod inside;
mod lent;
mod listings;
mod migrate;
mod offload;
mod place;
mod pool;
mod remains;
mod replay;
mod retention;
mod snapshot;
mod summaries;
mod transaction;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::identity::PartitionCount;
use crate::storage::{Consistency, Result, Storage, StorageError};
use crate::time::Timestamp;
use crate::transact::Body;

pub use crate::storage::schema::{Migration, Migrations};
pub use migrate::{MIGRATIONS, SCHEMA_VERSION};
pub use offload::Offload;
pub use snapshot::SqliteSnapshot;
pub use transaction::SqliteTransaction;

use pool::Shared;

/// Connections of one role that a storage opens unless told otherwise.
pub const CONNECTIONS_MAX: usize = 16;
/// Time that a writer waits for one of another process unless told otherwise.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The statement of a verb.
macro_rules! sql {
    ($verb:ident) => {
        include_str!(concat!("sql/", stringify!($verb), ".sql"))
    };
}
use sql;

/// The storage's clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Location {
    File(PathBuf),
    Memory,
}

/// Where a database is and how it is used.
#[derive(Clone)]
pub struct SqliteOptions {
    location: Location,
    vfs: Option<Arc<str>>,
    partitions: PartitionCount,
    busy_timeout: Duration,
    connections_max: usize,
    checkpoint_pages: Option<u32>,
    offload: Offload,
    migrations: Migrations,
    steps: Arc<[Migration]>,
    clock: Clock,
}

/// A database in SQLite.
#[derive(Clone)]
pub struct SqliteStorage {
    shared: Arc<Shared>,
}

impl SqliteOptions {
    fn new(location: Location) -> Self {
        Self {
            location,
            vfs: None,
            partitions: PartitionCount::default(),
            busy_timeout: BUSY_TIMEOUT,
            connections_max: CONNECTIONS_MAX,
            checkpoint_pages: None,
            offload: Offload::default(),
            migrations: Migrations::default(),
            steps: MIGRATIONS.into(),
            clock: Arc::new(system_clock),
        }
    }

    /// A file, created if it does not exist as the storage opens; never later.
    ///
    /// A storage goes with that file, not with its path: once the file was deleted, moved away or
    /// replaced, every call is `Unavailable` and says so, until the file is back or the storage is
    /// opened again.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::new(Location::File(path.into()))
    }

    /// A database that ends with the last handle of the storage.
    ///
    /// It is one connection. Transactions follow each other as in a file. A reader of
    /// `Consistency::Snapshot` copies the database when it opens, and one of
    /// `Consistency::Statement` borrows the connection verb by verb: neither holds anything between
    /// two verbs, so no reader ever keeps a transaction waiting, but both wait for an open one.
    pub fn memory() -> Self {
        Self::new(Location::Memory)
    }

    /// Opens files through the SQLite VFS registered under that name.
    #[must_use]
    pub fn vfs(mut self, name: impl Into<Arc<str>>) -> Self {
        self.vfs = Some(name.into());
        self
    }

    /// Partition count of a new database; any other must have been created with the same.
    #[must_use]
    pub fn partitions(mut self, count: PartitionCount) -> Self {
        self.partitions = count;
        self
    }

    /// How long SQLite waits for a writer of another process before it answers `Busy`.
    ///
    /// With zero nobody waits for anything: a second writer, and whoever finds no free connection,
    /// is answered `Busy` at once.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// At most so many connections of each role; at least 1.
    #[must_use]
    pub fn connections_max(mut self, count: usize) -> Self {
        assert!(count > 0, "a storage needs a connection");
        self.connections_max = count;
        self
    }

    /// Pages of the write-ahead log from which on a commit also writes them back to the file, at
    /// least 1; otherwise what SQLite was built with, 1000. Readers may put that off.
    #[must_use]
    pub fn checkpoint_pages(mut self, pages: u32) -> Self {
        assert!(pages > 0, "a log that is never written back grows for ever");
        self.checkpoint_pages = Some(pages);
        self
    }

    /// Where work on SQLite runs.
    #[must_use]
    pub fn offload(mut self, offload: Offload) -> Self {
        self.offload = offload;
        self
    }

    /// What opening does with migrations that the database lacks.
    #[must_use]
    pub fn migrations(mut self, migrations: Migrations) -> Self {
        self.migrations = migrations;
        self
    }

    /// The migrations of a version to come, all of them from the first, instead of
    /// [`MIGRATIONS`]: to rehearse an upgrade. The storage then counts as an engine that was built
    /// for the last.
    #[must_use]
    pub fn steps(mut self, steps: impl Into<Arc<[Migration]>>) -> Self {
        self.steps = steps.into();
        assert!(!self.steps.is_empty(), "a schema is made by a migration");
        self
    }

    /// The storage's clock instead of the system's.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    fn is_memory(&self) -> bool {
        self.location == Location::Memory
    }

    /// True for a file that SQLite keeps where the system does.
    fn is_plain_file(&self) -> bool {
        !self.is_memory() && self.vfs.is_none()
    }

    /// The same database wherever the process goes.
    fn rooted(self) -> Result<Self> {
        let Location::File(path) = &self.location else { return Ok(self) };
        if !self.is_plain_file() {
            return Ok(self);
        }
        let path = std::path::absolute(path)
            .map_err(|error| StorageError::Unavailable(error.to_string().into()))?;
        Ok(Self { location: Location::File(path), ..self })
    }
}

impl SqliteStorage {
    /// Opens a database. `Unsupported` refuses, and leaves untouched, one whose schema admits only
    /// newer engines, has another partition count, or lacks migrations that are not to be applied.
    ///
    /// Works on this thread, whatever the options say.
    pub fn open(options: SqliteOptions) -> Result<Self> {
        Shared::open(options).map(|shared| Self { shared })
    }

    /// The migrations that opening this database would apply; writes nothing.
    pub fn pending(options: &SqliteOptions) -> Result<Vec<Migration>> {
        pool::pending(options)
    }

    /// The partition count of the database.
    pub fn partitions(&self) -> PartitionCount {
        self.shared.options.partitions
    }

    /// Runs a body inside the caller's transaction.
    pub(crate) fn run_in<B: Body>(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        body: &B,
    ) -> Result<B::Out> {
        lent::run(&self.shared, transaction, body)
    }

    /// Runs `f` on a connection of the database: for tools and tests, which look at rows or spoil
    /// them. Never waits; `Busy` if no connection is free. What `f` leaves open is rolled back.
    pub fn with_connection<T>(&self, f: impl FnOnce(&rusqlite::Connection) -> T) -> Result<T> {
        let held = self.shared.try_acquire()?;
        Ok(f(held.connection()))
    }
}

impl Storage for SqliteStorage {
    type Transaction = SqliteTransaction;
    type Snapshot = SqliteSnapshot;

    async fn begin(&self) -> Result<SqliteTransaction> {
        SqliteTransaction::begin(&self.shared).await
    }

    async fn snapshot(&self, consistency: Consistency) -> Result<SqliteSnapshot> {
        SqliteSnapshot::open(&self.shared, consistency).await
    }
}

/// Microseconds since the Unix epoch by the machine's clock.
#[expect(clippy::disallowed_methods, reason = "the storage's own clock, unless one is injected")]
fn system_clock() -> Timestamp {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::default() + since
}
