//! What a volume's request means in SCSI, and what a SCSI status means for a volume (SBC-4 §5, SPC-5 §4.4).

use alloc::vec;

use buf::{BufList, SharedBuf};
use volume::{Allocation, Durability, Extent, Operation, Outcome, VolumeErrorKind};
use wire::{Reader, Writer};

use super::tasks::{Transfer, Work};
use crate::limits::STAGED;

/// A CDB that fits into the header.
pub(super) type Cdb = [u8; 16];

const FUA: u8 = 0x08;
const BYTE_CHECK: u8 = 0x02;
const UNMAP: u8 = 0x08;
/// Bytes of an UNMAP parameter list with one descriptor.
const UNMAP_LIST: usize = 24;
/// Bytes of GET LBA STATUS data with one descriptor.
const LBA_STATUS: u32 = 24;

/// A 16-byte CDB with a block address and a length.
fn long(opcode: u8, flags: u8, start: u64, length: u32) -> Cdb {
    let mut cdb = [0; 16];
    let mut writer = Writer::new(&mut cdb);
    // Fifteen bytes always fit.
    let _ = writer.put(&[opcode, flags]).and_then(|()| writer.u64_be(start)).and_then(|()| writer.u32_be(length));
    cdb
}

/// INQUIRY, of a vital product data page if one is named.
pub(super) fn inquiry(page: Option<u8>, length: u8) -> Cdb {
    [0x12, page.is_some().into(), page.unwrap_or(0), 0, length, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// READ CAPACITY (16).
pub(super) fn read_capacity(length: u32) -> Cdb {
    let mut cdb = long(0x9e, 0x10, 0, length);
    cdb[14] = 0;
    cdb
}

/// MODE SENSE (6) of the caching page.
pub(super) fn mode_sense(length: u8) -> Cdb {
    [0x1a, 0, 0x08, 0, length, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

fn unmap_list(extent: Extent) -> Option<BufList> {
    let mut list = vec![0; UNMAP_LIST];
    let mut writer = Writer::new(&mut list);
    let blocks = u32::try_from(extent.blocks).ok()?;
    writer.u16_be(22).and_then(|()| writer.u16_be(16)).and_then(|()| writer.zero(4)).ok()?;
    writer.u64_be(extent.start).and_then(|()| writer.u32_be(blocks)).ok()?;
    Some(SharedBuf::from(list).into())
}

fn durable(durability: Durability) -> u8 {
    if durability == Durability::Durable { FUA } else { 0 }
}

/// The command that carries out an operation on a unit with blocks of `block_size` bytes.
pub(super) fn command(operation: Operation, block_size: u32) -> Result<Work, VolumeErrorKind> {
    let blocks = |extent: Extent| u32::try_from(extent.blocks).map_err(|_| VolumeErrorKind::Misaligned);
    Ok(match operation {
        Operation::Read { extent, into } => Work::reading(long(0x88, 0, extent.start, blocks(extent)?), into),
        Operation::Write { extent, data, durability } => {
            Work::writing(long(0x8a, durable(durability), extent.start, blocks(extent)?), data)
        }
        Operation::Flush => Work::plain(long(0x91, 0, 0, 0)),
        Operation::Discard { extent } => {
            let list = unmap_list(extent).ok_or(VolumeErrorKind::Misaligned)?;
            let length = u8::try_from(UNMAP_LIST).unwrap_or(0);
            Work::writing([0x42, 0, 0, 0, 0, 0, 0, 0, length, 0, 0, 0, 0, 0, 0, 0], list)
        }
        Operation::WriteZeroes { extent, may_unmap, .. } => {
            let flags = if may_unmap { UNMAP } else { 0 };
            let zeros = SharedBuf::from(vec![0; (block_size as usize).min(STAGED)]);
            Work::writing(long(0x93, flags, extent.start, blocks(extent)?), zeros.into())
        }
        Operation::Compare { extent, data } => {
            Work::writing(long(0x8f, BYTE_CHECK, extent.start, blocks(extent)?), data)
        }
        Operation::CompareAndWrite { extent, compare, write, durability } => {
            let count = u8::try_from(extent.blocks).map_err(|_| VolumeErrorKind::Misaligned)?;
            let mut cdb = long(0x89, durable(durability), extent.start, 0);
            cdb[13] = count;
            let mut data = compare;
            write.pieces().iter().for_each(|piece| data.push(piece.clone()));
            Work::writing(cdb, data)
        }
        Operation::Verify { extent } => Work::plain(long(0x8f, 0, extent.start, blocks(extent)?)),
        Operation::QueryAllocation { extent } => {
            let mut work = Work::reading(long(0x9e, 0x12, extent.start, LBA_STATUS), buf::Buf::zeroed(24));
            work.transfer = Transfer::Status(extent);
            work
        }
        _ => return Err(VolumeErrorKind::Unsupported),
    })
}

/// The first run of a GET LBA STATUS answer, cut to what was asked about.
pub(super) fn allocation(data: &[u8], asked: Extent) -> Option<Outcome> {
    let mut reader = Reader::new(data);
    reader.skip(8).ok()?;
    let start = reader.u64_be().ok()?;
    let blocks = u64::from(reader.u32_be().ok()?);
    let status = reader.u8().ok()? & 0x0f;
    let end = start.checked_add(blocks)?.min(asked.end()?);
    let extent = Extent::new(asked.start, end.checked_sub(asked.start)?);
    Some(Outcome::Allocation(Allocation { extent, mapped: status == 0 }))
}

/// What sense data says: its key, its code and qualifier, its information field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sense {
    pub(super) key: u8,
    pub(super) code: (u8, u8),
    information: u64,
}

impl Sense {
    /// Reads a SCSI response's data segment: a length, then sense data in fixed or descriptor format (SPC-4 §4.5).
    pub(super) fn read(segment: &[u8]) -> Self {
        Self::try_read(segment).unwrap_or_default()
    }

    fn try_read(segment: &[u8]) -> Option<Self> {
        let mut outer = Reader::new(segment);
        let length = outer.u16_be().ok()?;
        let mut reader = Reader::new(outer.rest().get(..usize::from(length)).unwrap_or(outer.rest()));
        let kind = reader.u8().ok()? & 0x7f;
        if kind >= 0x72 {
            let [key, code, qualifier] = reader.array().ok()?;
            reader.skip(4).ok()?;
            let mut sense = Self { key: key & 0x0f, code: (code, qualifier), information: 0 };
            // The information descriptor has type 0, a length of 10, a flag, and a reserved byte.
            if let Ok([0, 10, ..]) = reader.array::<4>() {
                sense.information = reader.u64_be().unwrap_or(0);
            }
            return Some(sense);
        }
        reader.skip(1).ok()?;
        let key = reader.u8().ok()? & 0x0f;
        let information = u64::from(reader.u32_be().ok()?);
        reader.skip(5).ok()?;
        let [code, qualifier] = reader.array().unwrap_or([0; 2]);
        Some(Self { key, code: (code, qualifier), information })
    }

    /// True for a unit attention: the command was not carried out, and may be sent again.
    pub(super) fn is_attention(&self) -> bool {
        self.key == 0x06
    }

    /// The failure that it stands for.
    pub(super) fn failure(&self) -> VolumeErrorKind {
        match (self.key, self.code) {
            (0x05, (0x21, _)) => VolumeErrorKind::OutOfRange,
            (0x05, _) => VolumeErrorKind::Unsupported,
            (0x07, (0x27, 0x07)) => VolumeErrorKind::NoSpace,
            (0x07, _) => VolumeErrorKind::ReadOnly,
            (0x0b, (0x10, _)) => VolumeErrorKind::Protection,
            (0x0b, _) => VolumeErrorKind::Cancelled,
            (0x0e, _) => VolumeErrorKind::Miscompare { offset: self.information },
            (0x02, _) => VolumeErrorKind::Unreachable,
            _ => VolumeErrorKind::Media,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sense_in_both_formats() {
        let fixed = [0, 18, 0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0];
        assert_eq!(Sense::read(&fixed).failure(), VolumeErrorKind::OutOfRange);
        let descriptor = [0, 20, 0x72, 0x0e, 0x1d, 0, 0, 0, 0, 12, 0, 10, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0];
        assert_eq!(Sense::read(&descriptor).failure(), VolumeErrorKind::Miscompare { offset: 512 });
        assert_eq!(Sense::read(&[]), Sense::default());
        assert!(Sense::read(&[0, 18, 0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29]).is_attention());
    }

    #[test]
    fn block_commands() {
        assert_eq!(long(0x88, 0, 0x0102, 8), [0x88, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 8, 0, 0]);
    }
}
