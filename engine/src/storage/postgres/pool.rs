//! Connections: how they are opened, lent and taken back. Never runs a verb.
//!
//! A connection comes back only if its last transaction ended and was answered; every other one is
//! closed, which makes the server roll back what it held. The last one back is the first one out,
//! so that a quiet service keeps few sessions busy.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnection, PgRow, Postgres};
use sqlx::{ConnectOptions, Connection, Executor, Row};
use tokio::runtime::{Handle, Id};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::statements::Statements;
use super::{OpenError, PostgresOptions, SERVER_VERSION_MIN, error};
use crate::storage::schema::{self, StoredVersion};
use crate::storage::{CommitError, Result, StorageError};

/// A statement with its parameters.
pub(super) type PgQuery<'q> = sqlx::query::Query<'q, Postgres, PgArguments>;

/// What a session says of itself when it is opened. A setting that only later servers know cannot
/// be sent along with the connection; caching the inner side of a join by key gains nothing where
/// every key comes once.
const INTRODUCTION: &str = "select
  pg_backend_pid() as pid,
  current_setting('server_version_num')::int4 as version,
  current_setting('plan_cache_mode') as plans,
  current_setting('transaction_read_only') as read_only,
  case
    when current_setting('server_version_num')::int4 >= 140000
      then set_config('enable_memoize', 'off', false)
  end as memoize";

/// What all handles of one storage share.
pub(super) struct Shared {
    pub(super) options: PostgresOptions,
    pub(super) statements: Statements,
    idle: Mutex<Vec<Session>>,
    permits: Arc<Semaphore>,
}

/// An open connection.
pub(super) struct Session {
    connection: PgConnection,
    pid: i32,
    /// Whose reactor tells when the server has answered.
    runtime: Id,
}

/// What a borrowed connection has open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Open {
    Nothing,
    Transaction,
}

/// Whether the last statement was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Received,
    Outstanding,
}

/// A borrowed connection; goes home when dropped with nothing open and nothing outstanding, and is
/// closed otherwise.
pub(super) struct Held {
    shared: Arc<Shared>,
    session: Option<Session>,
    open: Open,
    answer: Answer,
    _permit: OwnedSemaphorePermit,
}

/// Which transaction is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Begin {
    Write,
    Read,
}

impl Begin {
    fn sql(self) -> &'static str {
        match self {
            Begin::Write => "begin isolation level read committed read write",
            Begin::Read => "begin isolation level repeatable read read only",
        }
    }
}

/// Asks whether a migration has left this engine behind; and holds off one that would, until the
/// transaction has ended. A reader sees the instant of this, its first read.
const ADMITTED: &str = "select version, least_engine_version \
    from sluicegate.sluicegate_schema order by version desc limit 1";

