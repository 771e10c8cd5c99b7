//! Calls inside a transaction of the caller's, on a real SQLite file and a real Postgres: what the
//! caller wrote and what the engine wrote stand or fall together.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::TransactionBehavior;
use sluicegate::environment::{Environment, SystemEnvironment};
use sluicegate::flow::{FlowBuilder, FlowSpec};
use sluicegate::operations::claim::{ClaimRequest, LeaseToken};
use sluicegate::operations::report::Report;
use sluicegate::operations::submit::Submitted;
use sluicegate::state::Outcome;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::storage::{Reported, Storage};
use sluicegate::{Engine, EngineError, Settings};
use sluicegate_sim::postgres::shared;
use sqlx::{Connection, Executor, PgConnection, Row};

type Service<S> = Engine<S, SystemEnvironment>;

const SUCCEEDED: Reported = Reported::Finished(Outcome::Succeeded);

fn engine<S: Storage>(storage: S) -> Service<S> {
    Engine::new(storage, SystemEnvironment::new(), Settings::default())
}

fn flow(key: &str) -> FlowBuilder {
    FlowSpec::builder()
        .execution("first")
        .execution("last")
        .edge("first", "last")
        .idempotency_key(key)
}

async fn claimed<S: Storage, E: Environment>(engine: &Engine<S, E>) -> Vec<LeaseToken> {
    let request = ClaimRequest {
        limit: 10,
        lease: Duration::from_mins(1),
        ..ClaimRequest::new(engine.request_id(), "worker")
    };
    let grants = engine.claim(request).await.expect("it claims");
    grants.iter().map(|grant| grant.token()).collect()
}

struct File {
    _directory: tempfile::TempDir,
    engine: Service<SqliteStorage>,
    connection: rusqlite::Connection,
}

impl File {
    fn open() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("shop.db");
        let storage = SqliteStorage::open(SqliteOptions::file(&path)).expect("it opens");
        let connection = rusqlite::Connection::open(&path).expect("it opens");
        connection.execute_batch("create table orders (id text)").expect("it is new");
        Self { _directory: directory, engine: engine(storage), connection }
    }

    fn begin(&mut self) -> (rusqlite::Transaction<'_>, Service<SqliteStorage>) {
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        (begun.expect("nobody else writes"), self.engine.clone())
    }

    fn orders(&self) -> i64 {
        let count = "select count(*) from orders";
        self.connection.query_row(count, [], |row| row.get(0)).expect("it counts")
    }
}

#[tokio::test]
async fn on_sqlite_a_submit_stands_or_falls_with_the_callers_rows() {
    let mut file = File::open();
    for keeps in [false, true] {
        let (transaction, engine) = file.begin();
        transaction.execute("insert into orders values ('1')", []).expect("it inserts");
        let submitted = engine.submit_in(&transaction, flow("1").build()).expect("it submits");
        assert!(matches!(submitted, Submitted::Created(_)), "{submitted:?}");
        match keeps {
            true => transaction.commit().expect("it commits"),
            false => transaction.rollback().expect("it rolls back"),
        }
        assert_eq!(file.orders(), i64::from(keeps));
        let described = file.engine.describe_flow(submitted.flow().id).await;
        assert_eq!(described.is_ok(), keeps, "{described:?}");
    }
}

#[tokio::test]
async fn on_sqlite_a_call_that_fails_leaves_the_transaction_as_it_was() {
    let mut file = File::open();
    let (transaction, engine) = file.begin();
    let first = engine.submit_in(&transaction, flow("1").build()).expect("it submits").flow();
    // Its key is new and is stored before the flow's id turns out to be taken.
    let taken = FlowSpec::builder().execution("other").idempotency_key("2").flow_id(first.id);
    let refused = engine.submit_in(&transaction, taken.build());
    assert!(matches!(refused, Err(EngineError::Conflict { .. })), "{refused:?}");
    let cycle = flow("3").edge("last", "first").build();
    let refused = engine.submit_in(&transaction, cycle);
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    transaction.execute("insert into orders values ('1')", []).expect("it goes on");
    transaction.commit().expect("it commits");
    assert_eq!(file.orders(), 1);
    let keys = "select count(*) from sluicegate_submission";
    let keys: i64 = file.connection.query_row(keys, [], |row| row.get(0)).expect("it counts");
    assert_eq!(keys, 1, "the key of the refused call went with it");
}

#[tokio::test]
async fn on_sqlite_a_completion_stands_or_falls_with_the_callers_rows() {
    let mut file = File::open();
    file.engine.submit(flow("1").build()).await.expect("it submits");
    let token = claimed(&file.engine).await[0];
    let result: Arc<[u8]> = Arc::from(*b"1");
    let (transaction, engine) = file.begin();
    assert_eq!(engine.complete_in(&transaction, token, result.clone()), Ok(SUCCEEDED));
    transaction.rollback().expect("it rolls back");
    let (transaction, engine) = file.begin();
    assert_eq!(engine.complete_in(&transaction, token, result.clone()), Ok(SUCCEEDED));
    transaction.commit().expect("it commits");
    // As after a lost answer: the stored reply; another report under that lease is refused.
    let (transaction, engine) = file.begin();
    assert_eq!(engine.complete_in(&transaction, token, result), Ok(SUCCEEDED));
    let late = engine.report_in(&transaction, token, Report::Release);
    assert!(matches!(late, Err(EngineError::LeaseLost(_))), "{late:?}");
}

