//! What readers are shown, through the public handle on SQLite in memory.

use std::sync::Arc;

use sluicegate::draw::GraphFormat;
use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{EdgeSpec, ExecutionSpec, FlowSpec};
use sluicegate::identity::{FlowId, FlowKey};
use sluicegate::operations::claim::ClaimRequest;
use sluicegate::operations::inputs::Claimed;
use sluicegate::operations::list::{Direction, ExecutionFilter, FlowFilter};
use sluicegate::operations::report::Report;
use sluicegate::policy::AcceptSet;
use sluicegate::state::{PublicState, State};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::storage::{Resolution, Scope};
use sluicegate::summary::FlowStatus;
use sluicegate::{Engine, EngineError, Settings};

type Service = Engine<SqliteStorage, SystemEnvironment>;

fn service() -> Service {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    Engine::new(storage, SystemEnvironment::new(), Settings::default())
}

async fn submit(engine: &Service, flow: FlowSpec) -> FlowKey {
    engine.submit(flow).await.expect("the flow is valid").flow()
}

async fn claim(engine: &Service) -> Vec<Claimed> {
    let request = ClaimRequest { limit: 100, ..ClaimRequest::new(engine.request_id(), "worker") };
    engine.claim(request).await.expect("the claim succeeds")
}

/// Claims and reports until nothing is left; executions of kind `fails` fail for good.
async fn work_off(engine: &Service) {
    loop {
        let grants = claim(engine).await;
        if grants.is_empty() {
            return;
        }
        for grant in &grants {
            let result: Arc<[u8]> = Arc::from(*b"{}");
            let report = match &*grant.definition.kind {
                "fails" => Report::FailFatal(result),
                _ => Report::Complete(result),
            };
            engine.report(grant.token(), report).await.expect("the lease is held");
        }
        engine.dispatch_pass(&Scope::default()).await.expect("the pass succeeds");
    }
}

async fn project(engine: &Service) -> u64 {
    let ticked = engine.summary_tick(&Scope::default()).await.expect("the tick succeeds");
    assert_eq!(ticked.errors, 0);
    ticked.reconciled
}

async fn status(engine: &Service, flow: FlowId) -> FlowStatus {
    engine.flow_summary(flow).await.expect("the flow exists").status
}

fn build(accepts: AcceptSet) -> FlowSpec {
    FlowSpec::builder()
        .execution_spec(ExecutionSpec::new("build").kind("fails"))
        .execution("next")
        .edge_spec(EdgeSpec { accepts, ..EdgeSpec::new("build", "next") })
        .build()
}

#[tokio::test]
async fn a_summary_lags_until_it_is_projected_and_a_count_does_not() {
    let engine = service();
    let flow = submit(&engine, build(AcceptSet::ON_SUCCESS)).await.id;
    assert_eq!(status(&engine, flow).await, FlowStatus::Open);
    assert_eq!(project(&engine).await, 0, "a submit writes the first summary itself");
    assert_eq!(claim(&engine).await.len(), 1);
    assert_eq!(status(&engine, flow).await, FlowStatus::Open);
    let counted = engine.count_flow(flow).await.expect("the flow exists");
    assert_eq!(counted.status, FlowStatus::Running);
    assert_eq!((counted.total, counted.counts[&PublicState::Active]), (2, 1));
    assert_eq!((project(&engine).await, project(&engine).await), (1, 0));
    assert_eq!(engine.flow_summary(flow).await, Ok(counted));
}

#[tokio::test]
async fn a_flow_has_failed_unless_its_failure_is_handled() {
    for (accepts, expected) in [
        (AcceptSet::ON_SUCCESS, FlowStatus::Failed),
        (AcceptSet::ON_FAILURE, FlowStatus::Completed),
    ] {
        let engine = service();
        let flow = submit(&engine, build(accepts)).await.id;
        work_off(&engine).await;
        assert_eq!(project(&engine).await, 1);
        let summary = engine.flow_summary(flow).await.expect("the flow exists");
        assert_eq!(summary.status, expected);
        assert!(summary.ended_at.is_some());
        assert_eq!(engine.count_flow(flow).await, Ok(summary));
    }
}

#[tokio::test]
async fn a_count_tells_delayed_from_waiting() {
    let engine = service();
    let later = ExecutionSpec { delay_ms: Some(3_600_000), ..ExecutionSpec::new("later") };
    let flow = FlowSpec::builder().execution("now").execution_spec(later).build();
    let flow = submit(&engine, flow).await.id;
    let counts = engine.count_flow(flow).await.expect("the flow exists").counts;
    assert_eq!((counts[&PublicState::Waiting], counts[&PublicState::Delayed]), (1, 1));
    let counts = engine.flow_summary(flow).await.expect("the flow exists").counts;
    assert_eq!(counts[&PublicState::Waiting], 2);
}

