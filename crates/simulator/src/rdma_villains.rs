//! Ends of connections over software iWARP that are hostile, of either role: a real end's stream, whose FPDUs are passed on honestly for a while, and then name
//! memory that they may not, have wrong numbers, are too many or too few, or end.

use std::net::SocketAddr;
use std::time::Duration;

use host::Endpoint;
use iwarp::ddp::{Control, Segment, Tagged, UNTAGGED, Untagged};
use iwarp::rdmap::{Opcode, READ_QUEUE, ReadRequest, TERMINATE_QUEUE};
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::dice::Dice;
use crate::fpdus::{Carried, Cutter, fpdu};
use crate::hostility::{Honesty, Hostility};

/// What an end does once it is hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RdmaEvil {
    /// It writes to and reads from tags that name nothing, or nothing of this connection.
    ForeignTags,
    /// It writes and reads outside of the memory that it was told of.
    Beyond,
    /// Its tagged offsets wrap.
    Wraps,
    /// It reads what is to be written, and writes to what is to be read.
    Rights,
    /// It writes to and reads from memory that it was told of long ago.
    Ended,
    /// It invalidates tags that are not its own command's.
    Invalidations,
    /// Its messages have wrong numbers.
    Numbers,
    /// Its segments have wrong offsets.
    Offsets,
    /// Its messages are longer than any receive.
    Long,
    /// It sends many messages more than there are receives.
    Flood,
    /// It has many more RDMA Reads under way than are served.
    Reads,
    /// Its headers have bits that do not belong there.
    Headers,
    /// Bits change on the way.
    Noise,
    /// It terminates the stream for any reason.
    Terminates,
    /// It moves no data: neither writes nor what it was asked for.
    NoData,
    /// It leaves out some of its messages.
    Omits,
    /// It says everything several times.
    Repeats,
    /// It takes nothing any more.
    Deaf,
    /// It says nothing any more.
    Silence,
    /// It sends half of something, and then nothing any more.
    Half,
    /// It closes the connection, after half of something.
    Close,
}

impl RdmaEvil {
    /// All kinds.
    pub const ALL: [Self; 21] = [
        Self::ForeignTags,
        Self::Beyond,
        Self::Wraps,
        Self::Rights,
        Self::Ended,
        Self::Invalidations,
        Self::Numbers,
        Self::Offsets,
        Self::Long,
        Self::Flood,
        Self::Reads,
        Self::Headers,
        Self::Noise,
        Self::Terminates,
        Self::NoData,
        Self::Omits,
        Self::Repeats,
        Self::Deaf,
        Self::Silence,
        Self::Half,
        Self::Close,
    ];
}

impl Hostility for RdmaEvil {
    fn before(self, inner: Box<dyn Endpoint>, honesty: Honesty, dice: Dice) -> Box<dyn Endpoint> {
        Box::new(RdmaVillain::new(inner, self, honesty.lasts, dice))
    }

    fn strays(self) -> bool {
        self == Self::Noise
    }
}

/// Bytes that are left unsent before more are made.
const AHEAD: usize = 64 << 10;
/// Bytes of one send of the end behind it, and its pieces.
const BUDGET: usize = 64 << 10;
const PIECES: usize = 64;
/// Messages and RDMA Reads that are too many, and how often something is said that is said several times.
const FLOOD: usize = 600;
const TIMES: usize = 3;
/// Bytes of a message that is longer than any receive.
const LONG: usize = 60_000;
/// Bytes of headers that say what they are: the control bytes of DDP and RDMAP, and the last byte of a queue's number.
const HEADER_BYTES: [usize; 3] = [0, 1, 9];
/// Tags that are guessed are below this: what a connection gives out first.
const GUESSES: u64 = 1 << 12;
/// Memory that is remembered.
const REMEMBERED: usize = 64;

/// Memory that a segment named.
#[derive(Debug, Clone, Copy)]
struct Named {
    stag: u32,
    offset: u64,
}

/// One end of a stream.
struct RdmaVillain {
    inner: Box<dyn Endpoint>,
    evil: RdmaEvil,
    /// What it passes on honestly before.
    honest: usize,
    send: Transmit,
    /// What the end behind it sends.
    told: Cutter,
    out: Vec<u8>,
    /// Numbers of the next messages of the three untagged queues.
    numbers: [u32; 3],
    /// Memory of the peer that was named.
    remembered: Vec<Named>,
    silent: bool,
    closes: bool,
    dice: Dice,
}

