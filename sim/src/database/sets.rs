//! Partial indexes over committed executions, so that scans do not read rows that they cannot want.
//! Kept by commits alone; a session's own rows are added by whoever asks.

use sluicegate::identity::ExecutionId;
use sluicegate::state::State;
use sluicegate::storage::{Execution, Position, claim_rank};
use sluicegate::time::Timestamp;

use super::rows::Member;
use super::table::{NO_SLOT, Slot, slot};

/// A set of slots with constant-time changes, in no order.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotSet {
    members: Vec<Slot>,
    /// Position in `members` by slot; `NO_SLOT` for those outside.
    positions: Vec<Slot>,
}

impl SlotSet {
    pub(super) fn clear(&mut self) {
        self.members.clear();
        self.positions.clear();
    }

    pub(super) fn contains(&self, member: Slot) -> bool {
        self.positions.get(member as usize).is_some_and(|position| *position != NO_SLOT)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.members.iter().copied()
    }

    /// Adds or removes a slot.
    pub(super) fn set(&mut self, member: Slot, wanted: bool) {
        if self.contains(member) == wanted {
            return;
        }
        if wanted {
            let needed = member as usize + 1;
            if self.positions.len() < needed {
                self.positions.resize(needed, NO_SLOT);
            }
            self.positions[member as usize] = slot(self.members.len());
            self.members.push(member);
            return;
        }
        let position = std::mem::replace(&mut self.positions[member as usize], NO_SLOT);
        self.members.swap_remove(position as usize);
        if let Some(moved) = self.members.get(position as usize) {
            self.positions[*moved as usize] = position;
        }
    }
}

/// What orders claims: rank, not before, id.
pub(super) type ClaimKey = (i64, Timestamp, ExecutionId);

/// The partial indexes.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets {
    /// Ready executions in claim order.
    ready: Vec<(ClaimKey, Slot)>,
    /// Terminal and not propagated.
    pub(super) unpropagated: SlotSet,
    /// Not terminal, with a lease or a deadline.
    pub(super) timed: SlotSet,
    /// Events without a position.
    pub(super) unnumbered: SlotSet,
    /// Events by position.
    numbered: Vec<(Position, Slot)>,
}

/// The position of a row in the claim order.
pub(super) fn claim_key(member: &Member) -> ClaimKey {
    let execution = &member.execution;
    (claim_rank(execution, member.definition.priority), execution.not_before, execution.id)
}

fn ready_key(member: &Member) -> Option<ClaimKey> {
    (member.execution.state == State::Ready).then(|| claim_key(member))
}

fn is_timed(execution: &Execution) -> bool {
    !execution.state.is_terminal() && (execution.lease.is_some() || execution.deadline.is_some())
}

impl Sets {
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.unpropagated.clear();
        self.timed.clear();
        self.forget_events();
    }

    /// No event is there any more.
    pub(super) fn forget_events(&mut self) {
        self.unnumbered.clear();
        self.numbered.clear();
    }

    /// An event has committed, or has got its position.
    pub(super) fn outboxed(&mut self, slot: Slot, position: Option<Position>) {
        self.unnumbered.set(slot, position.is_none());
        if let Some(position) = position {
            let at = self.numbered.partition_point(|entry| *entry < (position, slot));
            self.numbered.insert(at, (position, slot));
        }
    }

    /// An event is gone that stood at that position.
    pub(super) fn unboxed(&mut self, slot: Slot, position: Option<Position>) {
        self.unnumbered.set(slot, false);
        if let Some(position) = position
            && let Ok(at) = self.numbered.binary_search(&(position, slot))
        {
            self.numbered.remove(at);
        }
    }

    /// Events above a position, by position.
    pub(super) fn numbered_after(&self, after: Position) -> impl Iterator<Item = (Position, Slot)> {
        let start = self.numbered.partition_point(|entry| entry.0 <= after);
        self.numbered[start..].iter().copied()
    }

    /// Ready executions in claim order.
    pub(super) fn ready(&self) -> impl Iterator<Item = (&ClaimKey, Slot)> {
        self.ready.iter().map(|entry| (&entry.0, entry.1))
    }

    /// Follows the committed version of a row from `before` to `after`.
    pub(super) fn moved(&mut self, slot: Slot, before: Option<&Member>, after: Option<&Member>) {
        let (old, new) = (before.and_then(ready_key), after.and_then(ready_key));
        if old != new {
            if let Some(key) = old {
                let found = self.ready.binary_search_by(|entry| entry.0.cmp(&key));
                self.ready.remove(found.expect("a committed ready row is in the claim order"));
            }
            if let Some(key) = new {
                let position = self.ready.partition_point(|entry| entry.0 < key);
                self.ready.insert(position, (key, slot));
            }
        }
        let is = |wanted: fn(&Execution) -> bool| after.is_some_and(|row| wanted(&row.execution));
        self.unpropagated.set(slot, is(|row| row.state.is_terminal() && !row.propagated));
        self.timed.set(slot, is(is_timed));
    }
}
