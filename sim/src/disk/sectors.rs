//! Sets of sectors of one file. Pure.

use std::ops::Range;

/// Bytes of a sector: what a device writes at once, or tears.
pub(super) const SECTOR: usize = 512;

/// A set of sectors, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Sectors {
    words: Vec<u64>,
}

/// The sectors that a range of bytes touches.
pub(super) fn touched(bytes: &Range<usize>) -> Range<usize> {
    match bytes.is_empty() {
        true => 0..0,
        false => bytes.start / SECTOR..bytes.end.div_ceil(SECTOR),
    }
}

/// The bytes of a sector in a file of that length.
pub(super) fn bytes(sector: usize, length: usize) -> Range<usize> {
    let start = (sector * SECTOR).min(length);
    start..(start + SECTOR).min(length)
}

impl Sectors {
    pub(super) fn insert(&mut self, sectors: Range<usize>) {
        if self.words.len() * 64 < sectors.end {
            self.words.resize(sectors.end.div_ceil(64), 0);
        }
        for sector in sectors {
            self.words[sector / 64] |= 1 << (sector % 64);
        }
    }

    pub(super) fn remove(&mut self, sectors: Range<usize>) {
        let end = sectors.end.min(self.words.len() * 64);
        for sector in sectors.start.min(end)..end {
            self.words[sector / 64] &= !(1 << (sector % 64));
        }
    }

    /// Takes those of another set over, which is empty then.
    pub(super) fn take(&mut self, others: &mut Sectors) {
        if self.words.len() < others.words.len() {
            self.words.resize(others.words.len(), 0);
        }
        for (own, other) in self.words.iter_mut().zip(&others.words) {
            *own |= other;
        }
        others.words.clear();
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// In ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(at * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inserted_and_not_removed_is_there_in_order() {
        let mut set = Sectors::default();
        assert!(set.is_empty());
        set.insert(60..70);
        set.insert(3..4);
        set.remove(62..200);
        set.remove(500..600);
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 60, 61]);
        let mut more = Sectors::default();
        more.insert(200..201);
        set.take(&mut more);
        assert!(more.is_empty());
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 60, 61, 200]);
    }

    #[test]
    fn bytes_and_sectors_cover_each_other() {
        assert_eq!(touched(&(0..0)), 0..0);
        assert_eq!(touched(&(511..513)), 0..2);
        assert_eq!(touched(&(512..1024)), 1..2);
        assert_eq!(bytes(1, 700), 512..700);
        assert_eq!(bytes(9, 700), 700..700);
    }
}
