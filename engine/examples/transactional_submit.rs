//! The service's own rows and the flow in one transaction: an order and the flow that fulfils it
//! commit together or not at all, and so do what a handler writes and the end of its execution.
//!
//! Run it with `cargo run --example transactional_submit`. On Postgres the same calls take a
//! `&mut PgConnection`.

mod support;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::FlowSpec;
use sluicegate::identity::FlowKey;
use sluicegate::operations::claim::ClaimRequest;
use sluicegate::state::PublicState;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::{Engine, EngineError, Settings};

type Service = Engine<SqliteStorage, SystemEnvironment>;

/// Writes the order and submits its flow; both are there once this has returned `Ok`.
fn place_order(
    connection: &mut Connection,
    engine: &Service,
    order: &str,
    quantity: i64,
) -> Result<FlowKey, Box<dyn Error>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let flow = FlowSpec::builder().execution("fulfil").idempotency_key(order).build();
    let flow = engine.submit_in(&transaction, flow)?.flow();
    // The table refuses a quantity below one; then there is no flow either.
    transaction.execute("insert into orders values (?1, ?2, null)", (order, quantity))?;
    transaction.commit()?;
    engine.committed(flow.partition);
    Ok(flow)
}

/// Claims what is ready and books it: the booking and the completion are one commit.
async fn fulfil(
    connection: &mut Connection,
    engine: &Service,
    order: &str,
) -> Result<(), Box<dyn Error>> {
    let request = ClaimRequest::new(engine.request_id(), "warehouse");
    let grants = engine.claim(request).await?;
    let token = grants.first().ok_or("nothing to claim")?.token();

    // A first try is given up: what it wrote is gone, and the lease is still held.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("update orders set booked = 'twice?' where id = ?1", [order])?;
    engine.complete_in(&transaction, token, Arc::from(*b"null"))?;
    transaction.rollback()?;

    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("update orders set booked = 'once' where id = ?1", [order])?;
    engine.complete_in(&transaction, token, Arc::from(*b"null"))?;
    transaction.commit()?;
    engine.committed(token.execution.partition);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("shop.db");
    let storage = SqliteStorage::open(SqliteOptions::file(&path))?;
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    let mut connection = Connection::open(&path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.execute_batch(
        "create table orders (id text primary key, quantity int check (quantity > 0), booked text)",
    )?;

    let refused = place_order(&mut connection, &engine, "order-1", 0);
    println!("refused: {}", refused.expect_err("the table refuses it"));
    let flow = place_order(&mut connection, &engine, "order-2", 3)?;
    fulfil(&mut connection, &engine, "order-2").await?;

    let described = support::ended(&engine, flow).await?;
    assert_eq!(support::show(&described)["fulfil"], (PublicState::Completed, 1));
    let read = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
    assert_eq!(read("select group_concat(id || ' ' || booked) from orders")?, "order-2 once");
    // The flow of the refused order was rolled back with it.
    let again = FlowSpec::builder().execution("other content").idempotency_key("order-1");
    assert!(!matches!(engine.submit(again.build()).await, Err(EngineError::Conflict { .. })));
    Ok(())
}
