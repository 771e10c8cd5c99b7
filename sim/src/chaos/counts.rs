//! Small questions to the database, asked in plain SQL beside the engine. Never changes a row.

use std::collections::BTreeSet;
use std::time::Duration;

use sluicegate::identity::{ExecutionId, FlowId, Partition};
use sluicegate::storage::codes;
use sqlx::{Connection, Row};
use uuid::Uuid;

use super::database::{Database, PostgresPlace, SqlitePlace};

/// Longest wait for a writer of the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// An execution for which nothing is left to be done.
const DRAINED_POSTGRES: &str = "state >= 4 and propagated";
const DRAINED_SQLITE: &str = "state >= 4 and propagated = 1";

/// Leases that a process holds.
pub(super) async fn leases(database: &Database, instance: &str) -> Result<i64, String> {
    count(database, &format!("state = 2 and instance = '{instance}'")).await
}

/// Executions of a tenant that have not ended.
pub(super) async fn open(database: &Database, namespace: &str) -> Result<i64, String> {
    count(database, &format!("namespace = '{namespace}' and state < 4")).await
}

/// Executions of a tenant that are not terminal and propagated.
pub(super) async fn undrained(database: &Database, namespace: &str) -> Result<i64, String> {
    let drained = match database {
        Database::Postgres(_) => DRAINED_POSTGRES,
        Database::Sqlite(_) => DRAINED_SQLITE,
    };
    count(database, &format!("namespace = '{namespace}' and not ({drained})")).await
}

/// Executions of a flow that are not terminal and propagated.
pub(super) async fn undrained_of(database: &Database, flow: FlowId) -> Result<i64, String> {
    let filter = match database {
        Database::Postgres(_) => format!("flow = '{}' and not ({DRAINED_POSTGRES})", flow.0),
        Database::Sqlite(_) => {
            format!("flow = x'{}' and not ({DRAINED_SQLITE})", flow.0.simple())
        }
    };
    count(database, &filter).await
}

/// Flows of other tenants than this one.
pub(super) async fn flows_besides(database: &Database, namespace: &str) -> Result<i64, String> {
    count_of("flow", database, &format!("namespace <> '{namespace}'")).await
}

/// What is suspended of a tenant, with the epoch of each suspension.
pub(super) async fn suspended(
    database: &Database,
    namespace: &str,
) -> Result<Vec<(ExecutionId, u64)>, String> {
    let filter = format!("namespace = '{namespace}' and state = 3");
    let rows = match database {
        Database::Postgres(place) => {
            suspended_postgres(place, &filter).await.map_err(|error| error.to_string())
        }
        Database::Sqlite(place) => suspended_sqlite(place, &filter).map_err(|e| e.to_string()),
    };
    rows?.into_iter().map(suspension).collect()
}

/// The flows of a tenant of which every execution is terminal and propagated.
pub(super) async fn ended(
    database: &Database,
    namespace: &str,
) -> Result<BTreeSet<FlowId>, String> {
    let rows = match database {
        Database::Postgres(place) => {
            ended_postgres(place, namespace).await.map_err(|error| error.to_string())
        }
        Database::Sqlite(place) => ended_sqlite(place, namespace).map_err(|e| e.to_string()),
    };
    let flow = |bytes: Vec<u8>| Uuid::from_slice(&bytes).map(FlowId).map_err(|e| e.to_string());
    rows?.into_iter().map(flow).collect()
}

async fn ended_postgres(
    place: &PostgresPlace,
    namespace: &str,
) -> Result<Vec<Vec<u8>>, sqlx::Error> {
    let mut session = place.session(&[("statement_timeout", "5000")]).await?;
    let sql = format!(
        "select uuid_send(flow) from \"{}\".execution where namespace = '{namespace}' \
         group by flow having bool_and(state >= 4 and propagated) order by flow",
        place.schema
    );
    let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&mut session).await?;
    session.close().await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

fn ended_sqlite(place: &SqlitePlace, namespace: &str) -> rusqlite::Result<Vec<Vec<u8>>> {
    let connection = rusqlite::Connection::open(&place.file)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let sql = format!(
        "select flow from sluicegate_execution where namespace = '{namespace}' \
         group by flow having min(state >= 4 and propagated = 1) order by flow"
    );
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

/// Partition, id and epoch as they are stored.
type Suspension = (i64, Vec<u8>, i64);

fn suspension((partition, id, epoch): Suspension) -> Result<(ExecutionId, u64), String> {
    let partition = u16::try_from(partition).map_err(|error| error.to_string())?;
    let uuid = Uuid::from_slice(&id).map_err(|error| error.to_string())?;
    Ok((ExecutionId { partition: Partition(partition), uuid }, codes::bits_of(epoch)))
}

async fn suspended_postgres(
    place: &PostgresPlace,
    filter: &str,
) -> Result<Vec<Suspension>, sqlx::Error> {
    let mut session = place.session(&[("statement_timeout", "5000")]).await?;
    let sql = format!(
        "select partition::int8, uuid_send(id), epoch from \"{}\".execution where {filter} \
         order by partition, id",
        place.schema
    );
    let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&mut session).await?;
    session.close().await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).collect()
}

fn suspended_sqlite(place: &SqlitePlace, filter: &str) -> rusqlite::Result<Vec<Suspension>> {
    let connection = rusqlite::Connection::open(&place.file)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let sql = format!(
        "select partition, id, epoch from sluicegate_execution where {filter} \
         order by partition, id"
    );
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

/// Executions that a filter lets pass.
async fn count(database: &Database, filter: &str) -> Result<i64, String> {
    count_of("execution", database, filter).await
}

async fn count_of(table: &str, database: &Database, filter: &str) -> Result<i64, String> {
    match database {
        Database::Postgres(place) => {
            count_postgres(table, place, filter).await.map_err(|error| error.to_string())
        }
        Database::Sqlite(place) => count_sqlite(table, place, filter).map_err(|e| e.to_string()),
    }
}

async fn count_postgres(
    table: &str,
    place: &PostgresPlace,
    filter: &str,
) -> Result<i64, sqlx::Error> {
    let mut session = place.session(&[("statement_timeout", "5000")]).await?;
    let sql = format!("select count(*) from \"{}\".{table} where {filter}", place.schema);
    let row = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_one(&mut session).await?;
    session.close().await?;
    row.try_get(0)
}

fn count_sqlite(table: &str, place: &SqlitePlace, filter: &str) -> rusqlite::Result<i64> {
    let connection = rusqlite::Connection::open(&place.file)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let sql = format!("select count(*) from sluicegate_{table} where {filter}");
    connection.query_row(&sql, [], |row| row.get(0))
}
