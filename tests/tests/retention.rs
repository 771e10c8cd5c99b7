//! Retention on a real SQLite database and a real Postgres: what is over for long enough is gone to
//! the last row, and what is not stays to the last row.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::FlowSpec;
use sluicegate::identity::FlowKey;
use sluicegate::operations::claim::{ClaimRequest, LeaseToken};
use sluicegate::operations::report::Report;
use sluicegate::operations::submit::Submitted;
use sluicegate::policy::{JoinPolicy, OnSatisfied};
use sluicegate::reconcile;
use sluicegate::replay::ReplayScope;
use sluicegate::state::ClosePolicy;
use sluicegate::storage::Scope;
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::{Engine, EngineError, Settings};
use sluicegate_sim::postgres::shared;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, PgConnection, Row};

type Home = Engine<BoxStorage, SystemEnvironment>;

/// The tables in which no flow leaves rows; every other one is counted.
const OTHERS: [&str; 4] = ["schema", "partitions", "stream_head", "subscription"];

/// The name of a table without the prefix that it has in a file, and some have on a server.
fn short(table: &str) -> &str {
    table.strip_prefix("sluicegate_").unwrap_or(table)
}

/// A database, and a way to count what is in it.
enum Place {
    Sqlite(SqliteStorage),
    Postgres(Box<PgConnection>, &'static str),
}

impl Place {
    fn sqlite() -> (BoxStorage, Place) {
        let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
        (BoxStorage::new(storage.clone()), Place::Sqlite(storage))
    }

    async fn postgres(schema: &'static str) -> (BoxStorage, Place) {
        let url = shared().url();
        let options = PostgresOptions::new(&url).expect("the cluster's URL is one").schema(schema);
        let storage = PostgresStorage::open(options).await.expect("the server answers");
        let options: sqlx::postgres::PgConnectOptions = url.parse().expect("the URL is one");
        let connection = options.connect().await.expect("the cluster answers");
        (BoxStorage::new(storage), Place::Postgres(Box::new(connection), schema))
    }

    /// The tables of a database, as it tells them.
    async fn tables(&mut self) -> Vec<String> {
        let tables = match self {
            Place::Sqlite(storage) => {
                let sql = "select name from sqlite_schema \
                           where type = 'table' and name not like 'sqlite\\_%' escape '\\'";
                let names = storage.with_connection(|connection| {
                    let mut statement = connection.prepare(sql)?;
                    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
                    names.collect::<rusqlite::Result<Vec<String>>>()
                });
                names.expect("nobody uses it").expect("the statement is valid")
            }
            Place::Postgres(connection, schema) => {
                let sql = format!("select tablename from pg_tables where schemaname = '{schema}'");
                let rows = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await;
                rows.expect("the server answers").iter().map(|row| row.get(0)).collect()
            }
        };
        assert!(OTHERS.iter().all(|other| tables.iter().any(|table| short(table) == *other)));
        tables.into_iter().filter(|table| !OTHERS.contains(&short(table))).collect()
    }

    /// Rows in each table that has any.
    async fn rows(&mut self) -> BTreeMap<String, i64> {
        let mut rows = BTreeMap::new();
        for table in self.tables().await {
            let count = match self {
                Place::Sqlite(storage) => {
                    let sql = format!("select count(*) from {table}");
                    let count = storage.with_connection(|connection| {
                        connection.query_row(&sql, [], |row| row.get::<_, i64>(0))
                    });
                    count.expect("nobody uses it").expect("the table is there")
                }
                Place::Postgres(connection, schema) => {
                    let sql = format!("select count(*) from {schema}.{table}");
                    let row = connection.fetch_one(sqlx::raw_sql(AssertSqlSafe(sql))).await;
                    row.expect("the table is there").get::<i64, _>(0)
                }
            };
            if count > 0 {
                rows.insert(short(&table).to_owned(), count);
            }
        }
        rows
    }
}

fn keeping(storage: BoxStorage, keep: Option<Duration>) -> Home {
    let settings = Settings { keep, ..Settings::default() };
    Engine::new(storage, SystemEnvironment::new(), settings)
}

/// A race of two into a third, which leaves rows in every table.
fn race(key: &str) -> FlowSpec {
    let policy = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining };
    FlowSpec::builder()
        .idempotency_key(key)
        .execution("a")
        .execution("b")
        .execution("c")
        .edge("a", "c")
        .edge("b", "c")
        .join("c", policy)
        .build()
}

