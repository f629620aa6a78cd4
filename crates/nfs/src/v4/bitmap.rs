//! `bitmap4`: a set of attribute numbers (RFC 8881 §3.2, §5.3).

use alloc::vec::Vec;

use rpc::xdr::{Decode, Encode, Error, Reader, Writer};

use crate::limits::BITMAP_WORDS;

/// Bits of a word.
const WORD: u32 = 32;

/// A set of numbers below 32 × [`BITMAP_WORDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bitmap([u32; BITMAP_WORDS]);

impl Bitmap {
    /// The set of these numbers; those that are too large are left out.
    pub const fn of(numbers: &[u32]) -> Self {
        let mut words = [0; BITMAP_WORDS];
        let mut at = 0;
        while at < numbers.len() {
            let (word, bit) = (numbers[at] / WORD, numbers[at] % WORD);
            if (word as usize) < BITMAP_WORDS {
                words[word as usize] |= 1 << bit;
            }
            at += 1;
        }
        Self(words)
    }

    /// True if the number is in it.
    pub fn has(&self, number: u32) -> bool {
        let word = self.0.get(place(number)).copied().unwrap_or_default();
        word.checked_shr(number % WORD).unwrap_or_default() & 1 == 1
    }

    /// Adds a number.
    pub fn add(&mut self, number: u32) {
        if let Some(word) = self.0.get_mut(place(number)) {
            *word |= 1_u32.checked_shl(number % WORD).unwrap_or_default();
        }
    }

    /// What both have.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = *self;
        both.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        both
    }

    /// What it has and `other` has not.
    #[must_use]
    pub const fn difference(&self, other: &Self) -> Self {
        let mut rest = *self;
        let mut at = 0;
        while at < BITMAP_WORDS {
            rest.0[at] &= !other.0[at];
            at += 1;
        }
        rest
    }

    /// True if it has everything that `other` has.
    pub fn contains(&self, other: &Self) -> bool {
        self.intersection(other) == *other
    }

    /// True if it has nothing.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let firsts = (0..).step_by(usize::try_from(WORD).unwrap_or(usize::MAX));
        firsts.zip(self.0).flat_map(|(first, word): (u32, u32)| {
            let mut left = word;
            core::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                // Without its lowest bit.
                left &= left.checked_sub(1)?;
                Some(first.saturating_add(bit))
            })
        })
    }
}

fn place(number: u32) -> usize {
    usize::try_from(number / WORD).unwrap_or(usize::MAX)
}

impl Decode for Bitmap {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let read: Vec<u32> = reader.array(BITMAP_WORDS)?;
        let mut words = [0; BITMAP_WORDS];
        words.iter_mut().zip(read).for_each(|(word, read)| *word = read);
        Ok(Self(words))
    }
}

impl Encode for Bitmap {
    /// Without zero words at its end.
    fn encode(&self, writer: &mut Writer) {
        let used = self.0.iter().rposition(|word| *word != 0).map_or(0, |last| last.saturating_add(1));
        writer.array(self.0.get(..used).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn numbers_in_and_out() {
        let set = Bitmap::of(&[0, 33, 75, 9999]);
        assert!(set.iter().eq([0, 33, 75]) && set.has(33) && !set.has(34) && !set.has(9999));
        let mut writer = Writer::new();
        writer.put(&set);
        let bytes = writer.finish().into_list().into_one();
        assert_eq!(bytes.to_vec(), vec![0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 8, 0]);
        assert_eq!(Reader::new(&bytes).get::<Bitmap>(), Ok(set));
        assert!(set.contains(&Bitmap::of(&[33])) && !set.contains(&Bitmap::of(&[32])));
        let mut writer = Writer::new();
        writer.put(&Bitmap::default());
        assert_eq!(writer.finish().bytes(), [0; 4]);
    }

    #[test]
    fn too_many_words_are_refused() {
        let bytes = [[0, 0, 0, 9].to_vec(), vec![0; 36]].concat();
        assert!(Reader::new(&bytes).get::<Bitmap>().is_err());
    }
}
