//! An upgrade while the database is in use, on SQLite and on Postgres: engines of two versions on
//! one schema, and what becomes of the older ones once a migration has left them behind.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::FlowSpec;
use sluicegate::identity::FlowId;
use sluicegate::operations::claim::ClaimRequest;
use sluicegate::operations::report::Report;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::storage::schema::Migration;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::storage::{Scope, Storage, StorageError, Transaction, postgres, sqlite};
use sluicegate::summary::FlowStatus;
use sluicegate::{Engine, EngineError, Settings};
use sqlx::{ConnectOptions, Row};

/// Executions of one flow, one behind the other.
const LENGTH: usize = 6;
/// Flows that both engines work on at once.
const FLOWS: usize = 8;
/// Rounds of work in which they are all over, and more.
const ROUNDS_MAX: usize = 200;
/// Looks at who waits before it is given up.
const LOOKS_MAX: usize = 1_000;

/// The versions of a database that is upgraded step by step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    /// As it is.
    Ours,
    /// With a column and an index more; engines of ours go on.
    Expanded,
    /// Without the index, and without engines of ours.
    Contracted,
}

/// A database that engines of several versions open.
trait Upgraded {
    type Storage: Storage;

    fn open(&self, version: Version) -> impl Future<Output = Result<Self::Storage, String>>;
}

/// The migrations that an engine of that version knows. What they contract is nothing that ours
/// names: it is the version alone that tells.
fn steps(ours: &[Migration], version: Version, schema: &str) -> Arc<[Migration]> {
    let last = *ours.last().expect("a schema is made by a migration");
    let expand = match schema {
        "" => {
            "alter table sluicegate_execution add column note text; \
             create index execution_noted on sluicegate_execution (note) where note is not null"
        }
        _ => {
            "alter table sluicegate.execution add column note text; \
             create index execution_noted on sluicegate.execution (note) where note is not null"
        }
    };
    let contract = match schema {
        "" => "drop index execution_noted",
        _ => "drop index sluicegate.execution_noted",
    };
    let step = |by, name, sql, least_engine_version| Migration {
        version: last.version + by,
        least_engine_version,
        name,
        sql,
    };
    let more = [
        step(1, "expand", expand, last.least_engine_version),
        step(2, "contract", contract, last.version + 1),
    ];
    let count = match version {
        Version::Ours => 0,
        Version::Expanded => 1,
        Version::Contracted => 2,
    };
    ours.iter().chain(&more[..count]).copied().collect()
}

struct InSqlite(tempfile::TempDir);

impl Upgraded for InSqlite {
    type Storage = SqliteStorage;

    async fn open(&self, version: Version) -> Result<SqliteStorage, String> {
        let options = SqliteOptions::file(self.0.path().join("flows.db"));
        let options = options.steps(steps(sqlite::MIGRATIONS, version, ""));
        SqliteStorage::open(options).map_err(|error| error.to_string())
    }
}

