//! Two worker processes on one Postgres, of which one is killed while it works: the other finishes
//! what it left, once its lease has run out.
//!
//! Run it with `DATABASE_URL=postgres://user@host/database cargo run --example two_workers`. It
//! works in a schema of its own, which it removes.

mod support;

use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{ExecutionSpec, FlowSpec};
use sluicegate::reconcile::supervisor::Supervisor;
use sluicegate::retry::{Backoff, RetryPolicy};
use sluicegate::state::PublicState;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::worker::{Context, HandlerError, Worker};
use sluicegate::{Engine, Settings};

/// Executions between the first and the last one.
const WIDTH: u32 = 12;
/// So long after a process has died its work is claimed by another.
const LEASE: Duration = Duration::from_secs(2);
/// What a worker prints when it holds the work that it will never finish.
const STUCK: &str = "stuck";

type Service = Engine<PostgresStorage, SystemEnvironment>;

fn flow() -> FlowSpec {
    let retry = RetryPolicy { backoff: Backoff::Fixed { delay_ms: 50 }, ..RetryPolicy::default() };
    let spec = |name: &str| ExecutionSpec::new(name).kind("step").retry(retry);
    let mut flow = FlowSpec::builder().execution_spec(spec("first")).execution_spec(spec("last"));
    for nth in 1..=WIDTH {
        let name = format!("step-{nth}");
        flow = flow.execution_spec(spec(&name)).edge("first", name.as_str()).edge(name, "last");
    }
    flow.build()
}

fn options(schema: &str) -> Result<PostgresOptions, Box<dyn Error>> {
    #[expect(clippy::disallowed_methods, reason = "a program reads its own configuration")]
    let url = std::env::var("DATABASE_URL").map_err(|_| "DATABASE_URL names no database")?;
    Ok(PostgresOptions::new(&url)?.connections_max(4).schema(schema))
}

async fn open(schema: &str) -> Result<Service, Box<dyn Error>> {
    let storage = PostgresStorage::open(options(schema)?).await?;
    let environment = SystemEnvironment::new();
    let (relay, process) = (storage.clone(), environment.clone());
    // Carries wake-ups between the processes.
    tokio::spawn(async move { relay.relay(&process).await });
    Ok(Engine::new(storage, environment, Settings::default()))
}

/// A worker process: the one called `hangs` never finishes its second execution.
async fn work(schema: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let engine = open(schema).await?;
    let hangs = name == "hangs";
    let worker = Worker::builder(engine.clone()).instance(name).lease(LEASE).concurrency(2);
    let worker = worker.handler("step", move |context: Context, (): ()| async move {
        if hangs && &*context.definition().name != "first" {
            println!("{STUCK} {}", context.definition().name);
            std::future::pending::<()>().await;
        }
        Ok::<_, HandlerError>(context.attempt())
    });
    // Until it is killed.
    let working = worker.build()?.run(std::future::pending());
    tokio::join!(working, Supervisor::new(engine).run(std::future::pending()));
    Ok(())
}

/// A process that is killed with whoever holds this, if it was not before.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(schema: &str, name: &str) -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([schema, name]).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        Ok(Self { child, output })
    }

    /// The name of the execution on which it is stuck.
    fn stuck(&mut self) -> Option<String> {
        let mut lines = self.output.by_ref().lines().map_while(Result::ok);
        lines.find_map(|line| line.strip_prefix(STUCK).map(|name| name.trim().to_owned()))
    }

    /// `SIGKILL`: it runs no destructor and sends no farewell.
    fn kill(&mut self) -> std::io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have gone by itself, which is as good.
        drop(self.kill());
    }
}

async fn kill_one_of_two(schema: &str) -> Result<(), Box<dyn Error>> {
    let engine = open(schema).await?;
    let mut hangs = Process::start(schema, "hangs")?;
    let flow = engine.submit(flow()).await?.flow();
    let left = hangs.stuck().ok_or("the worker ended before it was stuck")?;
    println!("killing the worker that holds {left}");
    let _survivor = Process::start(schema, "survives")?;
    let status = hangs.kill()?;
    assert!(!status.success(), "{status}");

    let described = support::ended(&engine, flow).await?;
    let states = support::show(&described);
    assert!(states.values().all(|end| end.0 == PublicState::Completed), "{states:?}");
    assert!(states[left.as_str()].1 > 1, "{left} was taken over: {states:?}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [schema, name] = arguments.as_slice() {
        return work(schema, name).await;
    }
    let schema = format!("sluicegate_example_{}", std::process::id());
    let done = kill_one_of_two(&schema).await;
    PostgresStorage::drop_schema(&options(&schema)?).await?;
    done
}
