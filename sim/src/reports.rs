//! Runs the scenarios of public reports: the engine passes each, in every lane that can express it,
//! and each of its specimens fails by an invariant that the report's rules stand on. Never prints.

use std::sync::Arc;

use crate::campaign::{self, Order, Pass, Seeds, Shard, never_over, universe};
use crate::exit::Exit;
use crate::failure::Sighting;
use crate::plan::{Campaign, EngineKind, LaneKind, Profile};
use crate::report::progress::Progress;
use crate::scenario::{Scenario, Specimen, Workload};

/// What a scenario came to in a lane.
#[derive(Clone, Debug)]
pub struct Staged {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The lane.
    pub lane: LaneKind,
    /// Universes of the engine.
    pub universes: u64,
    /// The first of them that failed.
    pub failed: Option<(u64, Sighting)>,
    /// How many failed.
    pub failures: u64,
    /// Faults and conditions that it should have reached and did not.
    pub missing: Vec<String>,
    /// Its specimens.
    pub specimens: Vec<Shown>,
}

/// What a specimen came to.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The specimen.
    pub specimen: Specimen,
    /// The first universe in which it failed by one of the invariants that are asked for.
    pub seen: Option<(u64, Sighting)>,
    /// Failures by other invariants before that, the first of them.
    pub otherwise: Option<(u64, Sighting)>,
}

impl Shown {
    /// True if it failed, and by nothing else before.
    pub fn is_red(&self) -> bool {
        self.seen.is_some() && self.otherwise.is_none()
    }
}

impl Staged {
    /// True if the engine passed, everything was reached, and every specimen failed as it must.
    pub fn holds(&self) -> bool {
        self.exits().is_empty()
    }

    /// The codes that it stands for.
    pub fn exits(&self) -> Vec<Exit> {
        let mut exits: Vec<Exit> = self.failed.iter().map(|(_, seen)| seen.exit()).collect();
        if !self.missing.is_empty() || !self.specimens.iter().all(Shown::is_red) {
            exits.push(Exit::Vacuous);
        }
        exits
    }
}

/// The campaign of a scenario in a lane.
pub fn staged(scenario: &Arc<Scenario>, lane: LaneKind, specimen: Option<&Specimen>) -> Campaign {
    let engine = specimen.map_or_else(EngineKind::default, |specimen| specimen.engine);
    let mutant = specimen.and_then(Specimen::planted);
    let workload = Workload::Scenario(Arc::clone(scenario));
    Campaign { lane, profile: Profile::Swarm, engine, mutant, workload }
}

/// Runs one in a lane. Fails if the machine refuses what a universe needs.
pub fn run(scenario: &Arc<Scenario>, lane: LaneKind, jobs: usize) -> Result<Staged, String> {
    let campaign = staged(scenario, lane, None);
    let end = scenario.lanes.get(&lane).copied().unwrap_or_default();
    let seeds = Seeds { start: 0, end, shard: Shard::default() };
    let pass = Pass { campaign: &campaign, seeds, jobs, order: Order::Forward, over: &never_over };
    let results = campaign::run(&pass, &mut Progress::silent())?;
    let first = results.failures.iter().next();
    let tally = &results.tally;
    let faults = scenario.faults_in(lane).into_iter().filter(|kind| tally.struck_by(*kind) == 0);
    let mut missing: Vec<String> = faults.map(|kind| format!("fault {}", kind.name())).collect();
    let conditions = scenario.conditions().into_iter();
    let never = conditions.filter(|condition| tally.occurrences(*condition) == 0);
    missing.extend(never.map(|condition| condition.text().to_owned()));
    let specimens = scenario.specimens.iter().filter(|specimen| specimen.shows_in(lane));
    Ok(Staged {
        scenario: Arc::clone(scenario),
        lane,
        universes: tally.universes,
        failed: first.map(|failure| (failure.seed, failure.sighting.clone())),
        failures: results.failures.count(),
        missing,
        specimens: specimens
            .map(|specimen| show(scenario, lane, specimen, end))
            .collect::<Result<_, String>>()?,
    })
}

fn show(
    scenario: &Arc<Scenario>,
    lane: LaneKind,
    specimen: &Specimen,
    seeds: u64,
) -> Result<Shown, String> {
    let campaign = staged(scenario, lane, Some(specimen));
    let wanted = scenario.invariants();
    // A universe that panics leaves the world of its thread broken.
    std::thread::scope(|scope| {
        let searched = scope.spawn(|| {
            let mut shown = Shown { specimen: specimen.clone(), seen: None, otherwise: None };
            for seed in 0..seeds {
                let Some(sighting) = universe(&campaign, seed)?.sighting else { continue };
                match wanted.contains(sighting.invariant.as_str()) {
                    true => shown.seen = Some((seed, sighting)),
                    false => shown.otherwise = Some((seed, sighting)),
                }
                return Ok(shown);
            }
            Ok(shown)
        });
        let broken = || format!("the specimen {} of {} broke down", specimen.name(), scenario.id);
        searched.join().unwrap_or_else(|_| Err(broken()))
    })
}
