//! Roll-ups: what the executions of a flow, counted by state, say of the flow as a whole. Pure;
//! never counts a row by itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::identity::FlowId;
use crate::state::{Cause, Outcome, PublicState, State};
use crate::time::Timestamp;

/// How a flow stands as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowStatus {
    /// Nothing runs, and something is ready to.
    Open,
    /// Nothing runs and nothing is ready to: what has not ended is blocked or suspended.
    Blocked,
    /// A worker holds the lease of an execution.
    Running,
    /// All have ended; every failure was handled, and nothing was cancelled from outside.
    Completed,
    /// All have ended; every failure was handled, and an operator or the close of the flow
    /// cancelled something.
    Cancelled,
    /// All have ended, and a failed or expired one has no out-edge that accepts how it ended.
    Failed,
}

impl FlowStatus {
    /// Every status, in stored order.
    pub const ALL: [FlowStatus; 6] = [
        FlowStatus::Open,
        FlowStatus::Blocked,
        FlowStatus::Running,
        FlowStatus::Completed,
        FlowStatus::Cancelled,
        FlowStatus::Failed,
    ];

    /// The word used in text and JSON.
    pub fn name(self) -> &'static str {
        match self {
            FlowStatus::Open => "open",
            FlowStatus::Blocked => "blocked",
            FlowStatus::Running => "running",
            FlowStatus::Completed => "completed",
            FlowStatus::Cancelled => "cancelled",
            FlowStatus::Failed => "failed",
        }
    }

    /// True if every execution of the flow has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, FlowStatus::Completed | FlowStatus::Cancelled | FlowStatus::Failed)
    }
}

/// Executions of a flow by stored state, in the order of [`State::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StateCounts(pub [u64; State::ALL.len()]);

impl StateCounts {
    /// How many are in that state.
    pub fn of(&self, state: State) -> u64 {
        self.0[usize::from(state.code())]
    }

    /// Counts so many more in that state.
    pub fn add(&mut self, state: State, executions: u64) {
        self.0[usize::from(state.code())] += executions;
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// How many have ended.
    pub fn ended(&self) -> u64 {
        State::ALL.into_iter().filter(|state| state.is_terminal()).map(|state| self.of(state)).sum()
    }
}

/// Executions of one flow that are alike.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Counted {
    /// Their state.
    pub state: State,
    /// Why they ended, once they have.
    pub cause: Option<Cause>,
    /// Ready, but not yet; told apart only when the count was asked to.
    pub delayed: bool,
    /// How many they are.
    pub executions: u64,
    /// When the last of them ended, once they have.
    pub finished_at: Option<Timestamp>,
}

/// Whether some failure of a flow is left that no out-edge accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failures {
    /// Every failed or expired execution has an out-edge that accepts how it ended.
    Handled,
    /// One has none.
    Unhandled,
}

/// A whole flow, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Executions by state.
    pub counts: StateCounts,
    /// Those of the ready ones that wait for a later time.
    pub delayed: u64,
    /// Something was cancelled by an operator or with its flow.
    pub cancelled_from_outside: bool,
    /// When the last of those that have ended did.
    pub last_end: Option<Timestamp>,
}

impl Tally {
    /// Adds up what was counted.
    pub fn of(rows: &[Counted]) -> Self {
        let mut tally = Self::default();
        for row in rows {
            tally.counts.add(row.state, row.executions);
            tally.delayed += if row.delayed { row.executions } else { 0 };
            tally.cancelled_from_outside |= row.state == State::Terminal(Outcome::Cancelled)
                && matches!(row.cause, Some(Cause::Operator | Cause::Flow));
            tally.last_end = tally.last_end.max(row.finished_at);
        }
        tally
    }

    /// True if every execution has ended, and there is one.
    pub fn is_over(&self) -> bool {
        let total = self.counts.total();
        total > 0 && self.counts.ended() == total
    }

    /// True if the roll-up depends on whether failures were handled.
    pub fn asks_for_failures(&self) -> bool {
        let failed = [Outcome::Failed, Outcome::Expired].map(State::Terminal);
        self.is_over() && failed.iter().any(|state| self.counts.of(*state) > 0)
    }

    /// The roll-up. `failures` is looked at only where [`Tally::asks_for_failures`].
    pub fn status(&self, failures: Failures) -> FlowStatus {
        if self.is_over() {
            return match failures {
                Failures::Unhandled if self.asks_for_failures() => FlowStatus::Failed,
                _ if self.cancelled_from_outside => FlowStatus::Cancelled,
                _ => FlowStatus::Completed,
            };
        }
        if self.counts.of(State::Active) > 0 {
            FlowStatus::Running
        } else if self.counts.of(State::Ready) > 0 {
            FlowStatus::Open
        } else {
            FlowStatus::Blocked
        }
    }

