//! A universe to which nothing happens, with what its disk and the judge went through, and what the
//! engine makes of copies of that disk. Never lets anybody die of a choice.

use sluicegate::storage::sqlite::SqliteStorage;

use super::machine::options;
use super::stored;
use crate::disk::{Disk, Recording, disk, exchange};
use crate::driver::universe::{Outcome, Universe};
use crate::driver::world::world;
use crate::mirror::Mirror;
use crate::tape::Tape;

/// What was kept of a universe.
pub(crate) struct Recorded {
    pub(crate) outcome: Outcome,
    /// Its disk, operation by operation.
    pub(crate) recording: Recording,
    /// What the judge knew at the beginning and after each commit that was acknowledged.
    pub(crate) mirrors: Vec<Mirror>,
}

impl Universe {
    /// Runs it once with that tape on a machine of its own, and keeps what happens until faults
    /// stop; `ready` is given its disk first.
    pub(crate) fn run_recorded(&mut self, tape: Tape, ready: impl FnOnce(&mut Disk)) -> Recorded {
        self.reset(tape);
        disk(|disk| {
            ready(disk);
            disk.record();
        });
        world(|world| world.witness = Some(vec![world.judge.mirror().clone()]));
        let end = self.phases();
        let recording = disk(Disk::take_recording).expect("its disk is still there");
        let mirrors = world(|world| world.witness.take()).expect("only a reset ends it");
        Recorded { outcome: self.outcome(end), recording, mirrors }
    }
}

/// Runs something on a copy of a disk, which is in the place of this thread's meanwhile.
pub(crate) fn on_copy<T>(copy: Disk, work: impl FnOnce() -> T) -> (T, Disk) {
    let own = exchange(copy);
    let done = work();
    (done, exchange(own))
}

/// In what a file that the engine opens on that disk differs from what the judge knew.
pub(crate) fn differs(copy: Disk, known: &Mirror) -> Option<String> {
    let (differs, _) =
        on_copy(copy, || match SqliteStorage::open(options(disk(Disk::begin_process))) {
            Ok(storage) => stored::differs(&storage, known),
            Err(error) => Some(format!("it cannot be opened: {error}")),
        });
    differs
}

/// The disk after the engine has opened the file on it, and the power has gone at once: all that is
/// not synced is lost. Why it could not be opened, otherwise.
pub(crate) fn opens_and_dies(copy: Disk) -> Result<Disk, String> {
    let (opened, disk) = on_copy(copy, || {
        let opened = SqliteStorage::open(options(disk(Disk::begin_process)));
        disk(Disk::kill_everyone);
        let opened = opened.map(drop).map_err(|error| format!("it cannot be opened: {error}"));
        disk(|disk| disk.lose_power([0, 0]));
        opened
    });
    opened.map(|()| disk)
}
