use super::*;
use crate::flow::Payload;
use crate::policy::{AcceptSet, OnSatisfied};
use crate::retry::RetryPolicy;
use serde_json::json;
use std::fmt::Write;

const LET_RUN: OnSatisfied = OnSatisfied::LetRun;

fn small() -> Limits {
    Limits {
        executions_max: 4,
        edges_max: 4,
        in_degree_max: 2,
        payload_max_bytes: 8,
        name_max_bytes: 12,
        ..Limits::default()
    }
}

/// A flow from words such as `a b a>b`.
fn flow(text: &str) -> FlowSpec {
    text.split_whitespace()
        .fold(FlowSpec::builder(), |builder, word| match word.split_once('>') {
            Some((from, to)) => builder.edge(from, to),
            None => builder.execution(word),
        })
        .build()
}

fn with(mut spec: FlowSpec, change: impl FnOnce(&mut FlowSpec)) -> FlowSpec {
    change(&mut spec);
    spec
}

fn joined(text: &str, name: &str, policy: JoinPolicy) -> FlowSpec {
    with(flow(text), |spec| {
        spec.groups.insert(name.to_owned(), policy);
    })
}

fn quorum(k: u32) -> JoinPolicy {
    JoinPolicy::Quorum { k, on_satisfied: LET_RUN }
}

fn check_refused(spec: FlowSpec, message: &str) {
    assert_eq!(spec.validate(&small()).unwrap_err().to_string(), message);
}

fn valid(spec: FlowSpec) -> ValidFlow {
    spec.validate(&Limits::default()).unwrap()
}

#[test]
fn an_empty_flow_is_refused() {
    check_refused(flow(""), "the flow has no executions");
}

#[test]
fn a_cycle_is_refused_with_its_path() {
    check_refused(flow("z a b c z>a a>b b>c c>a"), "cycle a -> b -> c -> a");
    check_refused(flow("a b b>a a>b"), "cycle a -> b -> a");
}

#[test]
fn a_long_cycle_is_shown_in_part() {
    let mut text = String::new();
    for index in 0..30 {
        write!(text, "n{index} n{index}>n{} ", (index + 1) % 30).unwrap();
    }
    let message = flow(&text).validate(&Limits::default()).unwrap_err().to_string();
    assert!(message.starts_with("cycle n0 -> n1 -> "), "{message}");
    assert!(message.ends_with("n18 -> (11 more) -> n0"), "{message}");
}

#[test]
fn a_self_edge_is_refused_and_is_not_a_cycle_as_well() {
    check_refused(flow("a a>a"), "execution `a` has an edge to itself");
}

#[test]
fn a_duplicate_edge_is_refused() {
    check_refused(flow("a b a>b a>b"), "edge `a` -> `b` is listed 2 times");
}

#[test]
fn every_dangling_end_is_refused() {
    check_refused(
        flow("a a>b y>z"),
        "edge `a` -> `b` names `b`, which is not an execution of the flow; \
         edge `y` -> `z` names `y`, which is not an execution of the flow; \
         edge `y` -> `z` names `z`, which is not an execution of the flow",
    );
}

#[test]
fn a_duplicate_name_is_refused_once() {
    check_refused(flow("a b a a"), "execution `a` is listed 3 times");
}

#[test]
fn empty_texts_are_refused() {
    check_refused(
        with(flow("a"), |spec| spec.executions.push(ExecutionSpec::new(""))),
        "executions[1] has an empty name",
    );
    let empty = |change: fn(&mut FlowSpec)| with(flow("a b a>b"), change);
    check_refused(empty(|spec| spec.namespace.clear()), "namespace of the flow is empty");
    check_refused(
        empty(|spec| spec.idempotency_key = Some(String::new())),
        "idempotency key of the flow is empty",
    );
    check_refused(
        empty(|spec| spec.instance_tag = Some(String::new())),
        "instance tag of the flow is empty",
    );
    check_refused(empty(|spec| spec.executions[0].kind.clear()), "kind of execution `a` is empty");
    check_refused(empty(|spec| spec.executions[1].lane.clear()), "lane of execution `b` is empty");
    check_refused(
        empty(|spec| spec.edges[0].passes_as = Some(String::new())),
        "passes_as of edge `a` -> `b` is empty",
    );
}

