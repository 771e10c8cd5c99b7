//! The shared memory beside a database in WAL mode: regions that the processes of one machine map,
//! and their locks. It is no file: it goes when nobody maps it any more. Never reads a region.

use std::cell::Cell;
use std::rc::Rc;

use super::locks::SlotLocks;

/// One region; its address does not change while anybody maps it.
pub(super) type Region = Rc<[Cell<u64>]>;

/// The shared memory of one database.
#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    pub(super) locks: SlotLocks,
    regions: Vec<Region>,
    /// What the regions held when a process died that still goes through the motions.
    frozen: Option<Vec<Vec<u64>>>,
}

/// Whether a region that is missing is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Missing {
    Made,
    LeftOut,
}

impl SharedMemory {
    /// The region of that number and size in bytes.
    pub(super) fn region(
        &mut self,
        number: usize,
        size: usize,
        missing: Missing,
    ) -> Option<Region> {
        while self.regions.len() <= number && missing == Missing::Made {
            self.regions.push(vec![Cell::new(0); size.div_ceil(8)].into());
        }
        self.regions.get(number).map(Rc::clone)
    }

    /// A process died: nothing that it still does may be seen.
    pub(super) fn freeze(&mut self) {
        let words = |region: &Region| region.iter().map(Cell::get).collect();
        self.frozen = Some(self.regions.iter().map(words).collect());
    }

    /// What the dead process did meanwhile goes.
    pub(super) fn thaw(&mut self) {
        for (region, words) in self.regions.iter().zip(self.frozen.take().unwrap_or_default()) {
            for (cell, word) in region.iter().zip(words) {
                cell.set(word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dead_process_writes_is_not_seen() {
        let mut memory = SharedMemory::default();
        assert!(memory.region(0, 64, Missing::LeftOut).is_none());
        let region = memory.region(0, 64, Missing::Made).unwrap();
        assert_eq!(region.len(), 8);
        region[3].set(7);
        memory.freeze();
        region[3].set(9);
        memory.thaw();
        assert_eq!(memory.region(0, 64, Missing::LeftOut).unwrap()[3].get(), 7);
        region[3].set(9);
        memory.thaw();
        assert_eq!(region[3].get(), 9);
    }
}