impl Shared {
    /// A pool around a first connection.
    pub(super) fn new(options: PostgresOptions, first: Session) -> Arc<Self> {
        let statements = Statements::new(&options);
        let permits = Arc::new(Semaphore::new(options.connections_max));
        Arc::new(Self { options, statements, idle: Mutex::new(vec![first]), permits })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the idle connections, saying good-bye.
    pub(super) async fn close_idle(&self) {
        let sessions = std::mem::take(&mut *self.idle());
        for session in sessions {
            // The server notices anyway.
            drop(session.connection.close().await);
        }
    }

    /// Borrows a connection, in order of arrival.
    pub(super) async fn acquire(self: &Arc<Self>) -> Result<Held> {
        let limit = self.options.acquire_timeout;
        let permit = timeout(limit, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(permit) = permit else {
            let count = self.options.connections_max;
            let waited = format!("none of {count} connections became free within {limit:?}");
            return Err(StorageError::Unavailable(waited.into()));
        };
        let permit = permit.expect("a pool is never closed");
        let session = match self.take_idle() {
            Some(session) => session,
            None => Session::open(&self.options).await.map_err(of_reopening)?,
        };
        Ok(Held {
            shared: Arc::clone(self),
            session: Some(session),
            open: Open::Nothing,
            answer: Answer::Received,
            _permit: permit,
        })
    }

    /// The connection that came back last, of those that were opened on the caller's runtime: an
    /// answer to another would wait for a runtime that a handler may block.
    ///
    /// Where there is none, and no room for one more, one of another runtime is closed.
    fn take_idle(&self) -> Option<Session> {
        let mut idle = self.idle();
        let here = Handle::current().id();
        if let Some(at) = idle.iter().rposition(|session| session.runtime == here) {
            return Some(idle.remove(at));
        }
        if idle.len() > self.permits.available_permits() {
            idle.remove(0);
        }
        None
    }

    /// Borrows a connection with an open transaction.
    ///
    /// A connection that lay idle may have lost its server. Nothing has been asked of it yet, so a
    /// new one takes its place, and whatever else lay idle is given up with it.
    pub(super) async fn begin(self: &Arc<Self>, begin: Begin) -> Result<Held> {
        let mut held = self.acquire().await?;
        match held.begin(begin).await {
            Err(StorageError::Unavailable(_)) => {
                self.idle().clear();
                held.session = Some(Session::open(&self.options).await.map_err(of_reopening)?);
                held.begin(begin).await?;
            }
            begun => begun?,
        }
        Ok(held)
    }
}

impl Session {
    /// Opens a connection and refuses a server that this engine cannot work on.
    pub(super) async fn open(options: &PostgresOptions) -> Result<Self, OpenError> {
        let limit = options.acquire_timeout;
        let opening = async {
            let mut connection = options.session().connect().await?;
            let row = connection.fetch_one(INTRODUCTION).await?;
            Ok((connection, row))
        };
        let (connection, row) = within(limit, opening).await.map_err(|e| error::of_open(&e))?;
        let read = || -> sqlx::Result<(i32, i32, String, String)> {
            Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?))
        };
        let (pid, version, plans, read_only) = read().map_err(|e| error::of_open(&e))?;
        admit(version, &plans, &read_only)?;
        Ok(Self { connection, pid, runtime: Handle::current().id() })
    }

    /// The server process that works for it.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// The connection itself: for migrations and tools.
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

/// Refuses a server by what its session says of itself.
fn admit(version: i32, plans: &str, read_only: &str) -> Result<(), OpenError> {
    let major = u32::try_from(version / 10_000).unwrap_or(0);
    if major < SERVER_VERSION_MIN {
        return Err(OpenError::TooOld { found: major });
    }
    if plans != "force_generic_plan" {
        let reason = format!("plan_cache_mode is {plans}");
        return Err(OpenError::Pooler { reason });
    }
    if read_only == "on" {
        return Err(OpenError::ReadOnly);
    }
    Ok(())
}

/// Refuses a database whose newest version admits only newer engines.
fn admitted(options: &PostgresOptions, row: Option<&PgRow>) -> Result<()> {
    let row = row.ok_or(StorageError::Corrupt("sluicegate_schema has no row".into()))?;
    let read = |at: usize| row.try_get::<i32, _>(at).map_err(|e| error::of_verb(&e));
    let (version, least) = (read(0)?.into(), read(1)?.into());
    let stored = StoredVersion { version, least_engine_version: least };
    schema::admit(stored, schema::latest(&options.steps)).map(drop)
}

/// What it means if no further connection can be opened to a database that was open once.
fn of_reopening(error: OpenError) -> StorageError {
    match error {
        OpenError::Storage(error) => error,
        OpenError::ReadOnly => StorageError::ReadOnly,
        other => StorageError::Unavailable(other.to_string().into()),
    }
}

/// The result of work on a connection; one that takes too long has lost its server.
async fn within<T>(
    limit: Duration,
    work: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    match timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into())),
    }
}

impl Held {
    /// Its server process; zero once the connection is closed.
    pub(super) fn pid(&self) -> i32 {
        self.session.as_ref().map_or(0, |session| session.pid)
    }

