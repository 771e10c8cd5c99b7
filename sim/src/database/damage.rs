//! Damage to rows, as a disk or a hand outside the engine does it: a row is gone, or a column holds
//! a value that no engine writes, so that every statement that returns the row fails, but for those
//! that read each row by itself. Never decides when.

use std::any::Any;

use sluicegate::identity::ExecutionId;
use sluicegate::policy::Decision;
use sluicegate::storage::{
    Decoded, EventKey, Execution, ExecutionView, FedGroup, Grant, Group, StorageError, Unreadable,
};

use super::Database;
use crate::mirror::Damaged;

/// What errors say of such a row.
pub(super) const HOLDS: &str = "a column holds 9";

impl Database {
    /// The groups that have not decided and that nobody has locked, in id order.
    pub fn damageable_groups(&self) -> Vec<ExecutionId> {
        let free = self.groups.free_committed();
        free.filter(|group| group.decision == Decision::Undecided)
            .map(|group| group.downstream)
            .collect()
    }

    /// The executions that nobody has locked, in id order.
    pub fn free_executions(&self) -> impl Iterator<Item = &Execution> {
        self.executions.free_committed().map(|member| &member.execution)
    }

    /// The events that nobody has locked.
    pub fn free_events(&self) -> Vec<EventKey> {
        self.events.free_committed().map(|row| row.event.event.key()).collect()
    }

    /// Deletes an event that nobody has locked.
    pub fn delete_event(&mut self, event: EventKey) -> bool {
        let Some(slot) = self.events.find(&event) else { return false };
        let position = self.events.row(slot).committed.as_ref().and_then(|row| row.position);
        self.events.delete_one(&event);
        self.sets.unboxed(slot, position);
        true
    }

    /// The joins whose requests for sibling cancellation nobody has locked.
    pub fn free_sibling_requests(&self) -> Vec<ExecutionId> {
        self.sibling_requests.free_committed().map(|request| request.group).collect()
    }

    /// Deletes a request for sibling cancellation that nobody has locked.
    pub fn delete_sibling_request(&mut self, group: ExecutionId) -> bool {
        let found = self.sibling_requests.find(&group).is_some();
        if found {
            self.sibling_requests.delete_one(&group);
        }
        found
    }

    /// Damages a row that nobody has locked.
    pub fn damage(&mut self, damaged: Damaged) {
        match damaged {
            Damaged::GroupGone(id) => self.groups.delete_one(&id),
            unreadable => {
                self.unreadable.insert(unreadable);
            }
        }
    }

    /// A row of a list, unless it is damaged so.
    pub(super) fn unless<T>(&self, damaged: Damaged, row: impl FnOnce() -> T) -> Decoded<T> {
        match self.unreadable.contains(&damaged) {
            true => Err(Unreadable { key: damaged.execution(), reason: HOLDS.into() }),
            false => Ok(row()),
        }
    }

    /// A row was written anew, and can be read again.
    pub(super) fn mended(&mut self, row: Damaged) {
        self.unreadable.remove(&row);
    }

    /// The error of a statement whose reply holds a row that cannot be read.
    pub(crate) fn unreadable_in(&self, reply: &dyn Any) -> Option<StorageError> {
        if self.unreadable.is_empty() {
            return None;
        }
        let executions = executions_in(reply).map(Damaged::ExecutionUnreadable);
        let groups = groups_in(reply).map(Damaged::GroupUnreadable);
        let met = executions.chain(groups).find(|row| self.unreadable.contains(row));
        let fed = reply.downcast_ref::<Vec<FedGroup>>().into_iter().flatten();
        let mut fed = fed.map(|group| Damaged::GroupUnreadable(group.edge.downstream));
        match met {
            Some(met) => Some(StorageError::Unreadable(met.execution(), HOLDS.into())),
            None if fed.any(|row| self.unreadable.contains(&row)) => {
                Some(StorageError::Corrupt(HOLDS.into()))
            }
            None => None,
        }
    }
}

/// The executions of which a reply holds a whole row.
fn executions_in(reply: &dyn Any) -> impl Iterator<Item = ExecutionId> {
    let rows = reply.downcast_ref::<Vec<Execution>>().into_iter().flatten().map(|row| row.id);
    let grants = reply.downcast_ref::<Vec<Grant>>().into_iter().flatten();
    let view = reply.downcast_ref::<Option<ExecutionView>>().into_iter().flatten();
    rows.chain(grants.map(|grant| grant.execution.id)).chain(view.map(|view| view.execution.id))
}

/// The downstreams of whose group a reply holds the whole row.
fn groups_in(reply: &dyn Any) -> impl Iterator<Item = ExecutionId> {
    let groups = reply.downcast_ref::<Vec<Group>>().into_iter().flatten();
    groups.map(|group| group.downstream)
}
