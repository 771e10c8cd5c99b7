//! What a write of an execution says of its suspensions. Never sends one.

use sluicegate::state::State;
use sluicegate::storage::{Execution, Resumed};

/// What leaves a suspension keeps which one that was.
pub(super) fn resumed(before: &Execution, state: State) -> Option<Resumed> {
    let ends = before.state == State::Suspended && state != State::Suspended;
    let resumed = Resumed { epoch: before.epoch, outcome: state.outcome() };
    ends.then_some(resumed).or(before.resumed)
}