    /// The statements of its storage.
    pub(super) fn statements(&self) -> &Statements {
        &self.shared.statements
    }

    /// The connection, of which an answer is awaited from now on.
    fn ask(&mut self) -> Result<(Duration, &mut PgConnection)> {
        self.answer = Answer::Outstanding;
        let limit = self.shared.options.answer_timeout();
        match &mut self.session {
            Some(session) => Ok((limit, &mut session.connection)),
            None => Err(StorageError::Unavailable("an earlier error ended the session".into())),
        }
    }

    /// Takes an answer. An error ends the transaction, and the connection if it has to.
    async fn answered<T>(&mut self, result: sqlx::Result<T>) -> Result<T> {
        self.answer = Answer::Received;
        let error = match result {
            Ok(value) => return Ok(value),
            Err(error) => error::of_verb(&error),
        };
        if error::ends_connection(&error) {
            self.session = None;
        } else if self.open == Open::Transaction {
            self.end().await;
        }
        Err(error)
    }

    /// Rolls back; a connection that cannot is closed.
    async fn end(&mut self) {
        let Ok((limit, connection)) = self.ask() else { return };
        match within(limit, connection.execute("rollback")).await {
            Ok(_) => {
                self.answer = Answer::Received;
                self.open = Open::Nothing;
            }
            Err(_) => self.session = None,
        }
    }

    /// Begins a transaction, unless a migration has left this engine behind.
    async fn begin(&mut self, begin: Begin) -> Result<()> {
        let sql = self.shared.options.in_schema(&format!("{}; {ADMITTED}", begin.sql()));
        // From here on: where the second statement fails, the first has begun.
        self.open = Open::Transaction;
        let (limit, connection) = self.ask()?;
        let query = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
        let row = within(limit, connection.fetch_optional(query)).await;
        let row = self.answered(row).await?;
        let admitted = admitted(&self.shared.options, row.as_ref());
        if admitted.is_err() {
            self.end().await;
        }
        admitted
    }

    /// Sends a statement and waits for its rows.
    pub(super) async fn fetch(&mut self, query: PgQuery<'_>) -> Result<Vec<PgRow>> {
        let (limit, connection) = self.ask()?;
        let rows = within(limit, connection.fetch_all(query)).await;
        self.answered(rows).await
    }

    /// Sends a statement and waits for the number of rows that it changed.
    pub(super) async fn execute(&mut self, query: PgQuery<'_>) -> Result<u64> {
        let (limit, connection) = self.ask()?;
        let done = within(limit, connection.execute(query)).await;
        self.answered(done).await.map(|done| done.rows_affected())
    }

    /// Commits. Only a commit that was answered gives its connection back.
    pub(super) async fn commit(mut self) -> Result<(), CommitError> {
        let (limit, connection) = self.ask()?;
        within(limit, connection.execute("commit")).await.map_err(|e| error::of_commit(&e))?;
        self.answer = Answer::Received;
        self.open = Open::Nothing;
        Ok(())
    }

    /// Rolls back what is open; goes home if that is answered.
    pub(super) async fn roll_back(mut self) {
        self.end().await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let reusable = self.open == Open::Nothing && self.answer == Answer::Received;
        if let Some(session) = self.session.take().filter(|_| reusable) {
            self.shared.idle().push(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_old_or_read_only_or_behind_a_pooler_is_refused() {
        assert_eq!(admit(130_000, "force_generic_plan", "off"), Ok(()));
        assert_eq!(
            admit(120_022, "force_generic_plan", "off"),
            Err(OpenError::TooOld { found: 12 })
        );
        assert_eq!(admit(150_000, "force_generic_plan", "on"), Err(OpenError::ReadOnly));
        let pooler = admit(150_000, "auto", "off").unwrap_err();
        assert!(pooler.to_string().contains("pooler in transaction mode"), "{pooler}");
    }
}
