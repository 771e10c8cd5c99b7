//! The faults that only a server has. Never judges.

use std::collections::BTreeSet;
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tokio::time::sleep;

use super::database::{Database, IDLE_TIMEOUT, LOCK_TIMEOUT, PostgresPlace};
use super::faults::{Fault, Field, Kind};
use super::proxy::Proxy;

/// Sessions that are ended in one strike.
const TERMINATED: usize = 4;
/// Commits that one proxy cuts in one strike.
const CUTS: u32 = 2;
/// What a saboteur locks, as a list of states, and how long it holds it. While everything open is
/// held nothing ends, so that no cascade runs into it; behind what is merely blocked work goes on,
/// and hops time out in every run that their retry budget allows.
const HOLDS: [(&str, Duration); 2] =
    [("0, 1, 2", Duration::from_millis(1_200)), ("0", Duration::from_secs(3))];
/// How often a saboteur looks, or tries again.
const TRIES_MAX: u32 = 120;
/// The wait between two looks.
const LOOK_AFTER: Duration = Duration::from_millis(25);
/// Rounds in which a deadlock is tried for.
const DEADLOCK_TRIES_MAX: u32 = 8;
/// Sessions that a flood opens at most.
const FLOOD_MAX: usize = 2_000;
/// How long the server stays full.
const FULL: Duration = Duration::from_millis(600);
/// How long an engine has to notice that the disk is full.
const PATIENCE: Duration = Duration::from_secs(5);
/// A transaction that has been idle for so long belongs to a process that stands still.
const STANDS_STILL: &str = "300 milliseconds";

pub(super) const TERMINATE: Fault = Fault {
    id: "terminate",
    title: "pg_terminate_backend of a session of an engine",
    kind: Kind::Struck(|field| Box::pin(terminate(field))),
    unavailable: |_| None,
};

pub(super) const RESTART: Fault = Fault {
    id: "restart",
    title: "the server stopped as by a crash, and started again",
    kind: Kind::Struck(|field| Box::pin(restart(field))),
    unavailable: |field| {
        let cluster = field.provided.as_ref().and_then(|provided| provided.cluster());
        cluster.is_none().then(|| "a server that runs already is not stopped".to_owned())
    },
};

pub(super) const CUT: Fault = Fault {
    id: "commit_cut",
    title: "a connection cut after the server committed and before it could say so",
    kind: Kind::Struck(|field| Box::pin(cut(field))),
    unavailable: |_| None,
};

pub(super) const LOCK_HOLDER: Fault = Fault {
    id: "lock_holder",
    title: "an engine's wait for a lock timed out behind a session that outlasts it",
    kind: Kind::Struck(|field| Box::pin(hold(field))),
    unavailable: |_| None,
};

pub(super) const DEADLOCK: Fault = Fault {
    id: "deadlock",
    title: "a deadlock with a session that locks in the reverse order, by the server's own count",
    kind: Kind::Struck(|field| Box::pin(deadlock(field))),
    unavailable: |_| None,
};

pub(super) const SERVER_FULL: Fault = Fault {
    id: "server_full",
    title: "every connection of the server taken, until it answers 53300",
    kind: Kind::Struck(|field| Box::pin(flood(field))),
    unavailable: |_| None,
};

pub(super) const IDLE: Fault = Fault {
    id: "idle_kill",
    title: "a worker stopped inside a transaction until the server ended its session",
    kind: Kind::Struck(|field| Box::pin(idle(field))),
    unavailable: |_| None,
};

pub(super) const DISK_FULL: Fault = Fault {
    id: "disk_full",
    title: "an engine answered that the server's disk is full",
    kind: Kind::Struck(|field| Box::pin(fill(field))),
    unavailable: |field| field.disk.as_ref().err().cloned(),
};

fn place(field: &Field) -> Result<&PostgresPlace, String> {
    match &field.database {
        Database::Postgres(place) => Ok(place),
        Database::Sqlite(_) => Err("this fault needs a server".to_owned()),
    }
}

fn say<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

async fn run(session: &mut PgConnection, sql: String) -> Result<u64, sqlx::Error> {
    Ok(sqlx::query(AssertSqlSafe(sql)).execute(session).await?.rows_affected())
}

