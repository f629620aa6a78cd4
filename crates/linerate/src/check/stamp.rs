//! What a checked block holds: its number and the round that wrote it, over and over.

/// Bytes of a stamp: the block's number, then the round mixed with the seed.
const STAMP: usize = 16;

/// How blocks are stamped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    pub(super) seed: u64,
    pub(super) block_size: u32,
}

impl Stamp {
    fn bytes(self, block: u64, round: u64) -> [u8; STAMP] {
        let mut stamp = [0; STAMP];
        stamp[..8].copy_from_slice(&block.to_le_bytes());
        stamp[8..].copy_from_slice(&self.mark(round).to_le_bytes());
        stamp
    }

    /// The round, recognisable among other data: 32 bits of the seed's hash stand above it.
    const fn mark(self, round: u64) -> u64 {
        let hash = self.seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash & 0xffff_ffff_0000_0000) | round
    }

    /// Stamps the blocks from number `first`.
    pub(super) fn fill(self, data: &mut [u8], first: u64, round: u64) {
        let block_size = self.block_size as usize;
        for (block, bytes) in (first..).zip(data.chunks_mut(block_size)) {
            let stamp = self.bytes(block, round);
            bytes.chunks_exact_mut(STAMP).for_each(|place| place.copy_from_slice(&stamp));
        }
    }

    /// The first byte of the volume at which `data` is not what round `round` (0: zeros) left, and what is there instead.
    pub(super) fn difference(self, data: &[u8], first: u64, round: u64) -> Option<(u64, String)> {
        let block_size = self.block_size as usize;
        for (block, bytes) in (first..).zip(data.chunks(block_size)) {
            let stamp = if round == 0 { [0; STAMP] } else { self.bytes(block, round) };
            let wrong = (0_u64..).step_by(STAMP).zip(bytes.chunks(STAMP)).find(|(_, found)| *found != stamp);
            if let Some((at, found)) = wrong {
                return Some((block * u64::from(self.block_size) + at, self.name(found, block)));
            }
        }
        None
    }

    fn name(self, found: &[u8], block: u64) -> String {
        if found.iter().all(|byte| *byte == 0) {
            return words(0);
        }
        let word = |range: std::ops::Range<usize>| {
            found.get(range).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)
        };
        let (number, mark) = (word(0..8), word(8..16));
        match (number, mark.filter(|mark| mark >> 32 == self.mark(0) >> 32)) {
            (Some(number), Some(mark)) if number == block => words(mark & 0xffff_ffff),
            (Some(number), Some(mark)) => format!("block {number} of round {}", mark & 0xffff_ffff),
            _ => "something that was never written".to_owned(),
        }
    }
}

/// What a round leaves, in words.
pub(super) fn words(round: u64) -> String {
    if round == 0 { "zeros".to_owned() } else { format!("what round {round} wrote") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMPED: Stamp = Stamp { seed: 7, block_size: 512 };

    fn blocks(first: u64, round: u64) -> Vec<u8> {
        let mut data = vec![0; 1024];
        STAMPED.fill(&mut data, first, round);
        data
    }

    #[test]
    fn what_was_written_is_recognised_and_every_mistake_is_named() {
        let right = blocks(10, 3);
        assert_eq!(STAMPED.difference(&right, 10, 3), None);
        assert_eq!(STAMPED.difference(&vec![0; 1024], 10, 0), None);
        let found = |data: &[u8], round| STAMPED.difference(data, 10, round).unwrap();
        assert_eq!(found(&blocks(10, 1), 3), (5120, "what round 1 wrote".to_owned()));
        assert_eq!(found(&blocks(99, 3), 3), (5120, "block 99 of round 3".to_owned()));
        assert_eq!(found(&right, 0), (5120, "what round 3 wrote".to_owned()));
        let mut half = right.clone();
        half[512..].fill(0);
        assert_eq!(found(&half, 3), (5632, "zeros".to_owned()));
        let mut bit = right;
        bit[512 + 256 + 12] ^= 1;
        assert_eq!(found(&bit, 3), (5120 + 768, "something that was never written".to_owned()));
    }
}
