//! Where a database on Postgres is and how its sessions are set up. Never connects.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

use super::{MIGRATIONS, OpenError};
use crate::identity::PartitionCount;
use crate::storage::schema::{Migration, Migrations};

/// Connections of one storage unless told otherwise.
pub const CONNECTIONS_MAX: usize = 10;
/// Longest wait for one lock unless told otherwise.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest run of one statement unless told otherwise; it bounds a statement that waits for several
/// locks, since the lock timeout starts again with each.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time between two statements of a transaction unless told otherwise.
pub const IDLE_IN_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for a connection, free or new, unless told otherwise.
pub const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of the name of a schema.
const SCHEMA_BYTES_MAX: usize = 63;
/// Prepared statements kept by a connection: every verb, with room to grow.
const STATEMENTS_MAX: usize = 128;

/// Settings under which statements are planned, whatever the server's own.
///
/// Plans must not depend on statistics that a fresh table does not have: with sequential and bitmap
/// scans, hash and merge joins out of the way every look-up goes through the index of its key, and
/// a generic plan is made once. (A bitmap would combine the index of a flow with a whole partition
/// of the primary key.) `jit` would compile every such plan, since what is switched off
/// counts as costly.
pub const PLANNING: &[(&str, &str)] = &[
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_bitmapscan", "off"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
];

/// Further settings of every session.
///
/// A commit is on the disk before it is acknowledged. A client that is gone is noticed, and its
/// locks are freed, within ten seconds.
const SETTINGS: &[(&str, &str)] = &[
    ("synchronous_commit", "on"),
    ("client_min_messages", "warning"),
    ("tcp_keepalives_idle", "4"),
    ("tcp_keepalives_interval", "2"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "10000"),
];

/// Where a database is and how it is used.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(super) connect: PgConnectOptions,
    pub(super) schema: Arc<str>,
    pub(super) partitions: PartitionCount,
    pub(super) connections_max: usize,
    pub(super) migrations: Migrations,
    pub(super) steps: Arc<[Migration]>,
    pub(super) acquire_timeout: Duration,
    lock_timeout: Duration,
    statement_timeout: Duration,
    idle_in_transaction_timeout: Duration,
    settings: Vec<(String, String)>,
}

impl PostgresOptions {
    /// The database of a URL, `postgres://user:password@host:port/database`; a host that begins
    /// with a slash (written `%2F`) is the directory of a socket.
    pub fn new(url: &str) -> Result<Self, OpenError> {
        let refused = |reason: &str| OpenError::Url { reason: reason.to_owned() };
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(refused("it does not begin with postgres://"));
        }
        let connect = PgConnectOptions::from_str(url).map_err(|e| refused(&e.to_string()))?;
        Ok(Self {
            connect: connect
                .application_name("sluicegate")
                .statement_cache_capacity(STATEMENTS_MAX),
            schema: "sluicegate".into(),
            partitions: PartitionCount::default(),
            connections_max: CONNECTIONS_MAX,
            migrations: Migrations::default(),
            steps: MIGRATIONS.into(),
            acquire_timeout: ACQUIRE_TIMEOUT,
            lock_timeout: LOCK_TIMEOUT,
            statement_timeout: STATEMENT_TIMEOUT,
            idle_in_transaction_timeout: IDLE_IN_TRANSACTION_TIMEOUT,
            settings: Vec::new(),
        })
    }

    /// The schema that holds the tables.
    #[must_use]
    pub fn schema(mut self, name: &str) -> Self {
        assert!(!name.is_empty() && name.len() <= SCHEMA_BYTES_MAX, "a schema has a short name");
        self.schema = name.into();
        self
    }

    /// Partition count of a new database; any other must have been created with the same.
    #[must_use]
    pub fn partitions(mut self, count: PartitionCount) -> Self {
        self.partitions = count;
        self
    }

    /// At most so many connections; at least 1. A transaction never takes a second one.
    #[must_use]
    pub fn connections_max(mut self, count: usize) -> Self {
        assert!(count > 0, "a storage needs a connection");
        self.connections_max = count;
        self
    }

    /// Longest wait for a connection of the pool to become free, and for a new one to open.
    #[must_use]
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.acquire_timeout = timeout;
        self
    }

    /// Longest wait for one lock; beyond it the statement fails with `LockTimeout`.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Longest run of one statement; beyond it the statement fails with `StatementTimeout`.
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout;
        self
    }

    /// Longest time between two statements of a transaction; beyond it the server ends the session.
    #[must_use]
    pub fn idle_in_transaction_timeout(mut self, timeout: Duration) -> Self {
        self.idle_in_transaction_timeout = timeout;
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
    ///
    /// [`MIGRATIONS`]: super::MIGRATIONS
    #[must_use]
    pub fn steps(mut self, steps: impl Into<Arc<[Migration]>>) -> Self {
        self.steps = steps.into();
        assert!(!self.steps.is_empty(), "a schema is made by a migration");
        self
    }

    /// A further setting of every session; the last one of a name holds.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The longest time that an answer may take: what the server allows a statement, and as much
    /// again for the way. Beyond it the connection counts as lost.
    pub(super) fn answer_timeout(&self) -> Duration {
        self.statement_timeout + self.acquire_timeout
    }

    /// How a session is opened.
    pub(super) fn session(&self) -> PgConnectOptions {
        let timeouts = [
            ("lock_timeout", self.lock_timeout),
            ("statement_timeout", self.statement_timeout),
            ("idle_in_transaction_session_timeout", self.idle_in_transaction_timeout),
        ];
        let timeouts = timeouts.map(|(name, timeout)| (name, timeout.as_millis().to_string()));
        let further = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let settings = PLANNING.iter().chain(SETTINGS).copied();
        self.connect.clone().options(settings).options(timeouts).options(further)
    }

    /// The name of the schema as SQL writes it.
    pub(super) fn quoted_schema(&self) -> String {
        format!("\"{}\"", self.schema.replace('"', "\"\""))
    }

    /// SQL of the product, whose tables stand in `sluicegate`, for this schema.
    pub(super) fn in_schema(&self, sql: &str) -> String {
        if &*self.schema == "sluicegate" {
            return sql.to_owned();
        }
        sql.replace("sluicegate.", &format!("{}.", self.quoted_schema()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_url_is_refused_and_not_repeated() {
        for url in ["", "mysql://root:secret@host/db", "postgres//secret", "postgres://h:secret/"] {
            let error = PostgresOptions::new(url).err().map(|error| error.to_string());
            let error = error.unwrap_or_else(|| panic!("{url} was taken"));
            assert!(error.contains("postgres://user@host/database"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_schema_of_any_name_is_quoted() {
        let options = PostgresOptions::new("postgres://localhost/db").unwrap();
        assert_eq!(options.in_schema("from sluicegate.flow"), "from sluicegate.flow");
        let odd = options.schema("my \"own\"");
        assert_eq!(odd.in_schema("from sluicegate.flow"), "from \"my \"\"own\"\"\".flow");
    }
}