#[tokio::test]
async fn flows_are_listed_page_by_page_under_a_filter() {
    let engine = service();
    let mut tagged = Vec::new();
    for number in 0_u32..7 {
        let even = number.is_multiple_of(2);
        let flow = FlowSpec {
            instance_tag: Some(if even { "a=b" } else { "c=b" }.into()),
            ..FlowSpec::builder().execution("only").build()
        };
        let key = submit(&engine, flow).await;
        if even {
            tagged.push(key);
        }
    }
    tagged.sort();
    let scope = Scope { instance_tag: Some("a=b".into()), ..Scope::default() };
    let filter = FlowFilter { scope, statuses: vec![FlowStatus::Open] };
    let mut seen = Vec::new();
    let mut cursor = None;
    for rows in [3, 1] {
        let page = engine.list_flows(&filter, cursor, 3).await.expect("the list succeeds");
        assert_eq!(page.rows.len(), rows);
        seen.extend(page.rows.iter().map(|row| row.key));
        cursor = page.next_cursor;
    }
    assert_eq!((seen, cursor), (tagged, None));
    let none = engine.list_flows(&filter, None, 0).await.expect("the list succeeds");
    assert_eq!((none.rows, none.next_cursor), (Vec::new(), None));
    let running = FlowFilter { statuses: vec![FlowStatus::Running], ..filter };
    let none = engine.list_flows(&running, None, u32::MAX).await.expect("the list succeeds");
    assert_eq!(none.rows, Vec::new());
}

#[tokio::test]
async fn executions_and_edges_are_listed_and_described() {
    let engine = service();
    let key = submit(&engine, build(AcceptSet::ON_FAILURE)).await;
    submit(&engine, FlowSpec::builder().execution("elsewhere").build()).await;
    let (build, next) = (key.execution("build"), key.execution("next"));
    work_off(&engine).await;
    let of_flow = ExecutionFilter { flow: Some(key.id), ..ExecutionFilter::default() };
    let all = engine.list_executions(&of_flow, None, 1_000).await.expect("the list succeeds");
    let mut expected = vec![build, next];
    expected.sort();
    assert_eq!(all.rows.iter().map(|row| row.id).collect::<Vec<_>>(), expected);
    let failed = ExecutionFilter { states: vec![State::ALL[5]], ..ExecutionFilter::default() };
    let failed = engine.list_executions(&failed, None, 1_000).await.expect("the list succeeds");
    assert_eq!(failed.rows.len(), 1);
    assert_eq!((&*failed.rows[0].name, failed.rows[0].state), ("build", PublicState::Failed));
    let missing = FlowId::from_parts(1, [0; 10]);
    let missing = ExecutionFilter { flow: Some(missing), ..ExecutionFilter::default() };
    let refused = engine.list_executions(&missing, None, 1).await;
    assert!(matches!(refused, Err(EngineError::FlowNotFound(_))), "{refused:?}");

    let edge = engine.describe_edge(build, next).await.expect("the read succeeds");
    let edge = edge.expect("there is an edge");
    assert_eq!(edge.resolution, Resolution::Satisfied);
    assert_eq!(engine.describe_edge(next, build).await, Ok(None));
    for (execution, direction, rows) in [
        (build, Direction::Outgoing, 1),
        (build, Direction::Incoming, 0),
        (next, Direction::Incoming, 1),
        (next, Direction::Outgoing, 0),
    ] {
        let listed = engine.list_edges(execution, direction, None, 10).await;
        let listed = listed.expect("the list succeeds");
        assert_eq!((listed.rows.len(), listed.next_cursor), (rows, None));
        assert!(listed.rows.iter().all(|row| *row == edge));
    }
    let details = engine.describe_execution(next).await.expect("it exists");
    assert_eq!((&*details.description.name, details.flow), ("next", key.id));
    assert_eq!(details.result.as_deref(), Some(&b"{}"[..]));
    let elsewhere = key.execution("nobody");
    let refused = engine.describe_execution(elsewhere).await;
    assert_eq!(refused, Err(EngineError::ExecutionNotFound(elsewhere)));
    let refused = engine.list_edges(elsewhere, Direction::Incoming, None, 1).await;
    assert_eq!(refused, Err(EngineError::ExecutionNotFound(elsewhere)));
}

#[tokio::test]
async fn a_flow_is_drawn_as_it_stands() {
    let engine = service();
    let flow = submit(&engine, build(AcceptSet::ON_FAILURE)).await.id;
    let before = engine.graph(flow, GraphFormat::Mermaid).await.expect("the flow exists");
    assert!(before.contains("n0[\"build<br/>waiting\"]"), "{before}");
    assert!(before.contains("n0 -.-> n1"), "{before}");
    work_off(&engine).await;
    let after = engine.graph(flow, GraphFormat::Dot).await.expect("the flow exists");
    assert!(after.contains("label=\"build\\nfailed\""), "{after}");
    assert!(after.contains("n0 -> n1 [style=solid];"), "{after}");
}
