//! A handler that blocks the only thread of its runtime for longer than its lease, in real time, on
//! a real file and a real server: the lease is kept, and a warning names the kind.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{ExecutionSpec, FlowSpec};
use sluicegate::retry::RetryPolicy;
use sluicegate::signal::Shutdown;
use sluicegate::state::PublicState;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::storage::{Scope, Storage};
use sluicegate::worker::{Context, Worker};
use sluicegate::{Engine, Settings};
use sluicegate_sim::postgres::shared;

use crate::Told;
use crate::logged::Logged;

/// Long enough for a renewal on a machine that is busy.
const LEASE: Duration = Duration::from_secs(3);
const REAPED_EVERY: Duration = Duration::from_millis(50);

/// Holds the thread up, as a careless handler does.
fn block() {
    #[expect(clippy::disallowed_methods, reason = "blocking is what the test is about")]
    std::thread::sleep(LEASE * 2);
}

fn engine<S: Storage>(storage: S) -> Engine<S, SystemEnvironment> {
    Engine::new(storage, SystemEnvironment::new(), Settings::default())
}

/// Another process: reaps on a thread of its own until it is told to stop; says how much.
fn reap<S, F>(stop: Arc<AtomicBool>, open: F) -> std::thread::JoinHandle<u64>
where
    S: Storage,
    F: AsyncFnOnce() -> S + Send + 'static,
{
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime starts").block_on(async move {
            let engine = engine(open().await);
            let mut reaped = 0;
            while !stop.load(Ordering::SeqCst) {
                // A tick that meets another writer is followed by one that does not.
                let tick = engine.reaper_tick(&Scope::default()).await;
                reaped += tick.map_or(0, |report| report.reconciled);
                tokio::time::sleep(REAPED_EVERY).await;
            }
            reaped
        })
    })
}

async fn check<S, F>(open: F)
where
    S: Storage,
    F: AsyncFn() -> S + Clone + Send + 'static,
{
    let engine = engine(open().await);
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let once = |name| ExecutionSpec::new(name).kind("crunch").retry(retry);
    let spec = FlowSpec::builder().execution_spec(once("a")).execution_spec(once("b")).build();
    let flow = engine.submit(spec).await.expect("the flow is valid").flow();
    let stop = Arc::new(AtomicBool::new(false));
    let reaper = reap(Arc::clone(&stop), async move || open().await);
    let (done, mut told) = Told::channel();
    let worker = Worker::builder(engine.clone()).lease(LEASE);
    let worker = worker.handler("crunch", move |context: Context, (): ()| {
        let done = done.clone();
        async move {
            // The other one has begun as well, so that its lease is kept too.
            tokio::task::yield_now().await;
            if &*context.definition().name == "a" {
                block();
            }
            done.send(context.cancellation().reason()).expect("the test listens");
            Ok(())
        }
    });
    let shutdown = Shutdown::new();
    let worker = worker.build().expect("the worker can work");
    let running = tokio::spawn(worker.run(shutdown.requested()));
    for _ in 0..2 {
        assert_eq!(told.next().await, None, "no lease was lost");
    }
    shutdown.request();
    let totals = running.await.expect("the worker comes to its end");
    stop.store(true, Ordering::SeqCst);
    assert_eq!(reaper.join().expect("the reaper comes to its end"), 0);
    assert_eq!((totals.granted, totals.lost, totals.reported), (2, 0, 2));
    let described = engine.describe_flow(flow.id).await.expect("the flow exists");
    assert_eq!(described.counts[&PublicState::Completed], 2);
}

/// Runs it with a log, which must name the kind.
async fn logged(work: impl Future<Output = ()>) {
    let log = Logged::default();
    let logging = tracing::subscriber::set_default(log.clone());
    work.await;
    drop(logging);
    let lines = log.lines();
    let blocked = |line: &&String| line.contains("blocks its thread") && line.contains("crunch");
    assert!(lines.iter().any(|line| blocked(&line)), "{lines:?}");
}

#[tokio::test]
async fn a_handler_that_blocks_its_runtime_keeps_its_lease_on_sqlite() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("flows.db");
    let open = async move || {
        SqliteStorage::open(SqliteOptions::file(path.clone())).expect("the file opens")
    };
    logged(check(open)).await;
}

#[tokio::test]
async fn a_handler_that_blocks_its_runtime_keeps_its_lease_on_postgres() {
    let open = async || {
        let options = PostgresOptions::new(&shared().url()).expect("the cluster's URL is one");
        PostgresStorage::open(options.schema("blocking")).await.expect("it opens")
    };
    logged(check(open)).await;
}
