//! Maps whose keys are numbers that the cache gives itself. Nobody else chooses them, so they need no hash that withstands an attacker, and that one took a tenth of a hit.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

use crate::admission::mix;

/// A map by a number that the cache has given.
pub(crate) type ByNumber<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Hashes one number.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }
}

#[cfg(test)]
mod tests {
    use core::hash::{BuildHasher, Hash};
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_in_a_row_are_spread() {
        let hasher = BuildHasherDefault::<NumberHasher>::default();
        let top_bits = |number: u64| hasher.hash_one(number) >> 57;
        assert!((0..128).map(top_bits).collect::<HashSet<_>>().len() > 64);
        let (mut two, mut one) = (NumberHasher::default(), NumberHasher::default());
        (7_u32, 9_u64).hash(&mut two);
        (9_u32, 7_u64).hash(&mut one);
        assert_ne!(two.finish(), one.finish());
    }
}
