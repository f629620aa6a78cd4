//! Randomness as an input: challenges, session handles and nonces come from here and nowhere else.

/// A source of random bytes.
pub trait Entropy {
    /// Fills `bytes`. A production source is cryptographically secure.
    fn fill(&mut self, bytes: &mut [u8]);

    /// A random number.
    fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// A reproducible source for tests and simulation (SplitMix64). Never for secrets.
#[derive(Debug, Clone)]
pub struct SeededEntropy(u64);

impl SeededEntropy {
    /// The sequence that belongs to `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Entropy for SeededEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(word.get(..chunk.len()).unwrap_or_default());
        }
    }
}
