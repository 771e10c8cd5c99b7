//! How large a failing universe is. Pure.

use serde::Serialize;

use crate::plan::Plan;
use crate::tape::{Cell, Site};

/// How large a failing universe is. One with a lesser extent is smaller: executions count first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize)]
pub struct Extent {
    /// Executions, those that may be added included.
    pub executions: usize,
    /// Faults that strike.
    pub faults: usize,
    /// Deviations from the default schedule; an actor that is held back, an order of priorities
    /// and each change of one are one as well.
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
            deviations: deviations(tape, plan.counting)
                + usize::from(plan.hold.is_some())
                + plan.priorities.as_ref().map_or(0, |priorities| 1 + priorities.changes.len()),
        }
    }
}

/// Choices by which another actor goes on than the one whose turn it is. Unless choices are counted
/// through, one cell says whether, and the next to whom.
fn deviations(tape: &[Cell], counting: bool) -> usize {
    let (mut deviations, mut asked) = (0, counting);
    for cell in tape {
        let schedules = cell.site == Site::Schedule && cell.value > 0;
        deviations += usize::from(schedules && asked);
        asked = counting || (schedules && !asked);
    }
    deviations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviation_is_a_choice_to_deviate_and_one_of_somebody_else() {
        let cell = |site, value| Cell { site, arity: 4, value };
        let tape = [
            cell(Site::Schedule, 1),
            cell(Site::Schedule, 3),
            cell(Site::Fault, 2),
            cell(Site::Schedule, 0),
            cell(Site::Schedule, 1),
            cell(Site::Schedule, 0),
            cell(Site::Schedule, 1),
            cell(Site::Fault, 1),
            cell(Site::Schedule, 1),
            cell(Site::Schedule, 1),
        ];
        assert_eq!(deviations(&tape, false), 2);
        assert_eq!(deviations(&tape, true), 6);
    }
}
