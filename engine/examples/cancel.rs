//! Cancels: a race ends its loser, and an operator ends a flow. The handler of what is cancelled is
//! told, and its worker's report would count for nothing.
//!
//! Run it with `cargo run --example cancel`.

mod support;

use std::error::Error;
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{ExecutionSpec, FlowSpec};
use sluicegate::operations::cancel::Cancelling;
use sluicegate::policy::{JoinPolicy, OnSatisfied};
use sluicegate::reconcile::supervisor::Supervisor;
use sluicegate::signal::Shutdown;
use sluicegate::state::ClosePolicy;
use sluicegate::state::PublicState::{self, Active, Completed};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::worker::{Cancelled, Context, HandlerError, Worker};
use sluicegate::{Engine, Settings};
use tokio::sync::mpsc;

/// The first of two searches that finds something is enough; the other is cancelled.
fn race() -> FlowSpec {
    let enough = JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining };
    FlowSpec::builder()
        .execution_spec(ExecutionSpec::new("near").kind("quick"))
        .execution_spec(ExecutionSpec::new("far").kind("endless"))
        .execution_spec(ExecutionSpec::new("answer").kind("quick"))
        .join("answer", enough)
        .edge("near", "answer")
        .edge("far", "answer")
        .build()
}

fn endless() -> FlowSpec {
    FlowSpec::builder()
        .execution_spec(ExecutionSpec::new("crawl").kind("endless"))
        .execution_spec(ExecutionSpec::new("index").kind("quick"))
        .edge("crawl", "index")
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let storage = SqliteStorage::open(SqliteOptions::memory())?;
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    let shutdown = Shutdown::new();
    let (telling, mut told) = mpsc::unbounded_channel();
    let worker = Worker::builder(engine.clone())
        .concurrency(4)
        // A lease is renewed at a third of its time, and a renewal tells that it is lost.
        .lease(Duration::from_millis(900))
        .handler("quick", |_: Context, (): ()| async { Ok(()) })
        // Works until nobody wants the result any more.
        .handler("endless", move |context: Context, (): ()| {
            let telling = telling.clone();
            async move {
                let why = context.cancelled().await;
                telling.send((context.definition().name.to_string(), why)).ok();
                Err::<(), _>(HandlerError::Release)
            }
        })
        .build()?;
    let working = tokio::spawn(worker.run(shutdown.requested()));
    let supervising = tokio::spawn(Supervisor::new(engine.clone()).run(shutdown.requested()));

    let raced = engine.submit(race()).await?.flow();
    let described = support::ended(&engine, raced).await?;
    let states = support::show(&described);
    assert_eq!(
        ["near", "far", "answer"].map(|name| states[name].0),
        [Completed, PublicState::Cancelled, Completed]
    );

    let flow = engine.submit(endless()).await?.flow();
    while !engine.describe_flow(flow.id).await?.counts.contains_key(&Active) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let request = engine.request_id();
    let report = engine.cancel_flow_and_wait(flow.id, ClosePolicy::CancelAll, request).await?;
    assert_eq!((report.cancelled.len(), report.progress), (2, Cancelling::Done));
    let again = engine.cancel_flow(flow.id, ClosePolicy::CancelAll, request).await?;
    assert_eq!(again, report, "a repetition answers the same");
    let described = support::ended(&engine, flow).await?;
    support::show(&described);

    for name in ["far", "crawl"] {
        let heard = told.recv().await.ok_or("the worker is there")?;
        println!("{:<12} was told: {:?}", heard.0, heard.1);
        assert_eq!(heard, (name.to_owned(), Cancelled::LeaseLost));
    }
    shutdown.request();
    working.await?;
    supervising.await?;
    Ok(())
}
