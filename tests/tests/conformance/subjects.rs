//! The storages that the arms run on, and how each opens a fresh database. Never judges.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate::storage::Storage;
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::conformance::{Concurrency, FaultInjecting, Faults, Subject};
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::storage::sqlite::{Offload, SqliteOptions, SqliteStorage};
use sluicegate_sim::database::storage::DatabaseStorage;
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

/// The simulated Postgres.
pub(crate) struct Model;

/// The simulated Postgres with a scheduling point after every row lock.
pub(crate) struct GranularModel;

/// SQLite in memory.
pub(crate) struct SqliteMemory;

/// SQLite in files.
pub(crate) struct SqliteFiles {
    directory: TempDir,
    count: Mutex<u32>,
    busy_timeout: Duration,
    offload: Offload,
}

/// A real Postgres server, in schemas of its own.
pub(crate) struct Postgres {
    url: String,
    count: Mutex<u32>,
    observer: tokio::sync::Mutex<Option<PgConnection>>,
}

/// Another subject behind boxes.
pub(crate) struct Boxed<S>(pub(crate) S);

/// Another subject behind fault injection.
pub(crate) struct Injected<S, F> {
    pub(crate) inner: S,
    pub(crate) faults: Arc<F>,
}

/// Faults that several databases share.
pub(crate) struct SharedFaults<F>(Arc<F>);

impl Subject for Model {
    type Storage = DatabaseStorage;

    async fn fresh(&self) -> DatabaseStorage {
        DatabaseStorage::new()
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::RowLocks
    }

    async fn waiting(&self, storage: &DatabaseStorage) -> Option<usize> {
        Some(storage.waiting())
    }
}

impl Subject for GranularModel {
    type Storage = DatabaseStorage;

    async fn fresh(&self) -> DatabaseStorage {
        let storage = DatabaseStorage::new();
        storage.with_database(|database| database.granular = true);
        storage
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::RowLocks
    }

    async fn waiting(&self, storage: &DatabaseStorage) -> Option<usize> {
        Some(storage.waiting())
    }
}

impl Subject for SqliteMemory {
    type Storage = SqliteStorage;

    async fn fresh(&self) -> SqliteStorage {
        let options = SqliteOptions::memory().offload(Offload::Inline);
        SqliteStorage::open(options).expect("memory opens")
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::OneConnection
    }
}

impl SqliteFiles {
    /// Work runs as it does in production, and writers wait for each other.
    pub(crate) fn waiting() -> Self {
        Self::new(Duration::from_mins(1), Offload::default())
    }

    /// Work runs inline, and a second writer is answered `Busy`.
    pub(crate) fn busy() -> Self {
        Self::new(Duration::ZERO, Offload::Inline)
    }

    fn new(busy_timeout: Duration, offload: Offload) -> Self {
        let directory = TempDir::new().expect("a directory can be made");
        Self { directory, count: Mutex::new(0), busy_timeout, offload }
    }
}

impl Subject for SqliteFiles {
    type Storage = SqliteStorage;

    async fn fresh(&self) -> SqliteStorage {
        let mut count = self.count.lock().expect("no case panics while it opens a database");
        *count += 1;
        let path = self.directory.path().join(format!("flows-{count}.db"));
        let options = SqliteOptions::file(path).busy_timeout(self.busy_timeout);
        SqliteStorage::open(options.offload(self.offload)).expect("a new file opens")
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::OneWriter
    }
}

impl Postgres {
    /// On the cluster that the tests of this process share.
    pub(crate) fn shared() -> Self {
        let url = sluicegate_sim::postgres::shared().url();
        Self { url, count: Mutex::new(0), observer: tokio::sync::Mutex::default() }
    }
}

impl Subject for Postgres {
    type Storage = PostgresStorage;

    async fn fresh(&self) -> PostgresStorage {
        let schema = {
            let mut count = self.count.lock().expect("no case panics while it counts");
            *count += 1;
            format!("conformance_{count}")
        };
        let options = PostgresOptions::new(&self.url).expect("the cluster has a URL");
        let options = options.schema(&schema).setting("deadlock_timeout", "10ms");
        PostgresStorage::open(options).await.expect("a new schema opens")
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::RowLocks
    }

    async fn waiting(&self, _: &PostgresStorage) -> Option<usize> {
        let mut observer = self.observer.lock().await;
        if observer.is_none() {
            *observer = Some(PgConnection::connect(&self.url).await.expect("the cluster answers"));
        }
        let locks = "select count(*) from pg_locks where not granted";
        let waiting: sqlx::Result<i64> =
            sqlx::query_scalar(locks).fetch_one(observer.as_mut().expect("made above")).await;
        Some(usize::try_from(waiting.expect("the cluster answers")).expect("a count"))
    }
}

impl<S: Subject> Subject for Boxed<S> {
    type Storage = BoxStorage;

    async fn fresh(&self) -> BoxStorage {
        BoxStorage::new(self.0.fresh().await)
    }

    fn concurrency(&self) -> Concurrency {
        self.0.concurrency()
    }
}

impl<S: Subject, F: Faults> Subject for Injected<S, F>
where
    S::Storage: Storage,
{
    type Storage = FaultInjecting<S::Storage, SharedFaults<F>>;

    async fn fresh(&self) -> Self::Storage {
        FaultInjecting::new(self.inner.fresh().await, SharedFaults(Arc::clone(&self.faults)))
    }

    fn concurrency(&self) -> Concurrency {
        self.inner.concurrency()
    }

    async fn waiting(&self, storage: &Self::Storage) -> Option<usize> {
        self.inner.waiting(storage.inner()).await
    }
}

impl<F: Faults> Faults for SharedFaults<F> {
    fn before(&self, verb: sluicegate::storage::Verb) -> sluicegate::storage::Result<()> {
        self.0.before(verb)
    }

    fn after(&self, verb: sluicegate::storage::Verb) -> sluicegate::storage::Result<()> {
        self.0.after(verb)
    }
}
