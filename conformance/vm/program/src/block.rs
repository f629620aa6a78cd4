//! Blocks that name who wrote them, on a disk that is read and written past the page cache.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// Bytes of a block.
pub(crate) const BLOCK: usize = 4096;
/// Linux' O_DIRECT on x86-64.
const O_DIRECT: i32 = 0o40000;

/// Opens a disk for blocks.
pub(crate) fn open(path: &str) -> io::Result<File> {
    File::options().read(true).write(true).custom_flags(O_DIRECT).open(path)
}

/// Memory for a block where O_DIRECT wants it.
#[derive(Debug)]
pub(crate) struct Memory {
    whole: Vec<u8>,
    from: usize,
}

impl Memory {
    pub(crate) fn new() -> Self {
        let whole = vec![0; 2 * BLOCK];
        let from = whole.as_ptr().align_offset(BLOCK);
        Self { whole, from }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.whole[self.from..][..BLOCK]
    }

    /// Writes a value to a block: pairs of value and place, to its end.
    pub(crate) fn write(&mut self, disk: &File, block: u64, value: u64) -> io::Result<()> {
        for pair in self.bytes().chunks_exact_mut(16) {
            pair.copy_from_slice(&[value, block].map(u64::to_le_bytes).concat());
        }
        disk.write_all_at(self.bytes(), block * BLOCK as u64)
    }

    /// Reads a block. `None` is a block that holds several values, or another block's.
    pub(crate) fn read(&mut self, disk: &File, block: u64) -> io::Result<Option<u64>> {
        disk.read_exact_at(self.bytes(), block * BLOCK as u64)?;
        Ok(value(self.bytes(), block))
    }
}

/// The value that a block holds; 0 if it is blank.
fn value(bytes: &[u8], block: u64) -> Option<u64> {
    let mut front = [0; 8];
    front.copy_from_slice(bytes.get(..8)?);
    let value = u64::from_le_bytes(front);
    let pair = if value == 0 { vec![0; 16] } else { [value, block].map(u64::to_le_bytes).concat() };
    bytes.chunks_exact(16).all(|own| own == pair).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_and_displaced_blocks_have_no_value() {
        let mut bytes = [5_u64, 3].map(u64::to_le_bytes).concat().repeat(BLOCK / 16);
        assert_eq!(value(&bytes, 3), Some(5));
        assert_eq!(value(&bytes, 4), None);
        bytes[2048] = 6;
        assert_eq!(value(&bytes, 3), None);
        assert_eq!(value(&[0; BLOCK], 3), Some(0));
    }
}
