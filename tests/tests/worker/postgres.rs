//! The same on a real Postgres, in real time, with notices between two environments.

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{ExecutionSpec, FlowSpec};
use sluicegate::reconcile::supervisor::Supervisor;
use sluicegate::signal::Shutdown;
use sluicegate::state::PublicState;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::worker::{Context, Worker};
use sluicegate::{Engine, Settings};
use sluicegate_sim::postgres::shared;

use crate::Told;

const WIDTH: u32 = 20;

fn wide() -> FlowSpec {
    let spec = |name: &str| ExecutionSpec::new(name).kind("step");
    let mut flow = FlowSpec::builder().execution_spec(spec("first")).execution_spec(spec("last"));
    for nth in 0..WIDTH {
        let name = format!("middle-{nth:02}");
        flow = flow.execution_spec(spec(&name)).edge("first", name.as_str()).edge(name, "last");
    }
    flow.build()
}

/// A process of its own as far as the engine knows: pool, environment and relay.
async fn process() -> Engine<PostgresStorage, SystemEnvironment> {
    let options = PostgresOptions::new(&shared().url()).expect("the cluster's URL is one");
    let storage = PostgresStorage::open(options.schema("workers")).await.expect("it opens");
    let environment = SystemEnvironment::new();
    let (relay, told) = (storage.clone(), environment.clone());
    tokio::spawn(async move { relay.relay(&told).await });
    Engine::new(storage, environment, Settings::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_and_supervisors_drain_a_flow_on_postgres() {
    let shutdown = Shutdown::new();
    let (done, mut told) = Told::channel();
    let (mut workers, mut supervisors) = (Vec::new(), Vec::new());
    let first = process().await;
    for engine in [first.clone(), process().await] {
        supervisors.push(tokio::spawn(
            Supervisor::new(engine.clone()).dispatchers(2).run(shutdown.requested()),
        ));
        let done = done.clone();
        let worker = Worker::builder(engine).concurrency(3).handler(
            "step",
            move |context: Context, (): ()| {
                let done = done.clone();
                async move {
                    let name = context.definition().name.to_string();
                    done.send(name.clone()).expect("the test listens");
                    Ok(name)
                }
            },
        );
        let worker = worker.build().expect("the worker can work");
        workers.push(tokio::spawn(worker.run(shutdown.requested())));
    }
    let flow = first.submit(wide()).await.expect("the flow is valid").flow();
    while told.next().await != "last" {}
    shutdown.request();
    let (mut granted, mut left) = (0, 0);
    for worker in workers {
        let totals = worker.await.expect("it comes to its end");
        granted += totals.granted;
        left += totals.left_leased();
    }
    for supervisor in supervisors {
        let statuses = supervisor.await.expect("it comes to its end");
        assert!(statuses.values().all(|status| status.total.errors == 0), "{statuses:?}");
    }
    assert_eq!((granted, left), (u64::from(WIDTH) + 2, 0));
    let counts = first.describe_flow(flow.id).await.expect("the flow exists").counts;
    assert_eq!(counts[&PublicState::Completed], u64::from(WIDTH) + 2);
}
