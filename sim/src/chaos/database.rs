//! Where the database under chaos is and how it is opened: by workers with short limits, by the
//! judge and the saboteurs beside the engine. Never runs a statement.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluicegate::storage::postgres::{OpenError, PostgresOptions};
use sluicegate::storage::sqlite::SqliteOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection};

/// Longest wait of an engine for one lock.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(200);
/// Longest run of a statement of an engine.
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time between two statements of a transaction of an engine.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait of an engine for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// After so long a wait the server looks for a deadlock on behalf of an engine: less than the lock
/// timeout, or it would never find one.
const DEADLOCK_TIMEOUT: &str = "40ms";
/// Connections of one engine.
const CONNECTIONS_MAX: usize = 6;
/// Longest wait of an engine for another writer of the file.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_millis(200);

/// A database that a process opens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Database {
    Postgres(PostgresPlace),
    Sqlite(SqlitePlace),
}

/// A schema on a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PostgresPlace {
    pub(super) url: String,
    pub(super) schema: String,
    pub(super) tablespace: Option<String>,
}

/// A file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SqlitePlace {
    pub(super) file: PathBuf,
}

impl PostgresPlace {
    /// How an engine opens it.
    pub(super) fn options(&self) -> Result<PostgresOptions, OpenError> {
        let options = PostgresOptions::new(&self.url)?
            .schema(&self.schema)
            .connections_max(CONNECTIONS_MAX)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .lock_timeout(LOCK_TIMEOUT)
            .statement_timeout(STATEMENT_TIMEOUT)
            .idle_in_transaction_timeout(IDLE_TIMEOUT)
            .setting("deadlock_timeout", DEADLOCK_TIMEOUT);
        Ok(match &self.tablespace {
            Some(name) => options.setting("default_tablespace", name),
            None => options,
        })
    }

    /// A session of a saboteur or the judge, with settings of its own.
    pub(super) async fn session(
        &self,
        settings: &[(&str, &str)],
    ) -> Result<PgConnection, sqlx::Error> {
        let options = PgConnectOptions::from_str(&self.url)?
            .application_name("sluicegate-chaos")
            .options(settings.iter().copied());
        options.connect().await
    }

    /// The same place behind a socket in that directory.
    pub(super) fn through(&self, directory: &std::path::Path) -> Result<Self, sqlx::Error> {
        let options = PgConnectOptions::from_str(&self.url)?;
        let url = options.to_url_lossy();
        let user = url.username();
        let password = url.password().map(|password| format!(":{password}")).unwrap_or_default();
        let database = options.get_database().unwrap_or(user);
        let host = directory.to_string_lossy().replace('/', "%2F");
        let url = format!("postgres://{user}{password}@{host}/{database}?sslmode=disable");
        Ok(Self { url, ..self.clone() })
    }
}

impl SqlitePlace {
    /// How an engine opens it.
    pub(super) fn options(&self) -> SqliteOptions {
        SqliteOptions::file(&self.file).busy_timeout(BUSY_TIMEOUT)
    }
}