    /// Since when the flow is over, if it is.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.last_end.filter(|_| self.is_over())
    }

    /// Executions per published state; states that nothing is in are left out.
    pub fn public(&self) -> BTreeMap<PublicState, u64> {
        let mut public = BTreeMap::new();
        let mut put = |state: PublicState, executions: u64| {
            if executions > 0 {
                public.insert(state, executions);
            }
        };
        for state in State::ALL {
            let delayed = if state == State::Ready { self.delayed } else { 0 };
            put(state.public(false), self.counts.of(state) - delayed);
            put(state.public(true), delayed);
        }
        public
    }
}

/// A flow in numbers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FlowSummary {
    /// The flow.
    pub flow: FlowId,
    /// How it stands as a whole.
    pub status: FlowStatus,
    /// Executions per published state; states that nothing is in are left out.
    pub counts: BTreeMap<PublicState, u64>,
    /// Executions in all.
    pub total: u64,
    /// When the last execution ended, on the storage's clock, once all have.
    pub ended_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(state: State, cause: Option<Cause>, executions: u64) -> Counted {
        let finished_at = state.is_terminal().then_some(Timestamp(executions.cast_signed()));
        Counted { state, cause, delayed: false, executions, finished_at }
    }

    fn ended(outcome: Outcome, cause: Cause) -> Counted {
        counted(State::Terminal(outcome), Some(cause), 1)
    }

    fn open(state: State) -> Counted {
        counted(state, None, 1)
    }

    fn check(rows: &[Counted], failures: Failures, expected: FlowStatus) {
        assert_eq!(Tally::of(rows).status(failures), expected, "{rows:?}");
    }

    #[test]
    fn a_flow_that_goes_on_is_running_before_it_is_open_before_it_is_blocked() {
        let (active, ready) = (open(State::Active), open(State::Ready));
        let (blocked, suspended) = (open(State::Blocked), open(State::Suspended));
        let failed = ended(Outcome::Failed, Cause::Handler);
        let unhandled = Failures::Unhandled;
        check(&[blocked, ready, active, failed], unhandled, FlowStatus::Running);
        check(&[blocked, ready, suspended, failed], unhandled, FlowStatus::Open);
        check(&[blocked, failed], unhandled, FlowStatus::Blocked);
        check(&[suspended], unhandled, FlowStatus::Blocked);
    }

    #[test]
    fn a_flow_that_is_over_is_failed_before_it_is_cancelled_before_it_is_completed() {
        let failed = ended(Outcome::Failed, Cause::Handler);
        let expired = ended(Outcome::Expired, Cause::Deadline);
        let by_operator = ended(Outcome::Cancelled, Cause::Operator);
        let by_flow = ended(Outcome::Cancelled, Cause::Flow);
        let by_sibling = ended(Outcome::Cancelled, Cause::Sibling);
        let succeeded = ended(Outcome::Succeeded, Cause::Handler);
        for failure in [failed, expired] {
            check(&[failure, by_operator], Failures::Unhandled, FlowStatus::Failed);
            check(&[failure, by_flow], Failures::Handled, FlowStatus::Cancelled);
            check(&[failure, by_sibling], Failures::Handled, FlowStatus::Completed);
        }
        check(&[succeeded, by_sibling], Failures::Unhandled, FlowStatus::Completed);
        check(&[], Failures::Handled, FlowStatus::Blocked);
    }

    #[test]
    fn a_flow_is_over_since_its_last_end() {
        let first = counted(State::Terminal(Outcome::Succeeded), Some(Cause::Handler), 3);
        let last = counted(State::Terminal(Outcome::Skipped), Some(Cause::Unsatisfiable), 8);
        assert_eq!(Tally::of(&[first, last]).ended_at(), Some(Timestamp(8)));
        assert_eq!(Tally::of(&[first, last, open(State::Blocked)]).ended_at(), None);
    }

    #[test]
    fn published_states_add_up_to_the_total() {
        let delayed = Counted { delayed: true, ..counted(State::Ready, None, 2) };
        let rows = [counted(State::Ready, None, 3), delayed, counted(State::Blocked, None, 4)];
        let tally = Tally::of(&rows);
        let public = tally.public();
        let expected = [
            (PublicState::Waiting, 3),
            (PublicState::Delayed, 2),
            (PublicState::WaitingChildren, 4),
        ];
        assert_eq!(public, BTreeMap::from(expected));
        assert_eq!(public.values().sum::<u64>(), tally.counts.total());
    }
}
