//! The table of what is measured. A work is one row; how it runs stands in the file of its kind.
//! Targets are those that the project set itself on a machine of two cores.

mod cascades;
mod large;
mod tasks;
mod whole;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::storage::Scope;

use super::ceilings::Ceiling;
use super::counted::Counters;
use super::drive::{self, Dispatchers, Handle};
use super::figures::{Target, Unit};
use super::place::{Fresh, Place};
use super::shapes::Shape;
use super::verify::{Expected, verify};
use crate::real_lane::RealLane;
use crate::report::progress::Stopwatch;

/// Flows that open every connection and prepare every statement before anything is measured.
const WARM_FLOWS: usize = 8;
/// Workers and dispatchers that do so.
const WARM_TASKS: u16 = 4;
/// Rounds in which they run out.
const WARM_ROUNDS: usize = 10;

type Running<'a> = Pin<Box<dyn Future<Output = Result<Sample, String>> + Send + 'a>>;

/// Measures a work once; the error says what was wrong with its result.
pub(crate) type Run = for<'a> fn(&'a Bench<'a>) -> Running<'a>;

/// How long a run takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scale {
    /// Seconds.
    Quick,
    /// Minutes: the flow of a million edges too.
    Full,
}

/// Somebody else's figure for the same, measured before on a machine of two cores.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Peer {
    /// Who.
    pub name: &'static str,
    /// What they reach, in the unit of the work.
    pub figure: f64,
}

/// A row of the table.
pub(crate) struct Work {
    /// As the command line names it.
    pub name: &'static str,
    /// What is done, and what of it is timed.
    pub what: &'static str,
    /// What its figure counts.
    pub unit: Unit,
    /// From which scale on it runs.
    pub scale: Scale,
    /// What its figure is divided by.
    pub ceiling: Option<Ceiling>,
    /// What is asked of it on Postgres.
    pub postgres: Target,
    /// What is asked of it on SQLite.
    pub sqlite: Target,
    /// Who else does it.
    pub peer: Option<Peer>,
    /// How it runs.
    pub run: Run,
}

impl Work {
    /// What is asked of it there.
    pub(crate) fn target(&self, lane: RealLane) -> Target {
        match lane {
            RealLane::Postgres => self.postgres,
            RealLane::Sqlite => self.sqlite,
        }
    }
}

/// What one run came to; its result has been verified.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sample {
    /// In the unit of the work.
    pub figure: f64,
    /// Hops, nodes or tasks that statements are counted by.
    pub units: usize,
}

impl Sample {
    /// So many in that time.
    fn rate(units: usize, wall: Duration) -> Self {
        Self { figure: super::figures::rate(units, wall), units }
    }
}

/// What a work runs on.
pub(crate) struct Bench<'a> {
    /// Where.
    pub place: &'a Place,
    /// Counts the statements of what is timed.
    pub counters: Option<Arc<Counters>>,
}

/// A new database with an engine on it, all of its connections warm.
struct Ready {
    fresh: Fresh,
    engine: Handle,
    counters: Option<Arc<Counters>>,
}

impl Bench<'_> {
    async fn ready(&self) -> Result<Ready, String> {
        let fresh = self.place.fresh(self.counters.as_ref()).await?;
        let engine = drive::handle(&fresh.storage);
        let ready = Ready { fresh, engine, counters: self.counters.clone() };
        ready.warm().await?;
        Ok(ready)
    }
}

impl Ready {
    /// Holds every flow to what its shape calls for, and leaves nothing behind.
    async fn verified(self, expected: &[Expected<'_>]) -> Result<(), String> {
        let verdict = verify(&self.fresh.storage, expected).await;
        self.fresh.close().await?;
        verdict
    }

    /// Runs small flows of every kind of cascade through every connection.
    async fn warm(&self) -> Result<(), String> {
        let engine = &self.engine;
        for _ in 0..WARM_ROUNDS {
            drive::submit(engine, &Shape::chain(3)).await?;
            drive::fail_ready(engine).await?;
        }
        let (all, scope) = (Dispatchers::OfProcesses(WARM_TASKS), Scope::default());
        drive::drain(engine, all, &scope).await?;
        for _ in 0..WARM_FLOWS {
            drive::submit(engine, &Shape::layers(3, 3, 2)).await?;
        }
        for _ in 0..WARM_ROUNDS {
            let ended =
                drive::workers(engine, usize::from(WARM_TASKS), drive::Way::Calls { batch: 1 })
                    .await?;
            drive::drain(engine, all, &scope).await?;
            if ended == 0 {
                return Ok(());
            }
        }
        Err(format!("the flows of the warm-up do not end in {WARM_ROUNDS} rounds"))
    }

    /// Times a part, and counts its statements if they are counted.
    async fn timed<T>(
        &self,
        part: impl Future<Output = Result<T, String>>,
    ) -> Result<(T, Duration), String> {
        if let Some(counters) = &self.counters {
            counters.resume();
        }
        let watch = Stopwatch::start();
        let result = part.await;
        let wall = watch.elapsed();
        if let Some(counters) = &self.counters {
            counters.pause();
        }
        Ok((result?, wall))
    }
}

/// Every work, in the order of the table.
pub(crate) const WORKS: &[&Work] = &[
    &cascades::FAN_OUT,
    &cascades::FAN_IN,
    &cascades::FAN_IN_BY_FOUR,
    &cascades::FAN_IN_FOUR_TO_ONE,
    &cascades::FAN_IN_BY_FOUR_PROCESSES,
    &cascades::CHAIN_SKIP,
    &cascades::CHAIN_SUCCESS,
    &cascades::DIAMOND_LAYERS,
    &cascades::DIAMOND_LAYERS_BY_FOUR,
    &cascades::DIAMOND_AT_ONCE,
    &cascades::DIAMOND_AT_ONCE_BY_FOUR,
    &whole::SUBMIT,
    &tasks::ONE_BY_ONE,
    &tasks::FUSED,
    &tasks::BATCHED,
    &whole::MIGRATIONS,
    &large::HOP_COST,
    &large::MEMORY,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn works_have_names_of_their_own() {
        let names: BTreeSet<&str> = WORKS.iter().map(|work| work.name).collect();
        assert_eq!(names.len(), WORKS.len());
    }

    #[test]
    fn a_share_of_a_ceiling_is_asked_only_where_there_is_one() {
        for work in WORKS {
            let asked = RealLane::ALL.iter().any(|lane| work.target(*lane).ratio.is_some());
            assert!(!asked || work.ceiling.is_some(), "{}", work.name);
        }
    }

    /// A work of each kind, on files: each verifies its own result.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_work_leaves_what_its_shape_calls_for() {
        let place = Place::sqlite().unwrap();
        let bench = Bench { place: &place, counters: None };
        let few = ["chain-skip", "fan-in-4", "submit", "migrations"];
        let works = WORKS.iter().filter(|work| few.contains(&work.name));
        assert_eq!(works.clone().count(), few.len());
        for work in works {
            let sample =
                (work.run)(&bench).await.unwrap_or_else(|why| panic!("{}: {why}", work.name));
            assert!(sample.figure > 0.0 && sample.units > 0, "{}", work.name);
        }
    }
}
