//! The schema: its version, its migrations and whether this engine may use what it finds. Never
//! touches a database that it refuses.

use rusqlite::{Connection, OptionalExtension};

use super::error;
use crate::identity::PartitionCount;
use crate::storage::schema::{self, Migration, StoredVersion};
use crate::storage::{CommitError, Result, StorageError};
use crate::time::Timestamp;

/// Every migration, in order.
pub const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    least_engine_version: 1,
    name: "initial",
    sql: include_str!("migrations/0001_initial.sql"),
}];

/// The version of the schema that this engine was built for.
pub const SCHEMA_VERSION: u32 = schema::latest(MIGRATIONS);

/// The newest version.
const LATEST: &str = "select version, least_engine_version
    from sluicegate_schema
    order by version desc
    limit 1";

/// The version of the database's schema, 0 for none; `Unsupported` if it admits only newer engines.
pub(super) fn admitted_version(connection: &Connection, steps: &[Migration]) -> Result<u32> {
    let known = "select 1 from sqlite_schema where type = 'table' and name = 'sluicegate_schema'";
    let exists = connection.query_row(known, [], |_| Ok(())).optional();
    if exists.map_err(|e| error::of_verb(&e))?.is_none() {
        return Ok(0);
    }
    still_admitted(connection, steps)
}

/// The version of a schema that there is; `Unsupported` if it admits only newer engines.
pub(super) fn still_admitted(connection: &Connection, steps: &[Migration]) -> Result<u32> {
    let read = || {
        let mut statement = connection.prepare_cached(LATEST)?;
        let stored = statement.query_row([], |row| {
            Ok(StoredVersion { version: row.get(0)?, least_engine_version: row.get(1)? })
        });
        stored.optional()
    };
    match read().map_err(|e| error::of_verb(&e))? {
        Some(stored) => schema::admit(stored, schema::latest(steps)),
        None => Err(StorageError::Corrupt("sluicegate_schema has no row".into())),
    }
}

/// Applies what is pending, in one transaction; of several processes one does it.
pub(super) fn apply(
    connection: &Connection,
    steps: &[Migration],
    partitions: PartitionCount,
    now: Timestamp,
) -> Result<()> {
    connection.execute_batch("begin immediate").map_err(|e| error::of_verb(&e))?;
    let applied = apply_in_transaction(connection, steps, partitions, now).and_then(|()| {
        connection.execute_batch("commit").map_err(|e| match error::of_commit(&e) {
            CommitError::Storage(error) => error,
            CommitError::Unknown => StorageError::Unavailable(e.to_string().into()),
        })
    });
    if applied.is_err() && !connection.is_autocommit() {
        connection.execute_batch("rollback").map_err(|e| error::of_verb(&e))?;
    }
    applied
}

fn apply_in_transaction(
    connection: &Connection,
    steps: &[Migration],
    partitions: PartitionCount,
    now: Timestamp,
) -> Result<()> {
    let found = admitted_version(connection, steps)?;
    let run = || -> rusqlite::Result<()> {
        for migration in schema::after(steps, found) {
            connection.execute_batch(migration.sql)?;
            connection.execute(
                "insert into sluicegate_schema (version, least_engine_version, applied_at)
                values (?1, ?2, ?3)",
                (migration.version, migration.least_engine_version, now.0),
            )?;
        }
        connection.execute(
            "insert into sluicegate_partitions (one, count)
            values (1, ?1)
            on conflict (one) do nothing",
            [partitions.get()],
        )?;
        Ok(())
    };
    run().map_err(|e| error::of_verb(&e))
}

/// Refuses a database whose keys were made with another partition count.
pub(super) fn check_partitions(connection: &Connection, partitions: PartitionCount) -> Result<()> {
    let stored: i64 = connection
        .query_row("select count from sluicegate_partitions where one = 1", [], |row| row.get(0))
        .map_err(|e| error::of_verb(&e))?;
    schema::check_partitions(stored, partitions)
}