async fn number(session: &mut PgConnection, sql: String) -> Result<i64, sqlx::Error> {
    sqlx::query(AssertSqlSafe(sql)).fetch_one(session).await?.try_get(0)
}

async fn terminate(field: &mut Field) -> Result<u64, String> {
    let mut session = place(field)?.session(&[]).await.map_err(say)?;
    let mut ended = 0;
    for _ in 0..TERMINATED {
        let pids: Vec<i32> = field.fleet.proxies().flat_map(Proxy::pids).collect();
        if !pids.is_empty() {
            let pid = pids[field.draw(pids.len())];
            let sql = format!("select pg_terminate_backend({pid})::int4::int8");
            ended += number(&mut session, sql).await.map_err(say)?.unsigned_abs();
        }
        sleep(LOOK_AFTER * 3).await;
    }
    Ok(ended)
}

async fn restart(field: &mut Field) -> Result<u64, String> {
    let down = Duration::from_millis(200 + field.draw(500) as u64);
    let Some(cluster) = field.provided.as_ref().and_then(|provided| provided.cluster()) else {
        return Ok(0);
    };
    cluster.stop_immediate().map_err(|error| error.to_string())?;
    sleep(down).await;
    cluster.restart().map_err(|error| error.to_string())?;
    Ok(1)
}

async fn cut(field: &mut Field) -> Result<u64, String> {
    let proxies: Vec<_> = field.fleet.proxies().chain(&field.client).cloned().collect();
    let cut = || proxies.iter().map(Proxy::cut).sum::<u64>();
    let before = cut();
    for proxy in &proxies {
        proxy.arm(CUTS);
    }
    let wanted = before + u64::from(CUTS) * proxies.len() as u64;
    for _ in 0..TRIES_MAX {
        sleep(LOOK_AFTER).await;
        if cut() >= wanted {
            break;
        }
    }
    for proxy in &proxies {
        proxy.arm(0);
    }
    Ok(cut() - before)
}

async fn hold(field: &mut Field) -> Result<u64, String> {
    let mut timeouts = 0;
    for (states, how_long) in HOLDS {
        timeouts += hold_those(field, states, how_long).await?;
    }
    Ok(timeouts)
}

async fn hold_those(field: &Field, states: &str, how_long: Duration) -> Result<u64, String> {
    assert!(how_long > LOCK_TIMEOUT, "a holder outlasts what an engine waits");
    let before = field.answered("lock_timeout")?;
    let place = place(field)?;
    let schema = &place.schema;
    let sql = format!(
        "select id from \"{schema}\".execution where state in ({states}) \
         order by partition, id for no key update"
    );
    for _ in 0..DEADLOCK_TRIES_MAX {
        let mut session = place.session(&[("deadlock_timeout", "5s")]).await.map_err(say)?;
        run(&mut session, "begin".to_owned()).await.map_err(say)?;
        if run(&mut session, sql.clone()).await.is_ok_and(|locked| locked > 0) {
            sleep(how_long).await;
        }
        session.close().await.map_err(say)?;
        let seen = field.answered("lock_timeout")?;
        if seen > before {
            return Ok(seen - before);
        }
    }
    Ok(0)
}

/// An engine's hop locks groups and then their downstreams; this locks downstreams first, and the
/// groups once a hop waits for it.
async fn deadlock(field: &mut Field) -> Result<u64, String> {
    let place = place(field)?;
    let mut watcher = place.session(&[]).await.map_err(say)?;
    let counted = "select deadlocks from pg_stat_database where datname = current_database()";
    let before = number(&mut watcher, counted.to_owned()).await.map_err(say)?;
    for _ in 0..DEADLOCK_TRIES_MAX {
        let caught = lock_in_reverse(place, &mut watcher).await;
        // A saboteur that is the victim itself has what it wanted.
        if let Err(error) = &caught
            && error.as_database_error().is_none()
        {
            return Err(error.to_string());
        }
        for _ in 0..TRIES_MAX / 4 {
            let after = number(&mut watcher, counted.to_owned()).await.map_err(say)?;
            if after > before {
                return Ok((after - before).unsigned_abs());
            }
            if matches!(caught, Ok(0)) {
                break;
            }
            sleep(LOOK_AFTER).await;
        }
    }
    Ok(0)
}

