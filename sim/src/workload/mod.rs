//! Generators of flows, fed by a tape, so that a property test, a campaign and a shrinker draw the
//! same shapes. Never decides what a handler reports.

pub mod growth;
pub mod inputs;
pub mod range;

use std::collections::BTreeMap;

use sluicegate::flow::{EdgeSpec, ExecutionSpec, FlowSpec, Payload};
use sluicegate::policy::{AcceptSet, JoinPolicy, OnSatisfied};
use sluicegate::retry::{Backoff, RetryPolicy};

use crate::tape::{Chance, Site, Tape};

/// A flow of 1 to `executions_max` executions whose edges lead from lower to higher numbers.
pub fn flow(tape: &mut Tape, executions_max: u16) -> FlowSpec {
    let count = 1 + even(tape, executions_max);
    let density = 1 + even(tape, 3);
    let executions: Vec<ExecutionSpec> = (0..count).map(|at| execution(tape, at)).collect();
    let mut edges = Vec::new();
    let mut groups = BTreeMap::new();
    for downstream in 1..count {
        let mut inbound: u32 = 0;
        for upstream in 0..downstream {
            if even(tape, 4) < density {
                edges.push(edge(tape, name(upstream), name(downstream)));
                inbound += 1;
            }
        }
        if inbound > 0
            && let Some(policy) = policy(tape, inbound)
        {
            groups.insert(name(downstream), policy);
        }
    }
    FlowSpec {
        executions,
        edges,
        groups,
        idempotency_key: Some("the-flow".into()),
        instance_tag: Some("region=north".into()),
        ..FlowSpec::builder().build()
    }
}

/// The name of the execution with that number: `a` to `z`, then `n26` and on.
pub fn name(at: u16) -> String {
    match u8::try_from(at) {
        Ok(letter) if letter < 26 => char::from(b'a' + letter).to_string(),
        _ => format!("n{at}"),
    }
}

/// A retry policy whose delays keep a universe short.
pub fn short_retries(max_attempts: u32) -> RetryPolicy {
    let backoff = Backoff::Exponential { initial_ms: 1_000, factor: 2, cap_ms: 4_000 };
    RetryPolicy { max_attempts, backoff, attempt_timeout_ms: None }
}

fn even(tape: &mut Tape, arity: u16) -> u16 {
    tape.draw(Site::Plan, arity, Chance::Even)
}

fn execution(tape: &mut Tape, at: u16) -> ExecutionSpec {
    let attempts = [4, 1, 2, 3][usize::from(even(tape, 4))];
    let mut retry = short_retries(attempts);
    if tape.draw(Site::Plan, 2, Chance::Of(8_000)) == 1 {
        retry.attempt_timeout_ms = Some(12_000);
    }
    let payload = payload(at);
    let mut spec = ExecutionSpec { retry, payload, ..ExecutionSpec::new(name(at)) };
    if tape.draw(Site::Plan, 2, Chance::Of(3_000)) == 1 {
        spec.deadline_ms = Some(40_000);
    }
    if tape.draw(Site::Plan, 2, Chance::Of(5_000)) == 1 {
        spec.delay_ms = Some(3_000);
    }
    spec
}

/// What a parse into values would change, by the number of the execution: no choice, so that a tape
/// means the same whatever payloads hold.
const PAYLOADS: [&str; 5] = [
    "null",
    "123456789012345678901234567890",
    "1234567890123456.78",
    r#"{"a":1,"a":2}"#,
    "{ \"b\" : 1.0, \"a\" : \"\\u0061\" }",
];

fn payload(at: u16) -> Payload {
    let text = PAYLOADS[usize::from(at) % PAYLOADS.len()];
    Payload::from_json(text).expect("each is JSON")
}

fn edge(tape: &mut Tape, upstream: String, downstream: String) -> EdgeSpec {
    let presets = AcceptSet::PRESETS;
    let count = u16::try_from(presets.len()).expect("five presets");
    let preset = tape.draw(Site::Plan, count, Chance::Of(20_000));
    EdgeSpec { accepts: presets[usize::from(preset)].1, ..EdgeSpec::new(upstream, downstream) }
}

fn policy(tape: &mut Tape, inbound: u32) -> Option<JoinPolicy> {
    let on_satisfied = match even(tape, 2) {
        0 => OnSatisfied::CancelRemaining,
        _ => OnSatisfied::LetRun,
    };
    match even(tape, 4) {
        0 | 1 => None,
        2 => Some(JoinPolicy::AnyOf { on_satisfied }),
        _ => {
            let span = u16::try_from(inbound).unwrap_or(u16::MAX);
            let k = 1 + u32::from(even(tape, span));
            Some(JoinPolicy::Quorum { k, on_satisfied })
        }
    }
}
