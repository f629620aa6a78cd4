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
    fn a_read_past_the_end_fails_and_reads_nothing() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u32_be(), Err(Truncated));
        assert_eq!(reader.sub(4).err(), Some(Truncated));
        assert_eq!(reader.until(0), Err(Truncated));
        assert_eq!(reader.remaining(), 3);
    }
}
