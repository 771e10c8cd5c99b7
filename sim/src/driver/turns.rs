//! When an actor begins a turn of its own accord: what it has not seen, what time brings it, how
//! long it waits after a turn. Never begins one.

use sluicegate::state::State;
use sluicegate::storage::Execution;
use sluicegate::time::Timestamp;

use crate::actors::{Progress, Role};
use crate::driver::world::World;

/// Virtual time between two turns of an actor that polls.
pub(crate) const POLL_US: i64 = 1_000_000;
/// Virtual time without a write after which actors poll less often, and by which part of the time
/// beyond it.
const QUIET_US: i64 = 120_000_000;
const STRETCH: i64 = 8;
/// Virtual time after which a failed turn is tried again.
const RETRY_US: i64 = 50_000;
/// The stale threshold of the reconciler: sigma of SPEC 10.
pub(crate) const SIGMA_US: i64 = 1_000_000;

/// When a reconciler may act on a row.
fn reconciled_at(row: &Execution) -> [Option<Timestamp>; 3] {
    match row.state.is_terminal() {
        true if row.propagated => [None; 3],
        true => [row.finished_at.map(|at| Timestamp(at.0 + SIGMA_US)), None, None],
        false => [None, row.attempt_over_at(), row.deadline],
    }
}

/// When a worker may act on a row.
fn claimed_at(row: &Execution) -> Option<Timestamp> {
    (row.state == State::Ready).then_some(row.not_before)
}

/// Actors look only where they find something to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sparing {
    /// Reconcilers also take away what is over, and no row says when.
    pub(crate) prunes: bool,
}

impl World {
    /// True if an actor that has seen so much has a reason to look again. Where actors are sparing,
    /// it also has to find something: the rest of its looks would change nothing.
    pub(crate) fn has_news(&self, role: Role, seen: u64) -> bool {
        seen != self.news.watched_by(role)
            && self.sparing.is_none_or(|sparing| self.finds_something(role, sparing))
    }

    /// False if one look of an actor of that role would find nothing to do now, by the rows that
    /// are committed.
    fn finds_something(&self, role: Role, sparing: Sparing) -> bool {
        let (mirror, now) = (self.judge.mirror(), self.storage_now());
        // Who knows what a damaged row hides.
        if !mirror.damaged().is_empty() {
            return true;
        }
        let rows = mirror.executions();
        match role {
            Role::Worker => rows.iter().filter_map(claimed_at).any(|at| at <= now),
            Role::Dispatcher => rows.iter().any(|row| row.state.is_terminal() && !row.propagated),
            Role::Reconciler => {
                sparing.prunes
                    || !mirror.sibling_requests().is_empty()
                    || !mirror.cancel_backlog().is_empty()
                    || rows.iter().flat_map(reconciled_at).flatten().any(|at| at <= now)
            }
            Role::Sequencer => {
                let written = mirror.all_events().iter().map(|events| events.count as usize);
                mirror.positions().len() < written.sum()
            }
            _ => true,
        }
    }

    /// When an actor begins its next turn, in virtual time; never, if it has seen everything. A
    /// process tries again what it left alone after so many microseconds.
    pub(crate) fn next_turn(
        &self,
        role: Role,
        seen: u64,
        progress: Progress,
        again: Option<i64>,
    ) -> i64 {
        let unchanged = seen == self.news.watched_by(role);
        let rests = |sparing| !self.finds_something(role, sparing);
        match progress {
            Progress::Worked if !self.sparing.is_some_and(rests) => self.now,
            // What is damaged, or fails although nothing has changed, is tried less often.
            Progress::Failed if unchanged || !self.judge.mirror().damaged().is_empty() => {
                self.now + self.poll_us()
            }
            Progress::Failed => self.now + RETRY_US,
            Progress::Done => i64::MAX,
            Progress::Worked | Progress::Idle => match role {
                // A worker polls; here it sleeps until something changes.
                Role::Worker => {
                    again.map_or(i64::MAX, |us| self.now.saturating_add(us.max(self.idle_us())))
                }
                Role::Client => i64::MAX,
                // One that is idle has not heard of a flow yet.
                Role::Operator | Role::Extender => self.now + POLL_US,
                _ if self.has_news(role, seen) => self.now + self.poll_us(),
                _ => i64::MAX,
            },
        }
    }

