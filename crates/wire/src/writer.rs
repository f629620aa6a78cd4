//! A cursor over a fixed piece of memory that cannot write past its end.

use core::fmt;

/// The memory ended before the value did; nothing of the value was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the memory ends before the value does")
    }
}

impl core::error::Error for Full {}

/// Writes values to the front of a slice.
#[derive(Debug)]
pub struct Writer<'a> {
    memory: &'a mut [u8],
    written: usize,
}

impl<'a> Writer<'a> {
    /// Starts at the front of `memory`.
    pub fn new(memory: &'a mut [u8]) -> Self {
        Self { memory, written: 0 }
    }

    /// Bytes written so far.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Bytes that still fit.
    pub fn remaining(&self) -> usize {
        self.memory.len().saturating_sub(self.written)
    }

    /// Copies `bytes`.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.claim(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes `count` zero bytes.
    pub fn zero(&mut self, count: usize) -> Result<(), Full> {
        self.claim(count)?.fill(0);
        Ok(())
    }

    /// Writes one byte.
    pub fn u8(&mut self, value: u8) -> Result<(), Full> {
        self.put(&[value])
    }

    /// Writes two bytes, most significant first.
    pub fn u16_be(&mut self, value: u16) -> Result<(), Full> {
        self.put(&value.to_be_bytes())
    }

    /// Writes four bytes, most significant first.
    pub fn u32_be(&mut self, value: u32) -> Result<(), Full> {
        self.put(&value.to_be_bytes())
    }

    /// Writes eight bytes, most significant first.
    pub fn u64_be(&mut self, value: u64) -> Result<(), Full> {
        self.put(&value.to_be_bytes())
    }

    /// Writes two bytes, least significant first.
    pub fn u16_le(&mut self, value: u16) -> Result<(), Full> {
        self.put(&value.to_le_bytes())
    }

    /// Writes four bytes, least significant first.
    pub fn u32_le(&mut self, value: u32) -> Result<(), Full> {
        self.put(&value.to_le_bytes())
    }

    /// Writes eight bytes, least significant first.
    pub fn u64_le(&mut self, value: u64) -> Result<(), Full> {
        self.put(&value.to_le_bytes())
    }

    fn claim(&mut self, count: usize) -> Result<&mut [u8], Full> {
        let end = self.written.checked_add(count).ok_or(Full)?;
        let claimed = self.memory.get_mut(self.written..end).ok_or(Full)?;
        self.written = end;
        Ok(claimed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_in_both_orders() {
        let mut memory = [0xff; 32];
        let mut writer = Writer::new(&mut memory);
        writer.u16_be(0x1234).unwrap();
        writer.u16_le(0x1234).unwrap();
        writer.u32_be(0x1234_5678).unwrap();
        writer.u32_le(0x1234_5678).unwrap();
        writer.u64_be(0x1234_5678_9abc_def0).unwrap();
        writer.u64_le(0x1234_5678_9abc_def0).unwrap();
        writer.put(&[1, 2, 3]).unwrap();
        assert_eq!(writer.put(&[4, 5]), Err(Full));
        let expected = [
            [0x12, 0x34, 0x34, 0x12, 0x12, 0x34, 0x56, 0x78],
            [0x78, 0x56, 0x34, 0x12, 0x12, 0x34, 0x56, 0x78],
            [0x9a, 0xbc, 0xde, 0xf0, 0xf0, 0xde, 0xbc, 0x9a],
            [0x78, 0x56, 0x34, 0x12, 1, 2, 3, 0xff],
        ];
        assert_eq!(memory, expected.concat()[..]);
    }

    #[test]
    fn values_in_order() {
        let mut memory = [0xff; 9];
        let mut writer = Writer::new(&mut memory);
        writer.u8(1).unwrap();
        writer.u16_be(2).unwrap();
        writer.u32_le(3).unwrap();
        writer.zero(1).unwrap();
        assert_eq!(writer.u16_be(7), Err(Full));
        assert_eq!((writer.written(), writer.remaining()), (8, 1));
        assert_eq!(memory, [1, 0, 2, 3, 0, 0, 0, 0, 0xff]);
    }
}