#[test]
fn control_characters_are_refused_and_not_shown() {
    check_refused(
        with(flow("a"), |spec| spec.executions[0].name = "a\0b\n".into()),
        "name of execution `a\u{fffd}b\u{fffd}` holds a control character",
    );
}

#[test]
fn a_malformed_instance_tag_is_refused() {
    for tag in ["region", "=north", "region=", "="] {
        check_refused(
            with(flow("a"), |spec| spec.instance_tag = Some(tag.to_owned())),
            &format!("instance tag `{tag}` is not of the form key=value"),
        );
    }
    valid(with(flow("a"), |spec| spec.instance_tag = Some("region=a=b".into())));
}

#[test]
fn a_quorum_outside_its_group_is_refused_however_large() {
    for k in [0, 3, 1 << 31, u32::MAX] {
        check_refused(
            joined("a b c a>c b>c", "c", quorum(k)),
            &format!("execution `c` needs {k} of its inbound edges, k must be in 1..=2"),
        );
    }
    for k in [1, 2] {
        assert_eq!(valid(joined("a b c a>c b>c", "c", quorum(k))).policy(2), quorum(k));
    }
}

#[test]
fn a_choice_without_edges_is_refused() {
    check_refused(
        joined("a", "a", JoinPolicy::AnyOf { on_satisfied: LET_RUN }),
        "execution `a` joins by any_of but has no inbound edge",
    );
    check_refused(
        joined("a", "a", quorum(1)),
        "execution `a` joins by quorum but has no inbound edge",
    );
    valid(joined("a", "a", JoinPolicy::AllOf));
}

#[test]
fn a_group_of_an_unknown_execution_is_refused() {
    check_refused(joined("a", "b", JoinPolicy::AllOf), "group `b` is not an execution of the flow");
}

#[test]
fn an_empty_accept_set_is_refused() {
    check_refused(
        with(flow("a b a>b"), |spec| spec.edges[0].accepts = AcceptSet::of(&[])),
        "edge `a` -> `b` accepts no outcome",
    );
}

#[test]
fn an_input_name_is_unique_in_its_group_only() {
    let passing = |spec: FlowSpec| {
        with(spec, |spec| {
            for edge in &mut spec.edges {
                edge.passes_as = Some("x".into());
            }
        })
    };
    check_refused(passing(flow("a b c a>c b>c")), "2 edges into `c` pass their result as `x`");
    valid(passing(flow("a b c a>b a>c")));
}

#[test]
fn attempts_and_growth_and_time_limits_start_at_one() {
    let retry = RetryPolicy {
        max_attempts: 0,
        backoff: Backoff::Exponential { initial_ms: 1, factor: 0, cap_ms: 1 },
        attempt_timeout_ms: Some(0),
    };
    check_refused(
        with(flow("a"), |spec| spec.executions[0].retry = retry),
        "execution `a` has max_attempts 0, the least is 1; \
         execution `a` has a backoff factor 0, the least is 1; \
         execution `a` has attempt_timeout_ms 0, the least is 1",
    );
}

#[test]
fn a_delay_or_a_deadline_lies_a_century_ahead_at_most() {
    let waiting = |wait_ms| {
        with(flow("a"), |spec| {
            spec.executions[0].delay_ms = Some(wait_ms);
            spec.executions[0].deadline_ms = Some(wait_ms);
        })
    };
    let limit = Limits::default().wait_max_ms;
    assert!(waiting(limit).validate(&Limits::default()).is_ok());
    let refused = waiting(limit + 1).validate(&Limits::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "delay_ms of execution `a` has 3155760000001 ms, the limit is 3155760000000; \
         deadline_ms of execution `a` has 3155760000001 ms, the limit is 3155760000000",
    );
    assert!(refused.is_limit_exceeded());
}

