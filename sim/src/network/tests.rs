//! What the network lane must be able to do, whatever a campaign meets.

use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use sluicegate::storage::Storage;

use super::*;
use crate::actors::{Progress, Role};
use crate::driver::Outcome;
use crate::driver::tally::Tally;
use crate::faults::FaultKind;
use crate::plan::{Backend, Campaign, EngineKind, LaneKind, Plan, Profile};
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

/// The same with a file behind the server, whatever the seed says.
fn file(seed: u64) -> Plan {
    let mut plan = Plan { behind: Some(Backend::Sqlite), ..plan(seed) };
    plan.faults.retain(|kind| kind.strikes_on(LaneKind::Network, Backend::Sqlite));
    plan.first_fault = plan.first_fault.filter(|kind| plan.faults.contains(kind));
    plan
}

/// What universes reach in which one kind of fault strikes, often.
fn reached(kind: FaultKind, seeds: std::ops::Range<u64>) -> Tally {
    reached_by(plan, kind, seeds)
}

/// The same for plans of that kind.
fn reached_by(plan: fn(u64) -> Plan, kind: FaultKind, seeds: std::ops::Range<u64>) -> Tally {
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
    for plan in (0..8).map(plan).chain((0..8).map(file)) {
        let seed = plan.ids_seed;
        let first = run(plan.clone(), Tape::random(seed, 1));
        let second = run(plan.clone(), Tape::random(seed, 1));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        let replayed = run(plan.clone(), Tape::replay(first.tape.clone()));
        assert_eq!(first.trace_hash, replayed.trace_hash, "seed {seed}");
        assert_eq!(first.tape, replayed.tape, "seed {seed}");
    }
}

#[test]
fn time_in_which_nobody_has_anything_to_do_is_skipped() {
    Universe::take_tally();
    let quiet = |seed| Plan { faults_max: 0, first_fault: None, heal_after: 0, ..plan(seed) };
    for seed in 0..20 {
        assert_eq!(run(quiet(seed), Tape::quiet()).end, End::Clean);
    }
    let tally = Universe::take_tally();
    let ticks = u64::try_from(TICK.as_micros()).unwrap() * tally.steps;
    assert!(ticks * 3 < tally.virtual_us * 2, "{ticks} us of {} in ticks", tally.virtual_us);
}

#[test]
fn timers_wake_in_the_order_of_their_instants_and_one_that_is_dropped_never() {
    world(|world| world.reset(&plan(1), Tape::quiet()));
    world(|world| world.network = Some(Box::new(Net::new(world.slots.len()))));
    let second = Duration::from_secs(1);
    let woken = [(); 2].map(|()| Arc::new(Woken::default()));
    let mut late = pin!(Timer::after(2 * second));
    assert!(polled(late.as_mut(), &woken[0]).is_none());
    let within = Box::pin(time::within(second, std::future::pending::<()>()));
    let mut within = within;
    assert!(polled(within.as_mut(), &woken[1]).is_none());
    let dropped = Arc::new(Woken::default());
    {
        let answered = pin!(time::within(second, std::future::ready(7)));
        assert_eq!(polled(answered, &dropped), Some(Some(7)), "what is ready is not timed");
        assert!(polled(pin!(Timer::after(second)), &dropped).is_none());
    }
    let start = world(|world| world.now);
    let counts = || [0, 1].map(|at: usize| woken[at].0.load(Ordering::Relaxed));
    assert_eq!(world(World::next_instant), Some(start + 1_000_000));
    assert!(!world(World::wake_the_due), "nothing is due");
    world(|world| world.reach(start + 1_000_000));
    assert!(world(World::wake_the_due));
    assert_eq!((counts(), polled(within.as_mut(), &woken[1])), ([0, 1], Some(None)));
    assert_eq!(world(World::next_instant), Some(start + 2_000_000));
    world(|world| world.reach(start + 2_000_000));
    assert!(world(World::wake_the_due) && polled(late, &woken[0]).is_some());
    assert_eq!((counts(), dropped.0.load(Ordering::Relaxed)), ([1, 1], 0));
    drop(within);
    world(World::leave_network);
}

