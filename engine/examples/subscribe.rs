//! A consumer of the feed that is stopped and started again: what it had not acknowledged comes
//! again, and nothing is missed.
//!
//! Run it with `cargo run --example subscribe`.

use std::collections::BTreeSet;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::FlowSpec;
use sluicegate::identity::ExecutionId;
use sluicegate::operations::claim::ClaimRequest;
use sluicegate::operations::report::Report;
use sluicegate::storage::Scope;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::{Engine, EngineError, Settings};

type Service = Engine<SqliteStorage, SystemEnvironment>;

/// Submits a flow of some executions and works all of them off.
async fn work(engine: &Service, key: &str, executions: u32) -> Result<(), EngineError> {
    let mut flow = FlowSpec::builder().idempotency_key(key);
    for number in 0..executions {
        flow = flow.execution(format!("step-{number}"));
    }
    engine.submit(flow.build()).await?;
    loop {
        let request =
            ClaimRequest { limit: 10, ..ClaimRequest::new(engine.request_id(), "worker") };
        let grants = engine.claim(request).await?;
        if grants.is_empty() {
            // On Postgres this gives events their places in the feed, in one process or in many;
            // on SQLite they have them already.
            engine.sequencer_tick(&Scope::default()).await?;
            return Ok(());
        }
        for grant in &grants {
            engine.report(grant.token(), Report::Complete(b"{}".as_slice().into())).await?;
        }
    }
}

/// Opens the consumer `billing` and takes so many events; acknowledges the first of them only.
async fn consume(
    engine: &Service,
    events: usize,
    acknowledged: usize,
) -> Result<Vec<ExecutionId>, EngineError> {
    let mut consumer = engine.consumer("billing", Scope::default()).await?;
    let mut taken = Vec::new();
    while taken.len() < events {
        let event = consumer.next().await?;
        println!("  {} {:?} at {}", event.execution, event.what, event.cursor);
        taken.push(event.execution);
        if taken.len() == acknowledged {
            consumer.acknowledge().await?;
        }
    }
    Ok(taken)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let open = || SqliteStorage::open(SqliteOptions::file(directory.path().join("flows.db")));
    let mut seen: BTreeSet<ExecutionId> = BTreeSet::new();

    println!("the first process takes five events and acknowledges three:");
    let engine = Engine::new(open()?, SystemEnvironment::new(), Settings::default());
    work(&engine, "first", 6).await?;
    let first = consume(&engine, 5, 3).await?;
    seen.extend(&first);
    drop(engine);

    println!("the second begins where the first had acknowledged:");
    let engine = Engine::new(open()?, SystemEnvironment::new(), Settings::default());
    work(&engine, "second", 4).await?;
    let second = consume(&engine, 7, 7).await?;
    seen.extend(&second);

    assert_eq!(second[..2], first[3..], "what was not acknowledged comes again");
    assert_eq!(seen.len(), 10, "nothing is missed");
    let mut consumer = engine.consumer("billing", Scope::default()).await?;
    assert_eq!(consumer.try_next().await?, None, "everything is acknowledged");
    println!("{} events in all, none missed", seen.len());
    Ok(())
}
