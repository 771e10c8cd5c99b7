//! One file: what the page cache holds, what is on the device, and which sectors are still to be
//! written. Knows no names, handles or locks.

use std::ops::Range;

use super::content::Content;
use super::fate::{Fate, Fates};
use super::sectors::{Sectors, bytes, touched};

/// One file.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    cached: Content,
    durable: Content,
    /// Sectors that the next sync has to write.
    dirty: Sectors,
    /// Sectors that a failed sync has struck off its list: the cache holds them, the device does
    /// not, and no later sync writes them unless they are written to again.
    dropped: Sectors,
}

/// Sectors by what became of them in a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Damage {
    /// Written and not synced, and gone.
    pub(crate) lost: u32,
    /// In part, or spoilt.
    pub(crate) torn: u32,
    /// Changes of names that were not synced, and are gone.
    pub(crate) names: u32,
}

/// Bytes that are copied from one content to another, range by range: those that follow each other
/// as one, so that whole chunks are shared.
struct Copying<'a> {
    from: &'a Content,
    run: Range<usize>,
}

impl<'a> Copying<'a> {
    fn new(from: &'a Content) -> Self {
        Self { from, run: 0..0 }
    }

    fn copy(&mut self, into: &mut Content, bytes: Range<usize>) {
        if bytes.start != self.run.end {
            into.take(self.from, std::mem::replace(&mut self.run, bytes.start..bytes.start));
        }
        self.run.end = bytes.end;
    }

    fn end(self, into: &mut Content) {
        into.take(self.from, self.run);
    }
}

impl File {
    /// A file that is on the device as it is.
    pub(super) fn synced(content: Content) -> Self {
        Self { durable: content.clone(), cached: content, ..Self::default() }
    }

    pub(super) fn content(&self) -> &Content {
        &self.cached
    }

    /// True if a power cut may leave something else than is there.
    pub(super) fn is_unsynced(&self) -> bool {
        self.dirty.iter().chain(self.dropped.iter()).next().is_some()
            || self.cached.len() != self.durable.len()
    }

    /// Fills a buffer; zero bytes follow the end of the file. False if it ended before the buffer.
    pub(super) fn read(&self, buffer: &mut [u8], offset: usize) -> bool {
        let stored = self.cached.len().saturating_sub(offset).min(buffer.len());
        let (head, rest) = buffer.split_at_mut(stored);
        if !head.is_empty() {
            self.cached.read(head, offset);
        }
        rest.fill(0);
        rest.is_empty()
    }

    pub(super) fn write(&mut self, content: &[u8], offset: usize) {
        // A gap in front of what is written becomes part of the file too.
        let from = offset.min(self.cached.len());
        let until = offset + content.len();
        if self.cached.len() < until {
            self.cached.resize(until);
        }
        self.cached.write(content, offset);
        let sectors = touched(&(from..until));
        self.dropped.remove(sectors.clone());
        self.dirty.insert(sectors);
    }

    pub(super) fn truncate(&mut self, length: usize) {
        if length >= self.cached.len() {
            let from = self.cached.len();
            self.cached.resize(length);
            self.dirty.insert(touched(&(from..length)));
            return;
        }
        let beyond = length.div_ceil(super::sectors::SECTOR)..usize::MAX;
        self.dirty.remove(beyond.clone());
        self.dropped.remove(beyond);
        self.cached.resize(length);
    }

    /// Writes what is dirty to the device.
    pub(super) fn sync(&mut self) {
        self.durable.resize(self.cached.len());
        let mut copying = Copying::new(&self.cached);
        for sector in self.dirty.iter() {
            copying.copy(&mut self.durable, bytes(sector, self.cached.len()));
        }
        copying.end(&mut self.durable);
        self.dirty.clear();
    }

    /// A sync that fails, and forgets what it had to write (Rebello and others, "Can Applications
    /// Recover from fsync Failures?", 2020).
    pub(super) fn drop_dirty(&mut self) {
        self.dropped.take(&mut self.dirty);
    }

