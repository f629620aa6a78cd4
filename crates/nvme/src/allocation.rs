//! Get LBA Status (NVM Command Set §4.2.1): which blocks of a namespace have space behind them.
//!
//! Of its actions only *Return Tracked Allocated LBAs* is used here. The answer lists the allocated ranges in ascending order; what lies between
//! them, and before and behind them as far as the answer is complete, is not allocated.

use volume::{Allocation, Extent};
use wire::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::opcode::admin;
use crate::sqe::SubmissionQueueEntry;
use crate::width::to_field;

/// ATYPE: return tracked allocated LBAs.
pub const TRACKED_ALLOCATED: u8 = 0x02;
/// LBARS: at least one of the blocks is allocated.
const ALLOCATED: u8 = 0b010;
const RANGE_STATUS: u8 = 0b111;
/// CMPC: there is more to tell.
const INCOMPLETE: u8 = 1;
/// CMPC: the whole range was looked at, and all of it told.
const COMPLETE: u8 = 2;
const HEADER: usize = size_of::<Header>();
const DESCRIPTOR: usize = size_of::<Descriptor>();
/// Bytes of an answer with one range.
pub(crate) const ONE_RANGE: usize = HEADER + DESCRIPTOR;
/// Blocks that a descriptor can tell at most.
const MOST: u64 = 1 << 32;

/// The command's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetLbaStatus {
    /// The first block.
    pub start: u64,
    /// Bytes that may be answered, a multiple of 4 above zero (MNDW).
    pub length: u64,
    /// Blocks to look at; `None` for all up to the end of the namespace (RL).
    pub blocks: Option<u16>,
    /// What is asked for (ATYPE).
    pub action: u8,
}

impl GetLbaStatus {
    /// The fields of `entry`.
    pub fn decode(entry: &SubmissionQueueEntry) -> Self {
        let [low, high, _, action] = entry.dword(13).to_le_bytes();
        let blocks = u16::from_le_bytes([low, high]);
        Self {
            start: entry.quad(10),
            length: u64::from(entry.dword(12)).saturating_add(1).saturating_mul(4),
            blocks: (blocks != 0).then_some(blocks),
            action,
        }
    }

    /// The command for namespace `nsid`.
    pub fn encode(&self, nsid: u32) -> SubmissionQueueEntry {
        let dwords = (self.length / 4).saturating_sub(1);
        let [low, high] = self.blocks.unwrap_or(0).to_le_bytes();
        SubmissionQueueEntry::new(admin::GET_LBA_STATUS, nsid)
            .with_quad(10, self.start)
            .with(12, wire::bounded::<u32>(dwords))
            .with(13, u32::from_le_bytes([low, high, 0, self.action]))
    }

    /// The first range of at most `extent`'s length that begins where that does: RL says up to 65,535 blocks, or all.
    pub(crate) fn about(extent: Extent) -> Self {
        let blocks = u16::try_from(extent.blocks).ok().filter(|blocks| *blocks != 0);
        let length = u64::try_from(ONE_RANGE).unwrap_or(0);
        Self { start: extent.start, length, blocks, action: TRACKED_ALLOCATED }
    }
}

/// What an answer begins with.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    /// Descriptors that follow.
    nlsd: U32,
    /// Completion condition.
    cmpc: u8,
    reserved: [u8; 3],
}

const _: () = assert!(size_of::<Header>() == 8);

/// A range.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Descriptor {
    /// The first block.
    dslba: U64,
    /// Blocks, counted from zero.
    nlb: U32,
    reserved12: u8,
    /// Status of the range.
    status: u8,
    reserved14: [u8; 2],
}

const _: () = assert!(size_of::<Descriptor>() == 16);

/// Whether an answer tells all (CMPC).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompletionCondition {
    /// All that was asked about has been looked at, and is in the answer.
    Complete,
    /// There may be more.
    Incomplete,
}