/// How many groups were locked behind a hop that waited: zero if none came by.
async fn lock_in_reverse(
    place: &PostgresPlace,
    watcher: &mut PgConnection,
) -> Result<u64, sqlx::Error> {
    let schema = &place.schema;
    let settings = [("deadlock_timeout", "150ms"), ("lock_timeout", "3000")];
    let mut session = place.session(&settings).await?;
    let pid = number(&mut session, "select pg_backend_pid()::int8".to_owned()).await?;
    run(&mut session, "begin".to_owned()).await?;
    let blocked = format!(
        "select id from \"{schema}\".execution where state = 0 \
         order by partition, id for no key update"
    );
    run(&mut session, blocked).await?;
    let waiting = format!(
        "select count(*) from pg_stat_activity \
         where wait_event_type = 'Lock' and {pid} = any(pg_blocking_pids(pid))"
    );
    let mut locked = 0;
    for _ in 0..TRIES_MAX {
        if number(watcher, waiting.clone()).await? > 0 {
            let groups = format!(
                "select downstream from \"{schema}\".edge_group where decision = 0 \
                 order by partition desc, downstream desc for no key update"
            );
            locked = run(&mut session, groups).await?.max(1);
            break;
        }
        sleep(LOOK_AFTER / 5).await;
    }
    session.close().await?;
    Ok(locked)
}

async fn flood(field: &mut Field) -> Result<u64, String> {
    let place = place(field)?;
    let mut sessions = Vec::new();
    let mut full = 0;
    let mut held = Duration::ZERO;
    while sessions.len() < FLOOD_MAX && held < FULL {
        match place.session(&[]).await {
            Ok(session) => sessions.push(session),
            Err(error) if is_full(&error) => {
                full = 1;
                held += LOOK_AFTER;
                sleep(LOOK_AFTER).await;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    for session in sessions {
        session.close().await.map_err(say)?;
    }
    Ok(full)
}

fn is_full(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(DatabaseError::code).is_some_and(|code| code == "53300")
}

async fn idle(field: &mut Field) -> Result<u64, String> {
    let mut session = place(field)?.session(&[]).await.map_err(say)?;
    for _ in 0..TRIES_MAX / 4 {
        let berth = field.draw(field.fleet.count());
        let pids = |field: &Field| field.fleet.proxy(berth).map(Proxy::pids);
        let paused = field.fleet.pause(berth)?;
        sleep(Duration::from_millis(350)).await;
        let own = pids(field).unwrap_or_default();
        let idle = standing(&mut session, &own).await.map_err(say)?;
        if idle.is_empty() {
            drop(paused);
            sleep(LOOK_AFTER).await;
            continue;
        }
        sleep(IDLE_TIMEOUT + LOOK_AFTER * 8).await;
        let left = standing(&mut session, &idle).await.map_err(say)?;
        drop(paused);
        return Ok(u64::from(left.is_empty()));
    }
    Ok(0)
}

/// Which of these sessions stand still inside a transaction.
async fn standing(
    session: &mut PgConnection,
    pids: &BTreeSet<i32>,
) -> Result<BTreeSet<i32>, sqlx::Error> {
    let list: Vec<String> = pids.iter().map(ToString::to_string).collect();
    let sql = format!(
        "select pid from pg_stat_activity \
         where state = 'idle in transaction' \
         and state_change < clock_timestamp() - interval '{STANDS_STILL}' \
         and pid = any('{{{}}}'::int4[])",
        list.join(",")
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(session).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

async fn fill(field: &mut Field) -> Result<u64, String> {
    let Ok(disk) = &field.disk else { return Ok(0) };
    let before = field.answered("full")?;
    disk.fill().map_err(|error| error.to_string())?;
    let seen = field.answers_since("full", before, PATIENCE).await;
    disk.empty().map_err(|error| error.to_string())?;
    seen
}
