//! What a volume's request means in SCSI. The blocks themselves, and what sense data means, are the business of
//! `scsi::builder`.

use alloc::vec;

use buf::{Buf, BufList, SharedBuf};
use scsi::builder::{self, ByteCheck, ReserveOut, UNMAP_LIST, Unmap};
use scsi::{Additional, SenseKey};
use volume::{
    Allocation, ComparedWrite, Durability, Extent, Failure, Features, Operation, Outcome, VolumeErrorKind,
};
use wire::Reader;

use super::probe::RemoteUnit;
use super::tasks::{Transfer, Work, Zeros};
use crate::limits::{LARGEST_BLOCK, ZEROS_AT_ONCE};

/// Bytes of GET LBA STATUS data with one descriptor.
const LBA_STATUS: u8 = 24;
/// Bytes of READ FULL STATUS data that are asked for: as many as a CDB can say, rounded down to words.
const FULL_STATUS: u16 = 0xfffc;

/// What a unit's commands may look like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Abilities {
    /// It has not refused WRITE SAME.
    pub(super) writes_same: bool,
    pub(super) features: Features,
    /// It takes the FUA bit.
    pub(super) fua: bool,
    /// Blocks in one COMPARE AND WRITE at most.
    pub(super) longest_compare: u8,
    /// Bytes in one write at most.
    pub(super) longest_write: u32,
}

impl Abilities {
    /// Of a unit about which nothing is known.
    pub(super) const NONE: Self = Self {
        writes_same: true,
        features: Features::VOLATILE_CACHE,
        fua: false,
        longest_compare: 0,
        longest_write: u32::MAX,
    };

    /// What was found out about a unit.
    pub(super) fn of(unit: &RemoteUnit) -> Self {
        Self {
            features: unit.features,
            fua: unit.fua,
            longest_compare: unit.longest_compare,
            longest_write: unit.limits.max_transfer,
            ..Self::NONE
        }
    }

    /// How a durable write is made: with the FUA bit, or with a flush after it. A unit without FUA refuses the bit (LIO without a write
    /// cache does).
    fn durable(self, durability: Durability) -> Durable {
        let is_durable = durability == Durability::Durable;
        let flush_after = is_durable && !self.fua && self.features.contains(Features::VOLATILE_CACHE);
        let bit = if self.fua { durability } else { Durability::Cached };
        Durable { bit, flush_after }
    }
}

/// What makes a write durable, if it is to be.
#[derive(Debug, Clone, Copy)]
struct Durable {
    /// What its FUA bit says.
    bit: Durability,
    /// A flush that follows.
    flush_after: bool,
}

/// The command that carries out an operation on a unit with blocks of `block_size` bytes and these abilities.
#[inline]
pub(super) fn command(operation: Operation, block_size: u32, abilities: Abilities) -> Result<Work, Failure> {
    if operation.extent().is_some_and(|extent| u32::try_from(extent.blocks).is_err()) {
        return Err(Failure::of(operation, VolumeErrorKind::Misaligned));
    }
    Ok(match operation {
        Operation::Read { extent, into } => Work::reading(builder::read(extent), into),
        Operation::Write { extent, data, durability } => {
            let Durable { bit, flush_after } = abilities.durable(durability);
            Work { flush_after, ..Work::writing(builder::write(extent, bit), data) }
        }
        Operation::Flush => Work::plain(builder::synchronize_cache()),
        Operation::Discard { extent } => {
            let list: [u8; UNMAP_LIST] = builder::unmap_list(extent);
            let mut work = Work::writing(builder::unmap(), SharedBuf::from(list.to_vec()).into());
            work.exact = false;
            work
        }
        Operation::WriteZeroes { extent, durability, may_unmap } => {
            let zeros = Zeros { left: extent, durability, instead: abilities.writes_same };
            if !abilities.writes_same {
                return Ok(writing_zeros(zeros, block_size, abilities));
            }
            // A unit that does not unmap so may refuse to be asked (SBC-4 §5.49).
            let may_unmap = may_unmap && abilities.features.contains(Features::WRITE_ZEROES);
            let unmap = if may_unmap { Unmap::Allowed } else { Unmap::Never };
            let block = SharedBuf::from(vec![0; (block_size as usize).min(LARGEST_BLOCK)]);
            // WRITE SAME has no FUA bit.
            let flush_after = durability == Durability::Durable;
            let work = Work::writing(builder::write_same(extent, unmap), block.into());
            Work { flush_after, zeros: Some(zeros), ..work }
        }
        // Not by VERIFY with BYTCHK: LIO then says that all is the same without having looked, and tgt does not tell where a difference is.
        Operation::Compare { extent, data } => Work::comparing(builder::read(extent), data),
        Operation::CompareAndWrite { extent, data, durability } => {
            if extent.blocks > u64::from(abilities.longest_compare) {
                return Err(VolumeErrorKind::Misaligned.into());
            }
            let Durable { bit, flush_after } = abilities.durable(durability);
            let ComparedWrite { compare: mut data, write } = *data;
            data.append(write);
            Work { flush_after, ..Work::writing(builder::compare_and_write(extent, bit), data) }
        }
        Operation::Verify { extent } => Work::plain(builder::verify(extent, ByteCheck::Medium)),
        Operation::QueryAllocation { extent } => {
            let cdb = builder::lba_status(extent.start, LBA_STATUS.into());
            let mut work = Work::reading(cdb, Buf::zeroed(LBA_STATUS.into()));
            work.transfer = Transfer::Status(extent);
            work
        }
        Operation::Reserve(change) => {
            let ReserveOut { cdb, list } = builder::reserve_out(&change);
            let mut work = Work::writing(cdb, SharedBuf::from(list.to_vec()).into());
            work.exact = false;
            work
        }
        Operation::ReadReservations => {
            let mut work = Work::reading(builder::reserve_in(FULL_STATUS), Buf::zeroed(FULL_STATUS.into()));
            work.transfer = Transfer::Reservations;
            work
        }
        _ => return Err(VolumeErrorKind::Unsupported.into()),
    })
}

