//! Where it is measured: fresh databases of one storage, one for each run, opened as a service
//! would open them. Never measures anything.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sluicegate::storage::Storage;
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sqlx::{Connection, Executor, PgConnection, Row};
use tempfile::TempDir;

use super::counted::Counters;
use crate::observed::Observed;
use crate::postgres::{Provided, Server};
use crate::real_lane::RealLane;

/// Name of a database in its directory.
const FILE: &str = "flows.db";
/// Connections of the pool, as a service would have them.
const CONNECTIONS_MAX: usize = 10;

/// Makes databases.
pub(crate) enum Place {
    /// Files in a directory.
    Sqlite(TempDir),
    /// Schemas in a database.
    Postgres(Schemas),
}

/// A Postgres server to make schemas on.
pub(crate) struct Schemas {
    provided: Provided,
    settings: String,
    /// Number of the next schema.
    next: AtomicU32,
    /// Schemas that exist.
    made: Arc<Mutex<BTreeSet<String>>>,
}

/// One new database, gone when dropped or, on a server, closed.
pub(crate) struct Fresh {
    /// The database as the engine knows it.
    pub storage: BoxStorage,
    opened: Opened,
}

enum Opened {
    Sqlite { storage: SqliteStorage, directory: TempDir },
    Postgres(Box<Schema>),
}

/// A schema of its own.
struct Schema {
    storage: PostgresStorage,
    options: PostgresOptions,
    url: String,
    name: String,
    made: Arc<Mutex<BTreeSet<String>>>,
}

/// What a throwaway server is told, to be as durable as an ordinary one: whoever measures needs it.
pub(crate) const DURABLE: &[(&str, &str)] =
    &[("fsync", "on"), ("full_page_writes", "on"), ("shared_buffers", "256MB")];

/// Server settings that a figure depends on.
const SERVER_SETTINGS: &str = "select concat_ws(', ',
    'PostgreSQL ' || current_setting('server_version'),
    'fsync ' || current_setting('fsync'),
    'synchronous_commit ' || current_setting('synchronous_commit'),
    'full_page_writes ' || current_setting('full_page_writes'),
    'shared_buffers ' || current_setting('shared_buffers'),
    'autovacuum ' || current_setting('autovacuum'),
    case when inet_server_addr() is null then 'unix socket' else 'TCP' end)";

impl Place {
    /// Files on the disk that holds the build directory, or else the temporary one.
    pub(crate) fn sqlite() -> Result<Self, String> {
        let target = PathBuf::from("target");
        let parent = if target.is_dir() { target } else { std::env::temp_dir() };
        let directory = tempfile::Builder::new().prefix("sluicegate-bench-").tempdir_in(&parent);
        directory.map(Place::Sqlite).map_err(|error| format!("{}: {error}", parent.display()))
    }

    /// Schemas on that server; a throwaway one has these settings.
    pub(crate) async fn postgres(
        server: &Server,
        settings: &[(&str, &str)],
    ) -> Result<Self, String> {
        let provided = server.provide("bench", settings).map_err(|error| error.to_string())?;
        let asked = async {
            let mut connection = PgConnection::connect(provided.url()).await?;
            let row = connection.fetch_one(SERVER_SETTINGS).await?;
            let settings: String = row.try_get(0)?;
            connection.close().await?;
            Ok(format!("{settings}, pool of {CONNECTIONS_MAX}"))
        };
        let settings = asked.await.map_err(|error: sqlx::Error| error.to_string())?;
        Ok(Place::Postgres(Schemas {
            provided,
            settings,
            next: AtomicU32::new(0),
            made: Arc::default(),
        }))
    }

    /// Which storage it is.
    pub(crate) fn lane(&self) -> RealLane {
        match self {
            Place::Sqlite(_) => RealLane::Sqlite,
            Place::Postgres(_) => RealLane::Postgres,
        }
    }

    /// Removes what runs that went wrong have left.
    pub(crate) async fn clean_up(&self) -> Result<(), String> {
        let Place::Postgres(server) = self else { return Ok(()) };
        let left = std::mem::take(&mut *server.made.lock().unwrap_or_else(PoisonError::into_inner));
        for schema in left {
            let options = PostgresOptions::new(server.url()).map_err(|e| e.to_string())?;
            let dropped = PostgresStorage::drop_schema(&options.schema(&schema)).await;
            dropped.map_err(|error| format!("schema {schema} is left behind: {error}"))?;
        }
        Ok(())
    }

    /// The settings that a figure depends on.
    pub(crate) fn settings(&self) -> String {
        match self {
            Place::Sqlite(directory) => format!(
                "SQLite {}, WAL, synchronous FULL, file in {}",
                rusqlite::version(),
                directory.path().display()
            ),
            Place::Postgres(server) => server.settings.clone(),
        }
    }