#[tokio::test]
async fn on_sqlite_another_database_is_refused() {
    let file = File::open();
    let mut other = rusqlite::Connection::open_in_memory().expect("memory");
    let transaction = other.transaction().expect("it begins");
    let refused = file.engine.submit_in(&transaction, flow("1").build());
    let Err(EngineError::Unsupported(reason)) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("sluicegate_schema"), "{reason}");
}

async fn server(schema: &str) -> (Service<PostgresStorage>, PgConnection) {
    let url = shared().url();
    let options = PostgresOptions::new(&url).expect("the cluster's URL is one").schema(schema);
    let storage = PostgresStorage::open(options).await.expect("it opens");
    let mut connection = PgConnection::connect(&url).await.expect("it connects");
    let orders = "create table if not exists public.inside_orders (schema text)";
    connection.execute(orders).await.expect("it creates");
    (engine(storage), connection)
}

async fn orders(connection: &mut PgConnection, schema: &str) -> i64 {
    let count = sqlx::query("select count(*) from public.inside_orders where schema = $1");
    let row = connection.fetch_one(count.bind(schema)).await.expect("it counts");
    row.get(0)
}

#[tokio::test]
async fn on_postgres_a_submit_stands_or_falls_with_the_callers_rows() {
    let (engine, mut connection) = server("inside_submit").await;
    for keeps in [false, true] {
        let mut transaction = connection.begin().await.expect("it begins");
        let insert = "insert into public.inside_orders values ('inside_submit')";
        transaction.execute(insert).await.expect("it inserts");
        let submitted = engine.submit_in(&mut transaction, flow("1").build()).await;
        let submitted = submitted.expect("it submits");
        assert!(matches!(submitted, Submitted::Created(_)), "{submitted:?}");
        match keeps {
            true => transaction.commit().await.expect("it commits"),
            false => transaction.rollback().await.expect("it rolls back"),
        }
        assert_eq!(orders(&mut connection, "inside_submit").await, i64::from(keeps));
        let described = engine.describe_flow(submitted.flow().id).await;
        assert_eq!(described.is_ok(), keeps, "{described:?}");
    }
}

#[tokio::test]
async fn on_postgres_a_call_leaves_settings_and_after_a_failure_rows_as_they_were() {
    let (engine, mut connection) = server("inside_failure").await;
    connection.execute("set enable_seqscan = on").await.expect("it sets");
    let mut transaction = connection.begin().await.expect("it begins");
    let settings = "select current_setting('enable_seqscan') || current_setting('plan_cache_mode')";
    let first = engine.submit_in(&mut transaction, flow("1").build()).await;
    let first = first.expect("it submits").flow();
    let taken = FlowSpec::builder().execution("other").idempotency_key("2").flow_id(first.id);
    let refused = engine.submit_in(&mut transaction, taken.build()).await;
    assert!(matches!(refused, Err(EngineError::Conflict { .. })), "{refused:?}");
    let row = transaction.fetch_one(settings).await.expect("it goes on");
    assert_eq!(row.get::<String, _>(0), "onauto");
    let keys = "select count(*) from inside_failure.submission";
    let row = transaction.fetch_one(keys).await.expect("it counts");
    assert_eq!(row.get::<i64, _>(0), 1, "the key of the refused call went with it");
    transaction.commit().await.expect("it commits");
    assert!(engine.describe_flow(first.id).await.is_ok());
}

#[tokio::test]
async fn on_postgres_a_completion_stands_or_falls_with_the_callers_rows() {
    let (engine, mut connection) = server("inside_complete").await;
    engine.submit(flow("1").build()).await.expect("it submits");
    let token = claimed(&engine).await[0];
    let result: Arc<[u8]> = Arc::from(*b"1");
    for keeps in [false, true, true] {
        let mut transaction = connection.begin().await.expect("it begins");
        let completed = engine.complete_in(&mut transaction, token, result.clone()).await;
        assert_eq!(completed, Ok(SUCCEEDED));
        match keeps {
            true => transaction.commit().await.expect("it commits"),
            false => transaction.rollback().await.expect("it rolls back"),
        }
    }
    let mut transaction = connection.begin().await.expect("it begins");
    let late = engine.report_in(&mut transaction, token, Report::Release).await;
    assert!(matches!(late, Err(EngineError::LeaseLost(_))), "{late:?}");
}

#[tokio::test]
async fn on_postgres_what_is_no_fit_transaction_is_refused() {
    let (engine, mut connection) = server("inside_refused").await;
    let refused = engine.submit_in(&mut connection, flow("1").build()).await;
    let Err(EngineError::Unsupported(reason)) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("without an open transaction"), "{reason}");
    for level in ["repeatable read", "serializable"] {
        let begin = format!("begin isolation level {level}");
        connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(begin))).await.expect("it begins");
        let refused = engine.submit_in(&mut connection, flow("1").build()).await;
        let Err(EngineError::Unsupported(reason)) = refused else { panic!("{refused:?}") };
        assert!(reason.contains(level), "{reason}");
        connection.execute("rollback").await.expect("it rolls back");
    }
}
