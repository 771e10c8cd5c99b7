//! Where it is measured: fresh databases of one storage, one for each run, opened as a service would
//! open them. Never measures anything.

use std::path::PathBuf;
use std::sync::Arc;

use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use tempfile::TempDir;

use super::counted::{Counted, Counters};

/// A storage that is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lane {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

impl Lane {
    /// Every lane, in the order in which it is measured.
    pub const ALL: [Lane; 2] = [Lane::Postgres, Lane::Sqlite];

    /// As the command line names it.
    pub fn name(self) -> &'static str {
        match self {
            Lane::Postgres => "postgres",
            Lane::Sqlite => "sqlite",
        }
    }
}

/// Makes databases.
pub(crate) enum Place {
    /// Files in a directory.
    Sqlite(TempDir),
}

/// One new database; gone when dropped.
pub(crate) struct Fresh {
    /// The database as the engine knows it.
    pub storage: BoxStorage,
    opened: Opened,
}

enum Opened {
    Sqlite { storage: SqliteStorage, _directory: TempDir },
}

impl Place {
    /// Files on the disk that holds the build directory, or else the temporary one.
    pub(crate) fn sqlite() -> Result<Self, String> {
        let target = PathBuf::from("target");
        let parent = if target.is_dir() { target } else { std::env::temp_dir() };
        let directory = tempfile::Builder::new().prefix("sluicegate-bench-").tempdir_in(&parent);
        directory.map(Place::Sqlite).map_err(|error| format!("{}: {error}", parent.display()))
    }

    /// Which storage it is.
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Place::Sqlite(_) => Lane::Sqlite,
        }
    }

    /// The settings that a figure depends on.
    pub(crate) fn settings(&self) -> String {
        match self {
            Place::Sqlite(directory) => format!(
                "SQLite {}, WAL, synchronous FULL, file in {}",
                rusqlite::version(),
                directory.path().display()
            ),
        }
    }

    /// A new database, its schema in place, counted if there are counters.
    pub(crate) async fn fresh(&self, counters: Option<&Arc<Counters>>) -> Result<Fresh, String> {
        match self {
            Place::Sqlite(parent) => {
                let directory = TempDir::new_in(parent.path()).map_err(|e| e.to_string())?;
                let options = SqliteOptions::file(directory.path().join("flows.db"));
                let storage = SqliteStorage::open(options).map_err(|error| error.to_string())?;
                let boxed = counted(storage.clone(), counters);
                let opened = Opened::Sqlite { storage, _directory: directory };
                Ok(Fresh { storage: boxed, opened })
            }
        }
    }
}

fn counted(
    storage: impl sluicegate::storage::Storage,
    counters: Option<&Arc<Counters>>,
) -> BoxStorage {
    match counters {
        Some(counters) => BoxStorage::new(Counted::new(storage, Arc::clone(counters))),
        None => BoxStorage::new(storage),
    }
}

impl Fresh {
    /// Writes what is dirty to its place, so that no checkpoint of a preparation is measured.
    pub(crate) async fn settle(&self) -> Result<(), String> {
        match &self.opened {
            Opened::Sqlite { storage, .. } => {
                let checkpoint = |connection: &rusqlite::Connection| {
                    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))
                };
                let done = storage.with_connection(checkpoint).map_err(|e| e.to_string())?;
                done.map_err(|error| error.to_string())
            }
        }
    }
}
