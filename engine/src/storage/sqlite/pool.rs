//! Connections: how they are opened, lent and taken back. Never runs a verb.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection, OpenFlags};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::offload::{self, Effort};
use super::place::Place;
use super::{Location, SqliteOptions, error, migrate};
use crate::mutants::mutated;
use crate::storage::schema::{self, Migration, Migrations};
use crate::storage::{CommitError, Contention, Result, StorageError};
use crate::time::Timestamp;

/// The oldest SQLite that is safe: earlier ones can corrupt a database when a WAL is reset.
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// Times that a connection tries to switch a file to a WAL while others do the same.
const WAL_TRIES_MAX: usize = 8;
/// Prepared statements kept by a connection: every verb, with room to grow.
const STATEMENTS_MAX: usize = 128;

/// Puts a commit on the disk before it is acknowledged; on macOS `fsync` alone is not enough.
fn synchronous() -> &'static str {
    match mutated!(S31) {
        true => "pragma synchronous = normal",
        false => "pragma synchronous = full; pragma fullfsync = on",
    }
}

/// Opens a transaction as the only writer.
fn begin_as_writer() -> &'static str {
    if mutated!(P49) { "begin" } else { "begin immediate" }
}

/// What a connection is borrowed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// A transaction. SQLite admits one writer at a time.
    Writer,
    /// Reads. In a memory database they share the writer's only connection.
    Reader,
}

/// What all handles of one storage share.
pub(super) struct Shared {
    pub(super) options: SqliteOptions,
    /// The file, where the system knows it.
    place: Option<Place>,
    writers: Pool,
    readers: Pool,
    /// Runs no statement. It keeps the inode of the file from being used again, whatever becomes of
    /// the others; the last to be closed.
    _anchor: Mutex<Option<Connection>>,
}

/// What opening does where there is no file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Missing {
    Created,
    Refused,
}

/// Idle connections, and the right to use one more.
struct Pool {
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

/// A borrowed connection; goes home when dropped, with its transaction rolled back.
pub(super) struct Held {
    shared: Arc<Shared>,
    connection: Option<Connection>,
    home: Option<(Role, OwnedSemaphorePermit)>,
}

/// What a verb runs on.
#[derive(Clone, Copy)]
pub(super) struct Session<'a> {
    connection: &'a Connection,
    shared: &'a Shared,
}

impl Pool {
    fn new(connections_max: usize) -> Self {
        assert!(connections_max > 0, "a pool needs a connection");
        Self { idle: Mutex::default(), permits: Arc::new(Semaphore::new(connections_max)) }
    }

