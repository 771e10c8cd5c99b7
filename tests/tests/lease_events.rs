//! What the feed tells of leases, on both databases: in order, to whoever asks, with the settings
//! that say how much.

use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::feed::{EventKind, Wanted};
use sluicegate::flow::{ExecutionSpec, FlowSpec};
use sluicegate::operations::claim::{ClaimRequest, LeaseToken};
use sluicegate::operations::report::Report;
use sluicegate::retry::{Backoff, RetryPolicy};
use sluicegate::state::Outcome;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::storage::{Scope, Storage};
use sluicegate::{Engine, Settings};
use sluicegate_sim::postgres::shared;

const LEASE: Duration = Duration::from_millis(300);

/// A flow of one execution, which may be claimed again at once.
fn of_one(name: &str) -> FlowSpec {
    let retry = RetryPolicy { backoff: Backoff::Fixed { delay_ms: 0 }, ..RetryPolicy::default() };
    FlowSpec::builder().execution_spec(ExecutionSpec::new(name).retry(retry)).build()
}

async fn claim<S: Storage>(engine: &Engine<S, SystemEnvironment>) -> LeaseToken {
    loop {
        let asked =
            ClaimRequest { lease: LEASE, ..ClaimRequest::new(engine.request_id(), "worker") };
        if let Some(granted) = engine.claim(asked).await.expect("the claim is served").pop() {
            return granted.grant.token();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Short words for what the feed tells, in order.
async fn told<S: Storage>(engine: &Engine<S, SystemEnvironment>, wanted: Wanted) -> Vec<String> {
    engine.sequencer_tick(&Scope::default()).await.expect("the tick succeeds");
    let oldest = engine.cursor_oldest().await.expect("the feed has a head");
    let page = engine.read_feed(oldest, wanted, 99).await.expect("a page");
    let words = page.events.iter().map(|event| match event.what {
        EventKind::Lease(lease) => format!("{:?} {}", lease.change, lease.attempt),
        EventKind::Completed { outcome } => outcome.name().to_owned(),
        other => panic!("an event of a kind that this test does not know: {other:?}"),
    });
    words.collect()
}

/// One execution is released, renewed, lost to the reaper and then done; another is cancelled.
async fn lives<S: Storage>(engine: &Engine<S, SystemEnvironment>) {
    engine.submit(of_one("one")).await.expect("the flow is valid");
    let released = claim(engine).await;
    engine.report(released, Report::Release).await.expect("the lease is held");
    let lost = claim(engine).await;
    engine.renew(lost, 2 * LEASE).await.expect("the lease is held");
    while engine.reaper_tick(&Scope::default()).await.expect("the tick succeeds").reconciled == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let done = claim(engine).await;
    engine.report(done, Report::Complete(b"1".as_slice().into())).await.expect("it is held");
    engine.submit(of_one("two")).await.expect("the flow is valid");
    let revoked = claim(engine).await;
    engine
        .cancel_execution(revoked.execution, "no longer wanted", engine.request_id())
        .await
        .expect("it is there");
}

async fn tells_of_leases<S: Storage>(open: impl AsyncFn() -> S) {
    let quiet = Engine::new(open().await, SystemEnvironment::new(), Settings::default());
    lives(&quiet).await;
    let leases = ["Released 1", "Expired 2", "Revoked 1"];
    assert_eq!(told(&quiet, Wanted::Leases).await, leases);
    let ends = [Outcome::Succeeded, Outcome::Cancelled].map(Outcome::name);
    assert_eq!(told(&quiet, Wanted::Completions).await, ends);
    let everything = ["Released 1", "Expired 2", "succeeded", "Revoked 1", "cancelled"];
    assert_eq!(told(&quiet, Wanted::Everything).await, everything);

    let mut settings = Settings::default();
    (settings.feed.acquired, settings.feed.renewed) = (true, true);
    let telling = Engine::new(open().await, SystemEnvironment::new(), settings);
    lives(&telling).await;
    let all = [
        "Acquired 1",
        "Released 1",
        "Acquired 2",
        "Renewed 2",
        "Expired 2",
        "Acquired 3",
        "succeeded",
        "Acquired 1",
        "Revoked 1",
        "cancelled",
    ];
    assert_eq!(told(&telling, Wanted::Everything).await, all);
}

#[tokio::test]
async fn sqlite_tells_of_leases() {
    let open = async || SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    tells_of_leases(open).await;
}

#[tokio::test]
async fn postgres_tells_of_leases() {
    let schemas = std::cell::RefCell::new(vec!["leases_telling", "leases_quiet"]);
    let open = async || {
        let schema = schemas.borrow_mut().pop().expect("two databases are enough");
        let url = shared().url();
        let options = PostgresOptions::new(&url).expect("the cluster's URL is one").schema(schema);
        PostgresStorage::open(options).await.expect("the server answers")
    };
    tells_of_leases(open).await;
}