#[test]
fn sizes_above_a_limit_are_refused_and_the_limit_itself_is_not() {
    check_refused(flow("a b c d e"), "the flow has 5 executions, the limit is 4");
    check_refused(flow("a b c d a>b a>c a>d b>c b>d"), "the flow has 5 edges, the limit is 4");
    check_refused(flow("a b c d a>d b>d c>d"), "execution `d` has 3 inbound edges, the limit is 2");
    check_refused(
        with(flow("a"), |spec| spec.executions[0].payload = json!("1234567").into()),
        "payload of execution `a` has 9 bytes, the limit is 8",
    );
    check_refused(
        flow("nnnnnnnnnnnnn"),
        "name of execution `nnnnnnnnnnnnn` has 13 bytes, the limit is 12",
    );
    let full = with(flow("nnnnnnnnnnnn b c d b>c b>d c>d d>nnnnnnnnnnnn"), |spec| {
        spec.executions[0].payload = json!("123456").into();
    });
    assert!(full.validate(&small()).is_ok());
}

#[test]
fn only_sizes_can_be_admitted_by_larger_limits() {
    let refused = |text| flow(text).validate(&small()).unwrap_err();
    assert!(refused("a b c d e").is_limit_exceeded());
    assert!(!refused("a b c d a>d b>d c>d d>a").is_limit_exceeded());
}

#[test]
fn every_problem_is_found_at_once_and_the_rest_is_counted() {
    let spec = joined("a b b a>a a>x", "b", quorum(7));
    check_refused(
        spec,
        "execution `b` is listed 2 times; \
         execution `a` has an edge to itself; \
         edge `a` -> `x` names `x`, which is not an execution of the flow; \
         execution `b` joins by quorum but has no inbound edge",
    );
    let mut text = "a ".to_owned();
    for index in 0..25 {
        write!(text, "a>x{index} ").unwrap();
    }
    let refused = flow(&text).validate(&Limits::default()).unwrap_err();
    assert_eq!(refused.problems.len(), 25);
    let message = refused.to_string();
    assert!(message.contains("`x19`") && !message.contains("`x20`"), "{message}");
    assert!(message.ends_with("; and 5 more"), "{message}");
}

#[test]
fn a_text_too_long_to_read_is_cut_in_messages() {
    let name = "é".repeat(200);
    let message = flow(&name).validate(&Limits::default()).unwrap_err().to_string();
    let shown = "é".repeat(LABEL_SHOWN_MAX);
    assert_eq!(message, format!("name of execution `{shown}…` has 400 bytes, the limit is 256"));
}

#[test]
fn a_valid_flow_tells_its_shape_by_index() {
    let spec = joined("d c b a a>b a>c b>d c>d", "d", quorum(1));
    let flow = valid(spec.clone());
    assert_eq!(flow.order(), [3, 2, 1, 0]);
    let edges: Vec<(usize, usize, &str)> =
        flow.edges().map(|(from, to, edge)| (from, to, edge.to.as_str())).collect();
    assert_eq!(edges, [(3, 2, "b"), (3, 1, "c"), (2, 0, "d"), (1, 0, "d")]);
    assert_eq!([0, 1, 2, 3].map(|index| flow.in_degree(index)), [2, 1, 1, 0]);
    assert_eq!([0, 1, 2, 3].map(|index| flow.out_degree(index)), [0, 1, 1, 2]);
    assert_eq!(flow.policy(0), quorum(1));
    assert_eq!(flow.policy(1), JoinPolicy::AllOf);
    assert_eq!(flow.graph().longest_path(), Some(2));
    assert_eq!(flow.into_spec(), spec);
}

