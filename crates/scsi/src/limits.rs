//! Every number that this device server limits something by.

/// Unit attentions that one nexus has pending on one logical unit; older ones of the same kind are merged.
pub(crate) const PENDING_ATTENTIONS: usize = 8;
/// The longest parameter list that a command may send, in bytes: UNMAP's is the longest, at 8 + 16 × [`UNMAP_DESCRIPTORS`].
pub(crate) const PARAMETER_LIST: u32 = 8 + 16 * UNMAP_DESCRIPTORS;
/// Block descriptors in one UNMAP (Block Limits VPD page, SBC-4 §6.6.4).
pub const UNMAP_DESCRIPTORS: u32 = 256;
/// Blocks that one UNMAP may name in all: the most that libiscsi's suite takes for sane, and half a gigabyte at least.
pub const UNMAP_BLOCKS: u32 = 1 << 20;
/// Blocks that one WRITE SAME may write.
pub const WRITE_SAME_BLOCKS: u64 = 1 << 22;
/// Blocks that one COMPARE AND WRITE may compare: its length field has eight bits (SBC-4 §5.3).
pub const COMPARE_AND_WRITE_BLOCKS: u8 = 255;
/// Bytes that one read, write or verify may move; longer ones are refused (Block Limits VPD page). A write's data is collected in
/// one buffer, so this is the largest that a pool gives out.
pub const TRANSFER_BYTES: u64 = buf::LARGEST as u64;
/// Times that the block of a write that ends within it is read and written back, while others change it: the next answer is BUSY.
pub(crate) const TAIL_TRIES: u8 = 8;
/// Bytes of one repeated pattern when a WRITE SAME becomes writes, or a VERIFY compares one block with many.
pub(crate) const REPEATED_BYTES: u64 = 64 << 10;
/// Descriptors that GET LBA STATUS answers at most.
pub(crate) const LBA_STATUS_DESCRIPTORS: usize = 64;
/// Steps that merge allocation runs for one GET LBA STATUS descriptor at most.
pub(crate) const LBA_STATUS_QUERIES: usize = 256;

/// Blocks that one COMPARE AND WRITE may name on this unit; both its halves must fit in one transfer.
pub(crate) fn compare_and_write_blocks(unit: &crate::device::LogicalUnit) -> u8 {
    if !unit.features.contains(volume::Features::COMPARE) {
        return 0;
    }
    let fitting =
        unit.limits.max_transfer.checked_div(unit.geometry.block_size.saturating_mul(2)).unwrap_or(0);
    u8::try_from(fitting).unwrap_or(COMPARE_AND_WRITE_BLOCKS)
}
