//! Payloads, results and progress byte for byte, on a real SQLite database and a real Postgres:
//! what a parse into values would change or refuse comes back as it was brought.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use sluicegate::environment::SystemEnvironment;
use sluicegate::flow::{Additions, EdgeSpec, ExecutionSpec, FlowSpec, Limits, Payload};
use sluicegate::operations::claim::ClaimRequest;
use sluicegate::operations::inputs::Claimed;
use sluicegate::operations::report::Report;
use sluicegate::operations::submit::Submitted;
use sluicegate::storage::Scope;
use sluicegate::storage::boxed::BoxStorage;
use sluicegate::storage::postgres::{PostgresOptions, PostgresStorage};
use sluicegate::storage::sqlite::{SqliteOptions, SqliteStorage};
use sluicegate::{Engine, EngineError, Settings};
use sluicegate_sim::postgres::shared;

/// How deep the deepest text nests.
const DEPTH: usize = 20_000;

type Service = Engine<BoxStorage, SystemEnvironment>;

fn nested(levels: usize) -> String {
    format!("{}7{}", "{\"a\":[".repeat(levels / 2), "]}".repeat(levels / 2))
}

/// What a parse would change or refuse, each with a name.
fn delicate() -> Vec<(&'static str, String)> {
    vec![
        ("integer", "123456789012345678901234567890".to_owned()),
        ("decimal", "1234567890123456.78".to_owned()),
        ("repeated", r#"{"a":1,"a":2}"#.to_owned()),
        ("blanks", "{ \"b\" : [ 1.0,\t1e400 ] , \"a\" : \"\\u00e9\\/\\u0000\" }".to_owned()),
        ("deep", nested(128)),
        ("deepest", nested(DEPTH)),
    ]
}

fn payload(text: &str) -> Payload {
    Payload::from_json(text).expect("it is JSON")
}

/// For each text an execution that has it as its payload, and one behind it that is passed what
/// that returned.
fn flow() -> FlowSpec {
    delicate().into_iter().fold(FlowSpec::default(), |mut flow, (name, text)| {
        let behind = format!("behind {name}");
        flow.executions.push(ExecutionSpec::new(name).kind("first").payload(payload(&text)));
        flow.executions.push(ExecutionSpec::new(behind.as_str()).kind("second"));
        flow.edges.push(EdgeSpec::new(name, behind).passes_as("it"));
        flow
    })
}

fn text_of(name: &str) -> Arc<[u8]> {
    let text = delicate().into_iter().find(|one| name.ends_with(one.0)).expect("it has a text").1;
    text.into_bytes().into()
}

/// Runs a test on both backends, on a thread whose stack a recursion by depth would overflow.
fn on_both(
    schema: &'static str,
    settings: &Settings,
    test: impl AsyncFn(Service) + Send + 'static,
) {
    let settings = *settings;
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let sqlite = SqliteStorage::open(SqliteOptions::memory()).expect("memory opens");
            let service = |storage| Engine::new(storage, SystemEnvironment::new(), settings);
            test(service(BoxStorage::new(sqlite))).await;
            let options = PostgresOptions::new(&shared().url()).expect("the address reads");
            let options = options.schema(&format!("payloads_{schema}")).connections_max(2);
            let postgres = PostgresStorage::open(options).await.expect("the server answers");
            test(service(BoxStorage::new(postgres.clone()))).await;
            postgres.close().await;
        });
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    thread.spawn(work).expect("a thread").join().expect("the test holds");
}

async fn claim(engine: &Service, kind: &str) -> Vec<Claimed> {
    let request = ClaimRequest {
        limit: 100,
        kinds: vec![kind.into()],
        lease: Duration::from_mins(1),
        ..ClaimRequest::new(engine.request_id(), "worker")
    };
    engine.claim(request).await.expect("the claim succeeds")
}

/// What was submitted is handed to a worker, which reports it as progress and as its result.
async fn comes_back(engine: &Service) {
    for grant in claim(engine, "first").await {
        let name = Arc::clone(&grant.definition.name);
        let text = text_of(&name);
        assert!(grant.definition.payload == text, "the payload of {name} was changed");
        let told = engine.progress(grant.token(), 1, Arc::clone(&text)).await;
        told.expect("the lease is held");
        let done = engine.report(grant.token(), Report::Complete(Arc::clone(&text))).await;
        done.expect("the lease is held");
        let shown = engine.describe_execution(grant.execution.id).await.expect("it exists");
        assert!(shown.payload == text, "the payload of {name} is shown otherwise");
        assert!(shown.result.as_ref() == Some(&text), "the result of {name} was changed");
        assert!(shown.progress.as_ref() == Some(&text), "the progress of {name} was changed");
    }
    engine.dispatch_pass(&Scope::default()).await.expect("the pass succeeds");
}

