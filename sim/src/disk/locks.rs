//! The locks that SQLite takes on a database file and on its shared memory, as its unix VFS has
//! them. Never waits: what cannot be had is refused.

use std::collections::BTreeMap;

/// Who holds a lock.
pub(super) type Holder = u32;
/// Locks of the shared memory of a database.
pub(super) const SHARED_LOCKS: usize = 8;

/// How far a handle has locked its file, in the order of SQLite's numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Level {
    /// Not at all.
    #[default]
    Unlocked,
    /// It reads, beside others who read.
    Shared,
    /// It will write; others may read.
    Reserved,
    /// It waits for those who read; nobody else begins to.
    Pending,
    /// It writes.
    Exclusive,
}

/// The locks on one file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileLocks {
    held: BTreeMap<Holder, Level>,
}

impl FileLocks {
    pub(super) fn level(&self, holder: Holder) -> Level {
        self.held.get(&holder).copied().unwrap_or_default()
    }

    /// True if somebody means to write.
    pub(super) fn is_reserved(&self) -> bool {
        self.held.values().any(|level| *level >= Level::Reserved)
    }

    /// Raises a lock; false if somebody is in the way. Who asks for the exclusive one then keeps
    /// others from beginning to read.
    pub(super) fn raise(&mut self, holder: Holder, level: Level) -> bool {
        if self.level(holder) >= level {
            return true;
        }
        let highest = self.highest_beside(holder);
        let (granted, held) = match level {
            Level::Unlocked | Level::Shared => (highest < Level::Pending, level),
            Level::Reserved => (highest < Level::Reserved, level),
            Level::Pending | Level::Exclusive if highest >= Level::Reserved => (false, level),
            Level::Pending => (true, level),
            Level::Exclusive => match highest {
                Level::Unlocked => (true, level),
                _ if self.level(holder) >= Level::Reserved => {
                    self.held.insert(holder, Level::Pending);
                    (false, level)
                }
                _ => (false, level),
            },
        };
        if granted {
            self.held.insert(holder, held);
        }
        granted
    }

    /// Lowers a lock.
    pub(super) fn lower(&mut self, holder: Holder, level: Level) {
        if self.level(holder) <= level {
            return;
        }
        match level {
            Level::Unlocked => self.held.remove(&holder),
            level => self.held.insert(holder, level),
        };
    }

    fn highest_beside(&self, holder: Holder) -> Level {
        let others = self.held.iter().filter(|(other, _)| **other != holder);
        others.map(|(_, level)| *level).max().unwrap_or_default()
    }
}

/// The locks on one shared memory: who holds which slots, in no order.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotLocks {
    shared: Vec<(Holder, u8)>,
    exclusive: Vec<(Holder, u8)>,
}

impl SlotLocks {
    /// Takes those slots alone; false if somebody has one of them.
    pub(super) fn take_alone(&mut self, holder: Holder, slots: u8) -> bool {
        if has_another(&self.shared, holder, slots) || has_another(&self.exclusive, holder, slots) {
            return false;
        }
        hold(&mut self.exclusive, holder, slots);
        true
    }

    /// Takes those slots beside others; false if somebody has one of them alone.
    pub(super) fn take_beside(&mut self, holder: Holder, slots: u8) -> bool {
        if has_another(&self.exclusive, holder, slots) {
            return false;
        }
        hold(&mut self.shared, holder, slots);
        true
    }

    /// Gives those slots back. Who holds none is forgotten: every connection that was ever open has
    /// been a holder.
    pub(super) fn give_back(&mut self, holder: Holder, slots: u8) {
        for held in [&mut self.shared, &mut self.exclusive] {
            let Some(at) = held.iter().position(|(one, _)| *one == holder) else { continue };
            held[at].1 &= !slots;
            if held[at].1 == 0 {
                held.swap_remove(at);
            }
        }
    }
}

/// True if somebody else holds one of those slots.
fn has_another(held: &[(Holder, u8)], holder: Holder, slots: u8) -> bool {
    held.iter().any(|(other, mask)| *other != holder && mask & slots != 0)
}

fn hold(held: &mut Vec<(Holder, u8)>, holder: Holder, slots: u8) {
    match held.iter_mut().find(|(one, _)| *one == holder) {
        Some((_, mask)) => *mask |= slots,
        None => held.push((holder, slots)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writes_when_nobody_reads_any_more_and_nobody_begins_to_meanwhile() {
        let mut locks = FileLocks::default();
        assert!(locks.raise(1, Level::Shared) && locks.raise(2, Level::Shared));
        assert!(locks.raise(1, Level::Reserved));
        assert!(!locks.raise(2, Level::Reserved));
        assert!(locks.raise(3, Level::Shared));
        locks.lower(3, Level::Unlocked);
        assert!(!locks.raise(1, Level::Exclusive));
        assert_eq!(locks.level(1), Level::Pending);
        assert!(!locks.raise(3, Level::Shared));
        locks.lower(2, Level::Unlocked);
        assert!(locks.raise(1, Level::Exclusive) && locks.is_reserved());
        locks.lower(1, Level::Shared);
        assert!(locks.raise(3, Level::Shared) && !locks.is_reserved());
        assert!(!locks.raise(3, Level::Exclusive));
        assert_eq!(locks.level(3), Level::Shared);
    }

    #[test]
    fn a_slot_has_many_readers_or_one_owner() {
        let mut locks = SlotLocks::default();
        assert!(locks.take_beside(1, 0b1000) && locks.take_beside(2, 0b1000));
        assert!(!locks.take_alone(3, 0b1100));
        assert!(locks.take_alone(3, 0b0100));
        assert!(!locks.take_beside(1, 0b0100));
        locks.give_back(1, 0b1000);
        assert!(!locks.take_alone(1, 0b1000));
        locks.give_back(2, 0b1000);
        assert!(locks.take_alone(1, 0b1000));
    }
}
