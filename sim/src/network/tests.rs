//! What the network lane must be able to do, whatever a campaign meets.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::driver::Outcome;
use crate::driver::tally::Tally;
use crate::faults::FaultKind;
use crate::plan::{Campaign, EngineKind, LaneKind, Plan, Profile};
use crate::scenario::Workload;
use crate::tape::Tape;

fn plan(seed: u64) -> Plan {
    let campaign = Campaign {
        lane: LaneKind::Network,
        profile: Profile::Quick,
        engine: EngineKind::Sluicegate,
        mutant: None,
        workload: Workload::Drawn,
    };
    campaign.plan(seed)
}

fn run(plan: Plan, tape: Tape) -> Outcome {
    Universe::new(Arc::new(plan)).unwrap().run(tape)
}

/// What universes reach in which one kind of fault strikes, often.
fn reached(kind: FaultKind, seeds: std::ops::Range<u64>) -> Tally {
    Universe::take_tally();
    for seed in seeds {
        let mut plan = plan(seed);
        (plan.faults, plan.faults_max, plan.first_fault) = (BTreeSet::from([kind]), 6, None);
        (plan.odds.fault, plan.heal_after) = (2_000, 0);
        let outcome = run(plan, Tape::random(seed, 1));
        assert_eq!(outcome.end, End::Clean, "seed {seed}: {:?}", outcome.stuck);
    }
    let tally = Universe::take_tally();
    assert!(tally.struck_by(kind) > 0, "{kind:?} never struck");
    tally
}

#[test]
fn a_quiet_universe_drains_by_itself() {
    Universe::take_tally();
    let quiet = Plan { faults_max: 0, first_fault: None, heal_after: 0, ..plan(1) };
    assert_eq!(run(quiet, Tape::quiet()).end, End::Clean);
    let tally = Universe::take_tally();
    assert_eq!(tally.faults_in_all(), 0);
    assert!(tally.commits > 0 && tally.occurrences(Sometimes::HealedMidway) == 0);
}

#[test]
fn the_same_seed_is_the_same_universe_and_so_is_its_tape() {
    for seed in 0..8 {
        let first = run(plan(seed), Tape::random(seed, 1));
        let second = run(plan(seed), Tape::random(seed, 1));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        let replayed = run(plan(seed), Tape::replay(first.tape.clone()));
        assert_eq!(first.trace_hash, replayed.trace_hash, "seed {seed}");
        assert_eq!(first.tape, replayed.tape, "seed {seed}");
    }
}

#[test]
fn a_commit_whose_answer_was_cut_is_found_again() {
    let tally = reached(FaultKind::CommitApplied, 0..40);
    assert!(tally.occurrences(Sometimes::StoredReply) > 0, "a report was sent once more");
}

#[test]
fn the_session_of_a_host_that_vanished_keeps_its_locks_for_a_while() {
    let tally = reached(FaultKind::LingeringSession, 0..60);
    assert!(tally.occurrences(Sometimes::SessionLingered) > 0);
    assert!(tally.occurrences(Sometimes::LockWaitTimedOut) > 0, "somebody waited in vain");
}

#[test]
fn who_was_cut_off_for_longer_than_a_lease_is_fenced() {
    let tally = reached(FaultKind::Pause, 0..60);
    assert!(tally.occurrences(Sometimes::ZombieFenced) > 0);
}

#[test]
fn requests_and_answers_get_lost_by_themselves() {
    reached(FaultKind::PartitionOneWay, 0..30);
    reached(FaultKind::Partition, 0..30);
}

#[test]
fn a_task_that_panics_ends_its_universe_with_its_words() {
    let said = crate::panics::guarded(|| {
        world(|world| world.reset(&plan(1), Tape::quiet()));
        world(|world| world.network = Some(Box::new(Net::new(0, world.slots.len()))));
        let mut task = Box::pin(hosts::contained(async { panic!("out of {}", "paper") }));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(task.as_mut().poll(&mut context).is_ready(), "it is over");
        assert!(world(|world| world.slots.iter().all(|slot| slot.dead)), "so is everybody");
        world(World::leave_network).1
    });
    assert!(said.unwrap().is_some_and(|said| said.contains("out of paper")));
}