#[test]
fn whoever_rests_looks_again_at_the_next_of_its_polls_that_would_find_something() {
    let sparing = Plan { sparing: true, ..plan(1) };
    world(|world| world.reset(&sparing, Tape::quiet()));
    world(|world| world.network = Some(Box::new(Net::new(world.slots.len()))));
    let looked = world(|world| world.looks(0, Role::Dispatcher));
    let woken = Arc::new(Woken::default());
    let mut rest = pin!(time::rest(0, looked, Progress::Idle, None));
    assert!(polled(rest.as_mut(), &woken).is_none());
    assert!(!world(World::wake_the_due), "nothing has happened");
    assert_eq!(world(World::next_instant), None, "and nothing will");
    world(|world| world.reach(1_300_000));
    world(|world| world.slots[0].noticed = true);
    assert!(world(World::wake_the_due), "it is told");
    assert!(polled(rest, &woken).is_some());
    let looked = world(|world| world.looks(1, Role::Subscriber));
    let mut rest = pin!(time::rest(1, looked, Progress::Idle, None));
    assert!(polled(rest.as_mut(), &woken).is_none());
    world(|world| world.reach(3_700_000));
    world(|world| world.news.of_recovery());
    assert!(!world(World::wake_the_due));
    let polls = 1_300_000 + 3 * 1_000_000;
    assert_eq!(world(World::next_instant), Some(polls), "it polls once a second");
    world(|world| world.reach(polls));
    assert!(world(World::wake_the_due) && polled(rest, &woken).is_some());
    world(World::leave_network);
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
        world(|world| world.network = Some(Box::new(Net::new(world.slots.len()))));
        let mut task = Box::pin(hosts::contained(async { panic!("out of {}", "paper") }));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(task.as_mut().poll(&mut context).is_ready(), "it is over");
        assert!(world(|world| world.slots.iter().all(|slot| slot.dead)), "so is everybody");
        world(World::leave_network).1
    });
    assert!(said.unwrap().is_some_and(|said| said.contains("out of paper")));
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls a future once; its answer, if it is ready.
fn polled<F: Future>(future: Pin<&mut F>, woken: &Arc<Woken>) -> Option<F::Output> {
    let waker = Waker::from(Arc::clone(woken));
    match future.poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[test]
fn a_file_behind_the_server_is_drained_and_written_as_the_simulated_postgres_is() {
    Universe::take_tally();
    let quiet = Plan { faults_max: 0, first_fault: None, heal_after: 0, ..file(1) };
    assert_eq!(run(quiet, Tape::quiet()).end, End::Clean);
    let tally = Universe::take_tally();
    assert!(tally.commits > 0 && tally.occurrences(Sometimes::HealedMidway) == 0);
    assert!(tally.occurrences(Sometimes::WriterWait) > 0, "it has one writer");
    assert_eq!(tally.occurrences(Sometimes::LockWait), 0, "and no row is locked");
}

#[test]
fn who_waits_for_the_writer_of_a_file_goes_on_once_that_transaction_is_gone() {
    let mut universe = Universe::new(Arc::new(Plan { faults_max: 0, ..file(1) })).unwrap();
    universe.reset(Tape::quiet());
    world(|world| world.network = Some(Box::new(Net::new(world.slots.len()))));
    let desks = [(); 2].map(|()| world(World::open_desk).unwrap());
    let [first, second] = desks.map(|desk| universe.stores.boxed(desk));
    let woken = Arc::new(Woken::default());
    let writer = polled(pin!(first.begin()), &woken).expect("nobody writes").unwrap();
    assert_eq!(world(|world| world.writer), Some(desks[0]));
    let mut waiting = pin!(second.begin());
    assert!(polled(waiting.as_mut(), &woken).is_none(), "a file has one writer");
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    drop(writer);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    let next = polled(waiting, &woken).expect("the writer is gone").unwrap();
    assert_eq!(world(|world| world.writer), Some(desks[1]));
    drop(next);
    assert_eq!(world(|world| world.writer), None);
    world(World::leave_network);
}

#[test]
fn the_transaction_of_a_killed_client_frees_the_file() {
    let tally = reached_by(file, FaultKind::CrashAfter, 0..40);
    assert!(tally.occurrences(Sometimes::WriterWait) > 0);
    reached_by(file, FaultKind::CrashAwait, 0..40);
}

#[test]
fn the_session_of_a_host_that_vanished_keeps_the_file_for_a_while() {
    let tally = reached_by(file, FaultKind::LingeringSession, 0..40);
    assert!(tally.occurrences(Sometimes::SessionLingered) > 0);
    assert!(tally.occurrences(Sometimes::LockWaitTimedOut) > 0, "somebody waited in vain");
}

#[test]
fn what_was_committed_to_a_file_is_there_when_its_server_has_restarted() {
    reached_by(file, FaultKind::DatabaseCrash, 0..40);
    reached_by(file, FaultKind::Busy, 0..20);
    reached_by(file, FaultKind::CommitApplied, 0..20);
}

#[test]
fn a_restart_that_lost_what_was_committed_is_seen() {
    let quiet = Plan { faults_max: 0, first_fault: None, heal_after: 0, ..file(1) };
    let mut universe = Universe::new(Arc::new(quiet)).unwrap();
    assert_eq!(universe.run(Tape::quiet()).end, End::Clean);
    let Stores::Sqlite(lane) = &universe.stores else { panic!("it is a file") };
    let judged = || {
        lane.restart(|| {});
        universe.judge_restart();
        world(|world| world.violation.take()).map(|violation| violation.invariant)
    };
    assert_eq!(judged(), None);
    lane.execute("delete from sluicegate_attempt");
    assert_eq!(judged(), Some("I19"));
}
