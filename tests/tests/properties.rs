//! The promise as properties: any flow, with any outcomes, interrupted by any faults, drains in
//! every lane, and every invariant holds on the way.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestError, TestRunner};
use sluicegate::flow::Limits;
use sluicegate::mutants::Mutant;
use sluicegate_sim::driver::{End, Outcome, Universe};
use sluicegate_sim::failure::{Failure, FailureFile};
use sluicegate_sim::faults::FaultKind;
use sluicegate_sim::plan::{Campaign, EngineKind, LaneKind, Plan, Profile};
use sluicegate_sim::replay::{Verdict, record};
use sluicegate_sim::report::commit;
use sluicegate_sim::scenario::Workload;
use sluicegate_sim::shrink::shrink;
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

fn plan_of(lane: LaneKind, engine: EngineKind, mutant: Option<Mutant>, numbers: Vec<u32>) -> Plan {
    let campaign =
        Campaign { lane, profile: Profile::Swarm, engine, mutant, workload: Workload::Drawn };
    campaign.plan_from(&mut Tape::numbers(numbers), 7)
}

fn run(plan: Plan, choices: Vec<u32>) -> Outcome {
    let mut universe = Universe::new(Arc::new(plan)).expect("a drawn flow is valid");
    universe.run(Tape::numbers(choices))
}

/// Where failing cases go, each as a failure file that `cargo sim replay` and `shrink` take.
fn failing_cases() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("properties")
}

/// Asks whether any flow drains in a lane, whatever interrupts it. An `Err` has the failure of the
/// smallest case and where its file is.
fn drains(lane: LaneKind, cases: u32, mutant: Option<Mutant>) -> Result<(), String> {
    let mut runner = TestRunner::new(ProptestConfig {
        source_file: Some(file!()),
        // A planted bug is no regression to be tried first.
        failure_persistence: config(cases).failure_persistence.filter(|_| mutant.is_none()),
        ..config(cases)
    });
    let plan = |numbers| plan_of(lane, EngineKind::Sluicegate, mutant, numbers);
    let asked = runner.run(&(numbers(200), numbers(1_500)), |(numbers, choices)| {
        let outcome = run(plan(numbers), choices);
        prop_assert_eq!(outcome.end, End::Clean, "stuck: {:?}", outcome.stuck);
        Ok(())
    });
    match asked {
        Ok(()) => Ok(()),
        Err(TestError::Abort(why)) => Err(why.to_string()),
        Err(TestError::Fail(why, (numbers, choices))) => {
            let kept = keep(plan(numbers), choices);
            Err(format!("{why}\n{}", kept.unwrap_or_else(|why| format!("not kept: {why}"))))
        }
    }
}

/// Files a failing case as small as it gets; says where.
fn keep(plan: Plan, choices: Vec<u32>) -> Result<String, String> {
    let recorded = record(plan.clone(), Tape::numbers(choices))?;
    let sighting = recorded.sighting.ok_or("it passes when it is run again")?;
    let (seed, hash) = (plan.ids_seed, recorded.trace_hash);
    let failure = Failure::new(seed, sighting, &plan.flow, hash, recorded.tape);
    let file = FailureFile::new(&failure, plan, &commit());
    let file = match shrink(&file, SHRUNK_WITHIN, &mut |_| Ok(())) {
        Ok(shrunk) => shrunk.to_file(&commit()),
        Err(_) => file,
    };
    let filed = file.file_into(&failing_cases())?;
    Ok(format!("cargo sim replay {} --trace", filed.path.display()))
}

/// How long a failing case is made smaller.
const SHRUNK_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn any_interrupted_flow_drains_on_the_model() {
    drains(LaneKind::Model, 400, None).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn any_interrupted_flow_drains_on_sqlite() {
    drains(LaneKind::Sqlite, 60, None).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn any_interrupted_flow_drains_on_a_network() {
    drains(LaneKind::Network, 40, None).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn a_case_that_fails_is_kept_as_a_failure_file() {
    let why = drains(LaneKind::Model, 400, Some(Mutant::P01)).expect_err("a bug is planted");
    let line = why.lines().find(|line| line.starts_with("cargo sim replay"));
    let path = line.and_then(|line| line.split(' ').nth(3)).expect("it says where the case is");
    let file = FailureFile::load(Path::new(path)).expect("it is a failure file");
    let again = record(file.plan.clone(), Tape::replay(file.tape.clone())).expect("it is run");
    assert_eq!(again.verdict(&file), Verdict::Same, "{why}");
    assert!(file.plan.flow.executions.len() <= 4, "it was made smaller: {why}");
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn equal_choices_give_equal_traces(plan in numbers(120), choices in numbers(800)) {
        let plan = plan_of(LaneKind::Model, EngineKind::Sluicegate, None, plan);
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
    let plan = plan_of(LaneKind::Model, EngineKind::Sluicegate, None, Vec::new());
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
