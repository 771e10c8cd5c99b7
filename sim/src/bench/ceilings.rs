//! What the storage itself can do in the same run, without the engine: single-row commits, and one
//! set-based transaction that writes what a hop writes. Knows nothing of flows.

use std::path::Path;
use std::time::Duration;

use rusqlite::params;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use uuid::Uuid;

use super::figures::rate;
use super::place::{Place, Schemas};
use crate::report::progress::Stopwatch;

/// Rows of the measured tables.
const ROWS: usize = 1_000;
/// Time of one sample of commits.
const COMMITS_FOR: Duration = Duration::from_millis(300);
/// Commits of one sample at most.
const COMMITS_MAX: usize = 1_000_000;
/// Set-based transactions of one sample.
const SET_BASED: usize = 10;

/// What a figure is compared with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Ceiling {
    /// Single-row updates, each with its commit, by so many clients. SQLite has one writer.
    Commits {
        /// Connections at once.
        clients: usize,
    },
    /// One transaction that inserts 1000 events, updates 1000 counters and 1000 nodes, counted in
    /// events.
    SetBased,
}

impl Ceiling {
    /// As it is printed.
    pub(crate) fn name(self) -> String {
        match self {
            Ceiling::Commits { clients } => format!("commits/s, {clients} clients"),
            Ceiling::SetBased => "set-based hops/s".to_owned(),
        }
    }

    /// Measures it once.
    pub(crate) async fn sample(self, place: &Place) -> Result<f64, String> {
        match place {
            Place::Sqlite(directory) => {
                let path = directory.path().join("ceiling.db");
                let sample = tokio::task::spawn_blocking(move || self.sample_sqlite(&path));
                let sample = sample.await.map_err(|error| error.to_string())?;
                sample.map_err(|error| error.to_string())
            }
            Place::Postgres(server) => {
                let sample = self.sample_postgres(server).await;
                sample.map_err(|error| error.to_string())
            }
        }
    }

    async fn sample_postgres(self, server: &Schemas) -> sqlx::Result<f64> {
        let schema = server.named("ceiling");
        let sql = |text: &str| AssertSqlSafe(text.replace("sluicegate_ceiling", &schema));
        let mut connection = PgConnection::connect(server.url()).await?;
        connection.execute(sql(POSTGRES_SCHEMA)).await?;
        // The statements that are measured name no schema.
        let path = format!("set search_path = {schema}");
        connection.execute(AssertSqlSafe(path.clone())).await?;
        let sample = match self {
            Ceiling::Commits { clients } => {
                let ids = node_ids(&mut connection).await?;
                postgres_commits(server, &path, &ids, clients).await?
            }
            Ceiling::SetBased => postgres_set_based(&mut connection).await?,
        };
        connection.execute(sql("drop schema sluicegate_ceiling cascade")).await?;
        connection.close().await?;
        Ok(sample)
    }

    fn sample_sqlite(self, path: &Path) -> rusqlite::Result<f64> {
        let connection = rusqlite::Connection::open(path)?;
        connection.execute_batch(SQLITE_SCHEMA)?;
        match self {
            Ceiling::Commits { .. } => sqlite_commits(&connection),
            Ceiling::SetBased => sqlite_set_based(&connection),
        }
    }
}

const SQLITE_SCHEMA: &str = "
    pragma journal_mode = wal;
    pragma synchronous = full;
    drop table if exists node;
    drop table if exists counter;
    drop table if exists event;
    create table node (
      partition integer not null, id blob not null, state integer not null, epoch integer not null,
      primary key (partition, id)
    ) strict;
    create table counter (
      partition integer not null, id blob not null, satisfied integer not null,
      primary key (partition, id)
    ) strict, without rowid;
    create table event (
      id integer primary key autoincrement, partition integer not null, node blob not null,
      outcome integer not null
    ) strict;
    with recursive n (i) as (select 1 union all select i + 1 from n where i < 1000)
    insert into node select 7, randomblob(16), 2, 1 from n;
    insert into counter select partition, id, 0 from node;
    pragma wal_checkpoint(restart);";

fn sqlite_commits(connection: &rusqlite::Connection) -> rusqlite::Result<f64> {
    let mut ids = connection.prepare("select id from node order by id")?;
    let ids: Vec<Vec<u8>> = ids.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let sql = "update node set epoch = epoch + 1 where partition = ?1 and id = ?2";
    let mut update = connection.prepare(sql)?;
    let watch = Stopwatch::start();
    for count in 1..=COMMITS_MAX {
        let changed = update.execute(params![7, ids[count % ids.len()]])?;
        assert_eq!(changed, 1, "the row exists");
        let wall = watch.elapsed();
        if wall >= COMMITS_FOR {
            return Ok(rate(count, wall));
        }
    }
    Ok(rate(COMMITS_MAX, watch.elapsed()))
}

