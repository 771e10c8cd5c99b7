//! The schema: its version, its migrations and whether this engine may use what it finds. Never
//! touches a database that it refuses.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};

use super::pool::Session;
use super::{OpenError, PostgresOptions, error};
use crate::identity::PartitionCount;
use crate::storage::schema::{self, Migration, Migrations, StoredVersion};
use crate::storage::{CommitError, Result, StorageError};

/// Every migration, in order.
pub const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    least_engine_version: 1,
    name: "initial",
    sql: include_str!("migrations/0001_initial.sql"),
}];

/// The version of the schema that this engine was built for.
pub const SCHEMA_VERSION: u32 = schema::latest(MIGRATIONS);

/// Held by whoever applies migrations: of several processes one does it and the others wait.
/// Advisory locks are named by number; this one is the first eight bytes of "sluicegate".
const ADVISORY_LOCK: i64 = i64::from_be_bytes(*b"sluicega");

/// A connection to a database whose schema this engine may use, brought up to date if asked for.
pub(super) async fn open(options: &PostgresOptions) -> Result<Session, OpenError> {
    let mut session = Session::open(options).await?;
    let connection = session.connection();
    let version = admitted_version(connection, options).await?;
    let behind = schema::after(&options.steps, version).next().is_some();
    if behind && options.migrations == Migrations::Apply {
        apply(connection, options).await?;
    } else {
        schema::refuse_behind(&options.steps, version)?;
    }
    check_partitions(connection, options).await?;
    Ok(session)
}

/// What a database lacks; writes nothing.
pub(super) async fn pending(options: &PostgresOptions) -> Result<Vec<Migration>, OpenError> {
    let mut session = Session::open(options).await?;
    let version = admitted_version(session.connection(), options).await?;
    Ok(schema::after(&options.steps, version).copied().collect())
}

/// What an operator runs to make the schema by hand.
pub(super) fn dump(options: &PostgresOptions) -> String {
    let steps = options.steps.iter().map(|migration| {
        let record = recording(migration, options.partitions);
        format!("{}\n{record}", migration.sql)
    });
    let create = "create schema if not exists sluicegate_schema_name;\n";
    let create = create.replace("sluicegate_schema_name", &options.quoted_schema());
    let steps: Vec<String> = steps.map(|step| options.in_schema(&step)).collect();
    format!("begin;\n{create}{}commit;\n", steps.join("\n"))
}

/// The version of the database's schema, 0 for none; `Unsupported` if it admits only newer engines.
async fn admitted_version(
    connection: &mut PgConnection,
    options: &PostgresOptions,
) -> Result<u32, OpenError> {
    let known = "select count(*) from pg_catalog.pg_tables
        where schemaname = $1 and tablename = 'sluicegate_schema'";
    let known = sqlx::query(known).bind(&*options.schema).fetch_one(&mut *connection).await;
    let known: i64 = known.and_then(|row| row.try_get(0)).map_err(|e| error::of_open(&e))?;
    if known == 0 {
        return Ok(0);
    }
    let latest = options.in_schema(
        "select version, least_engine_version
        from sluicegate.sluicegate_schema
        order by version desc
        limit 1",
    );
    let row = connection.fetch_optional(AssertSqlSafe(latest)).await;
    let Some(row) = row.map_err(|e| error::of_open(&e))? else {
        let empty = StorageError::Corrupt("sluicegate_schema has no row".into());
        return Err(empty.into());
    };
    let read = || -> sqlx::Result<(i32, i32)> { Ok((row.try_get(0)?, row.try_get(1)?)) };
    let (version, least) = read().map_err(|e| error::of_open(&e))?;
    let (version, least_engine_version) = (version.into(), least.into());
    let stored = StoredVersion { version, least_engine_version };
    Ok(schema::admit(stored, schema::latest(&options.steps))?)
}

/// Applies what is pending, in one transaction.
async fn apply(connection: &mut PgConnection, options: &PostgresOptions) -> Result<(), OpenError> {
    let mut transaction = connection.begin().await.map_err(|e| error::of_open(&e))?;
    // A migration may take as long as it takes, and waits for the one of another process.
    let patience = "set local lock_timeout = 0; set local statement_timeout = 0";
    let lock = format!("{patience}; select pg_advisory_xact_lock({ADVISORY_LOCK})");
    run(&mut transaction, lock).await?;
    let version = admitted_version(&mut transaction, options).await?;
    let create = format!("create schema if not exists {}", options.quoted_schema());
    if version == 0 {
        run(&mut transaction, create).await?;
    }
    if version > 0 && schema::contracts(&options.steps, version) {
        // Every transaction has read this table: those of engines that are left behind end first,
        // and what they begin later is refused.
        let fence = "lock table sluicegate.sluicegate_schema in access exclusive mode";
        run(&mut transaction, options.in_schema(fence)).await?;
    }
    for migration in schema::after(&options.steps, version) {
        run(&mut transaction, options.in_schema(migration.sql)).await?;
        let record = recording(migration, options.partitions);
        run(&mut transaction, options.in_schema(&record)).await?;
    }
    transaction.commit().await.map_err(|e| match error::of_commit(&e) {
        CommitError::Storage(error) => error.into(),
        CommitError::Unknown => OpenError::Unreachable { reason: e.to_string() },
    })
}

/// The rows that say that a migration was applied.
fn recording(migration: &Migration, partitions: PartitionCount) -> String {
    let Migration { version, least_engine_version, .. } = migration;
    format!(
        "insert into sluicegate.sluicegate_schema (version, least_engine_version, applied_at)
values (
  {version},
  {least_engine_version},
  (extract(epoch from clock_timestamp()) * 1000000)::int8
);
insert into sluicegate.sluicegate_partitions (one, count)
values (1, {})
on conflict (one) do nothing;
",
        partitions.get()
    )
}

async fn run(connection: &mut PgConnection, sql: String) -> Result<(), OpenError> {
    let done = connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await;
    done.map(drop).map_err(|e| error::of_open(&e))
}

/// Refuses a database whose keys were made with another partition count.
async fn check_partitions(
    connection: &mut PgConnection,
    options: &PostgresOptions,
) -> Result<(), OpenError> {
    let count =
        options.in_schema("select count::int8 from sluicegate.sluicegate_partitions where one = 1");
    let stored = connection.fetch_one(AssertSqlSafe(count)).await;
    let stored: i64 = stored.and_then(|row| row.try_get(0)).map_err(|e| error::of_open(&e))?;
    Ok(schema::check_partitions(stored, options.partitions)?)
}

/// Drops the schema with everything in it.
pub(super) async fn drop_schema(options: &PostgresOptions) -> Result<(), OpenError> {
    let mut session = Session::open(options).await?;
    let drop = format!("drop schema if exists {} cascade", options.quoted_schema());
    run(session.connection(), drop).await
}
