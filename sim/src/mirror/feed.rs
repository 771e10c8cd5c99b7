//! The feed as the checkers know it: places, and events that were deleted.

use sluicegate::storage::{EventPosition, Position};

use super::{Events, Mirror};

/// Events that were deleted, whose delivery nobody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Forgotten {
    /// Those of so many first commits.
    pub commits: u64,
    /// The highest place that one of them had.
    pub position: Position,
}

impl Mirror {
    /// The events that were ever written, by their keys.
    pub fn all_events(&self) -> &[Events] {
        &self.events.rows
    }

    /// The places in the feed, in the order in which they were committed.
    pub fn positions(&self) -> &[EventPosition] {
        &self.positions
    }

    /// Which events were deleted.
    pub fn forgotten(&self) -> Forgotten {
        self.forgotten
    }

    /// Every event that there is was deleted.
    pub fn forget_events(&mut self) {
        let last = self.positions.iter().map(|given| given.position).max();
        self.forgotten = Forgotten { commits: self.commits, position: last.unwrap_or_default() };
    }
}