fn sqlite_set_based(connection: &rusqlite::Connection) -> rusqlite::Result<f64> {
    let watch = Stopwatch::start();
    for _ in 0..SET_BASED {
        connection.execute_batch(
            "begin immediate;
            insert into event (partition, node, outcome)
            select partition, id, 0 from node where partition = 7;
            update counter set satisfied = satisfied + 1
            where partition = 7 and id in (select id from node where partition = 7);
            update node set epoch = epoch + 1
            where partition = 7 and id in (select id from counter where partition = 7);
            commit",
        )?;
    }
    Ok(rate(SET_BASED * ROWS, watch.elapsed()))
}

const POSTGRES_SCHEMA: &str = "
    set client_min_messages = warning;
    drop schema if exists sluicegate_ceiling cascade;
    create schema sluicegate_ceiling;
    create table sluicegate_ceiling.node (
      partition int4 not null, id uuid not null, state int2 not null, epoch int8 not null,
      primary key (partition, id)
    ) with (fillfactor = 50);
    create table sluicegate_ceiling.counter (
      partition int4 not null, id uuid not null, satisfied int4 not null,
      primary key (partition, id)
    ) with (fillfactor = 50);
    create table sluicegate_ceiling.event (
      partition int4 not null, id int8 generated always as identity, node uuid not null,
      outcome int2 not null, primary key (partition, id)
    );
    insert into sluicegate_ceiling.node
    select 7, gen_random_uuid(), 2, 1 from generate_series(1, 1000);
    insert into sluicegate_ceiling.counter
    select partition, id, 0 from sluicegate_ceiling.node;
    analyze sluicegate_ceiling.node, sluicegate_ceiling.counter;
    checkpoint";

async fn node_ids(connection: &mut PgConnection) -> sqlx::Result<Vec<Uuid>> {
    let rows = connection.fetch_all("select id from node order by id").await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

async fn postgres_commits(
    server: &Schemas,
    path: &str,
    ids: &[Uuid],
    clients: usize,
) -> sqlx::Result<f64> {
    let mut connections = Vec::new();
    for _ in 0..clients {
        let mut connection = PgConnection::connect(server.url()).await?;
        connection.execute(AssertSqlSafe(path.to_owned())).await?;
        connections.push(connection);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for (client, mut connection) in connections.into_iter().enumerate() {
        // Rows of its own: clients wait for the log, not for each other.
        let ids: Vec<Uuid> = ids.iter().skip(client).step_by(clients).copied().collect();
        tasks.spawn(async move { commits(&mut connection, &ids).await });
    }
    let mut sum = 0.0;
    while let Some(joined) = tasks.join_next().await {
        sum += joined.map_err(|error| sqlx::Error::Protocol(error.to_string()))??;
    }
    Ok(sum)
}

/// The commits by second of one client.
async fn commits(connection: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<f64> {
    let sql = "update node set epoch = epoch + 1 where partition = $1 and id = $2";
    let watch = Stopwatch::start();
    for count in 1..=COMMITS_MAX {
        let update = sqlx::query(sql).bind(7).bind(ids[count % ids.len()]);
        let changed = update.execute(&mut *connection).await?.rows_affected();
        assert_eq!(changed, 1, "the row exists");
        let wall = watch.elapsed();
        if wall >= COMMITS_FOR {
            return Ok(rate(count, wall));
        }
    }
    Ok(rate(COMMITS_MAX, watch.elapsed()))
}

async fn postgres_set_based(connection: &mut PgConnection) -> sqlx::Result<f64> {
    let ids = node_ids(connection).await?;
    let statements = [
        "insert into event (partition, node, outcome)
        select $1, id, 0::int2 from unnest($2::uuid[]) as t (id)",
        "update counter as c set satisfied = c.satisfied + 1
        from unnest($2::uuid[]) as t (id) where c.partition = $1 and c.id = t.id",
        "update node as n set epoch = n.epoch + 1
        from unnest($2::uuid[]) as t (id) where n.partition = $1 and n.id = t.id",
    ];
    let watch = Stopwatch::start();
    for _ in 0..SET_BASED {
        connection.execute("begin").await?;
        for sql in statements {
            let changed = sqlx::query(sql).bind(7).bind(&ids).execute(&mut *connection).await?;
            assert_eq!(changed.rows_affected(), ROWS as u64, "every row is written");
        }
        connection.execute("commit").await?;
    }
    Ok(rate(SET_BASED * ROWS, watch.elapsed()))
}
