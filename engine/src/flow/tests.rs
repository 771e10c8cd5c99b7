use super::*;
use crate::policy::OnSatisfied;
use crate::retry::Backoff;
use crate::state::Outcome;
use serde_json::json;

fn full() -> FlowSpec {
    let retry = RetryPolicy {
        max_attempts: 2,
        backoff: Backoff::Fixed { delay_ms: 5 },
        attempt_timeout_ms: Some(9),
    };
    let a = ExecutionSpec::new("a")
        .kind("fetch")
        .lane("slow")
        .priority(-3)
        .payload(json!({"z": [1, {"y": null, "b": 2.5}], "a": "\u{e9}"}))
        .retry(retry)
        .deadline_ms(60_000)
        .delay_ms(10);
    let accepts = AcceptSet::of(&[Outcome::Failed, Outcome::Skipped]);
    FlowSpec::builder()
        .namespace("tenant")
        .instance_tag("region=north")
        .idempotency_key("order 7")
        .flow_id(FlowId::from_parts(1_700_000_000_000, [7; 10]))
        .execution_spec(a)
        .execution("b")
        .execution("c")
        .edge("a", "b")
        .edge_spec(EdgeSpec::new("b", "c").accepts(accepts).passes_as("left"))
        .join("c", JoinPolicy::Quorum { k: 1, on_satisfied: OnSatisfied::LetRun })
        .build()
}

fn check_refused(text: &str, message: &str) {
    for error in [FlowSpec::from_json(text).unwrap_err(), FlowSpec::load(text).unwrap_err()] {
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn specifications_round_trip_through_json() {
    for spec in [full(), FlowSpec::default(), FlowSpec::builder().execution("a").build()] {
        let text = serde_json::to_string_pretty(&spec).unwrap();
        assert_eq!(FlowSpec::from_json(&text).as_ref(), Ok(&spec));
        assert_eq!(FlowSpec::load(&text), Ok(spec));
    }
}

#[test]
fn fields_at_their_default_are_left_out_and_filled_in() {
    let spec = FlowSpec::builder().execution("a").execution("b").edge("a", "b").build();
    let text = r#"{"executions":[{"name":"a"},{"name":"b"}],"edges":[{"from":"a","to":"b"}]}"#;
    assert_eq!(serde_json::to_string(&spec).unwrap(), text);
    let read = FlowSpec::from_json(text).unwrap();
    assert_eq!(read, spec);
    assert_eq!((read.namespace.as_str(), read.executions[0].lane.as_str()), ("default", "default"));
    assert_eq!(read.executions[0].retry.max_attempts, 4);
    assert_eq!(read.edges[0].accepts, AcceptSet::ON_SUCCESS);
}

#[test]
fn mistakes_in_json_are_refused_with_their_place() {
    check_refused("{\n  \"executions\": [,]\n}", "2:18: expected value");
    check_refused("{\"executions\": [\n{\"name\": \"a\"", "2:12: EOF while parsing an object");
    check_refused(
        "{\"executions\": [\n{\"nam\": \"a\"}]}",
        "2:6: unknown field `nam`, expected one of `name`, `kind`, `lane`, `priority`, `payload`, \
         `retry`, `deadline_ms`, `delay_ms`",
    );
    check_refused("{\"executions\": [\n\n{\"kind\": \"a\"}]}", "3:13: missing field `name`");
    check_refused(
        "{\"executions\": [{\"name\": \"a\", \"deadline_ms\": -1}]}",
        "1:47: invalid value: integer, expected u64",
    );
}

#[test]
fn text_that_is_json_but_no_object_is_refused_by_what_it_is() {
    let table = [
        ("null", "1:1", "null"),
        ("\n 17", "2:2", "a number"),
        ("[]", "1:1", "an array"),
        ("[null, null]", "1:1", "an array"),
        ("\"x\"", "1:1", "a string"),
        (" true", "1:2", "a boolean"),
        ("<html>", "1:1", "no JSON"),
        ("\0", "1:1", "no JSON"),
    ];
    for (text, place, found) in table {
        let reason = format!("{place}: a flow is a JSON object, in braces; this is {found}");
        check_refused(text, &reason);
    }
    check_refused("", "1:0: EOF while parsing a value");
}

#[test]
fn a_group_that_is_set_twice_is_refused() {
    let text = "{\"groups\": {\n\"b\": {\"join\": \"any_of\"},\n\"b\": {\"join\": \"all_of\"}}}";
    check_refused(text, "3:3: group `b` is set twice");
}
