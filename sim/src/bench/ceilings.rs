//! What the storage itself can do in the same run, without the engine: single-row commits, and one
//! set-based transaction that writes what a hop writes. Knows nothing of flows.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::figures::rate;
use super::place::Place;
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
        }
    }

    fn sample_sqlite(self, path: &Path) -> rusqlite::Result<f64> {
        let connection = Connection::open(path)?;
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
    pragma wal_checkpoint(truncate);";

fn sqlite_commits(connection: &Connection) -> rusqlite::Result<f64> {
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

fn sqlite_set_based(connection: &Connection) -> rusqlite::Result<f64> {
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
