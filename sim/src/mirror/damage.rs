//! Damaged rows as the checkers know them, and what they excuse: nobody can bring on an execution
//! whose row, or whose group's row, is gone or cannot be read, nor what depends on it.

use std::collections::BTreeSet;

use sluicegate::identity::ExecutionId;
use sluicegate::storage::Edge;

use super::Mirror;
use crate::history::Commit;

/// A damaged row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Damaged {
    /// The group of that downstream is gone.
    GroupGone(ExecutionId),
    /// The group of that downstream cannot be read.
    GroupUnreadable(ExecutionId),
    /// The execution cannot be read.
    ExecutionUnreadable(ExecutionId),
}

impl Damaged {
    /// The execution, or the downstream of the group.
    pub fn execution(self) -> ExecutionId {
        match self {
            Self::GroupGone(id) | Self::GroupUnreadable(id) | Self::ExecutionUnreadable(id) => id,
        }
    }
}

/// The executions that wait for an operator: the damaged ones, and all that depends on them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    executions: BTreeSet<ExecutionId>,
}

impl Waiting {
    /// True if that execution waits.
    pub fn has(&self, id: ExecutionId) -> bool {
        !self.executions.is_empty() && self.executions.contains(&id)
    }

    /// True if one of its ends waits, so that nobody can resolve it.
    pub fn has_end_of(&self, edge: &Edge) -> bool {
        self.has(edge.key.downstream) || self.has(edge.key.upstream)
    }
}

impl Mirror {
    /// A row was damaged; a group that is gone is gone here too.
    pub fn damage(&mut self, damaged: Damaged) {
        if let Damaged::GroupGone(id) = damaged {
            self.groups.remove(&id);
        }
        self.damaged.insert(damaged);
    }

    /// The request of a join for sibling cancellation was deleted by a hand outside the engine:
    /// whom it no longer needs runs on.
    pub fn lose_request(&mut self, group: ExecutionId) {
        self.sibling_requests.remove(&group);
    }

    /// The damaged rows.
    pub fn damaged(&self) -> &BTreeSet<Damaged> {
        &self.damaged
    }

    /// Whoever writes a row anew has mended it: what was damaged and is written is not any more.
    pub(super) fn mend(&mut self, commit: &Commit) {
        self.mended.clear();
        if self.damaged.is_empty() {
            return;
        }
        let executions = commit.executions.iter().filter_map(|change| change.after.as_ref());
        let groups = commit.groups.iter().filter_map(|change| change.after.as_ref());
        let written = executions
            .map(|row| Damaged::ExecutionUnreadable(row.id))
            .chain(groups.clone().map(|group| Damaged::GroupUnreadable(group.downstream)))
            .chain(groups.map(|group| Damaged::GroupGone(group.downstream)));
        for row in written {
            if self.damaged.remove(&row) {
                self.mended.push(row);
            }
        }
    }

    /// The damaged rows that the last commit has written anew.
    pub fn mended(&self) -> &[Damaged] {
        &self.mended
    }

    /// True if the last commit has written the group of that downstream anew.
    pub fn has_mended_group(&self, downstream: ExecutionId) -> bool {
        let of_group = |row: &Damaged| match row {
            Damaged::GroupGone(id) | Damaged::GroupUnreadable(id) => *id == downstream,
            Damaged::ExecutionUnreadable(_) => false,
        };
        self.mended.iter().any(of_group)
    }

    /// True if the row of that execution, or of its group, is damaged.
    pub fn is_damaged(&self, id: ExecutionId) -> bool {
        self.damaged.iter().any(|row| row.execution() == id)
    }

    /// What waits for an operator, on account of damaged rows.
    pub fn waiting(&self) -> Waiting {
        let mut executions = BTreeSet::new();
        let mut reached: Vec<ExecutionId> =
            self.damaged.iter().map(|damaged| damaged.execution()).collect();
        while let Some(id) = reached.pop() {
            if executions.insert(id) {
                reached.extend(self.edges_from(id).map(|edge| edge.key.downstream));
            }
        }
        Waiting { executions }
    }
}