async fn claim(engine: &Home, limit: u32) -> Vec<LeaseToken> {
    let request = ClaimRequest { limit, ..ClaimRequest::new(engine.request_id(), "worker") };
    let grants = engine.claim(request).await.expect("the claim succeeds");
    grants.iter().map(|grant| grant.token()).collect()
}

async fn settle(engine: &Home) {
    let all = Scope::default();
    for _ in 0..2 {
        engine.dispatch_pass(&all).await.expect("the pass succeeds");
        engine.sibling_tick(&all).await.expect("the tick succeeds");
        engine.cancel_backlog_tick(&all).await.expect("the tick succeeds");
    }
    engine.summary_tick(&all).await.expect("the tick succeeds");
    engine.sequencer_tick(&all).await.expect("the tick succeeds");
}

/// Runs a flow to its end: one of `a` and `b` wins, and what comes of it runs.
async fn run(engine: &Home, spec: FlowSpec) -> FlowKey {
    let flow = engine.submit(spec).await.expect("the flow is valid").flow();
    for _ in 0..3 {
        for token in claim(engine, 1).await {
            let done = Report::Complete(Arc::from(*b"{}"));
            engine.report(token, done).await.expect("the lease is held");
        }
        settle(engine).await;
    }
    flow
}

async fn prune(engine: &Home) -> reconcile::Report {
    engine.retention_tick(&Scope::default()).await.expect("the tick succeeds")
}

async fn a_flow_goes_to_the_last_row((storage, mut place): (BoxStorage, Place)) {
    let engine = keeping(storage, Some(Duration::ZERO));
    let flow = run(&engine, race("order")).await;
    engine.set_flow_tag(flow.id, "a.b", "c", engine.request_id()).await.expect("it is set");
    let closing = engine.request_id();
    engine.cancel_flow(flow.id, ClosePolicy::CancelAll, closing).await.expect("it succeeds");
    assert!(place.rows().await.len() >= 8, "{:?}", place.rows().await);
    let report = prune(&engine).await;
    assert_eq!((report.reconciled, report.errors), (4, 0), "three events and a flow: {report:?}");
    assert_eq!(place.rows().await, BTreeMap::new());
    let described = engine.describe_flow(flow.id).await;
    assert_eq!(described.err(), Some(EngineError::FlowNotFound(flow.id)));
    let replayed = engine.replay(flow.id, ReplayScope::All, engine.request_id()).await;
    assert_eq!(replayed.err(), Some(EngineError::FlowNotFound(flow.id)));
    let again = engine.submit(race("order")).await.expect("the key is free again");
    assert!(matches!(again, Submitted::Created(new) if new != flow), "{again:?}");
}

#[tokio::test]
async fn a_flow_goes_to_the_last_row_on_sqlite() {
    a_flow_goes_to_the_last_row(Place::sqlite()).await;
}

#[tokio::test]
async fn a_flow_goes_to_the_last_row_on_postgres() {
    a_flow_goes_to_the_last_row(Place::postgres("retention_rows").await).await;
}

