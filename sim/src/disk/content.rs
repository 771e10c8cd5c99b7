//! The bytes of a file, in chunks that copies share until one of them is written to: to copy a disk
//! costs little, and equal files are known by their hashes. Never knows what is synced.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use crate::wide::Wide;

/// Bytes of a chunk.
const CHUNK: usize = 4096;

#[derive(Clone, Debug)]
struct Chunk {
    bytes: [u8; CHUNK],
    /// Its hash, once somebody has asked for it.
    hash: Cell<Option<u128>>,
}

/// The bytes of a file. What the last chunk holds beyond them is zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    chunks: Vec<Rc<Chunk>>,
    length: usize,
}

/// A range of bytes by the chunks that hold it, and where in each.
fn pieces(bytes: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    (bytes.start / CHUNK..bytes.end.div_ceil(CHUNK)).map(move |number| {
        let start = number * CHUNK;
        (number, bytes.start.max(start) - start..bytes.end.min(start + CHUNK) - start)
    })
}

impl Content {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Cuts the end off, or adds zeros to it.
    pub(super) fn resize(&mut self, length: usize) {
        let zeros = || Rc::new(Chunk { bytes: [0; CHUNK], hash: Cell::new(None) });
        let chunks = length.div_ceil(CHUNK);
        if chunks > self.chunks.len() {
            self.chunks.resize(chunks, zeros());
        }
        self.chunks.truncate(chunks);
        let shrinks = length < self.length;
        self.length = length;
        let kept = length % CHUNK;
        if shrinks && kept > 0 {
            self.chunk(chunks - 1)[kept..].fill(0);
        }
    }

    /// Fills a buffer with the bytes from there on, all of which there are.
    pub(super) fn read(&self, buffer: &mut [u8], offset: usize) {
        assert!(offset + buffer.len() <= self.length, "who reads knows the length");
        let mut rest = buffer;
        for (number, within) in pieces(offset..offset + rest.len()) {
            let (now, later) = rest.split_at_mut(within.len());
            now.copy_from_slice(&self.chunks[number].bytes[within]);
            rest = later;
        }
    }

    /// Writes over the bytes from there on, all of which there are.
    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        assert!(offset + bytes.len() <= self.length, "who writes makes room first");
        let mut rest = bytes;
        for (number, within) in pieces(offset..offset + bytes.len()) {
            let (now, later) = rest.split_at(within.len());
            self.chunk(number)[within].copy_from_slice(now);
            rest = later;
        }
    }

    /// Makes a range that both have equal to that of another.
    pub(super) fn take(&mut self, other: &Content, bytes: Range<usize>) {
        assert!(bytes.end <= self.length.min(other.length), "both have what is taken");
        let ends = bytes.end == self.length && bytes.end == other.length;
        for (number, within) in pieces(bytes.clone()) {
            let last = ends && number + 1 == self.chunks.len();
            if within.start == 0 && (within.end == CHUNK || last) {
                self.chunks[number] = Rc::clone(&other.chunks[number]);
            } else if !within.is_empty() {
                let theirs = &other.chunks[number].bytes[within.clone()];
                self.chunk(number)[within].copy_from_slice(theirs);
            }
        }
    }

    /// Writes over a range what comes, byte by byte.
    pub(super) fn fill_with(&mut self, bytes: Range<usize>, mut next: impl FnMut() -> u8) {
        for (number, within) in pieces(bytes) {
            self.chunk(number)[within].fill_with(&mut next);
        }
    }

    /// Equal contents have equal hashes, and others hardly ever.
    pub(super) fn hash(&self) -> u128 {
        let mut hash = Wide::new();
        hash.mix(self.length as u64);
        self.chunks.iter().for_each(|chunk| hash.wide(chunk.hash()));
        hash.both()
    }

    #[cfg(test)]
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.read(&mut bytes, 0);
        bytes
    }

    fn chunk(&mut self, number: usize) -> &mut [u8; CHUNK] {
        let chunk = Rc::make_mut(&mut self.chunks[number]);
        chunk.hash.set(None);
        &mut chunk.bytes
    }
}

impl Chunk {
    fn hash(&self) -> u128 {
        self.hash.get().unwrap_or_else(|| {
            let mut hash = Wide::new();
            for word in self.bytes.as_chunks::<8>().0 {
                hash.mix(u64::from_le_bytes(*word));
            }
            self.hash.set(Some(hash.both()));
            hash.both()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[u8]) -> Content {
        let mut content = Content::default();
        content.resize(bytes.len());
        content.write(bytes, 0);
        content
    }

    #[test]
    fn a_copy_keeps_what_it_held_and_hashes_follow_the_bytes() {
        let mut one = content(&[1; 3 * CHUNK]);
        let copy = one.clone();
        let before = one.hash();
        one.write(&[2; 10], CHUNK - 5);
        assert_eq!(copy.to_vec(), vec![1; 3 * CHUNK]);
        assert_eq!(one.to_vec()[CHUNK - 6..CHUNK + 6], [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
        assert!(copy.hash() == before && one.hash() != before);
        one.write(&[1; 10], CHUNK - 5);
        assert_eq!(one.hash(), before);
        one.resize(3 * CHUNK - 1);
        assert_ne!(one.hash(), before);
    }

    #[test]
    fn what_was_cut_off_comes_back_as_zeros() {
        let mut one = content(&[7; CHUNK + 10]);
        one.resize(CHUNK + 4);
        one.resize(2 * CHUNK + 1);
        let mut expected = vec![7; CHUNK + 4];
        expected.resize(2 * CHUNK + 1, 0);
        assert_eq!(one.to_vec(), expected);
        one.resize(0);
        assert!(one.to_vec().is_empty());
    }

    #[test]
    fn a_range_is_taken_whole_chunk_or_not() {
        for (start, end) in [(0, 0), (0, 5), (3, CHUNK + 3), (CHUNK, 2 * CHUNK), (0, 2 * CHUNK + 9)]
        {
            let mut one = content(&[1; 2 * CHUNK + 9]);
            one.take(&content(&[2; 2 * CHUNK + 9]), start..end);
            let mut expected = vec![1; 2 * CHUNK + 9];
            expected[start..end].fill(2);
            assert_eq!(one.to_vec(), expected, "{start}..{end}");
        }
        let mut longer = content(&[1; 20]);
        longer.take(&content(&[2; 10]), 0..10);
        assert_eq!(longer.to_vec()[8..12], [2, 2, 1, 1]);
    }
}
