//! A hash of 128 bits that is the same in every process. Not against an adversary.

use std::hash::Hasher;

/// Two independent lanes of multiply and fold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide {
    left: u64,
    right: u64,
}

impl Wide {
    pub(crate) fn new() -> Self {
        Self { left: 0x243F_6A88_85A3_08D3, right: 0x1319_8A2E_0370_7344 }
    }

    fn fold(value: u64, key: u64) -> u64 {
        let product = u128::from(value) * u128::from(key);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of the product")]
        let halves = ((product >> 64) as u64, product as u64);
        halves.0 ^ halves.1
    }

    pub(crate) fn mix(&mut self, value: u64) {
        self.left = Self::fold(self.left ^ value, 0x9E37_79B9_7F4A_7C15).rotate_left(29);
        self.right = Self::fold(self.right.wrapping_add(value), 0xD6E8_FEB8_6659_FD93) ^ self.left;
    }

    pub(crate) fn wide(&mut self, value: u128) {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of the value")]
        let halves = ((value >> 64) as u64, value as u64);
        self.mix(halves.0);
        self.mix(halves.1);
    }

    pub(crate) fn signed(&mut self, value: i64) {
        self.mix(value.cast_unsigned());
    }

    pub(crate) fn both(self) -> u128 {
        u128::from(self.left) << 64 | u128::from(self.right)
    }
}

impl Hasher for Wide {
    fn finish(&self) -> u64 {
        self.left
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(bytes.len() as u64);
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_i64(&mut self, value: i64) {
        self.signed(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.signed(value as i64);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn lanes_of_the_hash_do_not_follow_each_other() {
        let of = |values: &[u64]| {
            let mut hash = Wide::new();
            for value in values {
                hash.mix(*value);
            }
            hash.both()
        };
        let mut hashes = BTreeSet::new();
        for left in 0..100 {
            for right in 0..100 {
                assert!(hashes.insert(of(&[left, right])));
            }
        }
        let halves = |shift: u32| -> BTreeSet<u64> {
            hashes
                .iter()
                .map(|hash| u64::try_from(hash >> shift & u128::from(u64::MAX)).unwrap())
                .collect()
        };
        assert_eq!((halves(0).len(), halves(64).len()), (10_000, 10_000));
    }
}
