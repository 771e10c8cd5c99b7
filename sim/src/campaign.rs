//! Runs the seeds of a campaign on several threads, each with a world of its own, and merges what
//! they saw so that nothing depends on how many there are. Never prints.

use std::cmp::Reverse;
use std::fmt;
use std::ops::{AddAssign, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

use crate::driver::Universe;
use crate::driver::tally::Tally;
use crate::driver::world::world;
use crate::failure::{Failure, Failures, Sighting};
use crate::liveness::Bounds;
use crate::panics::guarded;
use crate::plan::{Campaign, EngineKind};
use crate::report::progress::Progress;
use crate::tape::{Cell, Tape};

/// Universes that a thread takes at a time.
const CHUNK_MAX: u64 = 8;
/// The same for the second pass, so that other seeds share a thread.
const CHUNK_BACKWARD_MAX: u64 = 5;

/// How long no universe ends before those under way are asked how far they are.
const PULSE_EVERY: Duration = Duration::from_secs(1);

/// One part of several of a range of seeds: every `count`th, from the `index`th on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 1, count: 1 }
    }
}

impl Shard {
    /// Shard `index` of `count`, from 1; `None` if there is no such shard.
    pub fn new(index: u64, count: u64) -> Option<Self> {
        (1..=count).contains(&index).then_some(Self { index, count })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

/// The seeds of a campaign: a range, or a shard of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seeds {
    /// The first seed of the range.
    pub start: u64,
    /// The seed after its last one.
    pub end: u64,
    /// Which of them.
    pub shard: Shard,
}

impl Seeds {
    /// How many there are.
    pub fn count(&self) -> u64 {
        let range = self.end.saturating_sub(self.start);
        range.saturating_sub(self.shard.index - 1).div_ceil(self.shard.count)
    }

    /// The seed at that position.
    pub fn at(&self, position: u64) -> u64 {
        self.start + self.shard.index - 1 + position * self.shard.count
    }

    /// The same seeds without those after the first `count`.
    #[must_use]
    pub fn first(self, count: u64) -> Self {
        match count < self.count() {
            true => Self { end: self.start + count * self.shard.count, ..self },
            false => self,
        }
    }
}

/// What a campaign judges, with the words that say so on the command line.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The campaign.
    pub campaign: Campaign,
    /// The option and the file that its flow was read from.
    pub file: Option<(&'static str, String)>,
}

impl Subject {
    /// The arguments that choose it.
    pub fn arguments(&self) -> Vec<String> {
        let campaign = &self.campaign;
        let mut arguments = vec!["--lane", campaign.lane.name()];
        arguments.extend(["--profile", campaign.profile.name()]);
        if campaign.engine != EngineKind::default() {
            arguments.extend(["--engine", campaign.engine.name()]);
        }
        if let Some(mutant) = campaign.mutant {
            arguments.extend(["--mutant", mutant.id()]);
        }
        if let Some((option, file)) = &self.file {
            arguments.extend([option, file.as_str()]);
        }
        arguments.into_iter().map(str::to_owned).collect()
    }

    /// The same as they are typed, each with a space before it.
    pub fn options(&self) -> String {
        self.arguments()
            .iter()
            .fold(String::new(), |options, argument| options + " " + &quoted(argument))
    }
}

/// An argument as a shell takes it.
pub(crate) fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    match !argument.is_empty() && argument.chars().all(plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
}

/// Which way through the seeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// From the first.
    Forward,
    /// From the last, in other chunks.
    Backward,
}

/// One way through the seeds of a campaign.
pub struct Pass<'a> {
    /// What is run.
    pub campaign: &'a Campaign,
    /// Which seeds.
    pub seeds: Seeds,
    /// On so many threads.
    pub jobs: usize,
    /// In which order.
    pub order: Order,
    /// Whether the time for it is over; asked before each chunk.
    pub over: &'a (dyn Fn() -> bool + Sync),
}

/// The universe with the largest bound on its liveness phase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heaviest {
    /// Its seed.
    pub seed: u64,
    /// Its bounds.
    pub bounds: Bounds,
}

/// What the universes of a campaign came to.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// What they reached.
    pub tally: Tally,
    /// Those that failed.
    pub failures: Failures,
    /// The trace hash of each seed, in seed order.
    pub hashes: Vec<(u64, u64)>,
    /// The heaviest one.
    pub heaviest: Option<Heaviest>,
}

impl Results {
    /// One number for all trace hashes.
    pub fn combined_hash(&self) -> u64 {
        let mut combined = 0xCBF2_9CE4_8422_2325_u64;
        for (seed, hash) in &self.hashes {
            for value in [seed, hash] {
                combined = (combined ^ value).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
            }
        }
        combined
    }

    fn weigh(&mut self, other: Option<Heaviest>) {
        let weight =
            |one: &Option<Heaviest>| one.as_ref().map(|one| (one.bounds.l2, Reverse(one.seed)));
        if weight(&other) > weight(&self.heaviest) {
            self.heaviest = other;
        }
    }
}

