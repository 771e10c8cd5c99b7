//! How far work has come, as a service sees it: who may say so, what stands, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{ExecutionSpec, FlowSpec, Limits};
use sluicegate::identity::FlowKey;
use sluicegate::operations::claim::{ClaimRequest, LeaseToken};
use sluicegate::operations::describe::ExecutionDetails;
use sluicegate::operations::report::Report;
use sluicegate::replay::ReplayScope;
use sluicegate::retry::{Backoff, RetryPolicy};
use sluicegate::state::{ClosePolicy, Outcome, PublicState, State};
use sluicegate::storage::Scope;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::time::Timestamp;
use sluicegate::{Engine, EngineError, Settings};

const LEASE: Duration = Duration::from_secs(10);

/// One execution that is tried again at once, and a clock that stands still.
struct Home {
    engine: Engine<SqliteStorage, SystemEnvironment>,
    flow: FlowKey,
    clock: Arc<AtomicI64>,
}

impl Home {
    async fn new() -> Self {
        let clock = Arc::new(AtomicI64::new(1_700_000_000_000_000));
        let shown = Arc::clone(&clock);
        let options = SqliteOptions::memory()
            .clock(Arc::new(move || Timestamp(shown.load(Ordering::SeqCst))));
        let storage = SqliteStorage::open(options).expect("memory opens");
        let limits = Limits { progress_max_bytes: 8, ..Limits::default() };
        // The clock jumps by more than the leases; that is no step of a clock that went wrong.
        let clock_step_max = Duration::from_hours(1);
        let settings = Settings { limits, clock_step_max, ..Settings::default() };
        let engine = Engine::new(storage, SystemEnvironment::new(), settings);
        let retry =
            RetryPolicy { backoff: Backoff::Fixed { delay_ms: 0 }, ..RetryPolicy::default() };
        let spec = ExecutionSpec::new("a").retry(retry);
        let flow = FlowSpec::builder().execution_spec(spec).build();
        let flow = engine.submit(flow).await.expect("the flow is valid").flow();
        Self { engine, flow, clock }
    }

    async fn claimed(&self) -> LeaseToken {
        let request = ClaimRequest::new(self.engine.request_id(), "w");
        let grants = self.engine.claim(ClaimRequest { lease: LEASE, ..request }).await;
        grants.expect("the claim succeeds").first().expect("it may be claimed").token()
    }

    /// Time passes until the lease has run out.
    fn lease_runs_out(&self) {
        let lease = i64::try_from(LEASE.as_micros()).expect("it is short");
        self.clock.fetch_add(2 * lease, Ordering::SeqCst);
    }

    async fn reap(&self) {
        let reaped = self.engine.reaper_tick(&Scope::default()).await.expect("memory answers");
        assert_eq!(reaped.reconciled, 1);
    }

    async fn says(&self, token: LeaseToken, sequence: u64, value: &str) -> Result<(), EngineError> {
        self.engine.progress(token, sequence, Arc::from(value.as_bytes())).await
    }

    async fn details(&self) -> ExecutionDetails {
        let id = self.flow.execution("a");
        self.engine.describe_execution(id).await.expect("it exists")
    }

    /// What stands, and which attempt said so.
    async fn check(&self, expected: Option<(&str, u32)>) {
        let details = self.details().await;
        let stands = details.progress.as_deref().zip(details.progress_attempt);
        let expected = expected.map(|(value, attempt)| (value.as_bytes(), attempt));
        assert_eq!(stands, expected);
    }

    async fn succeed(&self, token: LeaseToken) {
        let report = Report::Complete(Arc::from(*b"1"));
        self.engine.report(token, report).await.expect("the lease is held");
    }
}

fn is_lost(answer: &Result<(), EngineError>, state: State) {
    let Err(EngineError::LeaseLost(by)) = answer else { panic!("{answer:?}") };
    assert_eq!(by.state, state, "what replaced it");
}

