//! The feed as the checkers know it: places, and events that were deleted.

use sluicegate::state::Outcome;
use sluicegate::storage::{EventKey, EventKind, EventPosition, Position};

use super::Mirror;

/// The events of one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Events {
    /// Whose they are, and what they say of a lease.
    pub key: EventKey,
    /// How many were ever written.
    pub count: u32,
    /// What the last one said.
    pub kind: EventKind,
    /// Number of the commit that wrote the last one, as [`Mirror::commits`] counts.
    pub commit: u64,
}

impl Events {
    /// How the execution ended, if they say so.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.kind {
            EventKind::Completed { outcome } => Some(outcome),
            _ => None,
        }
    }

    /// Where they stand among the events of their execution: a lease ends before it does.
    pub fn order(&self) -> (u64, EventKind) {
        (self.commit, self.kind)
    }
}

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
