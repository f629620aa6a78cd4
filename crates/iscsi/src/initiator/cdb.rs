//! What a volume's request means in SCSI. The blocks themselves, and what sense data means, are the business of
//! `scsi::builder`.

use alloc::vec;

use buf::{Buf, SharedBuf};
use scsi::builder::{self, UNMAP_LIST};
use scsi::{Additional, SenseKey};
use volume::{Allocation, Durability, Extent, Features, Operation, Outcome, VolumeErrorKind};
use wire::Reader;

use super::tasks::{Transfer, Work};
use crate::limits::STAGED;

/// Bytes of GET LBA STATUS data with one descriptor.
const LBA_STATUS: u8 = 24;

/// The command that carries out an operation on a unit with blocks of `block_size` bytes and these features.
pub(super) fn command(
    operation: Operation,
    (block_size, features): (u32, Features),
) -> Result<Work, VolumeErrorKind> {
    if operation.extent().is_some_and(|extent| u32::try_from(extent.blocks).is_err()) {
        return Err(VolumeErrorKind::Misaligned);
    }
    Ok(match operation {
        Operation::Read { extent, into } => Work::reading(builder::read(extent), into),
        Operation::Write { extent, data, durability } => {
            Work::writing(builder::write(extent, durability == Durability::Durable), data)
        }
        Operation::Flush => Work::plain(builder::synchronize_cache()),
        Operation::Discard { extent } => {
            let list: [u8; UNMAP_LIST] = builder::unmap_list(extent);
            let mut work = Work::writing(builder::unmap(), SharedBuf::from(list.to_vec()).into());
            work.exact = false;
            work
        }
        Operation::WriteZeroes { extent, durability, may_unmap } => {
            // A unit that does not unmap so may refuse to be asked (SBC-4 §5.49).
            let unmaps = features.contains(Features::WRITE_ZEROES);
            let zeros = SharedBuf::from(vec![0; (block_size as usize).min(STAGED)]);
            let mut work = Work::writing(builder::write_same(extent, may_unmap && unmaps), zeros.into());
            // WRITE SAME has no FUA bit.
            work.flush_after = durability == Durability::Durable;
            work
        }
        Operation::Compare { extent, data } => Work::writing(builder::verify(extent, true), data),
        Operation::CompareAndWrite { extent, compare, write, durability } => {
            if u8::try_from(extent.blocks).is_err() {
                return Err(VolumeErrorKind::Misaligned);
            }
            let mut data = compare;
            write.pieces().iter().for_each(|piece| data.push(piece.clone()));
            Work::writing(builder::compare_and_write(extent, durability == Durability::Durable), data)
        }
        Operation::Verify { extent } => Work::plain(builder::verify(extent, false)),
        Operation::QueryAllocation { extent } => {
            let cdb = builder::lba_status(extent.start, LBA_STATUS.into());
            let mut work = Work::reading(cdb, Buf::zeroed(LBA_STATUS.into()));
            work.transfer = Transfer::Status(extent);
            work
        }
        _ => return Err(VolumeErrorKind::Unsupported),
    })
}

/// The first run of a GET LBA STATUS answer, cut to what was asked about.
pub(super) fn allocation(data: &[u8], asked: Extent) -> Option<Outcome> {
    let (run, mapped) = builder::first_status(data)?;
    let end = run.end()?.min(asked.end()?);
    let extent = Extent::new(asked.start, end.checked_sub(asked.start)?);
    Some(Outcome::Allocation(Allocation { extent, mapped }))
}

/// The sense data of a SCSI response's data segment, behind its length (RFC 7143 §11.4.7.2).
pub(super) fn sense(segment: &[u8]) -> &[u8] {
    let mut reader = Reader::new(segment);
    let length = reader.u16_be().map_or(0, usize::from);
    reader.rest().get(..length).unwrap_or(reader.rest())
}

/// What a unit attention says. The command was not carried out, and may be sent again: every attention is cleared by having
/// been told.
pub(super) fn attention(sense: &[u8]) -> Option<Additional> {
    let (key, code, _) = builder::sense(sense)?;
    (key == SenseKey::UnitAttention).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sense_is_found_behind_its_length() {
        let segment = [0, 18, 0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29, 0, 0, 0, 0, 0];
        assert_eq!(attention(sense(&segment)), Some(Additional::POWER_ON));
        assert_eq!(sense(&[0, 200, 1, 2]), [1, 2], "a length beyond the end");
        assert_eq!(sense(&[]), []);
    }

    #[test]
    fn what_a_cdb_cannot_say_is_refused() {
        let huge = Extent::new(0, 1 << 32);
        let result = command(Operation::Discard { extent: huge }, (512, Features::empty()));
        assert_eq!(result.unwrap_err(), VolumeErrorKind::Misaligned);
    }
}
