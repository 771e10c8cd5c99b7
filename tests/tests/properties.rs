//! The promise as properties: any flow, with any outcomes, interrupted by any faults, drains on
//! both embedded storages, and every invariant holds on the way.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use sluicegate::flow::Limits;
use sluicegate_sim::driver::{End, Outcome, Universe};
use sluicegate_sim::faults::FaultKind;
use sluicegate_sim::plan::{Campaign, EngineKind, LaneKind, Plan, Profile};
use sluicegate_sim::scenario::Workload;
use sluicegate_sim::tape::Tape;
use sluicegate_sim::workload;

/// `PROPTEST_CASES` changes the number of cases; failing cases are kept beside this file.
fn config(cases: u32) -> ProptestConfig {
    /// What proptest takes where nobody asks for another number.
    const UNASKED: u32 = 256;
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: if default.cases == UNASKED { cases } else { default.cases },
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        max_shrink_iters: 4_000,
        ..default
    }
}

/// Numbers that a plan, or the choices of a run, are made from; small and few is quiet.
fn numbers(most: usize) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 0..most)
}

fn plan_of(lane: LaneKind, engine: EngineKind, numbers: Vec<u32>) -> Plan {
    let campaign =
        Campaign { lane, profile: Profile::Swarm, engine, mutant: None, workload: Workload::Drawn };
    campaign.plan_from(&mut Tape::numbers(numbers), 7)
}

fn run(plan: Plan, choices: Vec<u32>) -> Outcome {
    let mut universe = Universe::new(Arc::new(plan)).expect("a drawn flow is valid");
    universe.run(Tape::numbers(choices))
}

fn assert_drains(plan: Plan, choices: Vec<u32>) -> Result<(), TestCaseError> {
    let outcome = run(plan, choices);
    prop_assert_eq!(outcome.end, End::Clean, "stuck: {:?}", outcome.stuck);
    Ok(())
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn any_interrupted_flow_drains_on_the_model(plan in numbers(200), choices in numbers(1_500)) {
        assert_drains(plan_of(LaneKind::Model, EngineKind::Sluicegate, plan), choices)?;
    }

    #[test]
    fn equal_choices_give_equal_traces(plan in numbers(120), choices in numbers(800)) {
        let plan = plan_of(LaneKind::Model, EngineKind::Sluicegate, plan);
        let first = run(plan.clone(), choices.clone());
        let second = run(plan.clone(), choices);
        prop_assert_eq!(first.trace_hash, second.trace_hash);
        let mut universe = Universe::new(Arc::new(plan)).expect("a drawn flow is valid");
        let replayed = universe.run(Tape::replay(first.tape.clone()));
        prop_assert_eq!(first.trace_hash, replayed.trace_hash, "the recorded tape replays it");
        prop_assert_eq!(first.tape, replayed.tape);
    }

    #[test]
    fn every_drawn_flow_is_valid(choices in numbers(400)) {
        let flow = workload::flow(&mut Tape::numbers(choices), 12);
        prop_assert!(flow.validate(&Limits::default()).is_ok());
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn any_interrupted_flow_drains_on_sqlite(plan in numbers(200), choices in numbers(1_500)) {
        assert_drains(plan_of(LaneKind::Sqlite, EngineKind::Sluicegate, plan), choices)?;
    }
}

#[test]
fn the_published_protocol_does_not_have_the_property() {
    let campaign = Campaign {
        lane: LaneKind::Model,
        profile: Profile::Quick,
        engine: EngineKind::Published,
        mutant: None,
        workload: Workload::Drawn,
    };
    let failing = (0..100).find(|seed| {
        let mut universe =
            Universe::new(Arc::new(campaign.plan(*seed))).expect("a drawn flow is valid");
        universe.run(Tape::random(*seed, 1)).end != End::Clean
    });
    assert!(failing.is_some(), "the published protocol survived a hundred universes");
}

#[test]
fn a_quiet_universe_has_no_fault_and_drains() {
    let plan = plan_of(LaneKind::Model, EngineKind::Sluicegate, Vec::new());
    assert_eq!(plan.faults_max, 0);
    let outcome = run(plan, Vec::new());
    assert_eq!(outcome.end, End::Clean);
    let tally = Universe::take_tally();
    assert_eq!(tally.faults_in_all(), 0);
    assert!(FaultKind::ALL.iter().all(|kind| tally.struck_by(*kind) == 0));
    assert!(tally.commits > 0);
}

#[test]
fn a_killed_actor_with_a_writing_destructor_leaves_no_write() {
    let campaign = Campaign {
        lane: LaneKind::Model,
        profile: Profile::Quick,
        engine: EngineKind::Sluicegate,
        mutant: None,
        workload: Workload::Drawn,
    };
    Universe::take_tally();
    for seed in 0..400 {
        let mut plan = campaign.plan(seed);
        plan.faults = [FaultKind::Crash, FaultKind::CrashAwait, FaultKind::LingeringSession].into();
        plan.faults_max = 6;
        plan.odds.fault = 3_000;
        let mut universe = Universe::new(Arc::new(plan)).expect("a drawn flow is valid");
        // The destructor asserts that the storage never answers it; the judge would see its write.
        assert_eq!(universe.run(Tape::random(seed, 1)).end, End::Clean, "seed {seed}");
    }
    let dropped = sluicegate_sim::driver::tally::Sometimes::DroppedWriter;
    assert!(Universe::take_tally().occurrences(dropped) > 20);
}