impl CompletionCondition {
    const fn to_wire(self) -> u8 {
        match self {
            Self::Complete => COMPLETE,
            Self::Incomplete => INCOMPLETE,
        }
    }
}

/// An answer that is being written. What is not told yet lies in `open`.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    count: usize,
    open: Option<Extent>,
}

impl Ranges {
    /// Adds an allocated range behind those that are there, to an answer for which there is this memory; false when it has no room for it.
    pub(crate) fn add(&mut self, extent: Extent, memory: &mut [u8]) -> bool {
        match &mut self.open {
            Some(open) if open.end() == Some(extent.start) => {
                open.blocks = open.blocks.saturating_add(extent.blocks);
                true
            }
            open => {
                let done = open.replace(extent);
                done.is_none_or(|done| self.put(done, memory))
            }
        }
    }

    /// Writes a range, in as many descriptors as it takes; false when there is no room for all of them.
    fn put(&mut self, mut left: Extent, memory: &mut [u8]) -> bool {
        while left.blocks > 0 {
            let blocks = left.blocks.min(MOST);
            let at = HEADER.saturating_add(self.count.saturating_mul(DESCRIPTOR));
            let Some(place) = memory.get_mut(at..at.saturating_add(DESCRIPTOR)) else { return false };
            let descriptor = Descriptor {
                dslba: U64::new(left.start),
                nlb: U32::new(wire::saturate::<u32>(blocks.saturating_sub(1))),
                reserved12: 0,
                status: ALLOCATED,
                reserved14: [0; 2],
            };
            place.copy_from_slice(descriptor.as_bytes());
            self.count = self.count.saturating_add(1);
            left = Extent::new(left.start.saturating_add(blocks), left.blocks.saturating_sub(blocks));
        }
        true
    }

    /// Ends the answer, which is complete when everything that was asked about has been looked at.
    pub(crate) fn finish(mut self, condition: CompletionCondition, memory: &mut [u8]) {
        let open = self.open.take();
        let told = open.is_none_or(|open| self.put(open, memory));
        let header = Header {
            nlsd: U32::new(to_field(self.count)),
            cmpc: if told { condition.to_wire() } else { INCOMPLETE },
            reserved: [0; 3],
        };
        // A host that asks for less than a header gets that much of it.
        memory.iter_mut().zip(header.as_bytes()).for_each(|(place, byte)| *place = *byte);
    }
}

