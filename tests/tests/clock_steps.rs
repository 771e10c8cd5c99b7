//! A forward step of the storage's clock: every lease seems to be over at once, and none is ended
//! before its holder had a lease time more to report.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sluicegate::environment::{Environment, Notice, SystemEnvironment};
use sluicegate::flow::FlowSpec;
use sluicegate::identity::FlowKey;
use sluicegate::operations::claim::{ClaimRequest, LeaseToken};
use sluicegate::operations::report::Report;
use sluicegate::state::{Outcome, PublicState};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::storage::{Reported, Scope};
use sluicegate::time::Timestamp;
use sluicegate::{Engine, EngineError, Settings};

const LEASE: Duration = Duration::from_secs(10);
const MINUTE_US: i64 = 60_000_000;

/// Two clocks that a test moves, in microseconds.
#[derive(Clone, Default)]
struct Clocks {
    storage_us: Arc<AtomicI64>,
    monotonic_us: Arc<AtomicI64>,
}

impl Clocks {
    fn pass(&self, by: Duration) {
        let us = i64::try_from(by.as_micros()).expect("a test takes less than an age");
        self.storage_us.fetch_add(us, Ordering::Relaxed);
        self.monotonic_us.fetch_add(us, Ordering::Relaxed);
    }

    fn step(&self, us: i64) {
        self.storage_us.fetch_add(us, Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct Machine {
    inner: SystemEnvironment,
    clocks: Clocks,
}

impl Environment for Machine {
    fn wall_clock(&self) -> Timestamp {
        self.inner.wall_clock()
    }
    fn random(&self) -> u64 {
        self.inner.random()
    }
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.clocks.monotonic_us.load(Ordering::Relaxed).unsigned_abs())
    }
    async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
    }
    fn notify(&self, notice: Notice) {
        self.inner.notify(notice);
    }
}

type Home = Engine<SqliteStorage, Machine>;

/// An engine whose reaper has looked at the clock, and a lease that a worker holds.
async fn held() -> (Home, Clocks, FlowKey, LeaseToken) {
    let clocks = Clocks::default();
    let shown = Arc::clone(&clocks.storage_us);
    let options = SqliteOptions::memory()
        .clock(Arc::new(move || Timestamp(MINUTE_US + shown.load(Ordering::Relaxed))));
    let storage = SqliteStorage::open(options).expect("memory opens");
    let machine = Machine { inner: SystemEnvironment::new(), clocks: clocks.clone() };
    let settings = Settings { lease_grace: LEASE, ..Settings::default() };
    let engine = Engine::new(storage, machine, settings);
    let spec = FlowSpec::builder().execution("a").build();
    let flow = engine.submit(spec).await.expect("the flow is valid").flow();
    let request = ClaimRequest { lease: LEASE, ..ClaimRequest::new(engine.request_id(), "w") };
    let token = engine.claim(request).await.expect("the claim succeeds")[0].token();
    assert_eq!(reaped(&engine).await, 0);
    (engine, clocks, flow, token)
}

async fn reaped(engine: &Home) -> u64 {
    engine.reaper_tick(&Scope::default()).await.expect("the tick succeeds").reconciled
}

#[tokio::test]
async fn after_a_forward_step_a_lease_goes_on_for_a_lease_time() {
    let (engine, clocks, flow, token) = held().await;
    clocks.pass(Duration::from_secs(1));
    clocks.step(MINUTE_US);
    assert_eq!(reaped(&engine).await, 0, "it is over by a clock that has stepped");
    clocks.pass(Duration::from_secs(9));
    assert_eq!(reaped(&engine).await, 0, "the grace is not over");
    let done = Report::Complete([].into());
    assert_eq!(engine.report(token, done).await, Ok(Reported::Finished(Outcome::Succeeded)));
    let row = engine.describe_execution(flow.execution("a")).await.expect("it exists");
    assert_eq!(row.description.state, PublicState::Completed);
}

#[tokio::test]
async fn a_lease_that_only_the_clock_has_ended_can_be_renewed_until_it_is_reaped() {
    let (engine, clocks, _, token) = held().await;
    clocks.step(MINUTE_US);
    assert_eq!(reaped(&engine).await, 0);
    assert_eq!(engine.renew(token, LEASE).await, Ok(LEASE), "the grace is its holder's too");
    clocks.pass(Duration::from_secs(9));
    assert_eq!(engine.renew(token, LEASE).await, Ok(LEASE));
    clocks.pass(Duration::from_secs(9));
    assert_eq!(reaped(&engine).await, 0, "it was renewed after the step");
    clocks.pass(Duration::from_secs(1));
    assert_eq!(reaped(&engine).await, 1);
    let late = engine.renew(token, LEASE).await;
    assert!(matches!(late, Err(EngineError::LeaseLost(_))), "{late:?}");
}

#[tokio::test]
async fn a_holder_that_says_nothing_loses_its_lease_after_the_grace() {
    let (engine, clocks, flow, _) = held().await;
    clocks.step(MINUTE_US);
    assert_eq!(reaped(&engine).await, 0);
    clocks.pass(LEASE);
    assert_eq!(reaped(&engine).await, 1);
    let row = engine.describe_execution(flow.execution("a")).await.expect("it exists");
    assert_ne!(row.description.state, PublicState::Active);
}

#[tokio::test]
async fn a_lease_that_time_alone_has_ended_is_reaped_at_once() {
    let (engine, clocks, _, _) = held().await;
    clocks.pass(LEASE);
    clocks.step(900_000);
    assert_eq!(reaped(&engine).await, 1, "a step below the bound is none");
}
