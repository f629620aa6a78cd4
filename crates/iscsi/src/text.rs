//! `key=value` pairs, each ended by a zero byte (RFC 7143 §6.1).

use alloc::vec::Vec;

use wire::Reader;

use crate::limits::{LONGEST_BINARY, LONGEST_KEY, MOST_KEYS, MOST_TEXT};
use crate::violation::Violation;

/// Walks the pairs of one exchange.
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    reader: Reader<'a>,
    count: usize,
}

impl<'a> Pairs<'a> {
    /// Starts at the front of `text`.
    pub fn new(text: &'a [u8]) -> Self {
        Self { reader: Reader::new(text), count: 0 }
    }

    fn read(&mut self) -> Result<(&'a str, &'a str), Violation> {
        self.count = self.count.saturating_add(1);
        if self.count > MOST_KEYS {
            return Err(Violation::TooManyKeys);
        }
        // The last pair's zero byte may be missing at the very end: initiators in the field forget it.
        let pair = self.reader.until(0).or_else(|_| self.reader.take(self.reader.remaining()));
        let pair = pair.map_err(|_| Violation::BadText)?;
        let text = core::str::from_utf8(pair).map_err(|_| Violation::BadText)?;
        let (key, value) = text.split_once('=').ok_or(Violation::BadText)?;
        if key.is_empty() || key.len() > LONGEST_KEY {
            return Err(Violation::BadText);
        }
        if value.len() > LONGEST_BINARY {
            return Err(Violation::ValueTooLong);
        }
        Ok((key, value))
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a str, &'a str), Violation>;

    fn next(&mut self) -> Option<Self::Item> {
        // Zero bytes between pairs are padding of senders that count it as data.
        while self.reader.rest().first() == Some(&0) {
            self.reader.skip(1).ok()?;
        }
        if self.reader.is_empty() {
            return None;
        }
        let pair = self.read();
        if pair.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(pair)
    }
}

/// Text that is being written, or collected over several PDUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(Vec<u8>);

impl Text {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a pair.
    pub fn put(&mut self, key: &str, value: &str) {
        self.0.extend_from_slice(key.as_bytes());
        self.0.push(b'=');
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(0);
    }

    /// Adds the next PDU's part of an exchange, within [`MOST_TEXT`].
    pub fn collect(&mut self, part: &[u8]) -> Result<(), Violation> {
        self.collect_within(part, MOST_TEXT)
    }

    /// The same within `most` bytes.
    pub fn collect_within(&mut self, part: &[u8], most: usize) -> Result<(), Violation> {
        if self.0.len().saturating_add(part.len()) > most {
            return Err(Violation::TooMuchText);
        }
        self.0.extend_from_slice(part);
        Ok(())
    }

    /// The pairs.
    pub fn pairs(&self) -> Pairs<'_> {
        Pairs::new(&self.0)
    }

    /// The bytes for the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes for the wire, given up.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// True when there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// A number, decimal or hexadecimal (RFC 7143 §6.1: numerical value).
pub fn number(value: &str) -> Option<u64> {
    match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
        Some(digits) => strict(digits, 16),
        None => strict(value, 10),
    }
}

/// Like `from_str_radix`, but without its signs.
fn strict(digits: &str, radix: u32) -> Option<u64> {
    if digits.starts_with(['+', '-']) { None } else { u64::from_str_radix(digits, radix).ok() }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn all(text: &[u8]) -> Result<Vec<(&str, &str)>, Violation> {
        Pairs::new(text).collect()
    }

    #[test]
    fn pairs_are_split() {
        assert_eq!(all(b"A=1\0B=2=3\0C=\0"), Ok(vec![("A", "1"), ("B", "2=3"), ("C", "")]));
        assert_eq!(all(b"A=1\0\0\0"), Ok(vec![("A", "1")]));
        assert_eq!(all(b"A=1"), Ok(vec![("A", "1")]));
        assert_eq!(all(b""), Ok(vec![]));
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        assert_eq!(all(b"A\0"), Err(Violation::BadText));
        assert_eq!(all(b"=1\0"), Err(Violation::BadText));
        assert_eq!(all(b"\xff=1\0"), Err(Violation::BadText));
        assert_eq!(all(&[&[b'k'; 64][..], b"=1\0"].concat()), Err(Violation::BadText));
        assert_eq!(all(&[b"k=", &[b'v'; LONGEST_BINARY + 1][..]].concat()), Err(Violation::ValueTooLong));
        assert_eq!(all(&b"k=v\0".repeat(MOST_KEYS + 1)), Err(Violation::TooManyKeys));
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!(number("262144"), Some(262_144));
        assert_eq!(number("0x40000"), Some(262_144));
        for bad in ["", "0x", "+1", "-1", "1k", " 1"] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }

    #[test]
    fn collecting_is_bounded() {
        let mut text = Text::new();
        assert_eq!(text.collect(&vec![b'x'; MOST_TEXT]), Ok(()));
        assert_eq!(text.collect(b"y"), Err(Violation::TooMuchText));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(pairs in proptest::collection::vec(("[A-Za-z0-9.+-]{1,63}", "[ -~]{0,255}"), 0..20)) {
            let mut text = Text::new();
            for (key, value) in &pairs {
                text.put(key, value);
            }
            let read: Vec<_> = text.pairs().map(Result::unwrap).collect();
            let written: Vec<_> = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            prop_assert_eq!(read, written);
        }

        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
            prop_assert!(Pairs::new(&bytes).count() <= MOST_KEYS + 1);
        }
    }
}