impl RdmaVillain {
    /// In front of `inner`, hostile after so much that is honest.
    fn new(inner: Box<dyn Endpoint>, evil: RdmaEvil, honest: usize, dice: Dice) -> Self {
        Self {
            inner,
            evil,
            honest,
            send: Transmit::new(BUDGET, PIECES),
            told: Cutter::default(),
            out: Vec::new(),
            numbers: [1; 3],
            remembered: Vec::new(),
            silent: false,
            closes: false,
            dice,
        }
    }

    fn is_hostile(&self) -> bool {
        self.honest == 0
    }

    /// Takes what the end behind it sends.
    fn relay(&mut self, now: Instant) {
        while self.out.len() < AHEAD {
            self.send.clear();
            self.inner.poll_transmit(now, &mut self.send);
            for segment in self.send.segments() {
                self.told.put(self.send.bytes(segment));
            }
            if self.send.is_empty() {
                break;
            }
            self.inner.handle_transmitted(now, self.send.len());
            while let Some(carried) = self.told.take() {
                self.tell(carried);
            }
        }
        self.send.clear();
    }

    /// Passes something on, or what it makes of it.
    fn tell(&mut self, carried: Carried) {
        if self.silent || self.closes {
            return;
        }
        let is_hostile = self.is_hostile();
        self.honest = self.honest.saturating_sub(1);
        let (is_frame, bytes) = match carried {
            Carried::Frame(frame) => (true, frame),
            Carried::Segment(segment) => (false, segment),
        };
        match self.evil {
            _ if !is_hostile => {}
            RdmaEvil::Silence => self.silent = true,
            RdmaEvil::Half | RdmaEvil::Close => {
                let whole = if is_frame { bytes.clone() } else { fpdu(&bytes) };
                self.out.extend(&whole[..whole.len() / 2]);
                (self.silent, self.closes) = (true, self.evil == RdmaEvil::Close);
            }
            _ => {}
        }
        if self.silent {
            return;
        }
        match is_frame {
            true if is_hostile && self.evil == RdmaEvil::Noise => {
                let flipped = self.flip(bytes);
                self.out.extend(flipped);
            }
            true => self.out.extend(bytes),
            false => self.tell_segment(bytes, is_hostile),
        }
    }

    fn tell_segment(&mut self, mut segment: Vec<u8>, is_hostile: bool) {
        let Ok((control, _)) = Control::read_from_prefix(&segment) else {
            return self.out.extend(fpdu(&segment));
        };
        let named = named(control, &segment);
        if is_hostile {
            match (control.is_tagged(), control.opcode()) {
                (true, opcode) => self.mangle_tagged(&mut segment, opcode),
                (false, Opcode::READ_REQUEST) => self.mangle_request(&mut segment),
                (false, opcode) if opcode.is_send() => self.mangle_send(&mut segment),
                _ => {}
            }
            self.mangle_header(&mut segment);
        }
        if let Some(named) = named.filter(|_| self.remembered.len() < REMEMBERED) {
            self.remembered.push(named);
        }
        if !segment.is_empty() {
            self.pass(&segment, is_hostile);
        }
    }

    /// What becomes of a segment for the peer's memory; none of it if it is empty.
    fn mangle_tagged(&mut self, segment: &mut Vec<u8>, opcode: Opcode) {
        let Ok((header, _)) = Tagged::mut_from_prefix(segment) else { return };
        match self.evil {
            RdmaEvil::NoData => segment.clear(),
            RdmaEvil::Rights if opcode == Opcode::WRITE => {
                let from = Named { stag: header.stag.get(), offset: header.offset.get() };
                *segment = read_of(from, 64);
            }
            _ => {
                let named = Named { stag: header.stag.get(), offset: header.offset.get() };
                let named = self.misname(named);
                (header.stag, header.offset) = (U32::new(named.stag), U64::new(named.offset));
            }
        }
    }

    /// What becomes of an RDMA Read Request.
    fn mangle_request(&mut self, segment: &mut Vec<u8>) {
        let Some(bytes) = segment.get_mut(UNTAGGED..) else { return };
        let Ok((request, _)) = ReadRequest::mut_from_prefix(bytes) else { return };
        let from = Named { stag: request.source_stag.get(), offset: request.source_offset.get() };
        if self.evil == RdmaEvil::Rights {
            *segment = write_to(from, &[0xee; 64]);
            return;
        }
        let from = self.misname(from);
        (request.source_stag, request.source_offset) = (U32::new(from.stag), U64::new(from.offset));
    }

