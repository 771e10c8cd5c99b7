//! What a campaign reached of what its lane has: protocol points by fault kinds, and conditions
//! that must occur sometimes; and the floor below which it says nothing. Pure.

use serde::Serialize;
use sluicegate::storage::Verb;

use crate::driver::tally::{Sometimes, Tally};
use crate::faults::{self, FaultKind, Point};
use crate::plan::{Backend, Campaign, EngineKind, LaneKind};
use crate::scenario::Workload;

/// Universes from which on a campaign must have reached everything on its floor: any thousand of
/// seeds reaches it, not only those that CI runs.
const FLOOR_FROM: u64 = 1_000;

/// Cells and conditions that were reached, and those that were not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Coverage {
    /// How many were.
    pub hit: u64,
    /// How many there are.
    pub total: u64,
    /// Those that were not, in the order of the tables.
    pub missing: Vec<String>,
}

impl Coverage {
    /// What was reached on that lane.
    pub fn of(tally: &Tally, lane: LaneKind) -> Coverage {
        let mut coverage = Coverage { hit: 0, total: 0, missing: Vec::new() };
        for point in points(lane) {
            for kind in faults::kinds(lane) {
                if kind.strikes_at(point) {
                    let reached = tally.struck_at(point, kind) > 0;
                    coverage.count(reached, || format!("{} at {}", kind.name(), name(point)));
                }
            }
        }
        for condition in Sometimes::ALL {
            let reached = tally.occurrences(*condition) > 0;
            coverage.count(reached, || format!("sometimes {}", condition.text()));
        }
        coverage
    }

    fn count(&mut self, reached: bool, missing: impl FnOnce() -> String) {
        self.total += 1;
        match reached {
            true => self.hit += 1,
            false => self.missing.push(missing()),
        }
    }
}

/// What the campaign should have reached and did not; empty below the size from which it must.
pub fn below_floor(tally: &Tally, campaign: &Campaign) -> Vec<String> {
    if campaign.engine != EngineKind::Sluicegate || campaign.mutant.is_some() {
        return Vec::new();
    }
    if !matches!(campaign.workload, Workload::Drawn) {
        return match tally.universes > 0 && tally.faults_in_all() == 0 {
            true => vec!["any fault at all".to_owned()],
            false => Vec::new(),
        };
    }
    if tally.universes < FLOOR_FROM {
        return Vec::new();
    }
    let silent = |kind: &FaultKind| tally.struck_by(*kind) == 0;
    let kinds = faults::kinds(campaign.lane).into_iter().filter(silent);
    let faults = kinds.map(|kind| format!("fault {}", kind.name()));
    let never = |condition: &&Sometimes| tally.occurrences(**condition) == 0;
    let conditions = required(campaign.lane).iter().filter(never);
    faults.chain(conditions.map(|condition| condition.text().to_owned())).collect()
}