    fn take(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn has_idle(&self) -> bool {
        !self.idle.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn put(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

impl Shared {
    /// Opens the database, its schema admitted, brought up to date if that is asked for.
    pub(super) fn open(options: SqliteOptions) -> Result<Arc<Self>> {
        let options = options.rooted()?;
        let (first, place) = open_first(&options)?;
        let anchor = place.as_ref().map(|_| open(&options, Missing::Refused)).transpose()?;
        // With a busy timeout the writers of a process queue for one connection, in order of
        // arrival: SQLite's own wait polls and starves. Without one nobody waits, and SQLite itself
        // refuses the second writer. A memory database is its one connection.
        let one_writer = options.is_memory() || !options.busy_timeout.is_zero();
        let writers_max = if one_writer { 1 } else { options.connections_max };
        let writers = Pool::new(writers_max);
        let readers = Pool::new(options.connections_max);
        writers.put(first);
        let shared = Self { options, place, writers, readers, _anchor: Mutex::new(anchor) };
        shared.check_place()?;
        Ok(Arc::new(shared))
    }

    /// `Unavailable` if the path does not lead to the file that was opened.
    ///
    /// What is written to a file that was deleted is gone with its last connection, and what a
    /// connection reads there is not what others read at that path.
    pub(super) fn check_place(&self) -> Result<()> {
        self.place.as_ref().map_or(Ok(()), Place::check)
    }

    fn pool(&self, role: Role) -> &Pool {
        match role {
            Role::Reader if !self.options.is_memory() => &self.readers,
            Role::Reader | Role::Writer => &self.writers,
        }
    }

    /// Borrows a connection: waits in order of arrival, or with a busy timeout of zero not at all.
    pub(super) async fn acquire(self: &Arc<Self>, role: Role) -> Result<Held> {
        let permits = Arc::clone(&self.pool(role).permits);
        let permit = if self.options.busy_timeout.is_zero() {
            permits.try_acquire_owned().map_err(|_| StorageError::Contention(Contention::Busy))?
        } else {
            permits.acquire_owned().await.expect("a pool is never closed")
        };
        let held = self.lend(role, permit);
        if held.connection.is_some() {
            return Ok(held);
        }
        let (offload, mut held) = (self.options.offload, Some(held));
        offload::run(offload, Effort::Long, &mut held, &(), |held, ()| held.connect()).await?;
        Ok(held.expect("a connection comes back from work that ran"))
    }

    /// Borrows a connection without waiting, on this thread: rather one that is idle, whatever it
    /// is for, than a new one.
    pub(super) fn try_acquire(self: &Arc<Self>) -> Result<Held> {
        let permit = |role| Arc::clone(&self.pool(role).permits).try_acquire_owned().ok();
        let writer = permit(Role::Writer).ok_or(StorageError::Contention(Contention::Busy))?;
        let mut held = match permit(Role::Reader) {
            Some(reader) if !self.writers.has_idle() && self.readers.has_idle() => {
                self.lend(Role::Reader, reader)
            }
            _ => self.lend(Role::Writer, writer),
        };
        held.connect()?;
        Ok(held)
    }

    fn lend(self: &Arc<Self>, role: Role, permit: OwnedSemaphorePermit) -> Held {
        let connection = self.pool(role).take();
        Held { shared: Arc::clone(self), connection, home: Some((role, permit)) }
    }
}

impl Held {
    fn connect(&mut self) -> Result<()> {
        if self.connection.is_some() {
            return Ok(());
        }
        let options = &self.shared.options;
        if options.is_memory() {
            return Err(StorageError::Unavailable("the memory database is gone".into()));
        }
        self.shared.check_place()?;
        let connection = open(options, Missing::Refused)?;
        self.shared.check_place()?;
        admit(&connection, options)?;
        self.connection = Some(connection);
        Ok(())
    }

    /// The connection.
    pub(super) fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("a borrowed connection is open until it is discarded")
    }

    /// What a verb runs on.
    pub(super) fn session(&self) -> Session<'_> {
        Session { connection: self.connection(), shared: &self.shared }
    }

    /// The same, if it need not wait for a writer of another process; `Busy` otherwise.
    pub(super) fn try_begin_write(&mut self) -> Result<()> {
        self.check_place()?;
        let connection = self.connection();
        let without_wait = || {
            connection.busy_timeout(Duration::ZERO)?;
            let begun = control(connection, begin_as_writer());
            connection.busy_timeout(self.shared.options.busy_timeout)?;
            begun
        };
        let begun = without_wait().map_err(|e| error::of_verb(&e));
        begun.inspect_err(|error| self.end(error))?;
        self.check_admitted()
    }

    /// Opens a transaction that is the only writer until it ends.
    pub(super) fn begin_write(&mut self) -> Result<()> {
        self.check_place()?;
        let begun = control(self.connection(), begin_as_writer()).map_err(|e| error::of_verb(&e));
        begun.inspect_err(|error| self.end(error))?;
        self.check_admitted()
    }

    /// Closes a connection whose file is no longer where it was opened.
    fn check_place(&mut self) -> Result<()> {
        self.shared.check_place().inspect_err(|error| self.end(error))
    }

    /// Ends a transaction of an engine that a migration has left behind since it was opened.
    fn check_admitted(&mut self) -> Result<()> {
        let admitted = migrate::still_admitted(self.connection(), &self.shared.options.steps);
        admitted.map(drop).inspect_err(|error| self.end(error))
    }

    /// Opens a transaction that sees this instant. `begin` alone would see that of its first read.
    pub(super) fn begin_read(&mut self) -> Result<()> {
        self.check_place()?;
        let connection = self.connection();
        let see = || {
            control(connection, "begin")?;
            let mut first = connection.prepare_cached("select 1 from sluicegate_schema limit 1")?;
            first.query_row([], |_| Ok(()))
        };
        let seen = see().map_err(|e| error::of_verb(&e));
        seen.inspect_err(|error| self.end(error))
    }

    /// Runs a verb; an error ends the transaction.
    pub(super) fn verb<A: ?Sized, T>(
        &mut self,
        verb: fn(Session<'_>, &A) -> Result<T>,
        arguments: &A,
    ) -> Result<T> {
        if self.connection().is_autocommit() {
            // It is a transaction of its own.
            self.check_place()?;
        }
        verb(self.session(), arguments).inspect_err(|error| self.end(error))
    }

    /// Commits. Where the answer is unknown the connection is not used again.
    ///
    /// What is acknowledged is in the file that stands at the path after the commit.
    pub(super) fn commit(&mut self) -> Result<(), CommitError> {
        let committed = control(self.connection(), "commit").map_err(|e| error::of_commit(&e));
        let committed =
            committed.and_then(|()| self.shared.check_place().map_err(|_| CommitError::Unknown));
        committed.inspect_err(|error| match error {
            CommitError::Unknown => self.discard(),
            CommitError::Storage(error) => self.end(error),
        })
    }

    /// Rolls back what is open, and discards the connection where that fails.
    pub(super) fn roll_back(&mut self) {
        let Some(connection) = &self.connection else { return };
        if !connection.is_autocommit() && control(connection, "rollback").is_err() {
            self.discard();
        }
    }

    fn end(&mut self, error: &StorageError) {
        self.roll_back();
        if error::ends_connection(error) {
            self.discard();
        }
    }

    /// Closes the connection; the next borrower opens one. A memory database lives on.
    fn discard(&mut self) {
        if !self.shared.options.is_memory() {
            self.connection = None;
        }
    }

    /// A reader of its own over a copy of this memory database as it stands.
    pub(super) fn copy(&self) -> Result<Held> {
        let copied = || {
            let bytes = self.connection().serialize("main")?;
            let mut copy = Connection::open_in_memory()?;
            copy.deserialize_read_exact("main", &*bytes, bytes.len(), true)?;
            copy.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
            Ok(copy)
        };
        let connection = copied().map_err(|e: rusqlite::Error| error::of_verb(&e))?;
        Ok(Held { shared: Arc::clone(&self.shared), connection: Some(connection), home: None })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.roll_back();
        if let (Some(connection), Some((role, _))) = (self.connection.take(), &self.home) {
            self.shared.pool(*role).put(connection);
        }
    }
}

impl<'a> Session<'a> {
    /// A session on a connection of the caller.
    pub(super) fn over(connection: &'a Connection, shared: &'a Shared) -> Self {
        Self { connection, shared }
    }

    /// The statement, compiled once a connection.
    pub(super) fn prepare(self, sql: &'static str) -> Result<CachedStatement<'a>> {
        self.connection.prepare_cached(sql).map_err(|e| error::of_verb(&e))
    }

    /// The storage's clock.
    pub(super) fn now(self) -> Timestamp {
        (self.shared.options.clock)()
    }
}

/// Runs a statement without rows, compiled once a connection.
fn control(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// Opens the database for the first time: refuses it, or brings its schema up to date.
fn open_first(options: &SqliteOptions) -> Result<(Connection, Option<Place>)> {
    let version = rusqlite::version_number();
    if version < SQLITE_VERSION_MIN {
        let found = rusqlite::version();
        return Err(StorageError::Unsupported(
            format!("SQLite {found} is older than 3.51.3").into(),
        ));
    }
    let (connection, place) = open_or_create(options)?;
    let pending =
        schema::after(&options.steps, migrate::admitted_version(&connection, &options.steps)?)
            .count();
    if pending > 0 && options.migrations == Migrations::Apply {
        write_ahead(&connection, options)?;
        migrate::apply(&connection, &options.steps, options.partitions, (options.clock)())?;
    }
    admit(&connection, options)?;
    Ok((connection, place))
}

/// Opens a database that may be new, and says which file it is.
fn open_or_create(options: &SqliteOptions) -> Result<(Connection, Option<Place>)> {
    let known = Place::of(options);
    if known.is_some() || !options.is_plain_file() {
        let missing = if known.is_some() { Missing::Refused } else { Missing::Created };
        let connection = open(options, missing)?;
        let place = known.or_else(|| Place::of(options));
        place.as_ref().map_or(Ok(()), Place::check)?;
        return Ok((connection, place));
    }
    if options.migrations == Migrations::Refuse {
        schema::refuse_behind(&options.steps, 0)?;
    }
    // Only of a file that stood there before it was opened is it known which one was opened.
    drop(open(options, Missing::Created)?);
    let created = Place::of(options);
    let connection = open(options, Missing::Refused)?;
    created.as_ref().map_or(Ok(()), Place::check)?;
    Ok((connection, created))
}

/// Opens a connection that writes nothing yet, not even when it is closed.
fn open(options: &SqliteOptions, missing: Missing) -> Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, missing == Missing::Created);
    let opened = || {
        let connection = match (&options.location, &options.vfs) {
            (Location::Memory, _) => Connection::open_in_memory()?,
            (Location::File(path), None) => Connection::open_with_flags(path, flags)?,
            (Location::File(path), Some(vfs)) => {
                Connection::open_with_flags_and_vfs(path, flags, vfs.as_ref())?
            }
        };
        connection.busy_timeout(options.busy_timeout)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(connection)
    };
    opened().map_err(|e: rusqlite::Error| error::of_verb(&e))
}

/// Refuses a database that this engine cannot use, and readies the connection for one that it can.
fn admit(connection: &Connection, options: &SqliteOptions) -> Result<()> {
    let version = migrate::admitted_version(connection, &options.steps)?;
    schema::refuse_behind(&options.steps, version)?;
    migrate::check_partitions(connection, options.partitions)?;
    write_ahead(connection, options)?;
    let readied = || {
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        connection.execute_batch(synchronous())?;
        if let Some(pages) = options.checkpoint_pages {
            connection.execute_batch(&format!("pragma wal_autocheckpoint = {pages}"))?;
        }
        // Plans depend on the SQL alone, never on the values bound to it; otherwise a statement
        // that compares a parameter with the condition of a partial index is compiled at every run.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        if !options.is_memory() && !mutated!(S32) {
            sync_recovered(connection)?;
        }
        Ok(())
    };
    readied().map_err(|e: rusqlite::Error| error::of_verb(&e))
}

/// Puts on the disk what recovery has found in the log. Who wrote it may have died before its sync,
/// and whoever reads it may acknowledge it.
///
/// A checkpoint syncs the log first. A passive one waits for nobody; where another connection is at
/// one, that one has synced the log or is about to.
fn sync_recovered(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(()))
}

/// Readers beside the writer need a WAL; a memory database has neither.
fn write_ahead(connection: &Connection, options: &SqliteOptions) -> Result<()> {
    if options.is_memory() {
        return Ok(());
    }
    // The switch commits after its row: one that fails there has named the mode that it did not
    // reach.
    let switch = || -> rusqlite::Result<String> {
        let mut statement = connection.prepare("pragma journal_mode = wal")?;
        let modes = statement.query_map([], |row| row.get(0))?;
        let modes: Vec<String> = modes.collect::<rusqlite::Result<_>>()?;
        Ok(modes.concat())
    };
    for _ in 0..WAL_TRIES_MAX {
        let mode = match switch().map_err(|e| error::of_verb(&e)) {
            Ok(mode) => mode,
            Err(StorageError::Contention(_)) => {
                // Of two that switch a new file at once one is refused without a wait. Waiting for
                // the other's write lock is waiting for its switch.
                let waited = connection.execute_batch("begin immediate; rollback");
                waited.map_err(|e| error::of_verb(&e))?;
                continue;
            }
            Err(other) => return Err(other),
        };
        if mode == "wal" {
            return Ok(());
        }
        let needed = format!("journal mode {mode}: a WAL is needed");
        return Err(StorageError::Unsupported(needed.into()));
    }
    Err(StorageError::Contention(Contention::Busy))
}

/// What a database lacks; one that does not exist lacks everything, and is not created.
pub(super) fn pending(options: &SqliteOptions) -> Result<Vec<Migration>> {
    let version = match (&options.location, &options.vfs) {
        (Location::Memory, _) => 0,
        (Location::File(path), None) if !path.exists() => 0,
        _ => migrate::admitted_version(&open(options, Missing::Created)?, &options.steps)?,
    };
    Ok(schema::after(&options.steps, version).copied().collect())
}
