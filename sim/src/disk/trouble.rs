//! What can go wrong with an operation on the disk, and when it does. Never carries it out.

/// What a process asks of the disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Operation {
    /// Opens a file that is there.
    Open,
    /// Makes a file.
    Create,
    /// Removes a name.
    Delete,
    /// Asks whether a name is there.
    Access,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Sets the length of a file.
    Truncate,
    /// Waits until a file is on the device.
    Sync,
    /// Asks for the length of a file.
    Size,
    /// Locks a file.
    Lock,
    /// Unlocks a file.
    Unlock,
    /// Maps shared memory.
    Map,
    /// Locks a part of shared memory.
    LockShared,
    /// Unlocks a part of shared memory.
    UnlockShared,
    /// Orders what it reads and writes in shared memory.
    Barrier,
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Trouble {
    /// The power goes before the operation: every process dies.
    PowerCut,
    /// The process dies before the operation, or in the middle of it.
    ProcessCrash,
    /// The operation fails.
    IoError,
    /// There is no room.
    DiskFull,
    /// The sync fails, and those that follow it claim to have written what this one did not.
    FsyncLies,
}

impl Trouble {
    /// True if it can strike there. Where it makes no difference to anybody it does not.
    pub(crate) fn strikes(self, operation: Operation) -> bool {
        use Operation::{
            Access, Barrier, Create, Delete, Lock, LockShared, Map, Open, Read, Size, Sync,
            Truncate, Unlock, UnlockShared, Write,
        };
        match self {
            Trouble::PowerCut => matches!(operation, Create | Delete | Write | Truncate | Sync),
            Trouble::ProcessCrash => matches!(
                operation,
                Create
                    | Delete
                    | Write
                    | Truncate
                    | Sync
                    | Lock
                    | Unlock
                    | Map
                    | LockShared
                    | UnlockShared
                    | Barrier
            ),
            Trouble::IoError => matches!(
                operation,
                Open | Create
                    | Delete
                    | Access
                    | Read
                    | Write
                    | Truncate
                    | Sync
                    | Size
                    | Lock
                    | Map
                    | LockShared
            ),
            Trouble::DiskFull => matches!(operation, Create | Write | Map),
            Trouble::FsyncLies => operation == Sync,
        }
    }
}

/// Trouble that is on its way, or has begun and lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Armed {
    /// What goes wrong.
    pub(crate) trouble: Trouble,
    /// So many operations that it could strike go well first.
    pub(crate) after: u32,
    /// So many operations in a row go wrong; a crash is over at once.
    pub(crate) lasts: u32,
    /// Of a write that goes wrong half is done.
    pub(crate) halfway: bool,
    /// It has struck before.
    pub(crate) begun: bool,
}

/// Trouble as an operation meets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Strike {
    pub(super) trouble: Trouble,
    pub(super) halfway: bool,
    /// It is the first operation that meets it.
    pub(super) first: bool,
}

impl Armed {
    /// What strikes this operation, if anything does; nothing is left of it once it is over.
    pub(super) fn strike(slot: &mut Option<Armed>, operation: Operation) -> Option<Strike> {
        let armed = slot.as_mut().filter(|armed| armed.trouble.strikes(operation))?;
        match armed.after.checked_sub(1) {
            Some(left) => {
                armed.after = left;
                None
            }
            None => {
                let strike =
                    Strike { trouble: armed.trouble, halfway: armed.halfway, first: !armed.begun };
                armed.begun = true;
                armed.lasts = armed.lasts.saturating_sub(1);
                if armed.lasts == 0 {
                    *slot = None;
                }
                Some(strike)
            }
        }
    }

    /// Trouble that strikes once.
    pub(crate) fn once(trouble: Trouble, after: u32) -> Self {
        Self { trouble, after, lasts: 1, halfway: false, begun: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_strikes_once_it_is_due_and_for_as_long_as_it_lasts() {
        let trouble = Trouble::DiskFull;
        let mut armed = Some(Armed { lasts: 2, ..Armed::once(trouble, 1) });
        let mut first = |operation| Armed::strike(&mut armed, operation).map(|strike| strike.first);
        assert_eq!(first(Operation::Read), None);
        assert_eq!(first(Operation::Write), None);
        assert_eq!(first(Operation::Write), Some(true));
        assert_eq!(first(Operation::Sync), None);
        assert_eq!(first(Operation::Create), Some(false));
        assert_eq!(first(Operation::Write), None);
    }
}