    /// What becomes of a message.
    fn mangle_send(&mut self, segment: &mut Vec<u8>) {
        match self.evil {
            RdmaEvil::Omits if self.dice.coin() => segment.clear(),
            RdmaEvil::Long => segment.resize(LONG, 0),
            RdmaEvil::Ended => {
                let at = self.dice.index(self.remembered.len());
                if let Some(named) = self.remembered.get(at).copied() {
                    let old =
                        if self.dice.coin() { write_to(named, &[0xee; 64]) } else { read_of(named, 64) };
                    self.pass(&old, false);
                }
            }
            RdmaEvil::ForeignTags | RdmaEvil::Beyond | RdmaEvil::Wraps | RdmaEvil::Rights
                if self.remembered.is_empty() && self.dice.coin() =>
            {
                self.guess();
            }
            RdmaEvil::Invalidations => {
                let at = self.dice.index(self.remembered.len());
                let stag =
                    self.remembered.get(at).map_or(7, |named| named.stag ^ u32::from(self.dice.coin()));
                if let Ok((header, _)) = Untagged::mut_from_prefix(segment) {
                    header.control = Control::new(Opcode::SEND_INVALIDATE, header.control.segment());
                    header.invalidate = U32::new(stag);
                }
            }
            _ => {}
        }
    }

    /// An access of an end that has been told of no memory and makes none: by a tag that may be one of its peer's.
    fn guess(&mut self) {
        let stag = u32::try_from(self.dice.below(GUESSES)).unwrap_or(0);
        let named = self.misname(Named { stag, offset: 0 });
        let access = if self.dice.coin() { write_to(named, &[0xee; 64]) } else { read_of(named, 64) };
        self.pass(&access, false);
    }

    /// Names other memory, if that is what it does.
    fn misname(&mut self, named: Named) -> Named {
        match self.evil {
            RdmaEvil::ForeignTags => {
                let bit = self.dice.below(32);
                Named { stag: named.stag ^ (1 << bit), ..named }
            }
            RdmaEvil::Beyond => {
                Named { offset: named.offset.wrapping_add(1 << self.dice.within(12..=40)), ..named }
            }
            RdmaEvil::Wraps => Named { offset: u64::MAX - self.dice.below(16), ..named },
            _ => named,
        }
    }

    /// Changes what every header has.
    fn mangle_header(&mut self, segment: &mut [u8]) {
        if self.evil != RdmaEvil::Headers || self.dice.coin() {
            return;
        }
        let at = HEADER_BYTES[self.dice.index(HEADER_BYTES.len())];
        if let Some(byte) = segment.get_mut(at) {
            *byte ^= 1 << self.dice.below(8);
        }
    }

    /// Sends a segment, as often as it is to be said, and what else comes with it.
    fn pass(&mut self, segment: &[u8], is_hostile: bool) {
        let Ok((control, _)) = Control::read_from_prefix(segment) else { return };
        let times = match self.evil {
            _ if !is_hostile || self.out.len() > AHEAD => 1,
            RdmaEvil::Repeats => TIMES,
            RdmaEvil::Flood if control.opcode().is_send() => FLOOD,
            _ => 1,
        };
        for _ in 0..times {
            self.pass_once(segment.to_vec(), is_hostile);
        }
        if is_hostile && self.evil == RdmaEvil::Reads && self.out.len() < AHEAD {
            let from = self.remembered.last().copied().unwrap_or(Named { stag: 1, offset: 0 });
            for _ in 0..FLOOD {
                self.pass_once(read_of(from, 1), false);
            }
        }
        if is_hostile && self.evil == RdmaEvil::Terminates {
            let error = self.dice.below(1 << 16).to_le_bytes();
            let rest = self.dice.within(0..=60);
            let mut message = untagged(Opcode::TERMINATE, TERMINATE_QUEUE);
            message.extend([error[0], error[1], 0xe0, 0]);
            message.resize(message.len() + rest, 0xe0);
            self.pass_once(message, false);
        }
    }

