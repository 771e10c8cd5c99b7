use std::collections::BTreeMap;

use sluicegate::flow::EdgeSpec;

use super::*;
use crate::campaign::{Order, Pass, Seeds, Shard, never_over, run};
use crate::exit::Exit;
use crate::plan::{Campaign, EngineKind, LaneKind, Profile};
use crate::report::progress::Progress;
use crate::scenario::Workload;

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
        check_campaign(what, lane, Workload::Flow(flow.clone()), count);
    }
}

fn check_campaign(what: &str, lane: LaneKind, workload: Workload, count: u64) {
    let (profile, engine) = (Profile::Quick, EngineKind::Sluicegate);
    let campaign = Campaign { lane, profile, engine, mutant: None, workload };
    let seeds = Seeds { start: 0, end: count, shard: Shard::default() };
    let pass =
        Pass { campaign: &campaign, seeds, jobs: 2, order: Order::Forward, over: &never_over };
    let results = run(&pass, &mut Progress::silent()).unwrap();
    let failed: Vec<String> =
        results.failures.iter().map(|one| format!("{}: {:?}", one.seed, one.sighting)).collect();
    let exit = Exit::first_of(&results.failures.exits());
    assert_eq!(exit, Exit::Clean, "{what} in lane {}: {failed:#?}", lane.name());
    assert_eq!(results.tally.universes, count);
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
fn drawn_flows_with_wide_fields_drain_under_every_fault() {
    for (lane, count) in [(LaneKind::Model, 600), (LaneKind::Sqlite, 60)] {
        check_campaign("drawn flows", lane, Workload::Drawn, count);
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

#[test]
fn widened_flows_are_valid_and_meet_every_value() {
    let mut met: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..2_000 {
        let mut widened = flow(&|_| {});
        widen(&mut widened, &mut [], seed);
        assert_eq!(endless(&widened.executions), None, "seed {seed}");
        let valid = widened.validate(&Limits::default()).unwrap_or_else(|why| panic!("{why}"));
        for one in &valid.spec().executions {
            for value in [
                format!("lane {}", one.lane),
                format!("kind {}", one.kind),
                format!("priority {}", one.priority),
                format!("delay {:?}", one.delay_ms),
                format!("deadline {:?}", one.deadline_ms),
                format!("attempts {}", one.retry.max_attempts),
                format!("{:?}", one.retry.backoff),
                format!("limit {:?}", one.retry.attempt_timeout_ms),
            ] {
                *met.entry(value).or_default() += 1;
            }
        }
    }
    // Each field has its values beside the ordinary one.
    let values = 2 * (LABELS.len() + 2)
        + (PRIORITIES.len() + 1)
        + 2 * (waits_ms().len() + 1)
        + ATTEMPTS.len()
        + 1
        + BACKOFFS.len()
        + 1
        + TIMEOUTS_MS.len()
        + 1;
    assert_eq!(met.len(), values, "{met:#?}");
}
