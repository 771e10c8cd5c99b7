use sluicegate::flow::{EdgeSpec, FlowSpec, Limits};
use sluicegate::retry::Backoff;

use super::*;
use crate::campaign::{Order, Pass, Seeds, Shard, never_over, run};
use crate::exit::Exit;
use crate::plan::{Campaign, EngineKind, LaneKind, Profile};
use crate::report::progress::Progress;
use crate::scenario::Workload;

const DAY_MS: u64 = 86_400_000;
const LABELS: [&str; 4] = ["gpu", "Größe λ", " spaced out ", "a/b:c{d}%_\\'\""];
const PRIORITIES: [i32; 4] = [i32::MAX, i32::MIN, -1, 7];
const ATTEMPTS: [u32; 5] = [1, 2, 50, 300, u32::MAX];
const TIMEOUTS_MS: [u32; 5] = [1, 99, 500, 12_000, u32::MAX];
const BACKOFFS: [Backoff; 7] = [
    Backoff::Fixed { delay_ms: 0 },
    Backoff::Fixed { delay_ms: 200_000 },
    Backoff::Fixed { delay_ms: u32::MAX },
    Backoff::Exponential { initial_ms: 0, factor: 1, cap_ms: 0 },
    Backoff::Exponential { initial_ms: 5_000, factor: 3, cap_ms: 1_000 },
    Backoff::Exponential { initial_ms: 1, factor: u32::MAX, cap_ms: 3_600_000 },
    Backoff::Exponential { initial_ms: u32::MAX, factor: u32::MAX, cap_ms: u32::MAX },
];

fn waits_ms() -> [u64; 5] {
    [0, 1, 200_000, DAY_MS, Limits::default().wait_max_ms]
}

/// A name, kind, lane, namespace or key as long as one may be.
fn longest_label() -> String {
    let bytes = usize::try_from(Limits::default().name_max_bytes).unwrap_or(usize::MAX);
    "x".repeat(bytes)
}

/// Seeds of each value in the lane of the simulated Postgres, and in that of a file.
const SEEDS: [(LaneKind, u64); 2] = [(LaneKind::Model, 24), (LaneKind::Sqlite, 4)];

/// `a` -> `b` -> `c`, and `d` beside them, of which `set` has changed `a` and `b`.
fn flow(set: &dyn Fn(&mut ExecutionSpec)) -> FlowSpec {
    let mut flow = FlowSpec::builder().execution("a").execution("b").execution("c").execution("d");
    for (from, to) in [("a", "b"), ("b", "c")] {
        flow = flow.edge_spec(EdgeSpec::new(from, to));
    }
    let mut flow = flow.build();
    flow.idempotency_key = Some("key".into());
    flow.executions[..2].iter_mut().for_each(set);
    flow
}

/// Every universe of the flow ends, and no invariant is violated.
fn check(what: &str, flow: &FlowSpec) {
    for (lane, count) in SEEDS {
        let campaign = Campaign {
            lane,
            profile: Profile::Quick,
            engine: EngineKind::Sluicegate,
            mutant: None,
            workload: Workload::Flow(flow.clone()),
        };
        let seeds = Seeds { start: 0, end: count, shard: Shard::default() };
        let pass =
            Pass { campaign: &campaign, seeds, jobs: 2, order: Order::Forward, over: &never_over };
        let results = run(&pass, &mut Progress::silent()).unwrap();
        let failures = results.failures.iter();
        let failed: Vec<String> =
            failures.map(|one| format!("{}: {:?}", one.seed, one.sighting)).collect();
        let exit = Exit::first_of(&results.failures.exits());
        assert_eq!(exit, Exit::Clean, "{what} in lane {}: {failed:#?}", lane.name());
        assert_eq!(results.tally.universes, count);
    }
}

#[test]
fn a_flow_in_any_lane_and_of_any_kind_drains() {
    for label in LABELS.into_iter().map(str::to_owned).chain([longest_label()]) {
        check(&label, &flow(&|one| one.lane.clone_from(&label)));
        check(&label, &flow(&|one| one.kind.clone_from(&label)));
        let mut named = flow(&|_| {});
        named.namespace.clone_from(&label);
        check(&label, &named);
    }
}

#[test]
fn a_flow_of_any_priority_drains() {
    for priority in PRIORITIES {
        check(&format!("priority {priority}"), &flow(&|one| one.priority = priority));
    }
}

#[test]
fn a_flow_with_any_delay_or_deadline_drains() {
    for wait_ms in waits_ms() {
        check(&format!("delay {wait_ms}"), &flow(&|one| one.delay_ms = Some(wait_ms)));
        check(&format!("deadline {wait_ms}"), &flow(&|one| one.deadline_ms = Some(wait_ms)));
    }
}

#[test]
fn a_flow_with_any_number_of_attempts_and_any_backoff_drains() {
    for max_attempts in ATTEMPTS {
        let set = |one: &mut ExecutionSpec| one.retry.max_attempts = max_attempts;
        check(&format!("{max_attempts} attempts"), &flow(&set));
    }
    for backoff in BACKOFFS {
        check(&format!("{backoff:?}"), &flow(&|one| one.retry.backoff = backoff));
    }
}

#[test]
fn a_flow_with_any_limit_of_an_attempt_drains() {
    for limit_ms in TIMEOUTS_MS {
        let set = |one: &mut ExecutionSpec| one.retry.attempt_timeout_ms = Some(limit_ms);
        check(&format!("attempts of {limit_ms} ms"), &flow(&set));
    }
}

#[test]
fn what_would_not_end_is_named() {
    let endless_flow = flow(&|one| {
        one.retry.max_attempts = 51;
        one.retry.attempt_timeout_ms = Some(99);
    });
    let said = endless(&endless_flow.executions).unwrap();
    assert!(said.starts_with("execution `a` has 51 attempts of 99 ms each"), "{said}");
    assert_eq!(endless(&flow(&|_| {}).executions), None);
}