    /// Sends a segment once. An untagged one has the next number of its queue.
    fn pass_once(&mut self, mut segment: Vec<u8>, is_hostile: bool) {
        if let Ok((header, _)) = Untagged::mut_from_prefix(&mut segment)
            && !header.control.is_tagged()
            && let Some(number) = self.numbers.get_mut(wire::index(u64::from(header.queue.get())))
        {
            header.sequence = U32::new(*number);
            *number = number.wrapping_add(u32::from(header.control.is_last()));
            match self.evil {
                RdmaEvil::Numbers if is_hostile => {
                    header.sequence = U32::new(number.wrapping_add(wire::bounded(self.dice.below(5))));
                }
                RdmaEvil::Offsets if is_hostile => {
                    header.offset = U32::new(wire::bounded(self.dice.below(1 << 32)));
                }
                _ => {}
            }
        }
        let whole = fpdu(&segment);
        let whole = if is_hostile && self.evil == RdmaEvil::Noise { self.flip(whole) } else { whole };
        self.out.extend(whole);
    }

    /// Now and then one bit is another.
    fn flip(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        let (at, bit) = (self.dice.index(bytes.len()), self.dice.below(8));
        if let Some(byte) = bytes.get_mut(at).filter(|_| self.dice.coin()) {
            *byte ^= 1 << bit;
        }
        bytes
    }

    fn is_deaf(&self) -> bool {
        self.is_hostile() && self.evil == RdmaEvil::Deaf
    }
}

/// The memory that a segment names.
fn named(control: Control, segment: &[u8]) -> Option<Named> {
    if control.is_tagged() {
        let (header, _) = Tagged::read_from_prefix(segment).ok()?;
        return (control.opcode() == Opcode::WRITE)
            .then(|| Named { stag: header.stag.get(), offset: header.offset.get() });
    }
    if control.opcode() != Opcode::READ_REQUEST {
        return None;
    }
    let (request, _) = ReadRequest::read_from_prefix(segment.get(UNTAGGED..)?).ok()?;
    Some(Named { stag: request.source_stag.get(), offset: request.source_offset.get() })
}

/// The header of a whole message of an untagged queue, whose number is not yet right.
fn untagged(opcode: Opcode, queue: u32) -> Vec<u8> {
    let header = Untagged {
        control: Control::new(opcode, Segment::Last),
        invalidate: U32::ZERO,
        queue: U32::new(queue),
        sequence: U32::ZERO,
        offset: U32::ZERO,
    };
    header.as_bytes().to_vec()
}

/// An RDMA Read Request.
fn read_of(from: Named, length: u32) -> Vec<u8> {
    let request = ReadRequest {
        sink_stag: U32::new(1),
        sink_offset: U64::ZERO,
        length: U32::new(length),
        source_stag: U32::new(from.stag),
        source_offset: U64::new(from.offset),
    };
    let mut segment = untagged(Opcode::READ_REQUEST, READ_QUEUE);
    segment.extend(request.as_bytes());
    segment
}

/// An RDMA Write.
fn write_to(to: Named, data: &[u8]) -> Vec<u8> {
    let control = Control::new(Opcode::WRITE, Segment::Last);
    let header = Tagged { control, stag: U32::new(to.stag), offset: U64::new(to.offset) };
    [header.as_bytes(), data].concat()
}

impl Endpoint for RdmaVillain {
    fn staging(&self) -> usize {
        self.inner.staging()
    }

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.inner.handle_bytes(now, bytes)
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.inner.take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.inner.handle_placed(now, placement);
    }

    fn handle_transmitted(&mut self, _now: Instant, _bytes: usize) {}

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }

    fn handle_connected(&mut self, now: Instant, local: SocketAddr, peer: SocketAddr) {
        self.inner.handle_connected(now, local, peer);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        (self.told, self.out) = (Cutter::default(), Vec::new());
        self.inner.handle_ended(now, how);
    }

    fn turn(&mut self, now: Instant) {
        self.inner.turn(now);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.relay(now);
        let count = self.out.len().min(AHEAD);
        send.put(&self.out[..count]);
        self.out.drain(..count);
    }

    fn connect_time(&self) -> Option<Duration> {
        self.inner.connect_time()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn wants_bytes(&mut self) -> bool {
        !self.is_deaf() && self.inner.wants_bytes()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        let own = (self.closes && self.out.is_empty()).then_some(CloseReason::Finished);
        own.or_else(|| self.inner.poll_close())
    }

    fn is_idle(&self) -> bool {
        self.inner.is_idle()
    }

    fn expects_work(&self) -> bool {
        false
    }
}