/// The first run of what was asked about, as an answer tells it; `None` when the answer is malformed. Where it tells nothing, as it is incomplete and
/// empty, all may hold data.
pub(crate) fn first_run(data: &[u8], asked: Extent) -> Option<Allocation> {
    let (header, rest) = Header::read_from_prefix(data).ok()?;
    if header.nlsd.get() == 0 {
        let mapped = header.cmpc != COMPLETE;
        return Some(Allocation { extent: asked, mapped });
    }
    let (descriptor, _) = Descriptor::read_from_prefix(rest).ok()?;
    let first = Extent::new(descriptor.dslba.get(), u64::from(descriptor.nlb.get()).saturating_add(1));
    let (end, asked_end) = (first.end()?, asked.end()?);
    if descriptor.status & RANGE_STATUS != ALLOCATED || end <= asked.start {
        return None;
    }
    let mapped = first.start <= asked.start;
    let until = if mapped { end } else { first.start };
    let extent = Extent::new(asked.start, until.min(asked_end).saturating_sub(asked.start));
    Some(Allocation { extent, mapped })
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn golden_vector_of_the_command() {
        let command = GetLbaStatus { start: 0x1_0000_0002, length: 24, blocks: Some(0x1234), action: 2 };
        let entry = command.encode(7);
        let bytes = entry.as_bytes();
        assert_eq!((bytes[0], &bytes[4..8]), (0x86, [7, 0, 0, 0].as_slice()));
        assert_eq!(&bytes[40..56], &[2, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0x34, 0x12, 0, 2]);
        assert_eq!(GetLbaStatus::decode(&entry), command);
        let longest = SubmissionQueueEntry::new(0x86, 1).with(12, u32::MAX);
        let command = GetLbaStatus::decode(&longest);
        assert_eq!((command.length, command.blocks), (1 << 34, None), "MNDW counts from zero, RL 0 is all");
    }

    #[test]
    fn more_blocks_than_the_field_can_say_are_all_blocks() {
        for (blocks, said) in [(1, Some(1)), (65_535, Some(65_535)), (65_536, None), (u64::MAX, None)] {
            assert_eq!(GetLbaStatus::about(Extent::new(9, blocks)).blocks, said);
        }
    }

    /// The answer with room for so many bytes to these ranges.
    fn answer(ranges: &[(u64, u64)], whole: bool, room: usize) -> (Vec<u8>, bool) {
        let (mut memory, mut list) = (vec![0; room], Ranges::default());
        let fits = ranges.iter().all(|&(start, blocks)| list.add(Extent::new(start, blocks), &mut memory));
        let condition =
            if whole && fits { CompletionCondition::Complete } else { CompletionCondition::Incomplete };
        list.finish(condition, &mut memory);
        (memory, fits)
    }

    #[test]
    fn golden_vector_of_an_answer() {
        let (bytes, fits) = answer(&[(2, 3), (5, 1), (0x1_0000_0000, 2)], true, 40);
        assert!(fits);
        assert_eq!(&bytes[..8], &[2, 0, 0, 0, 2, 0, 0, 0], "neighbours are one range");
        assert_eq!(&bytes[8..24], &[2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 2, 0, 0]);
        assert_eq!(&bytes[24..], &[0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0]);
    }

    #[test]
    fn what_does_not_fit_makes_an_answer_incomplete() {
        let ranges = [(0, 1), (2, 1), (4, 1)];
        for (room, told, condition) in [
            (56, 3, COMPLETE),
            (55, 2, INCOMPLETE),
            (40, 2, INCOMPLETE),
            (24, 1, INCOMPLETE),
            (8, 0, INCOMPLETE),
        ] {
            let (bytes, _) = answer(&ranges, true, room);
            assert_eq!((bytes[0], bytes[4]), (told, condition), "{room} bytes");
        }
        assert_eq!(answer(&ranges, true, 4).0, [0; 4], "less than a header");
        assert_eq!(answer(&[], true, 8).0[4], COMPLETE);
        assert_eq!(answer(&[], false, 8).0[4], INCOMPLETE, "not all was looked at");
    }

    #[test]
    fn a_range_beyond_32_bits_takes_several_descriptors() {
        let (bytes, _) = answer(&[(0, MOST + 8)], true, 40);
        assert_eq!((bytes[0], bytes[4]), (2, COMPLETE));
        assert_eq!(&bytes[16..20], &[0xff; 4]);
        assert_eq!(&bytes[24..36], &[0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn the_first_run_follows_from_the_first_range() {
        let asked = Extent::new(10, 20);
        let run = |start, blocks, mapped| Some(Allocation { extent: Extent::new(start, blocks), mapped });
        for (ranges, whole, expected) in [
            (&[(10, 5), (16, 2)][..], true, run(10, 5, true)),
            (&[(8, 5)], true, run(10, 3, true)),
            (&[(10, 500)], true, run(10, 20, true)),
            (&[(12, 5)], true, run(10, 2, false)),
            (&[(90, 5)], false, run(10, 20, false)),
            (&[], true, run(10, 20, false)),
            (&[], false, run(10, 20, true)),
            (&[(3, 7)], true, None),
        ] {
            assert_eq!(first_run(&answer(ranges, whole, 64).0, asked), expected, "{ranges:?} {whole}");
        }
        let (good, _) = answer(&[(10, 5)], true, 24);
        for cut in 0..good.len() {
            assert_eq!(first_run(&good[..cut], asked), None, "cut to {cut}");
        }
        let mut other = good;
        other[21] = 1;
        assert_eq!(first_run(&other, asked), None, "another status");
    }
}
