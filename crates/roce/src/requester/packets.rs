//! The packets of a request (IBTA §9.3.3, §9.4).

use verbs::{RemoteRegion, STag};
use wire::big_endian::{U32, U64};

use super::entry::Work;
use super::peer::Peer;
use crate::header::{BaseTransportHeader, Memory};
use crate::limits::{ACKNOWLEDGED_PACKETS, READ_PACKETS};
use crate::mtu::{Mtu, Part};
use crate::opcode::Opcode;
use crate::outgoing::{Outgoing, Payload};
use crate::packet::Extended;
use crate::psn::Psn;

/// Where a request's packets are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The number of the first.
    pub(super) first: Psn,
    pub(super) peer: Peer,
}

/// A request's packet with that number; none for what needs no packets.
pub(super) fn packet(work: &Work, sequence: Psn, place: Place) -> Option<Outgoing<'_>> {
    let position = sequence.since(place.first);
    let part = place.peer.mtu.part(work.len(), position);
    let (opcode, extended, payload) = match work {
        Work::Send { data, invalidate } => {
            let (opcode, extended) = send(part, *invalidate);
            (opcode, extended, Payload::Part { list: data, offset: part.offset, length: part.length })
        }
        Work::Write { data, to } => {
            let (opcode, extended) = write(part, RemoteRegion { length: length(data.len()), ..*to });
            (opcode, extended, Payload::Part { list: data, offset: part.offset, length: part.length })
        }
        Work::Read { from, .. } => {
            let asked = Asked { mtu: place.peer.mtu, position };
            (Opcode::READ_REQUEST, Extended::Memory(asked.memory(*from)), Payload::None)
        }
        Work::Register(_) | Work::Invalidate { .. } => return None,
    };
    let header = BaseTransportHeader::new(opcode, place.peer.queue_pair, sequence.into());
    let asks = part.last || position % ACKNOWLEDGED_PACKETS == ACKNOWLEDGED_PACKETS.saturating_sub(1);
    let header = if asks && !work.is_read() { header.asking() } else { header };
    let tells = part.last && matches!(work, Work::Send { .. });
    let header = if tells { header.soliciting() } else { header };
    Some(Outgoing { header, extended, payload })
}

fn send(part: Part, invalidate: Option<STag>) -> (Opcode, Extended) {
    let key = invalidate.map(|stag| Extended::Invalidate(U32::new(stag.0)));
    match (part.first, part.last, key) {
        (true, true, Some(key)) => (Opcode::SEND_ONLY_INVALIDATE, key),
        (false, true, Some(key)) => (Opcode::SEND_LAST_INVALIDATE, key),
        (true, true, None) => (Opcode::SEND_ONLY, Extended::None),
        (false, true, None) => (Opcode::SEND_LAST, Extended::None),
        (true, false, _) => (Opcode::SEND_FIRST, Extended::None),
        (false, false, _) => (Opcode::SEND_MIDDLE, Extended::None),
    }
}

fn write(part: Part, to: RemoteRegion) -> (Opcode, Extended) {
    match (part.first, part.last) {
        (true, true) => (Opcode::WRITE_ONLY, Extended::Memory(memory(to))),
        (true, false) => (Opcode::WRITE_FIRST, Extended::Memory(memory(to))),
        (false, true) => (Opcode::WRITE_LAST, Extended::None),
        (false, false) => (Opcode::WRITE_MIDDLE, Extended::None),
    }
}

/// Where the request ends that asks for the packet at a position of a response: a long read is asked for in parts, so that what is lost costs no more than one.
pub(super) fn asked_until(position: u32) -> u32 {
    (position / READ_PACKETS).saturating_add(1).saturating_mul(READ_PACKETS)
}

/// A part of a read.
struct Asked {
    mtu: Mtu,
    /// Of the first packet that has not come.
    position: u32,
}

impl Asked {
    /// What of the peer's memory it asks for.
    fn memory(&self, from: RemoteRegion) -> Memory {
        let bytes = |position: u32| length(self.mtu.bytes()).saturating_mul(position).min(from.length);
        let (begin, end) = (bytes(self.position), bytes(asked_until(self.position)));
        let offset = from.offset.wrapping_add(u64::from(begin));
        memory(RemoteRegion { offset, length: end.saturating_sub(begin), ..from })
    }
}

fn memory(region: RemoteRegion) -> Memory {
    Memory { address: U64::new(region.offset), key: U32::new(region.stag.0), length: U32::new(region.length) }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The last packet of a response.
pub(super) fn is_last(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::READ_RESPONSE_LAST | Opcode::READ_RESPONSE_ONLY)
}
