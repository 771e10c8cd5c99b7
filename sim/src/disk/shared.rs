//! The shared memory beside a database in WAL mode: regions that the processes of one machine map,
//! and their locks. It is no file: it goes when nobody maps it any more. Never reads a region.

use std::cell::Cell;
use std::rc::Rc;

use super::locks::SlotLocks;
use crate::wide::Wide;

/// One region; its address does not change while anybody maps it.
pub(super) type Region = Rc<[Cell<u64>]>;

/// The shared memory of one database.
#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    pub(super) locks: SlotLocks,
    regions: Vec<Region>,
    /// What the regions held when a process died that still goes through the motions.
    frozen: Option<Vec<Vec<u64>>>,
    /// What its regions hold, until somebody maps the first: most copies of a disk nobody opens.
    asleep: Option<Rc<Words>>,
}

/// What shared memory held at one instant.
#[derive(Debug)]
pub(super) struct Words {
    /// Word by word, by region.
    regions: Vec<Vec<u64>>,
    pub(super) hash: u128,
}

impl Words {
    fn new(regions: Vec<Vec<u64>>) -> Self {
        let mut hash = Wide::new();
        regions.iter().flatten().for_each(|word| hash.mix(*word));
        Self { regions, hash: hash.both() }
    }
}

/// Whether a region that is missing is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Missing {
    Made,
    LeftOut,
}

impl SharedMemory {
    /// Memory that holds those words.
    pub(super) fn of(words: &Rc<Words>) -> Self {
        Self { asleep: Some(Rc::clone(words)), ..Self::default() }
    }

    /// What it holds.
    pub(super) fn words(&self) -> Rc<Words> {
        match &self.asleep {
            Some(words) => Rc::clone(words),
            None => Rc::new(Words::new(self.regions())),
        }
    }

    /// True if it holds those words.
    pub(super) fn holds(&self, words: &Words) -> bool {
        let equal = |(region, words): (&Region, &Vec<u64>)| {
            region.len() == words.len() && region.iter().map(Cell::get).eq(words.iter().copied())
        };
        self.regions.len() == words.regions.len()
            && self.regions.iter().zip(&words.regions).all(equal)
    }

    fn regions(&self) -> Vec<Vec<u64>> {
        let words = |region: &Region| region.iter().map(Cell::get).collect();
        self.regions.iter().map(words).collect()
    }

    /// The region of that number and size in bytes.
    pub(super) fn region(
        &mut self,
        number: usize,
        size: usize,
        missing: Missing,
    ) -> Option<Region> {
        if let Some(words) = self.asleep.take() {
            let region = |words: &Vec<u64>| words.iter().copied().map(Cell::new).collect();
            self.regions = words.regions.iter().map(region).collect();
        }
        while self.regions.len() <= number && missing == Missing::Made {
            self.regions.push(vec![Cell::new(0); size.div_ceil(8)].into());
        }
        self.regions.get(number).map(Rc::clone)
    }

    /// A process died: nothing that it still does may be seen.
    pub(super) fn freeze(&mut self) {
        self.frozen = Some(self.regions());
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

    #[test]
    fn a_copy_holds_what_was_there_and_goes_its_own_way() {
        let mut memory = SharedMemory::default();
        let region = memory.region(0, 64, Missing::Made).unwrap();
        region[3].set(7);
        let words = memory.words();
        let mut copy = SharedMemory::of(&words);
        assert_eq!(copy.words().hash, words.hash);
        assert_eq!(copy.region(0, 64, Missing::LeftOut).unwrap()[3].get(), 7);
        assert!(copy.holds(&words) && memory.holds(&words));
        region[3].set(8);
        assert!(copy.holds(&words) && !memory.holds(&words));
        assert_ne!(memory.words().hash, words.hash);
    }
}