/// What upstreams returned is passed on, along with the lease or in pages.
async fn is_passed_on(engine: &Service) {
    let grants = claim(engine, "second").await;
    assert_eq!(grants.len(), delicate().len());
    for grant in grants {
        let text = text_of(&grant.definition.name);
        let inputs = match grant.inputs.sent() {
            Some(inputs) => inputs.to_vec(),
            None => engine.read_inputs(grant.token(), None, 10).await.expect("it is held").inputs,
        };
        let shown = inputs.first().and_then(|input| input.result.as_ref());
        assert!(shown == Some(&text), "the input of {} was changed", grant.definition.name);
    }
}

/// Settings under which progress may be as large as a payload.
fn roomy(inputs_max_bytes: u64) -> Settings {
    let Limits { payload_max_bytes, .. } = Limits::default();
    let limits =
        Limits { inputs_max_bytes, progress_max_bytes: payload_max_bytes, ..Limits::default() };
    Settings { limits, ..Settings::default() }
}

#[test]
fn what_is_brought_comes_back_byte_for_byte() {
    for (schema, inputs_max_bytes) in [("sent", Limits::default().inputs_max_bytes), ("paged", 0)] {
        on_both(schema, &roomy(inputs_max_bytes), async |engine: Service| {
            engine.submit(flow()).await.expect("the flow is valid");
            comes_back(&engine).await;
            is_passed_on(&engine).await;
        });
    }
}

#[test]
fn what_an_extension_brings_comes_back_byte_for_byte() {
    on_both("extended", &roomy(Limits::default().inputs_max_bytes), async |engine: Service| {
        let first = FlowSpec::builder().execution("start").build();
        let first = engine.submit(first).await.expect("the flow is valid").flow();
        let FlowSpec { executions, edges, .. } = flow();
        let more = Additions { executions, edges, ..Additions::default() };
        let request = engine.request_id();
        engine.extend(first.id, more, None, request).await.expect("they fit");
        comes_back(&engine).await;
        is_passed_on(&engine).await;
    });
}

#[test]
fn the_same_content_is_the_same_bytes() {
    on_both("content", &Settings::default(), async |engine: Service| {
        let with = |text: &str| {
            let one = ExecutionSpec::new("a").payload(payload(text));
            FlowSpec::builder().idempotency_key("key").execution_spec(one).build()
        };
        let created = engine.submit(with("{\"a\":1.0}")).await.expect("the flow is valid");
        let again = engine.submit(with("{\"a\":1.0}")).await;
        assert_eq!(again, Ok(Submitted::Duplicate(created.flow())));
        for other in ["{\"a\":1}", "{\"a\": 1.0}", "{\"a\":1.0,\"a\":1.0}"] {
            let other = engine.submit(with(other)).await;
            assert!(matches!(other, Err(EngineError::Conflict { .. })), "{other:?}");
        }
    });
}

/// A flow of so many executions with payloads of so many bytes.
fn wide(executions: usize, bytes: usize) -> FlowSpec {
    let text = format!("\"{}\"", "x".repeat(bytes - 2));
    let payload = payload(&text);
    let names = (0..executions).map(|at| format!("n{at}"));
    names.fold(FlowSpec::default(), |mut flow, name| {
        flow.executions.push(ExecutionSpec::new(name).payload(payload.clone()));
        flow
    })
}

fn limited(limits: Limits) -> Settings {
    Settings { limits, ..Settings::default() }
}

/// Submits so much, claims all of it and reports as much again in one call; then adds more.
async fn is_done(engine: &Service, executions: usize, bytes: usize) {
    let flow = engine.submit(wide(executions, bytes)).await.expect("it fits").flow();
    let grants = claim(engine, "default").await;
    assert_eq!(grants.len(), executions);
    let reports = grants.iter().map(|grant| {
        assert_eq!(grant.definition.payload.len(), bytes);
        (grant.token(), Report::Complete(Arc::clone(&grant.definition.payload)))
    });
    let replies = engine.report_all(reports.collect()).await.expect("they fit");
    assert!(replies.iter().all(Result::is_ok));
    let results = engine.describe_execution(grants[0].execution.id).await.expect("it exists");
    assert!(results.result.is_some_and(|result| result.len() == bytes));
    let FlowSpec { mut executions, .. } = wide(executions, bytes);
    for one in &mut executions {
        one.name.insert_str(0, "more ");
    }
    let more = Additions { executions, ..Additions::default() };
    let extended = engine.extend(flow.id, more, None, engine.request_id()).await;
    extended.expect("it fits");
}

#[test]
fn what_one_statement_does_not_hold_goes_in_several() {
    for (schema, statement_max_bytes) in [("one", 0), ("few", 100), ("many", 1_000)] {
        let settings = limited(Limits { statement_max_bytes, ..Limits::default() });
        on_both(schema, &settings, async |engine: Service| is_done(&engine, 50, 40).await);
    }
}