    /// A new database, its schema in place, counted if there are counters.
    pub(crate) async fn fresh(&self, counters: Option<&Arc<Counters>>) -> Result<Fresh, String> {
        match self {
            Place::Sqlite(parent) => {
                let directory = TempDir::new_in(parent.path()).map_err(|e| e.to_string())?;
                let options = SqliteOptions::file(directory.path().join(FILE));
                let storage = SqliteStorage::open(options).map_err(|error| error.to_string())?;
                let boxed = counted(storage.clone(), counters);
                let opened = Opened::Sqlite { storage, directory };
                Ok(Fresh { storage: boxed, opened })
            }
            Place::Postgres(server) => server.fresh(counters).await,
        }
    }
}

impl Schemas {
    /// Where the server listens.
    pub(crate) fn url(&self) -> &str {
        self.provided.url()
    }

    /// The name of a schema of its own for that purpose.
    pub(crate) fn named(&self, purpose: &str) -> String {
        format!("{}_{purpose}", self.provided.schema())
    }

    async fn fresh(&self, counters: Option<&Arc<Counters>>) -> Result<Fresh, String> {
        let name = self.named(&self.next.fetch_add(1, Ordering::Relaxed).to_string());
        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        let options = PostgresOptions::new(self.url())
            .map_err(|error| error.to_string())?
            .schema(&name)
            .connections_max(CONNECTIONS_MAX);
        let opened = PostgresStorage::open(options.clone()).await;
        let storage = opened.map_err(|error| error.to_string())?;
        let boxed = counted(storage.clone(), counters);
        let (url, made) = (self.url().to_owned(), Arc::clone(&self.made));
        let opened = Opened::Postgres(Box::new(Schema { storage, options, url, name, made }));
        Ok(Fresh { storage: boxed, opened })
    }
}

/// Opens a database that another process has made.
pub(crate) async fn open_at(address: &str) -> Result<BoxStorage, String> {
    let Some((url, schema)) = address.split_once(' ') else {
        let storage = SqliteStorage::open(SqliteOptions::file(address));
        return storage.map(BoxStorage::new).map_err(|error| error.to_string());
    };
    let options = PostgresOptions::new(url).map_err(|error| error.to_string())?;
    let options = options.schema(schema).connections_max(CONNECTIONS_MAX);
    let storage = PostgresStorage::open(options).await;
    storage.map(BoxStorage::new).map_err(|error| error.to_string())
}

fn counted(storage: impl Storage, counters: Option<&Arc<Counters>>) -> BoxStorage {
    match counters {
        Some(counters) => BoxStorage::new(Observed::new(storage, Arc::clone(counters))),
        None => BoxStorage::new(storage),
    }
}

impl Fresh {
    /// Writes what is dirty to its place, so that no checkpoint of a preparation is measured.
    pub(crate) async fn settle(&self) -> Result<(), String> {
        match &self.opened {
            Opened::Sqlite { storage, .. } => {
                let checkpoint = |connection: &rusqlite::Connection| {
                    connection.query_row("pragma wal_checkpoint(restart)", [], |_| Ok(()))
                };
                let done = storage.with_connection(checkpoint).map_err(|e| e.to_string())?;
                done.map_err(|error| error.to_string())
            }
            Opened::Postgres(schema) => {
                let checkpoint = async {
                    let mut connection = PgConnection::connect(&schema.url).await?;
                    connection.execute("checkpoint").await?;
                    connection.close().await
                };
                checkpoint.await.map_err(|error: sqlx::Error| error.to_string())
            }
        }
    }

    /// What another process needs to [`open_at`] it.
    pub(crate) fn address(&self) -> String {
        match &self.opened {
            Opened::Sqlite { directory, .. } => directory.path().join(FILE).display().to_string(),
            Opened::Postgres(schema) => format!("{} {}", schema.url, schema.name),
        }
    }

    /// The same database through a connection of its own.
    pub(crate) async fn beside(&self) -> Result<BoxStorage, String> {
        match &self.opened {
            Opened::Sqlite { storage, .. } => Ok(BoxStorage::new(storage.clone())),
            Opened::Postgres(schema) => {
                let options = schema.options.clone();
                let storage = PostgresStorage::open(options.connections_max(1)).await;
                storage.map(BoxStorage::new).map_err(|error| error.to_string())
            }
        }
    }

    /// Leaves nothing behind.
    pub(crate) async fn close(self) -> Result<(), String> {
        match self.opened {
            Opened::Sqlite { .. } => Ok(()),
            Opened::Postgres(schema) => {
                schema.storage.close().await;
                let dropped = PostgresStorage::drop_schema(&schema.options).await;
                dropped.map_err(|error| error.to_string())?;
                let mut made = schema.made.lock().unwrap_or_else(PoisonError::into_inner);
                made.remove(&schema.name);
                Ok(())
            }
        }
    }
}