    /// Virtual time to the next turn of an actor that polls. The longer nothing is written, the
    /// longer it is: rows that fall due wake actors in time, and a century of polls says no more
    /// than the first minutes of it.
    pub(crate) fn poll_us(&self) -> i64 {
        POLL_US.max(self.idle_us())
    }

    fn idle_us(&self) -> i64 {
        (self.now - self.written_at - QUIET_US) / STRETCH
    }

    /// The next instant at which some row falls due, in virtual time.
    pub(crate) fn next_due(&self) -> Option<i64> {
        let now = self.storage_now();
        let roles = [Role::Worker, Role::Reconciler].into_iter();
        roles.filter_map(|role| self.next_interesting(role, now)).min()
    }

    /// The next instant at which a committed row can be acted on that could not be when somebody
    /// of that role looked at it last, in virtual time; it may have passed.
    pub(crate) fn next_interesting(&self, role: Role, began_at: Timestamp) -> Option<i64> {
        // A clock that has stepped back since makes the past interesting again.
        let after = began_at.min(self.storage_now());
        let (claims, reconciles) = match role {
            _ if self.sparing.is_none() => (true, true),
            Role::Worker => (true, false),
            _ => (false, true),
        };
        let mut next: Option<Timestamp> = None;
        let mut consider = |at: Option<Timestamp>| {
            if let Some(at) = at.filter(|at| *at > after) {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        };
        for row in self.judge.mirror().executions() {
            if claims {
                consider(claimed_at(row));
            }
            if reconciles {
                reconciled_at(row).into_iter().for_each(&mut consider);
            }
        }
        next.map(|at| at.0 - self.clock_offset)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::driver::world::world;
    use crate::driver::{End, Universe};
    use crate::plan::{Campaign, EngineKind, LaneKind, Plan, Profile};
    use crate::scenario::Workload;
    use crate::tape::Tape;

    fn plan(seed: u64, sparing: bool) -> Plan {
        let campaign = Campaign {
            lane: LaneKind::Model,
            profile: Profile::Quick,
            engine: EngineKind::Sluicegate,
            mutant: None,
            workload: Workload::Drawn,
        };
        Plan { sparing, faults_max: 0, first_fault: None, ..campaign.plan(seed) }
    }

    fn statements(sparing: bool) -> u64 {
        Universe::take_tally();
        for seed in 0..40 {
            let mut universe = Universe::new(Arc::new(plan(seed, sparing))).unwrap();
            assert_eq!(universe.run(Tape::random(seed, 1)).end, End::Clean, "seed {seed}");
        }
        Universe::take_tally().statements
    }

    #[test]
    fn sparing_actors_drain_the_same_flows_with_fewer_statements() {
        let (all, spared) = (statements(false), statements(true));
        assert!(spared * 10 < all * 9, "{spared} of {all}");
    }

    #[test]
    fn where_everything_is_over_a_sparing_actor_finds_nothing_whatever_has_happened() {
        let roles = [Role::Worker, Role::Dispatcher, Role::Reconciler, Role::Sequencer];
        for sparing in [true, false] {
            let plan = Plan { prunes: false, ..plan(1, sparing) };
            let mut universe = Universe::new(Arc::new(plan)).unwrap();
            assert_eq!(universe.run(Tape::quiet()).end, End::Clean);
            for role in roles {
                assert_eq!(world(|world| world.has_news(role, u64::MAX)), !sparing, "{role:?}");
            }
        }
    }
}