struct InPostgres(&'static str);

impl InPostgres {
    fn options(&self, version: Version) -> PostgresOptions {
        let options = PostgresOptions::new(&sluicegate_sim::postgres::shared().url());
        let options = options.expect("the cluster's URL is one").schema(self.0);
        options.steps(steps(postgres::MIGRATIONS, version, self.0))
    }
}

impl Upgraded for InPostgres {
    type Storage = PostgresStorage;

    async fn open(&self, version: Version) -> Result<PostgresStorage, String> {
        PostgresStorage::open(self.options(version)).await.map_err(|error| error.to_string())
    }
}

fn engine<S: Storage>(storage: S) -> Engine<S, SystemEnvironment> {
    Engine::new(storage, SystemEnvironment::new(), Settings::default())
}

fn chain() -> FlowSpec {
    let name = |number: usize| format!("n{number}");
    let nodes = (0..LENGTH).fold(FlowSpec::builder(), |flow, number| flow.execution(name(number)));
    (1..LENGTH).fold(nodes, |flow, number| flow.edge(name(number - 1), name(number))).build()
}

/// Claims what there is, ends it, and advances what waits for it.
async fn work<S: Storage>(engine: &Engine<S, SystemEnvironment>) -> Result<(), EngineError> {
    let request = ClaimRequest {
        limit: 3,
        lease: Duration::from_mins(1),
        ..ClaimRequest::new(engine.request_id(), "worker")
    };
    for grant in engine.claim(request).await? {
        engine.report(grant.token(), Report::Complete(Arc::from(*b"{}"))).await?;
    }
    engine.dispatch_pass(&Scope::default()).await.map(drop)
}

async fn submit<S: Storage>(engine: &Engine<S, SystemEnvironment>) -> Vec<FlowId> {
    let mut flows = Vec::new();
    for _ in 0..FLOWS {
        flows.push(engine.submit(chain()).await.expect("the flow is valid").flow().id);
    }
    flows
}

async fn over<S: Storage>(engine: &Engine<S, SystemEnvironment>, flows: &[FlowId]) -> bool {
    for flow in flows {
        let status = engine.count_flow(*flow).await.expect("the flow exists").status;
        if status != FlowStatus::Completed {
            return false;
        }
    }
    true
}

/// Both work in turn until the flows are over.
async fn drain<S: Storage>(engines: &[&Engine<S, SystemEnvironment>], flows: &[FlowId]) {
    for _ in 0..ROUNDS_MAX {
        for engine in engines {
            work(engine).await.expect("the engine is admitted");
        }
        if over(engines[0], flows).await {
            return;
        }
    }
    panic!("the flows are not over");
}

fn check_refused(reason: &str) {
    assert!(reason.contains("admits engines from version"), "{reason}");
}

/// The whole upgrade. Each engine works before, while and after the schema changes under it.
async fn upgrades<U: Upgraded>(database: U) {
    let ours = engine(database.open(Version::Ours).await.expect("a new database opens"));
    let flows = submit(&ours).await;
    work(&ours).await.expect("the engine is admitted");

    let newer = engine(database.open(Version::Expanded).await.expect("it expands"));
    work(&ours).await.expect("an engine that was running goes on");
    let again = engine(database.open(Version::Ours).await.expect("an older one still opens"));
    drain(&[&ours, &newer, &again], &flows).await;

    let flows = submit(&ours).await;
    work(&ours).await.expect("the engine is admitted");
    let newest = engine(database.open(Version::Contracted).await.expect("it contracts"));
    let refused = ours.submit(chain()).await.expect_err("a running engine is left behind");
    assert!(matches!(refused, EngineError::Unsupported(_)), "{refused}");
    check_refused(&refused.to_string());
    let refused = work(&ours).await.expect_err("a running engine is left behind");
    assert!(matches!(refused, EngineError::Unsupported(_)), "{refused}");
    let refused = database.open(Version::Ours).await.map(drop);
    check_refused(&refused.expect_err("an older engine is refused"));
    drain(&[&newer, &newest], &flows).await;
}

#[tokio::test]
async fn engines_of_two_versions_share_a_sqlite_database_until_it_contracts() {
    upgrades(InSqlite(tempfile::TempDir::new().expect("a directory"))).await;
}

#[tokio::test]
async fn engines_of_two_versions_share_a_postgres_database_until_it_contracts() {
    upgrades(InPostgres("upgraded")).await;
}

/// How many sessions wait for the version of that schema.
async fn waiting(connection: &mut sqlx::PgConnection, schema: &str) -> i64 {
    let waiting = "select count(*)
        from pg_locks as l
        join pg_class as c on c.oid = l.relation
        join pg_namespace as n on n.oid = c.relnamespace
        where not l.granted and c.relname = 'sluicegate_schema' and n.nspname = $1";
    let row = sqlx::query(waiting).bind(schema).fetch_one(connection).await;
    row.and_then(|row| row.try_get(0)).expect("the server answers")
}

#[tokio::test]
async fn a_contraction_waits_for_the_transactions_of_engines_that_it_leaves_behind() {
    let database = InPostgres("contracted");
    let ours = database.open(Version::Ours).await.expect("a new database opens");
    let running = ours.begin().await.expect("it is admitted");
    let contracting = tokio::spawn(PostgresStorage::open(database.options(Version::Contracted)));
    let url = sluicegate_sim::postgres::shared().url();
    let options: sqlx::postgres::PgConnectOptions = url.parse().expect("the URL is one");
    let mut by_hand = options.connect().await.expect("the cluster answers");
    let mut looks = 0;
    while waiting(&mut by_hand, database.0).await == 0 {
        looks += 1;
        assert!(looks < LOOKS_MAX, "nobody waits for the running transaction");
        tokio::task::yield_now().await;
    }
    running.commit().await.expect("what began before goes on to its end");
    contracting.await.expect("the task ends").expect("it contracts");
    let refused = ours.begin().await.map(drop);
    assert!(matches!(refused, Err(StorageError::Unsupported(_))), "{refused:?}");
}
