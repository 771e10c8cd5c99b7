//! What is tried again, for how long, and what happens when the time is over.
//!
//! Run it with `cargo run --example retries_and_deadlines`.

mod support;

use std::error::Error;
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{EdgeSpec, ExecutionSpec, FlowSpec};
use sluicegate::policy::AcceptSet;
use sluicegate::reconcile::Reconciler;
use sluicegate::reconcile::supervisor::Supervisor;
use sluicegate::retry::{Backoff, RetryPolicy};
use sluicegate::signal::Shutdown;
use sluicegate::state::PublicState::{Completed, Expired, Failed};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::worker::{Cancelled, Context, HandlerError, Worker};
use sluicegate::{Engine, Settings};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Long enough that nothing of this example waits for it.
const LONG: Duration = Duration::from_hours(1);

fn flow() -> FlowSpec {
    let backoff = Backoff::Fixed { delay_ms: 50 };
    let retry = RetryPolicy { max_attempts: 3, backoff, attempt_timeout_ms: None };
    let timed = RetryPolicy { attempt_timeout_ms: Some(300), ..retry };
    let spec = |name: &str| ExecutionSpec::new(name).kind(name).retry(retry);
    FlowSpec::builder()
        .execution_spec(spec("flaky"))
        .execution_spec(spec("hopeless"))
        .execution_spec(spec("slow").retry(timed))
        .execution_spec(spec("too-early").deadline_ms(500))
        .execution_spec(spec("apologise"))
        .edge_spec(EdgeSpec::new("hopeless", "apologise").accepts(AcceptSet::ON_FAILURE))
        .edge_spec(EdgeSpec::new("too-early", "apologise").accepts(AcceptSet::ON_FAILURE))
        .build()
}

/// Fails twice.
async fn flaky(context: Context, (): ()) -> Result<(), HandlerError> {
    if context.attempt() < 3 {
        return Err(HandlerError::retryable("the line is bad"));
    }
    Ok(())
}

/// Fails by an error of its own each time; `?` makes a retryable failure of it.
async fn hopeless(_context: Context, (): ()) -> Result<u32, HandlerError> {
    Ok("not a number".parse::<u32>()?)
}

/// Takes too long the first time. The reaper ends that attempt, and the handler is told.
async fn slow(context: Context, told: UnboundedSender<Cancelled>) -> Result<(), HandlerError> {
    if context.attempt() == 1 {
        told.send(context.cancelled().await)?;
        return Err(HandlerError::Release);
    }
    Ok(())
}

/// Puts itself off until its deadline has passed.
async fn too_early(_context: Context, (): ()) -> Result<(), HandlerError> {
    Err(HandlerError::Snooze(LONG))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let storage = SqliteStorage::open(SqliteOptions::file(directory.path().join("flows.db")))?;
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    let flow = engine.submit(flow()).await?.flow();

    let shutdown = Shutdown::new();
    // Leases are short so that the example is: a lost one is noticed when it is renewed.
    let (told, mut slow_was_told) = unbounded_channel();
    let worker = Worker::builder(engine.clone())
        .lease(Duration::from_secs(1))
        .handler("flaky", flaky)
        .handler("hopeless", hopeless)
        .handler("slow", move |context, (): ()| slow(context, told.clone()))
        .handler("too-early", too_early)
        .handler("apologise", |_: Context, (): ()| async { Ok("sorry") })
        .build()?;
    let working = tokio::spawn(worker.run(shutdown.requested()));
    let supervisor =
        Supervisor::new(engine.clone()).every(Reconciler::Reaper, Duration::from_millis(100));
    let supervising = tokio::spawn(supervisor.run(shutdown.requested()));

    let described = support::ended(&engine, flow).await?;
    let why = slow_was_told.recv().await;
    shutdown.request();
    working.await?;
    supervising.await?;

    println!("slow was told: {why:?}");
    assert_eq!(why, Some(Cancelled::LeaseLost));
    let states = support::show(&described);
    assert_eq!(states["flaky"], (Completed, 3));
    assert_eq!(states["hopeless"], (Failed, 3));
    assert_eq!(states["slow"], (Completed, 2));
    assert_eq!(states["too-early"], (Expired, 1));
    assert_eq!(states["apologise"], (Completed, 1));
    Ok(())
}
