//! Several processes on one Postgres that share the partitions, and know of each other through the
//! database alone: two with half of them each, one with all. One is killed; nothing is left behind.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{ExecutionSpec, FlowSpec};
use sluicegate::identity::FlowKey;
use sluicegate::policy::{JoinPolicy, OnSatisfied};
use sluicegate::reconcile::supervisor::Supervisor;
use sluicegate::state::PublicState;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::worker::{Context, HandlerError, Worker};
use sluicegate::{Engine, Settings};
use sluicegate_sim::postgres::shared;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

type Service = Engine<PostgresStorage, SystemEnvironment>;

const SCHEMA: &str = "processes";
const FLOWS: usize = 24;
/// So long after a process has died its work is claimed by another.
const LEASE: Duration = Duration::from_secs(2);
/// What a process prints once it holds work that it will never finish.
const STUCK: &str = "stuck";
/// Looks, a tenth of a second apart, after which a flow counts as stuck.
const LOOKS_MAX: u32 = 900;
/// What the test tells the process that it starts: the database, and which part of it is its own.
const URL: &str = "SLUICEGATE_TEST_URL";
const SHARE: &str = "SLUICEGATE_TEST_SHARE";

async fn open(url: &str) -> Service {
    let options = PostgresOptions::new(url).expect("the cluster's URL is one");
    let storage = PostgresStorage::open(options.connections_max(6).schema(SCHEMA)).await;
    Engine::new(storage.expect("it opens"), SystemEnvironment::new(), Settings::default())
}

/// `index/count` of the partitions.
fn share(engine: &Service, text: &str) -> Range<u16> {
    let (index, count) = text.split_once('/').expect("a share is `index/count`");
    let number = |text: &str| text.parse().expect("a share is made of numbers");
    engine.router().share(number(index), number(count))
}

/// One of the processes, which the test below starts by this name; nothing to anyone else. The one
/// with the second half hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "a process is told by its environment what it is")]
async fn one_of_the_processes() {
    let (Ok(url), Ok(part)) = (std::env::var(URL), std::env::var(SHARE)) else { return };
    let engine = open(&url).await;
    let partitions = share(&engine, &part);
    let (name, hangs) = (part.clone(), part == "1/2");
    let worker = Worker::builder(engine.clone()).instance(name.as_str()).lease(LEASE);
    let worker = worker.partitions(partitions.clone()).concurrency(2).handler(
        "step",
        move |context: Context, (): ()| async move {
            if hangs && &*context.definition().name != "first" {
                println!("\n{STUCK}");
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, HandlerError>(context.attempt())
        },
    );
    let working = worker.build().expect("it has a handler").run(std::future::pending());
    let supervisor = Supervisor::new(engine).partitions(partitions).dispatchers(1);
    tokio::join!(working, supervisor.run(std::future::pending()));
}

/// A process that is killed with whoever holds this, if it was not before.
struct Process(Child);

impl Process {
    fn start(url: &str, share: &str) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.args(["--exact", "--nocapture", "processes::one_of_the_processes"]);
        command.env(URL, url).env(SHARE, share).stdout(Stdio::piped()).stderr(Stdio::null());
        Self(command.spawn().expect("it starts"))
    }

    /// Waits until it holds work that it will never finish.
    fn stuck(&mut self) {
        let output = self.0.stdout.take().expect("its output is piped");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == STUCK), "it ended before it was stuck");
    }

    /// `SIGKILL`: it runs no destructor and sends no farewell.
    fn kill(&mut self) {
        self.0.kill().expect("it can be killed");
        self.0.wait().expect("it has been started here");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have gone by itself, which is as good.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// first -> left, right; the faster of the two is enough for last, and the other is cancelled.
fn race(nth: usize) -> FlowSpec {
    let spec = |name: &str| ExecutionSpec::new(name).kind("step");
    let on_satisfied = OnSatisfied::CancelRemaining;
    let mut flow = FlowSpec::builder().idempotency_key(format!("race {nth}"));
    for name in ["first", "left", "right", "last"] {
        flow = flow.execution_spec(spec(name));
    }
    flow.edge("first", "left")
        .edge("first", "right")
        .edge("left", "last")
        .edge("right", "last")
        .join("last", JoinPolicy::AnyOf { on_satisfied })
        .build()
}

async fn states(engine: &Service, flow: FlowKey) -> BTreeMap<String, PublicState> {
    let described = engine.describe_flow(flow.id).await.expect("the flow exists");
    described.executions.iter().map(|one| (one.name.to_string(), one.state)).collect()
}

fn ended(state: PublicState) -> bool {
    use PublicState::{Cancelled, Completed, Expired, Failed, Skipped};
    matches!(state, Completed | Failed | Cancelled | Expired | Skipped)
}

/// Rows that only something unfinished has.
async fn left_behind(url: &str) -> i64 {
    let sql = format!(
        "select (select count(*) from {SCHEMA}.execution where nonce is not null or not propagated)
          + (select count(*) from {SCHEMA}.edge where resolution = 0)
          + (select count(*) from {SCHEMA}.sibling_request)
          + (select count(*) from {SCHEMA}.cancel_backlog)"
    );
    let mut connection = PgConnection::connect(url).await.expect("it connects");
    let row = connection.fetch_one(sqlx::raw_sql(AssertSqlSafe(sql))).await.expect("it counts");
    row.get(0)
}

#[tokio::test]
async fn of_processes_that_share_the_partitions_a_killed_one_leaves_nothing_behind() {
    let url = shared().url();
    let engine = open(&url).await;
    let mut flows = Vec::new();
    for nth in 0..FLOWS {
        flows.push(engine.submit(race(nth)).await.expect("it is valid").flow());
    }
    let halves = [share(&engine, "0/2"), share(&engine, "1/2")];
    for half in &halves {
        assert!(flows.iter().any(|flow| half.contains(&flow.partition.0)), "{half:?} has no flow");
    }
    let _first = Process::start(&url, "0/2");
    let mut second = Process::start(&url, "1/2");
    second.stuck();
    second.kill();
    // Whoever looks at all partitions takes over what the dead one had; nobody tells it.
    let _all = Process::start(&url, "0/1");
    for flow in &flows {
        let mut looks = 0;
        let mut found = states(&engine, *flow).await;
        while !found.values().all(|state| ended(*state)) {
            looks += 1;
            assert!(looks < LOOKS_MAX, "flow {} has not ended: {found:?}", flow.id);
            tokio::time::sleep(Duration::from_millis(100)).await;
            found = states(&engine, *flow).await;
        }
        assert_eq!(found["first"], PublicState::Completed);
        assert_eq!(found["last"], PublicState::Completed);
    }
    let mut looks = 0;
    while left_behind(&url).await > 0 {
        looks += 1;
        assert!(looks < LOOKS_MAX, "something was left behind");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
