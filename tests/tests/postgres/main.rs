//! The Postgres backend on a real server: how it opens and refuses, what its sessions hold, how
//! flows grow, and that its plans stay what they are while tables grow.

mod extends;
mod opening;
mod plan_cases;
mod plans;
mod sessions;
mod verb_plans;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sluicegate::Engine;
use sluicegate::environment::SystemEnvironment;
use sluicegate::operations::claim::{ClaimRequest, Sent};
use sluicegate::storage::Storage;
use sluicegate::storage::postgres::PostgresOptions;
use sluicegate_sim::postgres::shared;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, PgConnection};

/// The server, with a schema that no other test uses.
fn fresh() -> PostgresOptions {
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
    at(&shared().url()).schema(&format!("schema {number}"))
}

fn at(url: &str) -> PostgresOptions {
    PostgresOptions::new(url).expect("the cluster's URL is one")
}

/// A session of a person who looks after the database.
async fn by_hand(url: &str) -> PgConnection {
    let options: sqlx::postgres::PgConnectOptions = url.parse().expect("the URL is one");
    options.connect().await.expect("the cluster answers")
}

async fn run(connection: &mut PgConnection, sql: &str) {
    let done = connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await;
    done.unwrap_or_else(|error| panic!("{error}: {sql}"));
}

fn claim_of<S: Storage>(engine: &Engine<S, SystemEnvironment>, limit: u32) -> ClaimRequest {
    ClaimRequest {
        request: engine.request_id(),
        sent: Sent::First,
        worker: "worker".into(),
        instance: "one".into(),
        namespace: None,
        partitions: 0..u16::MAX,
        lanes: vec!["default".into()],
        kinds: Vec::new(),
        limit,
        lease: Duration::from_secs(30),
    }
}
