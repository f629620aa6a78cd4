//! Submission queue entries that the host makes of requests (NVM Command Set §3.2).

use volume::{Durability, Extent};

use crate::limits::BLOCKS_PER_COMMAND;
use crate::nvm::BlockCommand;
use crate::sgl::SglDescriptor;
use crate::sqe::SubmissionQueueEntry;
use crate::width::to_field;

/// The fields of a command that touches `extent`.
pub(super) fn block(extent: Extent, durability: Durability) -> BlockCommand {
    BlockCommand { extent, fua: durability == Durability::Durable, deallocate: false, protection: false }
}

/// The command with `length` bytes of data that the transport moves.
pub(super) fn moving(mut entry: SubmissionQueueEntry, length: usize) -> SubmissionQueueEntry {
    entry.dptr = SglDescriptor::transport(to_field(length));
    entry
}

/// True when memory and extent agree and one command can express it.
pub(super) fn fits(extent: Extent, block_size: u32, length: usize) -> bool {
    let bytes = extent.blocks.saturating_mul(u64::from(block_size));
    (1..=BLOCKS_PER_COMMAND).contains(&extent.blocks)
        && u64::try_from(length).is_ok_and(|length| length == bytes)
}
