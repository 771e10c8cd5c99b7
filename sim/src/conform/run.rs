//! Many random schedules on several connections at once, and smaller ones of those that fail. Never
//! prints.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use sluicegate::storage::postgres::PostgresStorage;
use tokio::runtime::{Builder, Runtime};

use super::draw::Drawn;
use super::floor::Counts;
use super::lockstep::{Played, Table, Written, play};
use super::outcome::Failure;
use super::server::{Address, PARTITIONS_MAX, Server, Trouble, WaitLimits, options};
use super::words::Step;
use crate::database::ModelMutant;
use crate::report::progress::{Progress, Stopwatch};

/// Sessions that any schedule may have.
pub const SEATS_MAX: usize = 4;
/// Random schedules of one run at most: each needs a partition, and so do the golden cases.
pub const SCHEDULES_MAX: u32 = 60_000;
/// Schedules that are played to make one that fails smaller.
const SHRINKS_MAX: usize = 60;

/// Hands out partitions; none is used twice.
#[derive(Debug, Default)]
pub struct Partitions(AtomicUsize);

impl Partitions {
    /// The next one.
    pub fn next(&self) -> Trouble<u16> {
        let next = u16::try_from(self.0.fetch_add(1, Ordering::Relaxed)).unwrap_or(u16::MAX);
        match next < PARTITIONS_MAX {
            true => Ok(next),
            false => Err(format!("a database has no more than {PARTITIONS_MAX} partitions")),
        }
    }
}

/// What a run of random schedules is about.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many.
    pub schedules: u32,
    /// Seed of the first; each further one has the next.
    pub seed: u64,
    /// Schedules at once.
    pub jobs: usize,
    /// A planted bug of the model.
    pub mutant: Option<ModelMutant>,
    /// Divergences after which the run stops.
    pub divergences_max: usize,
}

/// A schedule on which the two differ.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its seed.
    pub seed: u64,
    /// The smallest that was found.
    pub played: Played,
    /// Steps before it was made smaller.
    pub steps_drawn: usize,
}

/// What a run saw.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Schedules that were played.
    pub schedules: u64,
    /// Steps of them.
    pub steps: u64,
    /// Statements that waited.
    pub waits: u64,
    /// What Postgres failed with.
    pub failures: BTreeMap<Failure, u64>,
    /// What was reached.
    pub counts: Counts,
    /// Where the two differ, by seed.
    pub found: Vec<Found>,
    /// Wall time.
    pub wall: Duration,
}