/// The conditions on the floor of a lane.
fn required(lane: LaneKind) -> &'static [Sometimes] {
    match lane {
        LaneKind::Model => &[
            Sometimes::ZombieFenced,
            Sometimes::SiblingRequested,
            Sometimes::SiblingCancelled,
            Sometimes::FlowCancelled,
            Sometimes::MemberCancelled,
            Sometimes::Replayed,
            Sometimes::ReplayRefused,
            Sometimes::ReplayOpened,
            Sometimes::LeaseRevoked,
            Sometimes::Backlogged,
            Sometimes::FlowExtended,
            Sometimes::ExtensionRefused,
            Sometimes::AddedDecided,
            Sometimes::LateInput,
            Sometimes::InputsPassed,
            Sometimes::InputsPaged,
            Sometimes::LockWaitTimedOut,
            Sometimes::EventDeliveredAgain,
            Sometimes::FlowTagged,
            Sometimes::FlowPruned,
            Sometimes::EventsPruned,
            Sometimes::CursorExpired,
        ],
        LaneKind::Sqlite => &[
            Sometimes::ZombieFenced,
            Sometimes::SiblingRequested,
            Sometimes::SiblingCancelled,
            Sometimes::FlowCancelled,
            Sometimes::MemberCancelled,
            Sometimes::Replayed,
            Sometimes::ReplayRefused,
            Sometimes::ReplayOpened,
            Sometimes::LeaseRevoked,
            Sometimes::Backlogged,
            Sometimes::FlowExtended,
            Sometimes::ExtensionRefused,
            Sometimes::AddedDecided,
            Sometimes::LateInput,
            Sometimes::InputsPassed,
            Sometimes::InputsPaged,
            Sometimes::EventDeliveredAgain,
            Sometimes::FlowTagged,
            Sometimes::FlowPruned,
            Sometimes::EventsPruned,
            Sometimes::CursorExpired,
        ],
        LaneKind::Network => &[
            Sometimes::ZombieFenced,
            Sometimes::SessionLingered,
            Sometimes::LockWait,
            Sometimes::WriterWait,
            Sometimes::DuplicateSubmit,
            Sometimes::SiblingCancelled,
            Sometimes::FlowCancelled,
            Sometimes::Replayed,
            Sometimes::LeaseRevoked,
            Sometimes::FlowExtended,
            Sometimes::InputsPassed,
            Sometimes::EventDeliveredAgain,
        ],
    }
}

/// Every point of a lane; waits are one, whichever statement begins them.
fn points(lane: LaneKind) -> Vec<Point> {
    let mut points: Vec<Point> = Verb::ALL.iter().map(|verb| Point::Statement(*verb)).collect();
    if lane.backends().contains(&Backend::Simulated) {
        points.extend([Point::Wait(Verb::LockGroups), Point::Heal]);
    }
    points.extend([Point::Await, Point::Notice]);
    points
}

fn name(point: Point) -> &'static str {
    match point {
        Point::Statement(verb) => verb.descriptor().name,
        Point::Wait(_) => "a lock wait",
        Point::Await => "an await",
        Point::Notice => "a notification",
        Point::Heal => "the heal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Profile;

    fn campaign(lane: LaneKind) -> Campaign {
        Campaign {
            lane,
            profile: Profile::Quick,
            engine: EngineKind::Sluicegate,
            mutant: None,
            workload: Workload::Drawn,
        }
    }

    #[test]
    fn an_empty_campaign_has_everything_missing() {
        for lane in LaneKind::ALL {
            let coverage = Coverage::of(&Tally::default(), lane);
            assert_eq!(coverage.hit, 0);
            assert_eq!(coverage.missing.len() as u64, coverage.total);
        }
    }

    #[test]
    fn the_floor_names_what_is_missing_once_the_campaign_is_large_enough() {
        for lane in LaneKind::ALL {
            let mut tally = Tally { universes: FLOOR_FROM - 1, ..Tally::default() };
            assert_eq!(below_floor(&tally, &campaign(lane)), [""; 0]);
            tally.universes = FLOOR_FROM;
            let missing = below_floor(&tally, &campaign(lane));
            assert!(missing.contains(&"fault crash".to_owned()), "{missing:?}");
            assert!(missing.contains(&Sometimes::ZombieFenced.text().to_owned()));
            tally.faults.fill(1);
            tally.occurred.fill(1);
            assert_eq!(below_floor(&tally, &campaign(lane)), [""; 0]);
        }
    }

    #[test]
    fn a_flow_of_the_users_own_needs_one_fault_in_all() {
        let flow = sluicegate::flow::FlowSpec::builder().execution("a").build();
        let workload = Workload::Flow(flow);
        let campaign = Campaign { workload, ..campaign(LaneKind::Model) };
        let mut tally = Tally { universes: 1, ..Tally::default() };
        assert_eq!(below_floor(&tally, &campaign).len(), 1);
        tally.faults[0] = 1;
        assert_eq!(below_floor(&tally, &campaign), [""; 0]);
    }
}