    /// True if the cache shows what is not on the device and will never be.
    #[cfg(test)]
    fn lies(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// The power goes, and comes back.
    pub(super) fn cut(&mut self, fates: &mut Fates, damage: &mut Damage) {
        let mut after = std::mem::take(&mut self.durable);
        let shrinks = self.cached.len() < after.len();
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.take(&mut self.dropped);
        let mut copying = Copying::new(&self.cached);
        for sector in dirty.iter() {
            let range = bytes(sector, self.cached.len());
            let length = range.len();
            let fate = fates.of_sector();
            // The last sector of a file may be a short one.
            let arrives = match fate {
                Fate::Kept | Fate::Garbled => 0..length,
                Fate::TornAfter(middle) => 0..middle.min(length),
                Fate::TornBefore(middle) => middle.min(length)..length,
                Fate::Lost => 0..0,
            };
            if arrives.is_empty() {
                damage.lost += 1;
                continue;
            }
            if after.len() < range.end {
                after.resize(range.end);
            }
            if fate == Fate::Garbled {
                after.fill_with(range, || fates.garbage());
                damage.torn += 1;
                continue;
            }
            damage.torn += u32::from(arrives.len() < length);
            let arrived = range.start + arrives.start..range.start + arrives.end;
            copying.copy(&mut after, arrived);
        }
        copying.end(&mut after);
        if self.cached.len() != after.len() && fates.arrives() {
            let length =
                if shrinks { self.cached.len() } else { self.cached.len().max(after.len()) };
            after.resize(length);
        }
        self.durable.clone_from(&after);
        self.cached = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(file: &mut File, way: u16) -> Damage {
        let mut damage = Damage::default();
        let mut choices = [way, 5].into_iter();
        let mut fates = Fates::chosen(&mut |_| choices.next().unwrap(), true);
        file.cut(&mut fates, &mut damage);
        damage
    }

    fn written(content: &[u8]) -> File {
        let mut file = File::default();
        file.write(content, 0);
        file
    }

    #[test]
    fn what_was_synced_survives_and_what_was_not_is_lost() {
        let mut file = written(&[1; 1000]);
        file.sync();
        file.write(&[2; 600], 600);
        let damage = cut(&mut file, 0);
        assert_eq!(file.content().to_vec(), [1; 1000]);
        assert_eq!(damage.lost, 2);
        file.write(&[2; 600], 600);
        cut(&mut file, 1);
        assert_eq!(file.content().len(), 1200);
        assert_eq!(file.content().to_vec()[600..], [2; 600]);
    }

    #[test]
    fn a_cut_may_tear_what_was_not_synced_and_nothing_else() {
        let mut file = written(&vec![1; 64 * 512]);
        file.sync();
        file.write(&vec![2; 32 * 512], 0);
        let damage = cut(&mut file, 2);
        assert!(damage.lost > 0 && damage.torn > 0, "{damage:?}");
        assert_eq!(file.content().to_vec()[32 * 512..], [1; 32 * 512]);
        let content = file.content().to_vec();
        let mut sectors = content[..32 * 512].chunks(512);
        assert!(sectors.any(|sector| sector.contains(&1) && sector.contains(&2)));
    }

    #[test]
    fn a_write_that_is_torn_leaves_the_bytes_beside_it_alone_where_the_device_says_so() {
        for number in 0..200 {
            let mut file = written(&[1; 600]);
            file.sync();
            file.write(&[2; 20], 600);
            let mut choices = [2, number].into_iter();
            let mut fates = Fates::chosen(&mut |_| choices.next().unwrap(), false);
            file.cut(&mut fates, &mut Damage::default());
            assert_eq!(file.content().to_vec()[..600], [1; 600], "{number}");
        }
    }

    #[test]
    fn a_shorter_length_survives_or_does_not() {
        for (way, length) in [(0, 1000), (1, 100)] {
            let mut file = written(&[1; 1000]);
            file.sync();
            file.truncate(100);
            cut(&mut file, way);
            assert_eq!(file.content().len(), length);
        }
        let mut file = written(&[1; 1000]);
        file.sync();
        file.truncate(0);
        file.write(&[0; 10], 990);
        file.sync();
        cut(&mut file, 0);
        assert_eq!(file.content().to_vec(), [0; 1000]);
    }

    #[test]
    fn a_failed_sync_drops_what_it_had_to_write_until_it_is_written_again() {
        let mut file = written(&[1; 1024]);
        file.drop_dirty();
        file.sync();
        assert!(file.lies());
        let mut again = file.clone();
        cut(&mut file, 0);
        assert_eq!(file.content().to_vec(), [0; 1024]);
        again.write(&[1; 1024], 0);
        again.sync();
        assert!(!again.lies());
        cut(&mut again, 0);
        assert_eq!(again.content().to_vec(), [1; 1024]);
    }

    #[test]
    fn reading_past_the_end_gives_zeros_and_says_so() {
        let file = written(&[7; 10]);
        let mut buffer = [9; 6];
        assert!(file.read(&mut buffer, 4));
        assert_eq!(buffer, [7; 6]);
        assert!(!file.read(&mut buffer, 8));
        assert_eq!(buffer, [7, 7, 0, 0, 0, 0]);
        assert!(!file.read(&mut buffer, 80));
        assert_eq!(buffer, [0; 6]);
    }
}