async fn what_is_not_over_stays((storage, mut place): (BoxStorage, Place)) {
    let engine = keeping(storage, Some(Duration::ZERO));
    let flow = engine.submit(race("order")).await.expect("the flow is valid").flow();
    let tokens = claim(&engine, 2).await;
    engine.report(tokens[0], Report::Complete(Arc::from(*b"{}"))).await.expect("it is held");
    // Events may go before their flow: nothing of it rests on them.
    let mut before = place.rows().await;
    assert_eq!(prune(&engine).await.errors, 0);
    let mut after = place.rows().await;
    for rows in [&mut before, &mut after] {
        rows.remove("event");
    }
    assert_eq!(after, before);
    settle(&engine).await;
    let tokens = claim(&engine, 2).await;
    engine.report(tokens[0], Report::Complete(Arc::from(*b"{}"))).await.expect("it is held");
    prune(&engine).await;
    settle(&engine).await;
    let events = prune(&engine).await;
    assert_eq!(events.errors, 0, "{events:?}");
    assert_eq!(place.rows().await, BTreeMap::new(), "flow {} is over", flow.id);
}

#[tokio::test]
async fn what_is_not_over_stays_on_sqlite() {
    what_is_not_over_stays(Place::sqlite()).await;
}

#[tokio::test]
async fn what_is_not_over_stays_on_postgres() {
    what_is_not_over_stays(Place::postgres("retention_open").await).await;
}

#[tokio::test]
async fn nothing_goes_before_its_time_and_nothing_at_all_unless_it_is_asked_for() {
    let (storage, mut place) = Place::sqlite();
    let forever = keeping(storage.clone(), None);
    let flow = run(&forever, race("order")).await;
    let before = place.rows().await;
    assert_eq!(prune(&forever).await, reconcile::Report::default());
    let hour = keeping(storage.clone(), Some(Duration::from_hours(1)));
    assert_eq!(prune(&hour).await, reconcile::Report::default(), "it ended a moment ago");
    assert_eq!(place.rows().await, before);
    let now = keeping(storage, Some(Duration::ZERO));
    now.replay(flow.id, ReplayScope::All, now.request_id()).await.expect("nothing runs");
    let kept = prune(&now).await;
    assert_eq!((kept.reconciled, kept.scanned), (3, 3), "the events alone: it is open again");
    assert!(now.describe_flow(flow.id).await.is_ok());
}

#[tokio::test]
async fn a_subscriber_that_comes_too_late_is_told() {
    let (storage, _) = Place::sqlite();
    let engine = keeping(storage, Some(Duration::ZERO));
    let oldest = engine.cursor_oldest().await.expect("the stream is there");
    let mut consumer = engine.consumer("late", Scope::default()).await.expect("it opens");
    run(&engine, race("order")).await;
    prune(&engine).await;
    let expired = consumer.try_next().await;
    let Err(EngineError::CursorExpired { cursor, oldest: left }) = expired else {
        panic!("it goes on as if nothing were missing: {expired:?}");
    };
    assert_eq!((cursor, left), (oldest, engine.cursor_oldest().await.expect("it is there")));
    consumer.skip_to(left);
    assert!(consumer.try_next().await.expect("it goes on").is_none());
    run(&engine, race("another")).await;
    assert!(consumer.try_next().await.expect("it goes on").is_some());
}

#[tokio::test]
async fn a_filter_keeps_events_and_the_flows_of_others() {
    let (storage, mut place) = Place::sqlite();
    let engine = keeping(storage, Some(Duration::ZERO));
    run(&engine, FlowSpec { namespace: "tenant".into(), ..race("order") }).await;
    let of = |namespace: &str| Scope { namespace: Some(namespace.into()), ..Scope::default() };
    let before = place.rows().await;
    for namespace in ["tenant", "other"] {
        let report = engine.retention_tick(&of(namespace)).await.expect("the tick succeeds");
        assert_eq!(report.reconciled, 0, "its events are still in the feed");
    }
    assert_eq!(place.rows().await, before);
    let anywhere = Scope { partitions: 0..0, ..Scope::default() };
    engine.retention_tick(&anywhere).await.expect("the events are one stream for all");
    let other = engine.retention_tick(&of("other")).await.expect("the tick succeeds");
    let own = engine.retention_tick(&of("tenant")).await.expect("the tick succeeds");
    assert_eq!((other.reconciled, own.reconciled), (0, 1));
    assert_eq!(place.rows().await, BTreeMap::new());
}
