//! Joins: two of three mirrors are enough, and what they fetched is passed on by name; all three
//! are not to be had, and what cannot run any more is skipped, which is no failure.
//!
//! Run it with `cargo run --example quorum_race`.

mod support;

use std::error::Error;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{EdgeSpec, ExecutionSpec, FlowSpec};
use sluicegate::policy::{AcceptSet, Decision, JoinPolicy, OnSatisfied};
use sluicegate::reconcile::supervisor::Supervisor;
use sluicegate::signal::Shutdown;
use sluicegate::state::PublicState::{Completed, Failed, Skipped};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::worker::{Context, HandlerError, Worker};
use sluicegate::{Engine, Settings};

const MIRRORS: [&str; 3] = ["mirror-a", "mirror-b", "mirror-c"];

/// `publish` needs two mirrors, `compare` needs all; `archive` needs `compare`, and `complain` runs
/// if it is skipped.
fn flow() -> FlowSpec {
    let quorum = JoinPolicy::Quorum { k: 2, on_satisfied: OnSatisfied::LetRun };
    let mut flow = FlowSpec::builder()
        .execution_spec(ExecutionSpec::new("publish").kind("publish"))
        .join("publish", quorum)
        .execution("compare")
        .execution("archive")
        .execution("complain")
        .edge("compare", "archive")
        .edge_spec(EdgeSpec::new("archive", "complain").accepts(AcceptSet::ON_SKIP));
    for mirror in MIRRORS {
        let fetch = ExecutionSpec::new(mirror).kind("fetch");
        let passes = EdgeSpec::new(mirror, "publish").passes_as(mirror);
        flow = flow.execution_spec(fetch).edge_spec(passes).edge(mirror, "compare");
    }
    flow.build()
}

async fn fetch(context: Context, (): ()) -> Result<String, HandlerError> {
    match &*context.definition().name {
        "mirror-c" => Err(HandlerError::fatal("it is out of date")),
        name => Ok(format!("bytes of {name}")),
    }
}

/// Which mirrors decided the join is up to their workers; every attempt is passed the same two.
async fn publish(context: Context, (): ()) -> Result<Vec<String>, HandlerError> {
    let inputs = context.inputs().sent().unwrap_or_default();
    let two: Result<Vec<String>, _> =
        inputs.iter().map(|input| context.input(&input.name)).collect();
    let two = two?;
    assert!(two.iter().all(|bytes| bytes.starts_with("bytes of mirror-")), "{two:?}");
    assert_eq!(two.len(), 2);
    Ok(two)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let storage = SqliteStorage::open(SqliteOptions::memory())?;
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    let flow = engine.submit(flow()).await?.flow();

    let shutdown = Shutdown::new();
    let worker = Worker::builder(engine.clone())
        .handler("fetch", fetch)
        .handler("publish", publish)
        .handler("default", |_: Context, (): ()| async { Ok(()) })
        .build()?;
    let working = tokio::spawn(worker.run(shutdown.requested()));
    let supervising = tokio::spawn(Supervisor::new(engine.clone()).run(shutdown.requested()));

    let described = support::ended(&engine, flow).await?;
    shutdown.request();
    working.await?;
    supervising.await?;

    for group in &described.groups {
        let (met, edges) = (group.satisfied, group.edges);
        println!("{:<12} {:?}: {met} of {edges} edges satisfied", group.downstream, group.decision);
    }
    let decided = |name: &str| {
        let mut groups = described.groups.iter();
        groups.find(|group| &*group.downstream == name).map(|group| group.decision)
    };
    assert_eq!(decided("publish"), Some(Decision::Satisfied));
    assert_eq!(decided("compare"), Some(Decision::Impossible));
    let states = support::show(&described);
    assert_eq!(MIRRORS.map(|mirror| states[mirror].0), [Completed, Completed, Failed]);
    let rest = ["publish", "compare", "archive", "complain"].map(|name| states[name].0);
    assert_eq!(rest, [Completed, Skipped, Skipped, Completed]);
    Ok(())
}
