//! The campaign over planted bugs: each must be seen, and first by an invariant that its row names.
//! Never prints.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use sluicegate::mutants::Mutant;

use crate::campaign::{Seeds, universe};
use crate::failure::{PANIC, Sighting};
use crate::plan::{Campaign, EngineKind, LaneKind, Profile};
use crate::report::progress::{Progress, Stopwatch};
use crate::scenario::Workload;

/// What one planted bug came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Hunt {
    /// The bug.
    pub mutant: Mutant,
    /// Where it was hunted.
    pub lane: LaneKind,
    /// The first universe that showed it.
    pub detection: Option<Detection>,
    /// Universes run.
    pub seeds: u64,
    /// Wall time of them.
    pub wall: Duration,
}

/// The first universe that showed a planted bug.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Detection {
    /// Its profile.
    pub profile: Profile,
    /// Its seed.
    pub seed: u64,
    /// What was seen.
    pub sighting: Sighting,
}

/// How a hunt ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caught {
    /// By an invariant of its row.
    ByName,
    /// By another one.
    ByAnother,
    /// Universes panicked before an invariant was asked.
    Panicked,
    /// Nothing saw it.
    Never,
}

impl Hunt {
    /// How it ended.
    pub fn caught(&self) -> Caught {
        let Some(detection) = &self.detection else { return Caught::Never };
        let invariant = detection.sighting.invariant.as_str();
        match invariant {
            PANIC => Caught::Panicked,
            id if self.mutant.seen_by().split_whitespace().any(|named| named == id) => {
                Caught::ByName
            }
            _ => Caught::ByAnother,
        }
    }

    /// True if it was to be seen there and was not, or not by an invariant of its row: a lane that
    /// is not its own may be blind to it.
    pub fn is_missed(&self) -> bool {
        match self.caught() {
            Caught::ByName => false,
            Caught::Never => self.lane == lane(self.mutant),
            Caught::ByAnother | Caught::Panicked => true,
        }
    }
}

/// How many of the hunts ended as they must, in words.
pub fn score(hunts: &[Hunt]) -> String {
    let caught = hunts.iter().filter(|hunt| hunt.caught() == Caught::ByName).count();
    format!("caught {caught} of {}", hunts.len())
}

/// Hunts each of the bugs through the seeds, each under every profile, up to the first universe
/// that shows it, in that lane, or each in its own. Results are in the order of the bugs. Fails if
/// the machine refuses what a universe needs.
pub fn hunt(
    mutants: &[Mutant],
    lane: Option<LaneKind>,
    seeds: Seeds,
    jobs: usize,
    progress: &mut Progress,
) -> Result<Vec<Hunt>, String> {
    let next = AtomicUsize::new(0);
    let stopped = AtomicBool::new(false);
    let (sender, receiver) = channel();
    let mut hunts = Vec::new();
    let mut trouble = None;
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (next, stopped, sender) = (&next, &stopped, sender.clone());
            scope.spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(mutant) = mutants.get(at) else { return };
                    let hunt = on_a_thread_of_its_own(*mutant, lane, seeds);
                    stopped.fetch_or(hunt.is_err(), Ordering::Relaxed);
                    // Nobody listens any more only if all hunts are over.
                    let _ = sender.send((at, hunt));
                }
            });
        }
        drop(sender);
        for (at, hunt) in receiver {
            match hunt {
                Ok(hunt) => {
                    progress.advance(1, u64::from(hunt.is_missed()));
                    hunts.push((at, hunt));
                }
                Err(why) => trouble = Some(why),
            }
        }
    });
    hunts.sort_unstable_by_key(|(at, _)| *at);
    match trouble {
        Some(why) => Err(why),
        None => Ok(hunts.into_iter().map(|(_, hunt)| hunt).collect()),
    }
}

/// A universe that panics leaves the world of its thread broken: each hunt has a thread.
fn on_a_thread_of_its_own(
    mutant: Mutant,
    asked: Option<LaneKind>,
    seeds: Seeds,
) -> Result<Hunt, String> {
    let lane = asked.unwrap_or_else(|| lane(mutant));
    std::thread::scope(|scope| {
        let hunt = scope.spawn(|| search(mutant, lane, seeds)).join();
        hunt.unwrap_or_else(|_| Err(format!("the hunt for {} broke down", mutant.id())))
    })
}

/// Where a planted bug shows: what is not in the protocol but in a backend shows there alone.
pub fn lane(mutant: Mutant) -> LaneKind {
    match mutant {
        Mutant::P49 | Mutant::P50 | Mutant::S31 | Mutant::S32 => LaneKind::Sqlite,
        _ => LaneKind::Model,
    }
}

fn search(mutant: Mutant, lane: LaneKind, seeds: Seeds) -> Result<Hunt, String> {
    let watch = Stopwatch::start();
    let mut tried = 0;
    let campaigns = Profile::HUNTED.map(|profile| Campaign {
        lane,
        profile,
        engine: EngineKind::Sluicegate,
        mutant: Some(mutant),
        workload: Workload::Drawn,
    });
    for position in 0..seeds.count() {
        let seed = seeds.at(position);
        for campaign in &campaigns {
            tried += 1;
            if let Some(sighting) = universe(campaign, seed)?.sighting {
                let profile = campaign.profile;
                let detection = Some(Detection { profile, seed, sighting });
                return Ok(Hunt { mutant, lane, detection, seeds: tried, wall: watch.elapsed() });
            }
        }
    }
    Ok(Hunt { mutant, lane, detection: None, seeds: tried, wall: watch.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mutant: Mutant, invariant: Option<&str>, caught: Caught) {
        let detection = invariant.map(|id| Detection {
            profile: Profile::Quick,
            seed: 3,
            sighting: Sighting { invariant: id.into(), message: String::new() },
        });
        let (lane, seeds, wall) = (LaneKind::Model, 4, Duration::ZERO);
        let hunt = Hunt { mutant, lane, detection, seeds, wall };
        assert_eq!(hunt.caught(), caught);
        assert_eq!(hunt.is_missed(), caught != Caught::ByName);
        let elsewhere = Hunt { lane: LaneKind::Network, ..hunt.clone() };
        let blind = caught == Caught::Never;
        assert_eq!(elsewhere.is_missed(), hunt.is_missed() && !blind, "it may be blind");
        let caught = u8::from(caught == Caught::ByName);
        assert_eq!(score(&[hunt]), format!("caught {caught} of 1"));
    }

    #[test]
    fn only_an_invariant_of_its_row_catches_a_planted_bug() {
        check(Mutant::P01, Some("I21"), Caught::ByName);
        check(Mutant::P01, Some("I8"), Caught::ByName);
        check(Mutant::P01, Some("I2"), Caught::ByAnother);
        check(Mutant::P01, Some(PANIC), Caught::Panicked);
        check(Mutant::P01, None, Caught::Never);
    }
}