/// Writes zeros to the first blocks of what is left.
pub(super) fn writing_zeros(zeros: Zeros, block_size: u32, abilities: Abilities) -> Work {
    let most = (ZEROS_AT_ONCE.min(abilities.longest_write) / block_size.max(1)).max(1);
    let blocks = wire::saturate::<u32>(zeros.left.blocks).min(most);
    let length = blocks.saturating_mul(block_size) as usize;
    let piece = Extent::new(zeros.left.start, blocks.into());
    let left = Extent::new(piece.start + piece.blocks, zeros.left.blocks - piece.blocks);
    let Durable { bit, flush_after } = abilities.durable(zeros.durability);
    let work = Work::writing(builder::write(piece, bit), SharedBuf::from(vec![0; length]).into());
    let rest = (left.blocks > 0).then_some(Zeros { left, instead: false, ..zeros });
    // One flush covers all pieces.
    Work { flush_after: flush_after && rest.is_none(), zeros: rest, ..work }
}

/// Where what was read first differs from what was expected, in bytes.
pub(super) fn difference(read: &[u8], expected: &BufList) -> Option<u32> {
    let mut at = 0;
    for piece in expected.pieces() {
        let part = read.get(at..)?;
        if let Some(first) = part.iter().zip(piece.iter()).position(|(one, other)| one != other) {
            return u32::try_from(at.saturating_add(first)).ok();
        }
        at = at.saturating_add(piece.len());
    }
    None
}

/// The first run of a GET LBA STATUS answer, cut to what was asked about.
pub(super) fn allocation(data: &[u8], asked: Extent) -> Option<Outcome> {
    let Allocation { extent: run, mapped } = builder::first_status(data)?;
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
    let builder::Sense { key, code, .. } = builder::sense(sense)?;
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
    fn a_difference_is_found_across_pieces() {
        let mut expected = BufList::from(SharedBuf::from(vec![1, 2, 3]));
        expected.push(SharedBuf::from(vec![4, 5]));
        assert_eq!(difference(&[1, 2, 3, 4, 5], &expected), None);
        for at in 0..5_u8 {
            let mut read = [1, 2, 3, 4, 5];
            read[usize::from(at)] ^= 0x80;
            assert_eq!(difference(&read, &expected), Some(at.into()));
        }
    }

    /// SBC-4 §5.49: WRITE SAME has no FUA bit, whatever the unit says of others.
    #[test]
    fn zeros_by_write_same_are_flushed_if_they_are_to_last() {
        for fua in [false, true] {
            for (durability, flushes) in [(Durability::Cached, false), (Durability::Durable, true)] {
                let zeros =
                    Operation::WriteZeroes { extent: Extent::new(0, 8), durability, may_unmap: false };
                let work = command(zeros, 512, Abilities { fua, ..Abilities::NONE });
                let flush_after = work.map(|work| work.flush_after).ok();
                assert_eq!(flush_after, Some(flushes), "{durability:?}, a unit with FUA: {fua}");
            }
        }
    }

    #[test]
    fn a_unit_without_fua_is_asked_for_a_flush_instead() {
        let write = |features, fua| {
            let extent = Extent::new(0, 1);
            let data = SharedBuf::from(vec![0; 512]).into();
            let write = Operation::Write { extent, data, durability: Durability::Durable };
            let work = command(write, 512, Abilities { features, fua, ..Abilities::NONE }).unwrap();
            (work.cdb[1] & 8 != 0, work.flush_after)
        };
        assert_eq!(write(Features::VOLATILE_CACHE, true), (true, false));
        assert_eq!(write(Features::VOLATILE_CACHE, false), (false, true));
        assert_eq!(write(Features::empty(), false), (false, false), "nothing is volatile");
    }

    #[test]
    fn zeros_are_written_in_pieces_with_one_flush() {
        let abilities = Abilities { longest_write: 1024, writes_same: false, ..Abilities::NONE };
        let zeroes = Operation::WriteZeroes {
            extent: Extent::new(10, 5),
            durability: Durability::Durable,
            may_unmap: true,
        };
        let mut next = command(zeroes, 512, abilities).ok();
        let mut seen = vec![];
        while let Some(work) = next {
            seen.push((work.cdb[9], work.length, work.flush_after));
            next = work.zeros.map(|zeros| writing_zeros(zeros, 512, abilities));
        }
        assert_eq!(seen, [(10, 1024, false), (12, 1024, false), (14, 512, true)]);
    }

    #[test]
    fn what_a_cdb_cannot_say_is_refused() {
        let huge = Extent::new(0, 1 << 32);
        let result = command(Operation::Discard { extent: huge }, 512, Abilities::NONE);
        assert_eq!(result.unwrap_err().kind, VolumeErrorKind::Misaligned);
    }
}
