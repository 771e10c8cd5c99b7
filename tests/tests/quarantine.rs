//! A row that cannot be read: it is passed over, named, and taken up again once it is mended.

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::FlowSpec;
use sluicegate::identity::{ExecutionId, FlowKey};
use sluicegate::operations::cancel::Cancelling;
use sluicegate::operations::claim::ClaimRequest;
use sluicegate::operations::describe::Explanation;
use sluicegate::operations::report::Report;
use sluicegate::reconcile::Visited;
use sluicegate::state::{ClosePolicy, PublicState};
use sluicegate::storage::Scope;
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::{Engine, EngineError, Settings};

type Home = Engine<SqliteStorage, SystemEnvironment>;

async fn submitted(edges: &[(&str, &str)]) -> (Home, FlowKey) {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    let mut spec = FlowSpec::builder();
    for name in ["a", "b", "c"] {
        spec = spec.execution(name);
    }
    for (from, to) in edges {
        spec = spec.edge(*from, *to);
    }
    let flow = engine.submit(spec.build()).await.expect("the flow is valid").flow();
    (engine, flow)
}

fn spoil(engine: &Home, sql: &str) {
    let guarded = format!(
        "pragma ignore_check_constraints = on; {sql}; pragma ignore_check_constraints = off;"
    );
    let done = engine.storage().with_connection(|connection| connection.execute_batch(&guarded));
    done.expect("nobody uses it").expect("the statement is valid");
}

async fn claimed(engine: &Home) -> Vec<ExecutionId> {
    let request = ClaimRequest { limit: 9, ..ClaimRequest::new(engine.request_id(), "w") };
    let grants = engine.claim(request).await.expect("what can be read is granted");
    let mut ids: Vec<ExecutionId> = grants.iter().map(|grant| grant.execution.id).collect();
    ids.sort_unstable();
    ids
}

fn sorted(flow: FlowKey, names: &[&str]) -> Vec<ExecutionId> {
    let mut ids: Vec<ExecutionId> = names.iter().map(|name| flow.execution(name)).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn a_claim_passes_over_what_cannot_be_read_until_it_is_mended() {
    let (engine, flow) = submitted(&[]).await;
    let a = flow.execution("a");
    spoil(&engine, "update sluicegate_execution set backoff = 9 where name = 'a'");
    assert_eq!(claimed(&engine).await, sorted(flow, &["b", "c"]));
    let failing = engine.failing();
    assert_eq!(failing.len(), 1, "{failing:?}");
    assert_eq!(failing[0].visited, Visited::Unreadable(a));
    assert!(failing[0].error.contains("kind: 9"), "{failing:?}");
    let explained = engine.explain(a).await.expect("it is named");
    assert!(
        matches!(&explained, Explanation::Quarantined { execution, .. } if *execution == a),
        "{explained:?}"
    );
    spoil(&engine, "update sluicegate_execution set backoff = 2");
    engine.retry_failing(Visited::Unreadable(a));
    assert_eq!(claimed(&engine).await, [a]);
    assert!(engine.failing().is_empty());
}

#[tokio::test]
async fn a_cancel_leaves_what_cannot_be_read_and_says_so() {
    let (engine, flow) = submitted(&[]).await;
    spoil(&engine, "update sluicegate_execution set backoff = 9 where name = 'a'");
    let request = engine.request_id();
    let report = engine.cancel_flow(flow.id, ClosePolicy::CancelAll, request).await;
    let report = report.expect("the others are cancelled");
    let mut cancelled = report.cancelled.clone();
    cancelled.sort_unstable();
    assert_eq!(cancelled, sorted(flow, &["b", "c"]));
    assert_eq!(report.progress, Cancelling::InProgress { remaining: 1 });
    let waited = engine.cancel_flow_and_wait(flow.id, ClosePolicy::CancelAll, request).await;
    assert!(matches!(waited, Err(EngineError::Unreadable { .. })), "{waited:?}");
    spoil(&engine, "update sluicegate_execution set backoff = 2");
    engine.retry_failing(Visited::Unreadable(flow.execution("a")));
    let waited = engine.cancel_flow_and_wait(flow.id, ClosePolicy::CancelAll, request).await;
    assert_eq!(waited.expect("it is mended").progress, Cancelling::Done);
}

#[tokio::test]
async fn what_cannot_be_read_is_in_the_way_of_no_other_flow() {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let settings = Settings { cancel_batch: 1, ..Settings::default() };
    let engine = Engine::new(storage, SystemEnvironment::new(), settings);
    let submit = async |names: &[&str]| {
        let named = names.iter().fold(FlowSpec::builder(), |spec, name| spec.execution(*name));
        engine.submit(named.build()).await.expect("the flow is valid").flow()
    };
    submit(&["spoilt"]).await;
    spoil(&engine, "update sluicegate_execution set backoff = 9");
    let flow = submit(&["x", "y"]).await;
    assert_eq!(claimed(&engine).await, sorted(flow, &["x", "y"]));
    assert_eq!(engine.failing().len(), 1, "the other flow's is in quarantine");
    let request = engine.request_id();
    let report = engine.cancel_flow_and_wait(flow.id, ClosePolicy::CancelPending, request).await;
    let report = report.expect("both run on, and none of them is in quarantine");
    assert_eq!((report.cancelled, report.progress), (Vec::new(), Cancelling::Done));
}

#[tokio::test]
async fn a_group_that_cannot_be_read_is_in_nobody_elses_way() {
    let (engine, flow) = submitted(&[("a", "b"), ("a", "c")]).await;
    spoil(
        &engine,
        "update sluicegate_edge_group set policy = 9 where downstream = \
         (select id from sluicegate_execution where name = 'b')",
    );
    let request = ClaimRequest::new(engine.request_id(), "w");
    let token = engine.claim(request).await.expect("it may be claimed")[0].token();
    engine.report(token, Report::Complete([].into())).await.expect("the lease is held");
    let pass = engine.dispatch_pass(&Scope::default()).await.expect("the pass goes on");
    assert_eq!(pass.errors, 1, "{pass:?}");
    let state = async |name| {
        let details = engine.describe_execution(flow.execution(name)).await;
        details.expect("it can be read").description.state
    };
    assert_eq!(state("c").await, PublicState::Waiting);
    assert_eq!(state("b").await, PublicState::WaitingChildren);
    let failing = engine.failing();
    assert_eq!(failing[0].visited, Visited::Upstream(flow.execution("a")), "{failing:?}");
    assert!(failing[0].error.contains("edge_group"), "{failing:?}");
    let explained = engine.explain(flow.execution("b")).await.expect("it is named");
    assert!(explained.to_string().contains("waits for an operator"), "{explained}");
    let pass = engine.dispatch_pass(&Scope::default()).await.expect("the pass goes on");
    assert_eq!((pass.errors, pass.reconciled), (1, 0), "it is left alone for a while");
    spoil(&engine, "update sluicegate_edge_group set policy = 1");
    engine.retry_failing(Visited::Upstream(flow.execution("a")));
    engine.dispatch_pass(&Scope::default()).await.expect("it is mended");
    assert_eq!(state("b").await, PublicState::Waiting);
    assert!(engine.failing().is_empty());
}