#[tokio::test]
async fn what_is_said_last_stands_and_a_repetition_moves_nothing_back() {
    let home = Home::new().await;
    let token = home.claimed().await;
    home.check(None).await;
    assert_eq!(home.says(token, 1, "one").await, Ok(()));
    home.check(Some(("one", 1))).await;
    assert_eq!(home.says(token, 3, "three").await, Ok(()));
    for (sequence, late) in [(3, "again"), (2, "late"), (0, "first")] {
        assert_eq!(home.says(token, sequence, late).await, Ok(()), "it is accepted all the same");
        home.check(Some(("three", 1))).await;
    }
    assert_eq!(home.says(token, u64::MAX, "all").await, Ok(()));
    home.check(Some(("all", 1))).await;
    assert_eq!(home.details().await.description.state, PublicState::Active, "the lease goes on");
    home.succeed(token).await;
    home.check(Some(("all", 1))).await;
}

#[tokio::test]
async fn a_value_beyond_the_limit_is_refused() {
    let home = Home::new().await;
    let token = home.claimed().await;
    assert_eq!(home.says(token, 1, "8 bytes.").await, Ok(()));
    let id = token.execution;
    let reason = "has 9 bytes, the limit is 8 (`progress_max_bytes`)";
    let expected = EngineError::LimitExceeded(format!("progress of execution {id} {reason}"));
    assert_eq!(home.says(token, 2, "9 bytes..").await, Err(expected));
    home.check(Some(("8 bytes.", 1))).await;
}

#[tokio::test]
async fn a_lease_that_has_run_out_counts_until_somebody_ends_it() {
    let home = Home::new().await;
    let token = home.claimed().await;
    home.lease_runs_out();
    assert_eq!(home.says(token, 1, "slow").await, Ok(()));
    home.reap().await;
    is_lost(&home.says(token, 2, "zombie").await, State::Ready);
    home.check(Some(("slow", 1))).await;
    let second = home.claimed().await;
    is_lost(&home.says(token, 2, "zombie").await, State::Active);
    home.check(Some(("slow", 1))).await;
    assert_eq!(home.says(second, 0, "new").await, Ok(()), "whatever its number");
    home.check(Some(("new", 2))).await;
    is_lost(&home.says(token, 9, "zombie").await, State::Active);
    home.check(Some(("new", 2))).await;
}

#[tokio::test]
async fn a_fence_is_more_than_the_attempt() {
    let home = Home::new().await;
    let token = home.claimed().await;
    for forged in [
        LeaseToken { nonce: token.nonce ^ 1, ..token },
        LeaseToken { epoch: token.epoch + 1, ..token },
        LeaseToken { incarnation: token.incarnation + 1, ..token },
    ] {
        is_lost(&home.says(forged, 1, "forged").await, State::Active);
    }
    let nobody = LeaseToken { execution: home.flow.execution("nobody"), ..token };
    let missing = home.says(nobody, 1, "nobody").await;
    assert_eq!(missing, Err(EngineError::ExecutionNotFound(nobody.execution)));
    home.check(None).await;
}

#[tokio::test]
async fn what_has_ended_keeps_its_progress_until_it_is_replayed() {
    let home = Home::new().await;
    let token = home.claimed().await;
    assert_eq!(home.says(token, 5, "half").await, Ok(()));
    let request = home.engine.request_id();
    let cancelled = home.engine.cancel_flow(home.flow.id, ClosePolicy::CancelAll, request).await;
    assert_eq!(cancelled.expect("the flow exists").cancelled, [token.execution]);
    is_lost(&home.says(token, 6, "zombie").await, State::Terminal(Outcome::Cancelled));
    home.check(Some(("half", 1))).await;
    let request = home.engine.request_id();
    home.engine.replay(home.flow.id, ReplayScope::All, request).await.expect("nothing runs");
    home.check(None).await;
    let again = home.claimed().await;
    assert_eq!((again.attempt, again.incarnation), (1, 1));
    is_lost(&home.says(token, 7, "zombie").await, State::Active);
    assert_eq!(home.says(again, 1, "anew").await, Ok(()), "it counts from the beginning");
    home.check(Some(("anew", 1))).await;
}