impl AddAssign for Results {
    fn add_assign(&mut self, other: Results) {
        self.tally += &other.tally;
        self.failures.merge(other.failures);
        self.hashes.extend(other.hashes);
        self.weigh(other.heaviest);
    }
}

/// What one universe came to.
pub(crate) struct Ran {
    pub(crate) sighting: Option<Sighting>,
    pub(crate) trace_hash: u64,
    pub(crate) tape: Vec<Cell>,
    /// None if it panicked.
    pub(crate) bounds: Option<Bounds>,
}

/// The choices of a seed, apart from those that made its plan.
pub(crate) fn tape(seed: u64) -> Tape {
    Tape::random(seed, 1)
}

/// A universe whose flow is of this namespace panics in tests, for nothing else makes one panic.
#[cfg(test)]
const PANICS: &str = "panics";

/// Runs one universe on this thread. After a panic the thread's world is not to be used again.
/// Fails if the storage of the lane cannot be opened.
pub(crate) fn universe(campaign: &Campaign, seed: u64) -> Result<Ran, String> {
    let mut universe = Universe::new(Arc::new(campaign.plan(seed)))?;
    let ran = guarded(|| {
        let outcome = universe.run(tape(seed));
        #[cfg(test)]
        assert_ne!(universe.flow().spec().namespace, PANICS, "a test asked for a panic");
        let bounds = universe.bounds();
        (outcome, bounds)
    });
    Ok(match ran {
        Ok((outcome, bounds)) => Ran {
            sighting: Sighting::of(&outcome.end),
            trace_hash: outcome.trace_hash,
            tape: outcome.tape,
            bounds: Some(bounds),
        },
        Err(said) => {
            // What it was in the middle of may panic once more as it is dropped.
            let _ = guarded(|| drop(universe));
            let (trace_hash, tape) =
                world(|world| (world.trace.hash(), world.tape.cells().to_vec()));
            Ran { sighting: Some(Sighting::panic(said)), trace_hash, tape, bounds: None }
        }
    })
}

