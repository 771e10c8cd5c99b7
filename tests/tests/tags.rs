//! Tags of flows on a real SQLite database.

use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::FlowSpec;
use sluicegate::identity::FlowId;
use sluicegate::operations::tag::{TAG_BYTES_MAX, TAGS_MAX};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::{Engine, EngineError, Settings};

type Sqlite = Engine<SqliteStorage, SystemEnvironment>;

async fn flow() -> (Sqlite, FlowId) {
    let storage = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
    let engine = Engine::new(storage, SystemEnvironment::new(), Settings::default());
    let spec = FlowSpec::builder().execution("a").build();
    let flow = engine.submit(spec).await.expect("the flow is valid").flow();
    (engine, flow.id)
}

async fn check_value(engine: &Sqlite, flow: FlowId, tag: &str, expected: Option<&str>) {
    let value = engine.get_flow_tag(flow, tag).await.expect("the flow exists");
    assert_eq!(value.as_deref(), expected, "{tag}");
}

#[tokio::test]
async fn a_tag_is_read_back_and_replaced_and_others_stay() {
    let (engine, flow) = flow().await;
    check_value(&engine, flow, "billing.team", None).await;
    for (tag, value) in [("billing.team", "a"), ("billing.plan", ""), ("billing.team", "größe")] {
        engine.set_flow_tag(flow, tag, value, engine.request_id()).await.expect("it may be set");
        check_value(&engine, flow, tag, Some(value)).await;
    }
    check_value(&engine, flow, "billing.plan", Some("")).await;
}

#[tokio::test]
async fn a_repeated_call_does_not_undo_a_later_one() {
    let (engine, flow) = flow().await;
    let first = engine.request_id();
    engine.set_flow_tag(flow, "a.b", "one", first).await.expect("it may be set");
    engine.set_flow_tag(flow, "a.b", "two", engine.request_id()).await.expect("it may be set");
    engine.set_flow_tag(flow, "a.b", "one", first).await.expect("a repetition is answered");
    check_value(&engine, flow, "a.b", Some("two")).await;
    let other = engine.set_flow_tag(flow, "a.b", "three", first).await;
    assert!(matches!(other, Err(EngineError::Conflict { .. })), "{other:?}");
}

#[tokio::test]
async fn what_may_not_be_is_refused_by_name() {
    let (engine, flow) = flow().await;
    let none = FlowId::from_parts(1, [1; 10]);
    let set = async |flow, tag: &str, value: &str| {
        engine.set_flow_tag(flow, tag, value, engine.request_id()).await
    };
    assert_eq!(set(none, "a.b", "c").await, Err(EngineError::FlowNotFound(none)));
    let missing = engine.get_flow_tag(none, "a.b").await;
    assert_eq!(missing, Err(EngineError::FlowNotFound(none)));
    let name = set(flow, "Team", "c").await.expect_err("not a dotted name");
    assert!(name.to_string().contains("`Team`"), "{name}");
    let long = set(flow, "a.b", &"x".repeat(TAG_BYTES_MAX + 1)).await;
    assert!(matches!(long, Err(EngineError::LimitExceeded(_))), "{long:?}");
    for number in 0..TAGS_MAX {
        set(flow, &format!("a.t{number}"), "x").await.expect("there is room");
    }
    let full = set(flow, "a.more", "x").await;
    assert!(matches!(full, Err(EngineError::LimitExceeded(_))), "{full:?}");
    set(flow, "a.t0", "y").await.expect("one that exists is replaced");
}
