//! Fields of a command descriptor block, by the byte and bit numbers that the standards' tables give (SPC-4 §4.3).
//!
//! Reading is total: what lies beyond the block's end reads as zero. This is the only place of the crate where
//! commands are taken apart with shifts and masks.

/// A command descriptor block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cdb<'a>(pub(crate) &'a [u8]);

impl Cdb<'_> {
    /// The byte at `at`.
    pub(crate) fn u8(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn array<const N: usize>(self, at: usize) -> [u8; N] {
        match self.0.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => *bytes,
            None => core::array::from_fn(|index| self.u8(at.saturating_add(index))),
        }
    }

    /// Two bytes from `at`.
    pub(crate) fn u16(self, at: usize) -> u16 {
        u16::from_be_bytes(self.array(at))
    }

    /// Four bytes from `at`.
    pub(crate) fn u32(self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }

    /// Eight bytes from `at`.
    pub(crate) fn u64(self, at: usize) -> u64 {
        u64::from_be_bytes(self.array(at))
    }

    /// Bit `bit` of the byte at `at`.
    pub(crate) fn bit(self, at: usize, bit: u32) -> bool {
        self.u8(at) & (1 << bit) != 0
    }

    /// Bits `high` down to `low` of the byte at `at`.
    pub(crate) fn bits(self, at: usize, high: u32, low: u32) -> u8 {
        let width = high.saturating_sub(low).saturating_add(1).min(8);
        let mask = wire::bounded::<u8>((1_u32 << width) - 1);
        (self.u8(at) >> low) & mask
    }

    /// The block's length by its operation code's group (SPC-4 §4.3.2); zero for groups without a fixed one.
    pub(crate) fn fixed_length(opcode: u8) -> usize {
        match opcode >> 5 {
            0 => 6,
            1 | 2 => 10,
            4 => 16,
            5 => 12,
            _ => 0,
        }
    }

    /// The CONTROL byte's NACA bit (SAM-5 §5.2), which this device server does not support.
    pub(crate) fn naca(self) -> bool {
        let length = Self::fixed_length(self.u8(0));
        length > 0 && self.bit(length.saturating_sub(1), 2)
    }
}

/// What the read, write and verify commands of every length have in common (SBC-4 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockCommand {
    /// LOGICAL BLOCK ADDRESS.
    pub(crate) lba: u64,
    /// TRANSFER LENGTH or VERIFICATION LENGTH in blocks.
    pub(crate) blocks: u32,
    /// RDPROTECT, WRPROTECT or VRPROTECT.
    pub(crate) protect: u8,
    /// Force unit access.
    pub(crate) fua: bool,
}

impl BlockCommand {
    /// Reads the fields at the places that the operation code's group gives them.
    pub(crate) fn read(cdb: Cdb<'_>) -> Self {
        let protect = cdb.bits(1, 7, 5);
        let fua = cdb.bit(1, 3);
        match Cdb::fixed_length(cdb.u8(0)) {
            6 => {
                let blocks = if cdb.u8(4) == 0 { 256 } else { u32::from(cdb.u8(4)) };
                let high = u32::from(cdb.bits(1, 4, 0)) << 16;
                Self { lba: u64::from(high | u32::from(cdb.u16(2))), blocks, protect: 0, fua: false }
            }
            10 => Self { lba: u64::from(cdb.u32(2)), blocks: u32::from(cdb.u16(7)), protect, fua },
            12 => Self { lba: u64::from(cdb.u32(2)), blocks: cdb.u32(6), protect, fua },
            _ => Self { lba: cdb.u64(2), blocks: cdb.u32(10), protect, fua },
        }
    }

    /// The first byte of the length field.
    pub(crate) fn length_field(cdb: Cdb<'_>) -> u16 {
        match Cdb::fixed_length(cdb.u8(0)) {
            6 => 4,
            10 => 7,
            12 => 6,
            _ => 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_has_its_fields_in_its_places() {
        let six = BlockCommand::read(Cdb(&[0x08, 0xe1, 0x02, 0x03, 0, 0]));
        assert_eq!((six.lba, six.blocks, six.protect), (0x1_0203, 256, 0));
        let ten = BlockCommand::read(Cdb(&[0x28, 0x28, 0, 0, 1, 0, 0, 0, 9, 0]));
        assert_eq!((ten.lba, ten.blocks, ten.protect, ten.fua), (256, 9, 1, true));
        let twelve = BlockCommand::read(Cdb(&[0xa8, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0]));
        assert_eq!((twelve.lba, twelve.blocks), (256, 65536));
        let sixteen = BlockCommand::read(Cdb(&[0x88, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0]));
        assert_eq!((sixteen.lba, sixteen.blocks), (1 << 32, 7));
    }

    #[test]
    fn the_length_field_is_where_the_length_is_read() {
        for (opcode, length) in [(0x08, 6), (0x28, 10), (0xa8, 12), (0x88, 16)] {
            let mut cdb = [0; 16];
            cdb[0] = opcode;
            let none = BlockCommand::read(Cdb(&cdb[..length])).blocks;
            let field = usize::from(BlockCommand::length_field(Cdb(&cdb[..length])));
            for byte in 2..length - 1 {
                let mut changed = cdb;
                changed[byte] = 1;
                let reads = BlockCommand::read(Cdb(&changed[..length])).blocks != none;
                // It begins there, and has four bytes at most.
                let first = reads
                    && (byte == 2
                        || BlockCommand::read(Cdb(&{
                            let mut before = cdb;
                            before[byte - 1] = 1;
                            before
                        }[..length]))
                        .blocks
                            == none);
                assert_eq!(
                    first,
                    byte == field,
                    "byte {byte} of operation code {opcode:#x}, whose length is at {field}"
                );
            }
        }
    }

    #[test]
    fn what_is_not_there_is_zero() {
        let cdb = Cdb(&[0x88]);
        assert_eq!((cdb.u64(2), cdb.u16(9), cdb.bit(40, 7), cdb.bits(usize::MAX, 7, 0)), (0, 0, false, 0));
    }
}