/// A runtime of one thread, for one worker.
pub fn runtime() -> Trouble<Runtime> {
    Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

/// Makes the schema.
pub fn prepare(address: &Address) -> Trouble<()> {
    runtime()?.block_on(async {
        let options = options(address, WaitLimits::default())?;
        let said = |error: sluicegate::storage::postgres::OpenError| error.to_string();
        let storage = PostgresStorage::open(options).await.map_err(said)?;
        storage.close().await;
        Ok(())
    })
}

/// Plays random schedules.
pub fn run(
    address: &Address,
    settings: &Settings,
    partitions: &Partitions,
    progress: &mut Progress,
) -> Trouble<Summary> {
    let watch = Stopwatch::start();
    let next = AtomicU64::new(0);
    let stopped = AtomicBool::new(false);
    let (sender, receiver) = channel();
    let mut summary = Summary::default();
    let mut trouble = None;
    std::thread::scope(|scope| {
        for _ in 0..settings.jobs.max(1) {
            let worker = Worker {
                address,
                settings,
                partitions,
                next: &next,
                stopped: &stopped,
                counts: Counts::default(),
            };
            let sender = sender.clone();
            scope.spawn(move || worker.work(&|news| sender.send(news).is_ok()));
        }
        drop(sender);
        for news in receiver {
            match news {
                News::Played(played, found) => {
                    progress.advance(1, u64::from(found.is_some()));
                    summary.note(&played);
                    summary.found.extend(found.map(|found| *found));
                    if summary.found.len() >= settings.divergences_max {
                        stopped.store(true, Ordering::Relaxed);
                    }
                }
                News::Reached(counts) => summary.counts.add(&counts),
                News::Trouble(why) => {
                    stopped.store(true, Ordering::Relaxed);
                    trouble = Some(why);
                }
            }
        }
    });
    summary.found.sort_by_key(|found| found.seed);
    summary.wall = watch.elapsed();
    trouble.map_or(Ok(summary), Err)
}

impl Summary {
    fn note(&mut self, played: &Played) {
        self.schedules += 1;
        self.steps += played.taken.len() as u64;
        for taken in &played.taken {
            self.waits += u64::from(!taken.seen.answers.contains_key(&taken.step.seat));
        }
        for failure in played.failures() {
            *self.failures.entry(failure).or_default() += 1;
        }
    }

    /// Schedules by second.
    pub fn schedules_per_s(&self) -> f64 {
        let count = u32::try_from(self.schedules).unwrap_or(u32::MAX);
        f64::from(count) / self.wall.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

enum News {
    Played(Box<Played>, Option<Box<Found>>),
    Reached(Counts),
    Trouble(String),
}

struct Worker<'a> {
    address: &'a Address,
    settings: &'a Settings,
    partitions: &'a Partitions,
    next: &'a AtomicU64,
    stopped: &'a AtomicBool,
    counts: Counts,
}

impl Worker<'_> {
    fn work(mut self, tell: &dyn Fn(News) -> bool) {
        let done = runtime().and_then(|runtime| runtime.block_on(self.work_all(tell)));
        if let Err(why) = done {
            tell(News::Trouble(why));
        }
        tell(News::Reached(self.counts));
    }

    async fn work_all(&mut self, tell: &dyn Fn(News) -> bool) -> Trouble<()> {
        let mut server = self.connect().await?;
        while !self.stopped.load(Ordering::Relaxed) {
            let position = self.next.fetch_add(1, Ordering::Relaxed);
            if position >= u64::from(self.settings.schedules) {
                break;
            }
            let seed = self.settings.seed.wrapping_add(position);
            let (mut drawn, seats) = Drawn::of(seed);
            let limits = &LIMITS[..seats];
            let table = self.table(limits)?;
            let played = play(&mut server, &table, &mut drawn, &mut self.counts).await?;
            let mut found = None;
            if played.divergence.is_some() {
                server = self.connect().await?;
                let steps_drawn = played.taken.len();
                let smaller = self.shrink(&mut server, played.clone()).await?;
                found = Some(Box::new(Found { seed, played: smaller, steps_drawn }));
            }
            if !tell(News::Played(Box::new(played), found)) {
                break;
            }
        }
        Ok(())
    }

    async fn connect(&self) -> Trouble<Server> {
        Server::open(self.address, &LIMITS).await
    }

    fn table<'t>(&self, limits: &'t [WaitLimits]) -> Trouble<Table<'t>> {
        Ok(Table { partition: self.partitions.next()?, limits, mutant: self.settings.mutant })
    }

    /// Leaves out one step after the other as long as the two still differ.
    async fn shrink(&self, server: &mut Server, mut played: Played) -> Trouble<Played> {
        let limits = &LIMITS[..played.seats];
        let mut at = played.taken.len();
        for _ in 0..SHRINKS_MAX {
            if at == 0 || self.stopped.load(Ordering::Relaxed) {
                break;
            }
            at -= 1;
            let mut steps: Vec<Step> = played.steps();
            steps.remove(at);
            let mut source = Written(steps.iter());
            let table = self.table(limits)?;
            let smaller = play(server, &table, &mut source, &mut Counts::default()).await?;
            if smaller.divergence.is_some() {
                *server = self.connect().await?;
                at = at.min(smaller.taken.len());
                played = smaller;
            }
        }
        Ok(played)
    }
}

/// Nobody's waits end by themselves.
const LIMITS: [WaitLimits; SEATS_MAX] =
    [WaitLimits { lock_ms: None, statement_ms: None }; SEATS_MAX];
