//! The least that a service needs: an engine on a SQLite file, a worker with typed handlers, and a
//! supervisor that moves flows on.
//!
//! Run it with `cargo run --example quickstart`.

mod support;

use std::error::Error;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{ExecutionSpec, FlowSpec};
use sluicegate::reconcile::supervisor::Supervisor;
use sluicegate::signal::Shutdown;
use sluicegate::state::PublicState;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::worker::{Context, HandlerError, Worker};
use sluicegate::{Engine, Settings};

#[derive(Deserialize)]
struct Order {
    article: String,
    pieces: u32,
}

#[derive(Serialize)]
struct Packed {
    parcels: u32,
}

async fn pack(_context: Context, order: Order) -> Result<Packed, HandlerError> {
    if order.pieces == 0 {
        return Err(HandlerError::fatal(format!("no piece of {} is ordered", order.article)));
    }
    Ok(Packed { parcels: order.pieces.div_ceil(3) })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let storage = SqliteStorage::open(SqliteOptions::file(directory.path().join("flows.db")))?;
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());

    let order = json!({"article": "lamp", "pieces": 7});
    let flow = FlowSpec::builder()
        .execution_spec(ExecutionSpec::new("pack").kind("pack").payload(order))
        .execution_spec(ExecutionSpec::new("send").kind("print"))
        .execution_spec(ExecutionSpec::new("invoice").kind("print"))
        .edge("pack", "send")
        .edge("send", "invoice")
        .idempotency_key("order 17")
        .build();
    let flow = engine.submit(flow).await?.flow();

    let shutdown = Shutdown::new();
    let worker = Worker::builder(engine.clone())
        .handler("pack", pack)
        .handler("print", |context: Context, (): ()| async move {
            println!("{} of {}", context.definition().name, context.flow().id);
            Ok(())
        })
        .build()?;
    let working = tokio::spawn(worker.run(shutdown.requested()));
    let supervising = tokio::spawn(Supervisor::new(engine.clone()).run(shutdown.requested()));

    let described = support::ended(&engine, flow).await?;
    shutdown.request();
    let totals = working.await?;
    supervising.await?;

    let states = support::show(&described);
    assert!(states.values().all(|end| *end == (PublicState::Completed, 1)), "{states:?}");
    assert_eq!((totals.reported, totals.left_leased()), (3, 0));
    Ok(())
}
