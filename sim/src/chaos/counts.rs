//! Small questions to the database, asked in plain SQL beside the engine. Never changes a row.

use std::time::Duration;

use sqlx::{Connection, Row};

use super::database::{Database, PostgresPlace, SqlitePlace};

/// Longest wait for a writer of the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

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
        Database::Postgres(_) => "state >= 4 and propagated",
        Database::Sqlite(_) => "state >= 4 and propagated = 1",
    };
    count(database, &format!("namespace = '{namespace}' and not ({drained})")).await
}

async fn count(database: &Database, filter: &str) -> Result<i64, String> {
    match database {
        Database::Postgres(place) => {
            count_postgres(place, filter).await.map_err(|error| error.to_string())
        }
        Database::Sqlite(place) => count_sqlite(place, filter).map_err(|error| error.to_string()),
    }
}

async fn count_postgres(place: &PostgresPlace, filter: &str) -> Result<i64, sqlx::Error> {
    let mut session = place.session(&[("statement_timeout", "5000")]).await?;
    let sql = format!("select count(*) from \"{}\".execution where {filter}", place.schema);
    let row = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_one(&mut session).await?;
    session.close().await?;
    row.try_get(0)
}

fn count_sqlite(place: &SqlitePlace, filter: &str) -> rusqlite::Result<i64> {
    let connection = rusqlite::Connection::open(&place.file)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let sql = format!("select count(*) from execution where {filter}");
    connection.query_row(&sql, [], |row| row.get(0))
}
