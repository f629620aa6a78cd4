//! A cursor over received bytes that cannot run past their end.

use core::fmt;

/// The bytes ended before the value did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated;

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes end before the value does")
    }
}

impl core::error::Error for Truncated {}

/// Reads values from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// True once everything was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What was not yet read, without reading it.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// A sub-reader over the next `count` bytes, so that a length field bounds what follows it.
    pub fn sub(&mut self, count: usize) -> Result<Reader<'a>, Truncated> {
        self.take(count).map(Reader::new)
    }

    /// Passes over `count` bytes.
    pub fn skip(&mut self, count: usize) -> Result<(), Truncated> {
        self.take(count).map(|_| ())
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next two bytes, most significant first.
    pub fn u16_be(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next three bytes, most significant first.
    pub fn u24_be(&mut self) -> Result<u32, Truncated> {
        self.array::<3>().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    /// The next four bytes, most significant first.
    pub fn u32_be(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next eight bytes, most significant first.
    pub fn u64_be(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_be_bytes)
    }

    /// The next two bytes, least significant first.
    pub fn u16_le(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four bytes, least significant first.
    pub fn u32_le(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes, least significant first.
    pub fn u64_le(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_le_bytes)
    }

    /// The bytes up to the next `end` byte, which is read too and left out.
    pub fn until(&mut self, end: u8) -> Result<&'a [u8], Truncated> {
        let at = self.rest.iter().position(|&byte| byte == end).ok_or(Truncated)?;
        let found = self.take(at)?;
        self.skip(1)?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_order() {
        let mut reader = Reader::new(&[1, 0, 2, 0, 0, 3, 4, 0, 0, 0, b'k', b'=', 0, 9]);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u16_be(), Ok(2));
        assert_eq!(reader.u24_be(), Ok(3));
        assert_eq!(reader.u32_le(), Ok(4));
        assert_eq!(reader.until(0), Ok(&b"k="[..]));
        assert_eq!(reader.rest(), &[9]);
    }

    #[test]
    fn every_width_in_both_orders() {
        let bytes = [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0];
        let reader = || Reader::new(&bytes);
        assert_eq!((reader().u16_be(), reader().u16_le()), (Ok(0x1234), Ok(0x3412)));
        assert_eq!(reader().u24_be(), Ok(0x12_3456));
        assert_eq!((reader().u32_be(), reader().u32_le()), (Ok(0x1234_5678), Ok(0x7856_3412)));
        assert_eq!(reader().u64_be(), Ok(0x1234_5678_9abc_def0));
        assert_eq!(reader().u64_le(), Ok(0xf0de_bc9a_7856_3412));
        let mut reader = reader();
        reader.skip(2).unwrap();
        assert_eq!(reader.sub(3).map(|part| part.rest().to_vec()), Ok(vec![0x56, 0x78, 0x9a]));
        assert_eq!((reader.remaining(), reader.is_empty()), (3, false));
        assert_eq!(reader.skip(4), Err(Truncated));
        assert_eq!((reader.take(3), reader.is_empty()), (Ok(&[0xbc, 0xde, 0xf0][..]), true));
    }

    #[test]
    fn a_read_past_the_end_fails_and_reads_nothing() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u32_be(), Err(Truncated));
        assert_eq!(reader.sub(4).err(), Some(Truncated));
        assert_eq!(reader.until(0), Err(Truncated));
        assert_eq!(reader.remaining(), 3);
    }
}
