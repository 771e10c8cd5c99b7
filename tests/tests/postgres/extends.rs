//! Extensions on a real server: what has ended is resolved, and two that exclude each other meet.

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{Additions, FlowSpec};
use sluicegate::operations::report::Report;
use sluicegate::state::PublicState;
use sluicegate::storage::Scope;
use sluicegate::storage::postgres::PostgresStorage;
use sluicegate::{Engine, EngineError, Settings};

use crate::{claim_of, fresh};

type Service = Engine<PostgresStorage, SystemEnvironment>;

async fn service() -> Service {
    let storage = PostgresStorage::open(fresh()).await.expect("the server answers");
    Engine::new(storage, SystemEnvironment::new(), Settings::default())
}

/// Claims what is ready and ends it; returns the names.
async fn work(engine: &Service) -> Vec<String> {
    let grants = engine.claim(claim_of(engine, 100)).await.expect("the server answers");
    for grant in &grants {
        let done = engine.report(grant.token(), Report::Complete((*b"{}").into())).await;
        done.expect("the lease is held");
    }
    engine.dispatch_pass(&Scope::default()).await.expect("the server answers");
    let mut names: Vec<String> =
        grants.iter().map(|grant| grant.definition.name.to_string()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_flow_grows_behind_what_has_ended_and_beside_what_waits() {
    let engine = service().await;
    let spec = FlowSpec::builder().execution("a").execution("b").execution("c");
    let spec = spec.edge("a", "c").edge("b", "c").build();
    let flow = engine.submit(spec).await.expect("the server answers").flow().id;
    let only = engine.claim(claim_of(&engine, 1)).await.expect("the server answers");
    let first = only.first().expect("two are ready");
    let done = engine.report(first.token(), Report::Complete((*b"{}").into())).await;
    done.expect("the lease is held");
    engine.dispatch_pass(&Scope::default()).await.expect("the server answers");
    let more = || {
        let ended = &*first.definition.name;
        Additions::new().execution("x").execution("y").edge(ended, "x").edge("y", "c")
    };
    let request = engine.request_id();
    let extended = engine.extend(flow, more(), Some(0), request).await;
    assert_eq!(extended.as_ref().map(|extended| extended.revision), Ok(1));
    assert_eq!(engine.extend(flow, more(), Some(0), request).await, extended);
    assert_eq!(work(&engine).await.len(), 3, "the other, x and y");
    assert_eq!(work(&engine).await, ["c"]);
    let counts = engine.describe_flow(flow).await.expect("the server answers").counts;
    assert_eq!(counts[&PublicState::Completed], 5);
}

#[tokio::test]
async fn of_two_extensions_that_close_a_cycle_together_one_is_refused() {
    let engine = service().await;
    for _ in 0..10 {
        let spec = FlowSpec::builder().execution("root").execution("a").execution("b");
        let spec = spec.edge("root", "a").edge("root", "b").build();
        let flow = engine.submit(spec).await.expect("the server answers").flow().id;
        let one = Additions::new().edge("a", "b");
        let other = Additions::new().execution("x").edge("b", "x").edge("x", "a");
        let (one, other) = tokio::join!(
            engine.extend(flow, one, None, engine.request_id()),
            engine.extend(flow, other, None, engine.request_id())
        );
        let refused = match (one, other) {
            (Ok(_), Err(EngineError::Invalid(refused)))
            | (Err(EngineError::Invalid(refused)), Ok(_)) => refused,
            both => panic!("{both:?}"),
        };
        assert!(refused.contains("cycle"), "{refused}");
        assert_eq!(work(&engine).await, ["root"]);
        while !work(&engine).await.is_empty() {}
        let counts = engine.describe_flow(flow).await.expect("the server answers").counts;
        assert_eq!(counts.keys().collect::<Vec<_>>(), [&PublicState::Completed]);
    }
}