#[test]
fn more_than_two_statements_hold_is_submitted_reported_and_added() {
    on_both("large", &Settings::default(), async |engine: Service| {
        is_done(&engine, 36, 1 << 20).await;
    });
}

#[test]
fn more_bytes_than_the_limits_allow_are_refused_by_the_name_of_the_limit() {
    let limits = Limits { flow_max_bytes: 100, reports_max_bytes: 100, ..Limits::default() };
    on_both("refused", &limited(limits), async |engine: Service| {
        let refused = engine.submit(wide(11, 10)).await;
        let reason = "the flow has 110 bytes of payloads (`flow_max_bytes`), the limit is 100";
        assert_eq!(refused, Err(EngineError::LimitExceeded(reason.into())));
        let flow = engine.submit(wide(10, 10)).await.expect("it fits").flow();
        let FlowSpec { executions, .. } = wide(11, 10);
        let more = Additions { executions, ..Additions::default() };
        let refused = engine.extend(flow.id, more, None, engine.request_id()).await;
        assert_eq!(refused, Err(EngineError::LimitExceeded(reason.into())));
        let grants = claim(&engine, "default").await;
        let report = |bytes: usize| {
            let result: Arc<[u8]> = "7".repeat(bytes).into_bytes().into();
            let reports = grants.iter().take(2);
            reports.map(|grant| (grant.token(), Report::Complete(result.clone()))).collect()
        };
        let refused = engine.report_all(report(51)).await;
        let reason = "what one call reports has 102 bytes, the limit is 100 (`reports_max_bytes`)";
        assert_eq!(refused, Err(EngineError::LimitExceeded(reason.into())));
        assert!(engine.report_all(report(50)).await.is_ok(), "the limit itself is allowed");
    });
}

#[test]
fn a_claim_brings_no_more_bytes_than_its_limit() {
    let limits = Limits { claim_max_bytes: 35, payload_max_bytes: 10, ..Limits::default() };
    on_both("claimed", &limited(limits), async |engine: Service| {
        engine.submit(wide(8, 10)).await.expect("it fits");
        let granted = [claim(&engine, "default").await, claim(&engine, "default").await];
        assert_eq!(granted.each_ref().map(Vec::len), [3, 3]);
    });
}

fn blank() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,2}"
}

/// Any JSON text, whatever digits, escapes, blanks and repeated names it has.
fn json_text() -> impl Strategy<Value = String> {
    let string = r#""([ !#-\[\]-~é💧]|\\(["\\/bfnrt]|u[0-9a-fA-F]{4})){0,6}""#;
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?",
        string,
    ];
    leaf.prop_recursive(6, 40, 4, move |inner| {
        let item = (blank(), inner, blank());
        let item = item.prop_map(|(before, item, behind)| format!("{before}{item}{behind}"));
        let item = item.boxed();
        let member = (blank(), string, blank(), item.clone());
        let member =
            member.prop_map(|(before, key, behind, item)| format!("{before}{key}{behind}:{item}"));
        prop_oneof![
            prop::collection::vec(item, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(member, 0..4)
                .prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

/// Submits an execution with each of these payloads, and finds them with the worker.
async fn are_handed_over(engine: &Service, texts: &[String]) {
    let mut flow = FlowSpec::default();
    for (at, text) in texts.iter().enumerate() {
        flow.executions.push(ExecutionSpec::new(format!("{at}")).payload(payload(text)));
    }
    let file = serde_json::to_string_pretty(&flow).expect("a flow has a form as JSON");
    assert!(FlowSpec::load(&file).as_ref() == Ok(&flow), "a file changed a payload: {file}");
    engine.submit(flow).await.expect("the flow is valid");
    for grant in claim(engine, "default").await {
        let at: usize = grant.definition.name.parse().expect("a number");
        assert_eq!(&*grant.definition.payload, texts[at].as_bytes());
        let done = engine.report(grant.token(), Report::Complete([].into())).await;
        done.expect("the lease is held");
    }
}

#[test]
fn any_json_text_is_handed_over_as_it_was_submitted() {
    on_both("any", &Settings::default(), async |engine: Service| {
        let mut runner = TestRunner::default();
        let texts = prop::collection::vec(json_text(), 1..20);
        for _ in 0..20 {
            let drawn = texts.new_tree(&mut runner).expect("there are texts");
            are_handed_over(&engine, &drawn.current()).await;
        }
    });
}

#[test]
fn a_value_is_written_as_serde_json_writes_it() {
    let mut runner = TestRunner::default();
    let held = runner.run(&json_text(), |text| {
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
            let (written, payload) = (value.to_string(), Payload::from(value));
            prop_assert_eq!(payload.as_str(), written);
        }
        Ok(())
    });
    held.expect("every value is written alike");
}
