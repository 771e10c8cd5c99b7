//! What sessions hold: a dropped transaction, a server that went away, notices between processes.

use std::time::Duration;

use sluicegate::environment::{Environment, SystemEnvironment};
use sluicegate::flow::FlowSpec;
use sluicegate::operations::report::Report;
use sluicegate::state::PublicState;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::storage::{Scope, Storage, StorageError, Transaction};
use sluicegate::{Engine, EngineError, Settings};
use sluicegate_sim::postgres::{Cluster, shared};
use sqlx::Row;

use crate::{at, by_hand, claim_of, fresh, run};

type Service = Engine<PostgresStorage, SystemEnvironment>;

/// Looks at the server for something that is about to happen; each is a round trip.
const LOOKS_MAX: u32 = 50_000;

async fn service(options: PostgresOptions, environment: SystemEnvironment) -> Service {
    let storage = PostgresStorage::open(options).await.expect("the database opens");
    Engine::new(storage, environment, Settings::default())
}

fn chain() -> FlowSpec {
    FlowSpec::builder().execution("first").execution("second").edge("first", "second").build()
}

/// Claims what may be claimed and completes it; says how many there were.
async fn work(engine: &Service) -> Result<usize, EngineError> {
    let grants = engine.claim(claim_of(engine, 10)).await?;
    for grant in &grants {
        engine.report(grant.token(), Report::Complete((*b"{}").into())).await?;
    }
    Ok(grants.len())
}

#[tokio::test]
async fn a_dropped_transaction_frees_what_it_locked() {
    let storage = PostgresStorage::open(fresh()).await.unwrap();
    let engine = Engine::new(storage.clone(), SystemEnvironment::new(), Settings::default());
    let flow = engine.submit(chain()).await.unwrap().flow();
    let key = flow.execution("first");
    let mut dropped = storage.begin().await.unwrap();
    assert_eq!(dropped.lock_executions(&[key]).await.unwrap().len(), 1);
    drop(dropped);
    // Waits until the server has noticed.
    let mut next = storage.begin().await.unwrap();
    assert_eq!(next.lock_executions(&[key]).await.unwrap().len(), 1);
    next.rollback().await;
}

#[tokio::test]
async fn a_statement_that_is_dropped_while_it_waits_takes_its_transaction_along() {
    let storage = PostgresStorage::open(fresh()).await.unwrap();
    let engine = Engine::new(storage.clone(), SystemEnvironment::new(), Settings::default());
    let flow = engine.submit(chain()).await.unwrap().flow();
    // In the one order of locks: until it is over, the dropped statement waits like any other.
    let mut keys = [flow.execution("first"), flow.execution("second")];
    keys.sort();
    let mut holder = storage.begin().await.unwrap();
    holder.lock_executions(&keys[1..]).await.unwrap();
    let mut waiter = storage.begin().await.unwrap();
    waiter.lock_executions(&keys[..1]).await.unwrap();
    let wanted = [keys[1]];
    let waiting = waiter.lock_executions(&wanted);
    assert!(tokio::time::timeout(Duration::from_millis(50), waiting).await.is_err());
    let over = waiter.clock().await;
    assert!(matches!(over, Err(StorageError::Unavailable(_))), "{over:?}");
    drop(waiter);
    holder.rollback().await;
    let mut next = storage.begin().await.unwrap();
    assert_eq!(next.lock_executions(&keys).await.unwrap().len(), 2);
    next.rollback().await;
}

#[tokio::test]
async fn a_server_that_was_restarted_is_found_again_and_nothing_is_lost() {
    let cluster = Cluster::start(&[("fsync", "on"), ("full_page_writes", "on")]).unwrap();
    let engine = service(at(&cluster.url()), SystemEnvironment::new()).await;
    let flow = engine.submit(chain()).await.unwrap().flow();
    assert_eq!(work(&engine).await.unwrap(), 1);
    // Several idle connections, so that more than one is stale afterwards.
    let together = tokio::join!(engine.describe_flow(flow.id), engine.describe_flow(flow.id));
    assert!(together.0.is_ok() && together.1.is_ok());
    cluster.stop_immediate().unwrap();
    let gone = engine.dispatch_pass(&Scope::default()).await;
    assert!(matches!(gone, Err(EngineError::Unavailable(_))), "{gone:?}");
    let gone = engine.submit(chain()).await;
    assert!(matches!(gone, Err(EngineError::Unavailable(_))), "{gone:?}");
    cluster.restart().unwrap();
    engine.dispatch_pass(&Scope::default()).await.unwrap();
    assert_eq!(work(&engine).await.unwrap(), 1);
    let counts = engine.describe_flow(flow.id).await.unwrap().counts;
    assert_eq!(counts[&PublicState::Completed], 2);
}

