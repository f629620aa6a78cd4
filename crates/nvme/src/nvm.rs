//! Fields of the NVM commands (NVM Command Set §3.2) and the Dataset Management range.

use volume::Extent;
use wire::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::limits::BLOCKS_PER_COMMAND;
use crate::sqe::SubmissionQueueEntry;

const FUA: u32 = 1 << 30;
const DEAC: u32 = 1 << 25;
const PRINFO: u32 = 0xf << 26;
const ATTRIBUTE_DEALLOCATE: u32 = 1 << 2;

/// The fields that Read, Write, Compare, Write Zeroes and Verify share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockCommand {
    /// Which blocks.
    pub extent: Extent,
    /// Force unit access.
    pub fua: bool,
    /// Write Zeroes: the blocks may be deallocated.
    pub deallocate: bool,
    /// Protection information is asked for.
    pub protection: bool,
}

impl BlockCommand {
    /// The fields of `entry`.
    pub fn decode(entry: &SubmissionQueueEntry) -> Self {
        let control = entry.dword(12);
        let blocks = u64::from(control & 0xffff).saturating_add(1);
        Self {
            extent: Extent::new(entry.quad(10), blocks),
            fua: control & FUA != 0,
            deallocate: control & DEAC != 0,
            protection: control & PRINFO != 0,
        }
    }

    /// The command with these fields; an extent beyond [`BLOCKS_PER_COMMAND`] or of no blocks is cut to what
    /// the length field can say.
    pub fn encode(&self, opcode: u8, nsid: u32) -> SubmissionQueueEntry {
        let count = self.extent.blocks.clamp(1, BLOCKS_PER_COMMAND).saturating_sub(1);
        let mut control = u32::try_from(count).unwrap_or(0);
        control |= (u32::from(self.fua) * FUA) | (u32::from(self.deallocate) * DEAC);
        SubmissionQueueEntry::new(opcode, nsid).with_quad(10, self.extent.start).with(12, control)
    }
}

/// The fields of Dataset Management.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatasetManagement {
    /// How many ranges come with it, 1 to 256.
    pub ranges: usize,
    /// Their blocks are to be deallocated (AD).
    pub deallocate: bool,
}

impl DatasetManagement {
    /// The fields of `entry`.
    pub fn decode(entry: &SubmissionQueueEntry) -> Self {
        let [last, ..] = entry.dword(10).to_le_bytes();
        let deallocate = entry.dword(11) & ATTRIBUTE_DEALLOCATE != 0;
        Self { ranges: usize::from(last).saturating_add(1), deallocate }
    }
}

/// A Dataset Management command that deallocates one range.
pub fn deallocate_one(nsid: u32) -> SubmissionQueueEntry {
    SubmissionQueueEntry::new(crate::opcode::nvm::DATASET_MANAGEMENT, nsid).with(11, ATTRIBUTE_DEALLOCATE)
}

/// One range of a Dataset Management command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Range {
    /// Hints, ignored.
    pub attributes: U32,
    /// Blocks.
    pub blocks: U32,
    /// The first block.
    pub start: U64,
}

const _: () = assert!(size_of::<Range>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let command = BlockCommand {
            extent: Extent::new(0x1_0000_0002, 8),
            fua: true,
            deallocate: true,
            protection: false,
        };
        let entry = command.encode(0x08, 1);
        assert_eq!(&entry.as_bytes()[40..52], &[2, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0x42]);
        assert_eq!(BlockCommand::decode(&entry), command);
    }

    #[test]
    fn dataset_management_golden_vector() {
        let one = DatasetManagement { ranges: 1, deallocate: true };
        assert_eq!(DatasetManagement::decode(&deallocate_one(1)), one);
        let many = SubmissionQueueEntry::new(9, 1).with(10, 0xff);
        let found = DatasetManagement { ranges: 256, deallocate: false };
        assert_eq!(DatasetManagement::decode(&many), found);
        let range = Range { attributes: U32::ZERO, blocks: U32::new(8), start: U64::new(0x10) };
        assert_eq!(range.as_bytes(), [0, 0, 0, 0, 8, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0]);
    }
}
