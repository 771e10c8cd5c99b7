//! How large a failing universe is. Pure.

use serde::Serialize;

use crate::plan::Plan;
use crate::tape::Cell;

/// How large a failing universe is. One with a lesser extent is smaller: executions count first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize)]
pub struct Extent {
    /// Executions, those that may be added included.
    pub executions: usize,
    /// Faults that strike.
    pub faults: usize,
    /// Deviations from the default schedule, an actor that is held back included.
    pub deviations: usize,
}

impl Extent {
    /// That of a universe with its choices.
    pub fn of(plan: &Plan, tape: &[Cell]) -> Self {
        let added = plan.extensions.iter().map(|one| one.executions.len());
        let count = |counts: fn(&Cell) -> bool| tape.iter().filter(|cell| counts(cell)).count();
        Self {
            executions: plan.flow.executions.len() + added.sum::<usize>(),
            faults: count(Cell::is_fault),
            deviations: count(Cell::deviates) + usize::from(plan.hold.is_some()),
        }
    }
}
