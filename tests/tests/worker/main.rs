//! Workers and supervisors on real databases. Time is virtual except on Postgres: it goes on when
//! everybody waits, for the storage's clock too, so that nothing here depends on how fast it runs.

mod blocking;
mod building;
mod leases;
mod logged;
mod metered;
mod outcomes;
mod postgres;
mod processes;
mod shutdown;
mod storage;
mod supervisor;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{ExecutionSpec, FlowSpec};
use sluicegate::identity::FlowKey;
use sluicegate::operations::describe::ExecutionDescription;
use sluicegate::retry::{Backoff, RetryPolicy};
use sluicegate::signal::Shutdown;
use sluicegate::storage::sqlite::{Offload, SqliteOptions, SqliteStorage};
use sluicegate::time::Timestamp;
use sluicegate::worker::{Context, HandlerError, Totals, Worker, WorkerBuilder};
use sluicegate::{Engine, Settings};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use storage::{Faults, Shaky};

type Service = Engine<Shaky, SystemEnvironment>;

/// An engine on a file of its own.
struct Home {
    engine: Service,
    sqlite: SqliteStorage,
    faults: Arc<Faults>,
    /// How far the storage's clock has stepped forward, in microseconds.
    stepped_us: Arc<AtomicU64>,
    _directory: TempDir,
}

impl Home {
    #[expect(clippy::disallowed_methods, reason = "the clock of tokio, which these tests drive")]
    fn new(settings: &Settings) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let started = tokio::time::Instant::now();
        let stepped_us = Arc::new(AtomicU64::new(0));
        let stepped = Arc::clone(&stepped_us);
        let clock = move || {
            let stepped = Duration::from_micros(stepped.load(Ordering::SeqCst));
            Timestamp(1_700_000_000_000_000) + started.elapsed() + stepped
        };
        let options = SqliteOptions::file(directory.path().join("flows.db"))
            .offload(Offload::Inline)
            .clock(Arc::new(clock));
        let sqlite = SqliteStorage::open(options).expect("the file opens");
        let faults = Arc::new(Faults::default());
        let storage = Shaky { inner: sqlite.clone(), faults: Arc::clone(&faults) };
        let engine = Engine::new(storage, SystemEnvironment::new(), *settings);
        Self { engine, sqlite, faults, stepped_us, _directory: directory }
    }

    async fn submit(&self, flow: FlowSpec) -> FlowKey {
        self.engine.submit(flow).await.expect("the flow is valid").flow()
    }

    /// The only execution of a flow, or the one of that name.
    async fn described(&self, flow: FlowKey, name: &str) -> ExecutionDescription {
        let described = self.engine.describe_flow(flow.id).await.expect("the flow exists");
        let mut named = described.executions.into_iter().filter(|one| &*one.name == name);
        named.next().expect("the flow has an execution of that name")
    }

    fn worker(&self) -> WorkerBuilder<Shaky, SystemEnvironment> {
        Worker::builder(self.engine.clone())
    }

    /// What is stored as the result of the only execution that has one.
    fn result(&self) -> String {
        let query = "select result from sluicegate_execution where result is not null";
        let result: Vec<u8> = self
            .sqlite
            .with_connection(|connection| connection.query_row(query, [], |row| row.get(0)))
            .expect("the file is there")
            .expect("one execution has a result");
        String::from_utf8(result).expect("a result is text")
    }
}

/// A worker at work, and how it is told to stop.
struct Running {
    shutdown: Shutdown,
    task: tokio::task::JoinHandle<Totals>,
}

fn start(builder: WorkerBuilder<Shaky, SystemEnvironment>) -> Running {
    let worker = builder.build().expect("the worker can work");
    let shutdown = Shutdown::new();
    let task = tokio::spawn(worker.run(shutdown.requested()));
    Running { shutdown, task }
}

impl Running {
    async fn stop(self) -> Totals {
        self.shutdown.request();
        self.task.await.expect("the worker comes to its end")
    }
}

/// A flow of one execution of that kind, named `a`, which is tried again after a second.
fn single(kind: &str) -> FlowSpec {
    let backoff = Backoff::Fixed { delay_ms: 1_000 };
    let retry = RetryPolicy { backoff, ..RetryPolicy::default() };
    FlowSpec::builder().execution_spec(ExecutionSpec::new("a").kind(kind).retry(retry)).build()
}

/// What handlers tell the test.
struct Told<T>(UnboundedReceiver<T>);

impl<T> Told<T> {
    fn channel() -> (UnboundedSender<T>, Self) {
        let (sender, receiver) = unbounded_channel();
        (sender, Self(receiver))
    }

    async fn next(&mut self) -> T {
        let told = tokio::time::timeout(HOUR, self.0.recv()).await;
        let told = told.expect("no hour of virtual time passes without a word");
        told.expect("the handler lives as long as its worker")
    }
}

/// Never returns by itself.
async fn forever(_context: &Context) -> Result<(), HandlerError> {
    std::future::pending().await
}

/// Longer than any lease or grace period of these tests.
const HOUR: Duration = Duration::from_hours(1);