/// Moves the items of a list around, as a function of the seed (`xorshift64`, Marsaglia, 2003).
fn shuffle<T>(items: &mut [T], seed: &mut u64) {
    for last in (1..items.len()).rev() {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        let place = *seed % u64::try_from(last + 1).unwrap();
        items.swap(last, usize::try_from(place).unwrap());
    }
}

#[test]
fn the_content_hash_ignores_the_order_of_listing() {
    let spec = joined("a b c d e f a>b a>c b>d c>d d>e d>f a>f b>f", "f", quorum(2));
    let hash = valid(spec.clone()).content_hash();
    let mut seed = 1;
    for _ in 0..200 {
        let mut shuffled = spec.clone();
        shuffle(&mut shuffled.executions, &mut seed);
        shuffle(&mut shuffled.edges, &mut seed);
        assert_eq!(valid(shuffled).content_hash(), hash);
    }
}

#[test]
fn the_content_hash_ignores_keys_of_submission_and_an_explicit_all_of() {
    let hash = valid(flow("a b a>b")).content_hash();
    let named = with(flow("a b a>b"), |spec| {
        spec.idempotency_key = Some("k".into());
        spec.flow_id = Some(crate::identity::FlowId::from_parts(1, [1; 10]));
        spec.groups.insert("b".into(), JoinPolicy::AllOf);
    });
    assert_eq!(valid(named).content_hash(), hash);
}

#[test]
fn the_content_hash_sees_every_part_of_the_content() {
    let changes: [fn(&mut FlowSpec); 18] = [
        |_| (),
        |spec| spec.namespace = "n".into(),
        |spec| spec.instance_tag = Some("a=b".into()),
        |spec| spec.executions.push(ExecutionSpec::new("d")),
        |spec| spec.executions[0].kind = "k".into(),
        |spec| spec.executions[0].lane = "k".into(),
        |spec| spec.executions[0].priority = 1,
        |spec| spec.executions[0].payload = json!({"a": 1}).into(),
        |spec| spec.executions[0].payload = json!({"a": "1"}).into(),
        |spec| spec.executions[0].payload = Payload::from_json("{\"a\": 1}").unwrap(),
        |spec| spec.executions[0].payload = Payload::from_json("{\"a\":1.0}").unwrap(),
        |spec| spec.executions[0].retry.max_attempts = 5,
        |spec| spec.executions[0].deadline_ms = Some(1),
        |spec| spec.executions[0].delay_ms = Some(1),
        |spec| spec.edges[0].accepts = AcceptSet::ON_DONE,
        |spec| spec.edges[0].passes_as = Some("x".into()),
        |spec| drop(spec.edges.pop()),
        |spec| spec.groups.extend([("c".to_owned(), quorum(1))]),
    ];
    let hash =
        |change: fn(&mut FlowSpec)| valid(with(flow("a b c a>c b>c"), change)).content_hash();
    let mut hashes = changes.map(hash).to_vec();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), changes.len());
}

#[test]
fn the_content_hash_stays_what_stored_flows_carry() {
    let spec = joined("a b c a>c b>c", "c", quorum(2));
    let spec =
        with(spec, |spec| spec.executions[1].payload = json!({"z": 1, "a": [null, "x"]}).into());
    let form = concat!(
        "{\"namespace\":\"default\"}\n",
        "{\"name\":\"a\"}\n",
        "{\"name\":\"b\",\"payload\":{\"a\":[null,\"x\"],\"z\":1}}\n",
        "{\"name\":\"c\"}\n",
        "{\"from\":\"a\",\"to\":\"c\"}\n",
        "{\"from\":\"b\",\"to\":\"c\"}\n",
        "[\"c\",{\"join\":\"quorum\",\"k\":2,\"on_satisfied\":\"let_run\"}]\n",
    );
    let expected: [u8; 32] = <sha2::Sha256 as sha2::Digest>::digest(form).into();
    assert_eq!(valid(spec).content_hash(), expected);
}
