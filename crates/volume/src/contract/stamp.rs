//! Blocks that say who wrote them: a block that is part one write and part another cannot pass.

use super::finding::Finding;

/// Bytes of a stamp: writer and number, eight each.
const HEADER: usize = 16;

/// Who wrote a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) writer: u64,
    /// Which of the writer's writes.
    pub(super) number: u64,
}

fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Fills a block: the stamp, and content that follows from it and from the block's place.
pub(super) fn fill(block: &mut [u8], place: u64, Stamp { writer, number }: Stamp) {
    let mut words = block.chunks_mut(8);
    if let (Some(one), Some(two)) = (words.next(), words.next()) {
        one.copy_from_slice(&writer.to_le_bytes());
        two.copy_from_slice(&number.to_le_bytes());
    }
    let start = mix(writer ^ mix(number ^ mix(place)));
    for (index, word) in (1_u64..).zip(words) {
        let bytes = mix(start.wrapping_add(index)).to_le_bytes();
        word.iter_mut().zip(bytes).for_each(|(target, byte)| *target = byte);
    }
}

/// Fills blocks from `place` on.
pub(super) fn fill_all(bytes: &mut [u8], block_size: usize, place: u64, stamp: Stamp) {
    for (place, block) in (place..).zip(bytes.chunks_mut(block_size)) {
        fill(block, place, stamp);
    }
}

/// The stamp of a block that is whole, or why it is not.
pub(super) fn read(block: &[u8], place: u64) -> Result<Stamp, Finding> {
    let word = |from: usize| {
        let bytes = block.get(from..from + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    let stamp = Stamp { writer: word(0), number: word(8) };
    let mut expected = vec![0; block.len()];
    fill(&mut expected, place, stamp);
    match block.iter().zip(&expected).position(|(one, two)| one != two) {
        None => Ok(stamp),
        Some(at) => Err(Finding::Data(format!(
            "block {place} carries the stamp {stamp:?}, but from byte {} on it is not that write's",
            at.max(HEADER)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checker that cannot tell two writes apart finds nothing: what follows the stamp differs wherever writer, number or place does.
    #[test]
    fn no_two_writes_and_no_two_places_have_the_same_content() {
        let mut seen = std::collections::HashMap::new();
        for writer in 0..32 {
            for number in 0..32 {
                for place in 0..32 {
                    let mut block = [0; HEADER + 8];
                    fill(&mut block, place, Stamp { writer, number });
                    let content: [u8; 8] = block[HEADER..].try_into().unwrap();
                    let earlier = seen.insert(content, (writer, number, place));
                    assert_eq!(
                        earlier, None,
                        "writer, number and place that come to the same as {writer}, {number}, {place}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_block_of_two_writes_is_found_wherever_they_meet() {
        const BLOCK: usize = 512;
        let [mut one, mut two] = [[0; BLOCK]; 2];
        let written = Stamp { writer: 1, number: 7 };
        fill(&mut one, 3, written);
        assert_eq!(read(&one, 3), Ok(written));
        assert!(read(&one, 4).is_err(), "it was written at another place");
        fill(&mut two, 3, Stamp { number: 8, ..written });
        for cut in (HEADER..BLOCK).step_by(8) {
            let mut torn = one;
            torn[cut..].copy_from_slice(&two[cut..]);
            assert!(read(&torn, 3).is_err(), "the second begins at byte {cut}");
        }
    }
}
