//! RDMA Reads of the peer that are to be answered, in the order of their numbers: as many as was agreed, so that a peer cannot make us keep more (IBTA §9.7.5.1.9).
//!
//! A read that comes again is served again, as far as the peer asks for it. It takes the place of itself if it waits, and gives way to a new one if there is no room.

use alloc::collections::VecDeque;

use verbs::RemoteRegion;

use crate::mtu::{Mtu, Part};
use crate::psn::Psn;

/// A read of the peer's, or what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InboundRead {
    /// The number of its next packet.
    next: Psn,
    /// The first number behind it.
    end: Psn,
    /// What is to be sent.
    pub(super) rest: RemoteRegion,
    /// Nothing of it was sent.
    is_fresh: bool,
    /// It was answered before.
    is_replay: bool,
}

/// The next packet of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResponsePart {
    pub(super) sequence: Psn,
    /// What it carries.
    pub(super) source: RemoteRegion,
    pub(super) part: Part,
}

impl InboundRead {
    /// A read that begins with that number.
    pub(super) fn new(sequence: Psn, region: RemoteRegion, mtu: Mtu) -> Self {
        let packets = mtu.packets(usize::try_from(region.length).unwrap_or(usize::MAX));
        let end = sequence.plus(packets);
        Self { next: sequence, end, rest: region, is_fresh: true, is_replay: false }
    }

    pub(super) const fn end(&self) -> Psn {
        self.end
    }

    fn part(&self, mtu: Mtu) -> ResponsePart {
        let part = mtu.part(usize::try_from(self.rest.length).unwrap_or(usize::MAX), 0);
        let source = RemoteRegion { length: u32::try_from(part.length).unwrap_or(u32::MAX), ..self.rest };
        ResponsePart { sequence: self.next, source, part: Part { first: self.is_fresh, ..part } }
    }
}

/// The reads of a responder.
#[derive(Debug)]
pub(super) struct InboundReads {
    reads: VecDeque<InboundRead>,
    limit: usize,
}

impl InboundReads {
    /// At most `limit` of them.
    pub(super) fn new(limit: u8) -> Self {
        let limit = usize::from(limit);
        Self { reads: VecDeque::with_capacity(limit), limit }
    }

    /// Bytes that `limit` of them take.
    pub(super) const fn bytes(limit: u8) -> usize {
        limit as usize * size_of::<InboundRead>()
    }

    /// Takes a new read; false if there is no room.
    pub(super) fn push(&mut self, read: InboundRead) -> bool {
        if self.reads.len() >= self.limit
            && let Some(replay) = self.reads.iter().position(|read| read.is_replay)
        {
            self.reads.remove(replay);
        }
        let has_room = self.reads.len() < self.limit;
        if has_room {
            self.reads.push_back(read);
        }
        has_room
    }

    /// Takes a read that has come before; it is left out if there is no room.
    pub(super) fn replay(&mut self, read: InboundRead) {
        let same = self.reads.iter().position(|known| known.end == read.end);
        let known = same.and_then(|at| self.reads.remove(at));
        if self.reads.len() < self.limit {
            let is_replay = known.is_none_or(|known| known.is_replay);
            let later = self.reads.iter().position(|known| read.end.is_before(known.end));
            self.reads.insert(later.unwrap_or(self.reads.len()), InboundRead { is_replay, ..read });
        }
    }

    /// The packet that is next.
    pub(super) fn next(&self, mtu: Mtu) -> Option<ResponsePart> {
        self.reads.front().map(|read| read.part(mtu))
    }

    /// It is sent.
    pub(super) fn sent(&mut self, sent: ResponsePart) {
        if sent.part.last {
            self.reads.pop_front();
        } else if let Some(read) = self.reads.front_mut() {
            let RemoteRegion { stag, offset, length } = read.rest;
            let rest = length.saturating_sub(sent.source.length);
            let offset = offset.wrapping_add(u64::from(sent.source.length));
            (read.rest, read.is_fresh) = (RemoteRegion { stag, offset, length: rest }, false);
            read.next = read.next.plus(1);
        }
    }

    /// Leaves the next one out if it was answered before: the peer asked again, has had the answer since, and ended the region. False if it was not.
    pub(super) fn skip_replay(&mut self) -> bool {
        self.reads.pop_front_if(|read| read.is_replay).is_some()
    }

    pub(super) fn clear(&mut self) {
        self.reads.clear();
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use verbs::STag;

    use super::*;

    const MTU: Mtu = Mtu::Bytes256;

    fn read(sequence: u32, length: u32) -> InboundRead {
        let region = RemoteRegion { stag: STag(1), offset: 1000, length };
        InboundRead::new(Psn::new(sequence), region, MTU)
    }

    /// The numbers of all packets to come.
    fn drain(reads: &mut InboundReads) -> Vec<u32> {
        let mut numbers = Vec::new();
        while let Some(part) = reads.next(MTU) {
            numbers.push(part.sequence.get());
            reads.sent(part);
        }
        numbers
    }

    #[test]
    fn a_response_is_cut_into_packets() {
        let mut reads = InboundReads::new(2);
        assert!(reads.push(read(7, 600)));
        let mut parts = Vec::new();
        while let Some(part) = reads.next(MTU) {
            let ResponsePart { source, part: Part { first, last, .. }, .. } = part;
            parts.push((part.sequence.get(), source.offset, source.length, first, last));
            reads.sent(part);
        }
        let expected =
            [(7, 1000, 256, true, false), (8, 1256, 256, false, false), (9, 1512, 88, false, true)];
        assert_eq!(parts, expected);
    }

    #[test]
    fn a_read_that_comes_again_takes_its_own_place() {
        let mut reads = InboundReads::new(2);
        assert!(reads.push(read(0, 1024)) && reads.push(read(4, 1)));
        reads.sent(reads.next(MTU).unwrap());
        // The peer has the first two packets, or so it says.
        reads.replay(read(2, 512));
        assert_eq!(drain(&mut reads), [2, 3, 4]);
    }

    #[test]
    fn only_a_read_that_was_answered_is_left_out() {
        let mut reads = InboundReads::new(2);
        reads.replay(read(3, 1));
        assert!(reads.push(read(10, 1)));
        assert!(reads.skip_replay());
        assert!(!reads.skip_replay());
        assert_eq!(drain(&mut reads), [10]);
    }

    #[test]
    fn old_reads_give_way_to_new_ones() {
        let mut reads = InboundReads::new(2);
        assert!(reads.push(read(10, 1)));
        reads.replay(read(3, 1));
        reads.replay(read(4, 1));
        assert!(reads.push(read(11, 1)), "the replay gives way");
        assert!(!reads.push(read(12, 1)), "more than was agreed");
        assert_eq!(drain(&mut reads), [10, 11]);
    }
}
