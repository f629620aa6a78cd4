//! A disk as a sequence of bytes: `std::io`'s traits over whole blocks.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::blocking::BlockingDisk;

/// A disk with a position, to be read, written and sought in by bytes.
///
/// A write that does not cover whole blocks reads the block at its edge, changes it and writes it back: what another
/// writer puts into the same block meanwhile is lost. Whole blocks are written as they are.
///
/// ```
/// use std::io::{Read, Seek, SeekFrom, Write};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use linerate::{Client, ClientConfig};
/// let disk = Client::start(&ClientConfig::default())?.open(&"ram:1M".parse()?)?;
/// let mut bytes = disk.blocking().bytes();
/// bytes.seek(SeekFrom::Start(1000))?;
/// bytes.write_all(b"across the border of two blocks")?;
/// bytes.seek(SeekFrom::Start(1007))?;
/// let mut word = [0; 3];
/// bytes.read_exact(&mut word)?;
/// assert_eq!(&word, b"the");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Bytes {
    disk: BlockingDisk,
    position: u64,
    block: Vec<u8>,
}

impl BlockingDisk {
    /// The disk as a sequence of bytes with a position.
    pub fn bytes(&self) -> Bytes {
        let block = vec![0; self.disk().geometry().block_size as usize];
        Bytes { disk: self.clone(), position: 0, block }
    }
}

/// What of a range can be done in one step.
enum Step {
    /// Whole blocks: so many bytes.
    Blocks(usize),
    /// Part of the block that begins at this byte: from where in it, and how many bytes.
    Part(u64, usize, usize),
}

impl Bytes {
    fn size(&self) -> u64 {
        self.disk.disk().geometry().bytes()
    }

    /// The first step of `len` bytes from the position; `None` at the end, or for no bytes.
    fn step(&self, len: usize) -> Option<Step> {
        let left = self.size().saturating_sub(self.position);
        let len = usize::try_from(left).map_or(len, |left| len.min(left));
        let block = self.block.len();
        let inside = usize::try_from(self.position % block as u64).unwrap_or(0);
        if len == 0 {
            return None;
        }
        if inside == 0 && len >= block {
            return Some(Step::Blocks(len / block * block));
        }
        Some(Step::Part(self.position - inside as u64, inside, len.min(block - inside)))
    }
}

impl Read for Bytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = match self.step(into.len()) {
            None => 0,
            Some(Step::Blocks(count)) => {
                self.disk.read_at(self.position, &mut into[..count])?;
                count
            }
            Some(Step::Part(start, inside, count)) => {
                self.disk.read_at(start, &mut self.block)?;
                into[..count].copy_from_slice(&self.block[inside..inside + count]);
                count
            }
        };
        self.position += count as u64;
        Ok(count)
    }
}

impl Write for Bytes {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let count = match self.step(data.len()) {
            None if data.is_empty() => 0,
            None => {
                let text = format!("{}: the volume ends at byte {}", self.disk.disk().url(), self.size());
                return Err(io::Error::new(io::ErrorKind::StorageFull, text));
            }
            Some(Step::Blocks(count)) => {
                self.disk.write_at(self.position, &data[..count])?;
                count
            }
            Some(Step::Part(start, inside, count)) => {
                self.disk.read_at(start, &mut self.block)?;
                self.block[inside..inside + count].copy_from_slice(&data[..count]);
                self.disk.write_at(start, &self.block)?;
                count
            }
        };
        self.position += count as u64;
        Ok(count)
    }

    /// Makes what was written durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(self.disk.flush()?)
    }
}

impl Seek for Bytes {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.size().checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "that is before the first byte");
        self.position = position.ok_or_else(before)?;
        Ok(self.position)
    }
}
