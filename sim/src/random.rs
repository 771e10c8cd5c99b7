//! Numbers that follow from a seed and are no choices: nothing replays or shrinks them. Pure.

/// Numbers that are no choices: ids, nonces, jitter. `SplitMix64` (Steele, Lea, Flood, 2014).
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    /// The next one.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
