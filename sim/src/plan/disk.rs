//! Which universes have a disk that fails, and how. Follows from the seed, not from a choice. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{EngineKind, LaneKind, Plan};
use crate::faults::FaultKind;
use crate::random::SplitMix;

/// Of so many universes on a file one has a disk that fails.
const FAILS_EVERY: u64 = 4;
/// Of so many of these one begins with any kind of fault, the others with one of the disk.
const ANY_FIRST_EVERY: u64 = 4;
/// Pages of a write-ahead log after which it is written back.
const CHECKPOINT_PAGES: [u32; 4] = [1_000, 32, 8, 2];

/// A disk that fails, and how a database is used on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailingDisk {
    /// Pages of the write-ahead log from which on a commit writes them back.
    pub checkpoint_pages: u32,
    /// Processes that use it, at least 1; the actors are divided among them.
    pub processes: u8,
    /// A write leaves the bytes beside it in its sector alone, whatever happens, and SQLite knows.
    pub powersafe_overwrite: bool,
    /// What goes wrong at which operation, if that is fixed and no choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strike: Option<Strike>,
}

/// What goes wrong at a fixed operation, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strike {
    /// What goes wrong.
    pub fault: FaultKind,
    /// So many operations that it could strike go well first.
    pub after: u32,
    /// How a power cut goes: the choices that say what of the unsynced is lost. Where the first
    /// asks for no second, and in a crash, the second says whether half of a write that is struck
    /// is done.
    pub way: [u16; 2],
}

impl Strike {
    /// True if half of a write that is struck is done.
    pub fn is_halfway(&self) -> bool {
        let [first, second] = self.way;
        first < 2 && second == 1
    }
}

impl Plan {
    /// The plan with the disk of its seed. What damages rows is left out there: what a crash leaves
    /// is compared row by row.
    pub(super) fn on_its_disk(mut self) -> Self {
        let mut random = SplitMix(self.ids_seed ^ 0x4449_534B_4641_494C);
        let fails = random.next().is_multiple_of(FAILS_EVERY);
        let ours = self.engine == EngineKind::Sluicegate && self.lane == LaneKind::Sqlite;
        if !fails || !ours {
            return self;
        }
        let mut below = |count: usize| {
            usize::try_from(random.next() % (count as u64).max(1)).unwrap_or_default()
        };
        let checkpoint_pages = CHECKPOINT_PAGES[below(CHECKPOINT_PAGES.len())];
        let powersafe = below(2) == 1;
        let processes = if below(2) == 1 { 2 } else { 1 };
        let all: Vec<FaultKind> = FaultKind::of_the_disk().collect();
        let first = all[below(all.len())];
        let mut kinds: BTreeSet<FaultKind> = all.into_iter().filter(|_| below(2) == 1).collect();
        kinds.insert(first);
        // Otherwise SQLite fills up the last sector of a transaction after its sync, and what the
        // next sync forgets of that is never written again: nobody could keep a promise there.
        let powersafe_overwrite = powersafe || kinds.contains(&FaultKind::FsyncLies);
        let strike = None;
        self.disk = Some(FailingDisk { checkpoint_pages, processes, powersafe_overwrite, strike });
        self.faults.retain(|kind| !kind.damages());
        self.faults.extend(kinds);
        let seldom = self.first_fault.filter(|kind| !kind.damages());
        self.first_fault = match random.next().is_multiple_of(ANY_FIRST_EVERY) {
            true => seldom,
            false => Some(first),
        };
        self
    }
}
