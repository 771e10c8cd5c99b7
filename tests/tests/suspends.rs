//! Suspending and resuming, as a service sees it: numbers, repetitions, refusals, cancels.

use std::sync::Arc;

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::FlowSpec;
use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::operations::claim::{ClaimRequest, LeaseToken};
use sluicegate::operations::describe::Explanation;
use sluicegate::operations::report::Report;
use sluicegate::state::{ClosePolicy, Outcome, PublicState};
use sluicegate::storage::Reported;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::summary::FlowStatus;
use sluicegate::{Engine, EngineError, Settings};

type Home = Engine<SqliteStorage, SystemEnvironment>;

const READY: Reported = Reported::Requeued { delay_us: 0 };

/// A flow `a` -> `b` whose first execution a worker holds.
async fn held() -> (Home, FlowKey, LeaseToken) {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    let spec = FlowSpec::builder().execution("a").execution("b").edge("a", "b").build();
    let flow = engine.submit(spec).await.expect("the flow is valid").flow();
    let token = claimed(&engine).await;
    (engine, flow, token)
}

async fn claimed(engine: &Home) -> LeaseToken {
    let request = ClaimRequest::new(engine.request_id(), "w");
    let grants = engine.claim(request).await.expect("the claim succeeds");
    grants.first().expect("it may be claimed").token()
}

async fn suspended(engine: &Home, token: LeaseToken) -> u64 {
    match engine.report(token, Report::Suspend).await.expect("the lease is held") {
        Reported::Suspended { epoch } => epoch,
        other => panic!("{other:?}"),
    }
}

async fn state(engine: &Home, id: ExecutionId) -> PublicState {
    engine.describe_execution(id).await.expect("it exists").description.state
}

#[tokio::test]
async fn a_suspension_is_resumed_once_and_a_repetition_answers_the_same() {
    let (engine, flow, token) = held().await;
    let a = flow.execution("a");
    let early = engine.resume(a, token.epoch + 1).await.expect_err("it still runs");
    assert!(early.to_string().contains("it is active at incarnation 0, attempt 1"), "{early}");
    let epoch = suspended(&engine, token).await;
    assert_eq!(epoch, token.epoch + 1);
    assert_eq!(suspended(&engine, token).await, epoch, "the stored reply");
    assert_eq!(engine.explain(a).await, Ok(Explanation::Suspended { epoch }));
    assert_eq!(engine.count_flow(flow.id).await.expect("it exists").status, FlowStatus::Blocked);
    let details = engine.describe_execution(a).await.expect("it exists");
    assert_eq!((details.description.state, details.charged), (PublicState::Suspended, 0));
    let wrong = engine.resume(a, epoch - 1).await;
    assert!(matches!(wrong, Err(EngineError::Refused(_))), "{wrong:?}");
    assert_eq!(engine.resume(a, epoch).await, Ok(READY));
    assert_eq!(engine.resume(a, epoch).await, Ok(READY));
    let second = claimed(&engine).await;
    assert_eq!((second.execution, second.attempt), (a, 2));
    assert_eq!(engine.resume(a, epoch).await, Ok(READY), "the claim has not changed that");
    let later = suspended(&engine, second).await;
    assert_eq!(engine.resume(a, epoch).await, Ok(READY));
    assert_eq!(state(&engine, a).await, PublicState::Suspended, "the older one resumes nothing");
    assert_eq!(engine.resume(a, later).await, Ok(READY));
    let replaced = engine.resume(a, epoch).await;
    assert!(matches!(replaced, Err(EngineError::Refused(_))), "{replaced:?}");
    let nobody = flow.execution("nobody");
    let missing = engine.resume(nobody, 1).await;
    assert_eq!(missing, Err(EngineError::ExecutionNotFound(nobody)));
}

#[tokio::test]
async fn an_attempt_is_given_back_however_often_it_is_suspended() {
    let (engine, flow, mut token) = held().await;
    let a = flow.execution("a");
    for attempt in 1..=9 {
        assert_eq!(token.attempt, attempt);
        let epoch = suspended(&engine, token).await;
        engine.resume(a, epoch).await.expect("it is suspended");
        token = claimed(&engine).await;
    }
    let done = engine.report(token, Report::Complete(Arc::from(*b"{}"))).await;
    assert_eq!(done, Ok(Reported::Finished(Outcome::Succeeded)));
    assert_eq!(engine.describe_execution(a).await.expect("it exists").charged, 1);
}

#[tokio::test]
async fn a_cancel_of_pending_members_lets_a_suspension_stand_until_it_is_resumed() {
    let (engine, flow, token) = held().await;
    let a = flow.execution("a");
    let epoch = suspended(&engine, token).await;
    let request = engine.request_id();
    let report = engine.cancel_flow(flow.id, ClosePolicy::CancelPending, request).await;
    assert_eq!(report.expect("the flow exists").cancelled, [flow.execution("b")]);
    assert_eq!(state(&engine, a).await, PublicState::Suspended);
    let cancelled = Ok(Reported::Finished(Outcome::Cancelled));
    assert_eq!(engine.resume(a, epoch).await, cancelled);
    assert_eq!(engine.resume(a, epoch).await, cancelled);
}

#[tokio::test]
async fn a_cancel_of_all_members_ends_a_suspension() {
    let (engine, flow, token) = held().await;
    let a = flow.execution("a");
    let epoch = suspended(&engine, token).await;
    let request = engine.request_id();
    let report = engine.cancel_flow(flow.id, ClosePolicy::CancelAll, request).await;
    assert_eq!(report.expect("the flow exists").cancelled.len(), 2);
    let refused = engine.resume(a, epoch).await.expect_err("it has ended");
    assert!(refused.to_string().contains("it is cancelled"), "{refused}");
}