#[tokio::test]
async fn a_session_that_an_operator_ends_costs_its_transaction_only() {
    let storage = PostgresStorage::open(fresh()).await.unwrap();
    let mut operator = by_hand(&shared().url()).await;
    let mut ended = storage.begin().await.unwrap();
    run(&mut operator, &format!("select pg_terminate_backend({})", ended.backend_pid())).await;
    let answer = ended.clock().await;
    assert!(matches!(answer, Err(StorageError::Unavailable(_))), "{answer:?}");
    let mut next = storage.begin().await.unwrap();
    assert!(next.clock().await.is_ok());
    next.rollback().await;
}

#[tokio::test]
async fn a_full_pool_is_waited_for_and_then_said_to_be_full() {
    let options = fresh().connections_max(1).acquire_timeout(Duration::from_secs(1));
    let storage = PostgresStorage::open(options).await.unwrap();
    let held = storage.begin().await.unwrap();
    let refused = storage.begin().await.err().expect("the only connection is taken");
    assert!(refused.to_string().contains("none of 1 connections became free"), "{refused}");
    held.rollback().await;
    storage.begin().await.unwrap().rollback().await;
}

#[tokio::test]
async fn a_transaction_uses_one_connection_and_gives_it_back() {
    let storage = PostgresStorage::open(fresh().connections_max(1)).await.unwrap();
    let engine = Engine::new(storage.clone(), SystemEnvironment::new(), Settings::default());
    let flow = engine.submit(chain()).await.unwrap().flow();
    work(&engine).await.unwrap();
    engine.dependency_tick(&Scope::default()).await.unwrap();
    engine.reaper_tick(&Scope::default()).await.unwrap();
    engine.describe_flow(flow.id).await.unwrap();
    let first = storage.begin().await.unwrap();
    let pid = first.backend_pid();
    first.rollback().await;
    let second = storage.begin().await.unwrap();
    assert_eq!(second.backend_pid(), pid);
    second.rollback().await;
}

#[tokio::test]
async fn what_one_process_completes_wakes_the_dispatcher_of_another() {
    let options = fresh();
    let (here, there) = (SystemEnvironment::new(), SystemEnvironment::new());
    let storage = PostgresStorage::open(options.clone()).await.unwrap();
    let other = PostgresStorage::open(options).await.unwrap();
    let engine = Engine::new(storage.clone(), here.clone(), Settings::default());
    engine.submit(chain()).await.unwrap();
    let relays = async {
        tokio::join!(storage.relay(&here), other.relay(&there));
    };
    let story = async {
        // Each relay wakes its process once it listens.
        here.noticed(Duration::MAX).await;
        there.noticed(Duration::MAX).await;
        work(&engine).await.unwrap();
        there.noticed(Duration::MAX).await;
    };
    tokio::select! {
        () = story => {}
        () = relays => panic!("a relay ends only when it is dropped"),
    }
}

#[tokio::test]
async fn a_relay_whose_connections_were_ended_opens_others_and_wakes_its_process() {
    let options = fresh();
    let environment = SystemEnvironment::new();
    let storage = PostgresStorage::open(options).await.unwrap();
    let story = async {
        environment.noticed(Duration::MAX).await;
        let mut operator = by_hand(&shared().url()).await;
        let mut ended = 0;
        for _ in 0..LOOKS_MAX {
            let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                where query like 'LISTEN \"schema%' and state = 'idle'";
            let row = sqlx::query(end).fetch_one(&mut operator).await.unwrap();
            ended = row.get::<i64, _>(0);
            if ended > 0 {
                break;
            }
        }
        assert!(ended > 0, "no session listens");
        environment.noticed(Duration::MAX).await;
    };
    tokio::select! {
        () = story => {}
        () = storage.relay(&environment) => panic!("a relay ends only when it is dropped"),
    }
    assert!(environment.random() != environment.random());
}