/// Goes through the seeds. Fails if the machine refuses what a universe needs.
pub fn run(pass: &Pass<'_>, progress: &mut Progress) -> Result<Results, String> {
    let shared = Shared {
        pass,
        count: pass.seeds.count(),
        next: AtomicU64::new(0),
        stopped: AtomicBool::new(false),
        pulse: Arc::default(),
    };
    let (sender, receiver) = channel();
    let mut results = Results::default();
    let mut trouble = None;
    let whole = shared.count.saturating_mul(pass.campaign.executions());
    std::thread::scope(|scope| {
        for _ in 0..pass.jobs.max(1) {
            let (shared, sender) = (&shared, sender.clone());
            scope.spawn(move || work(scope, shared, None, &sender));
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(PULSE_EVERY) {
                Ok(Ok(part)) => {
                    progress.advance(part.tally.universes, part.failures.count());
                    results += part;
                }
                Ok(Err(why)) => trouble = Some(why),
                Err(RecvTimeoutError::Timeout) => {
                    progress.pulse(shared.pulse.load(Ordering::Relaxed), whole);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    results.hashes.sort_unstable();
    match trouble {
        Some(why) => Err(why),
        None => Ok(results),
    }
}

struct Shared<'a> {
    pass: &'a Pass<'a>,
    count: u64,
    next: AtomicU64,
    stopped: AtomicBool,
    /// Executions that have ended.
    pulse: Arc<AtomicU64>,
}

impl Shared<'_> {
    /// The next positions to run, or none if there are no more.
    fn take(&self) -> Option<Range<u64>> {
        if self.stopped.load(Ordering::Relaxed) || (self.pass.over)() {
            return None;
        }
        let most = match self.pass.order {
            Order::Forward => CHUNK_MAX,
            Order::Backward => CHUNK_BACKWARD_MAX,
        };
        // Few seeds are likely to be large ones: every thread gets some.
        let fair = self.count / (8 * self.pass.jobs.max(1) as u64);
        let size = fair.clamp(1, most);
        let start = self.next.fetch_add(size, Ordering::Relaxed);
        (start < self.count).then(|| start..self.count.min(start + size))
    }

    fn seed(&self, position: u64) -> u64 {
        self.pass.seeds.at(match self.pass.order {
            Order::Forward => position,
            Order::Backward => self.count - 1 - position,
        })
    }
}

/// Takes chunks until there are none. After a panic another thread takes over, whose world is
/// whole.
fn work<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared<'_>,
    left: Option<Range<u64>>,
    sender: &Sender<Result<Results, String>>,
) {
    let mut left = left;
    world(|world| world.pulse = Some(Arc::clone(&shared.pulse)));
    while let Some(mut positions) = left.take().or_else(|| shared.take()) {
        let mut part = Results::default();
        let whole = match chunk(shared, &mut positions, &mut part) {
            Ok(whole) => whole,
            Err(why) => {
                shared.stopped.store(true, Ordering::Relaxed);
                // Nobody listens any more only if the campaign is over.
                let _ = sender.send(Err(why));
                return;
            }
        };
        part.tally = Universe::take_tally();
        let _ = sender.send(Ok(part));
        if !whole {
            let sender = sender.clone();
            scope.spawn(move || work(scope, shared, Some(positions), &sender));
            return;
        }
    }
}

/// Runs the positions in turn; false if a universe panicked and the rest is for another thread.
fn chunk(
    shared: &Shared<'_>,
    positions: &mut Range<u64>,
    part: &mut Results,
) -> Result<bool, String> {
    for position in positions {
        let seed = shared.seed(position);
        let ran = universe(shared.pass.campaign, seed)?;
        part.hashes.push((seed, ran.trace_hash));
        let panicked = ran.bounds.is_none();
        part.weigh(ran.bounds.map(|bounds| Heaviest { seed, bounds }));
        if let Some(sighting) = ran.sighting {
            let spec = shared.pass.campaign.plan(seed).whole();
            part.failures.add(Failure::new(seed, sighting, &spec, ran.trace_hash, ran.tape));
        }
        if panicked {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A pass that goes on until its seeds are through.
pub fn never_over() -> bool {
    false
}

/// Universes, statements and simulated time by second of wall time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Seconds of wall time.
    pub wall_s: f64,
    /// Universes by second.
    pub runs_per_s: f64,
    /// Executed statements by second.
    pub statements_per_s: f64,
    /// Simulated seconds by second.
    pub sim_s_per_s: f64,
}

impl Rates {
    /// The rates of what was reached in that time.
    #[expect(clippy::cast_precision_loss, reason = "rates are read by people")]
    pub fn of(tally: &Tally, wall: Duration) -> Rates {
        let wall_s = wall.as_secs_f64();
        let per_s = |count: u64| count as f64 / wall_s.max(1e-9);
        Rates {
            wall_s,
            runs_per_s: per_s(tally.universes),
            statements_per_s: per_s(tally.statements),
            sim_s_per_s: per_s(tally.virtual_us) / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{LaneKind, Profile};
    use crate::scenario::Workload;

    fn seeds(start: u64, end: u64, index: u64, count: u64) -> Vec<u64> {
        let shard = Shard::new(index, count).unwrap();
        let seeds = Seeds { start, end, shard };
        (0..seeds.count()).map(|position| seeds.at(position)).collect()
    }

    #[test]
    fn shards_cover_every_seed_once() {
        for count in 1..6 {
            let mut all: Vec<u64> =
                (1..=count).flat_map(|index| seeds(3, 14, index, count)).collect();
            all.sort_unstable();
            assert_eq!(all, (3..14).collect::<Vec<_>>());
        }
        assert_eq!(seeds(0, 2, 3, 3), [0; 0]);
        let endless = Seeds { start: 0, end: u64::MAX, shard: Shard::new(1, 3).unwrap() };
        assert_eq!(endless.count(), u64::MAX / 3);
    }

    #[test]
    fn the_first_seeds_of_a_shard_are_a_range_of_it() {
        let seeds = Seeds { start: 10, end: u64::MAX, shard: Shard::new(2, 3).unwrap() };
        let first = seeds.first(4);
        assert_eq!((first.start, first.end, first.count()), (10, 22, 4));
        assert_eq!(first.at(3), 20);
    }

    #[test]
    fn results_depend_neither_on_jobs_nor_on_order() {
        let campaign = Campaign {
            lane: LaneKind::Model,
            profile: Profile::Quick,
            engine: EngineKind::Published,
            mutant: None,
            workload: Workload::Drawn,
        };
        let seeds = Seeds { start: 0, end: 60, shard: Shard::default() };
        let pass = |jobs, order| {
            let pass = Pass { campaign: &campaign, seeds, jobs, order, over: &never_over };
            run(&pass, &mut Progress::silent()).unwrap()
        };
        let one = pass(1, Order::Forward);
        let many = pass(3, Order::Backward);
        assert_eq!(one.hashes, many.hashes);
        assert_eq!(one.tally, many.tally);
        assert_eq!(one.failures, many.failures);
        assert_eq!(one.heaviest, many.heaviest);
        assert_eq!(one.combined_hash(), many.combined_hash());
        assert_eq!(one.tally.universes, 60);
    }

    #[test]
    fn a_panic_is_a_failure_with_its_seed_and_other_seeds_run_on() {
        crate::panics::keep_quiet();
        let mut flow = sluicegate::flow::FlowSpec::builder().execution("a").build();
        flow.namespace = PANICS.to_owned();
        let campaign = Campaign {
            lane: LaneKind::Model,
            profile: Profile::Quick,
            engine: EngineKind::Sluicegate,
            mutant: None,
            workload: Workload::Flow(flow),
        };
        let seeds = Seeds { start: 0, end: 9, shard: Shard::default() };
        let pass =
            Pass { campaign: &campaign, seeds, jobs: 2, order: Order::Forward, over: &never_over };
        let results = run(&pass, &mut Progress::silent()).unwrap();
        assert_eq!((results.tally.universes, results.hashes.len()), (9, 9));
        assert_eq!(results.failures.count(), 9);
        for failure in results.failures.iter() {
            assert_eq!(failure.sighting.invariant, crate::failure::PANIC, "{failure:?}");
        }
    }
}
