//! PDUs in a byte stream: header, additional segments, data, padding and digests (RFC 7143 §11.2).
//!
//! Received PDUs with little data are taken whole from staging. A PDU with more data is announced by its header alone;
//! the connection then says where the data goes, and the bytes already staged are copied there while the rest is placed by
//! whoever moves the bytes.

use buf::{Buf, BufList};
use protocol::{Placement, Transmit};
use wire::{Crc32c, crc32c};

use crate::datamover::ReceivedPdu;
use crate::limits::{BHS, DEFAULT_SEGMENT, DIGEST, STAGED};
use crate::pdu::{BasicHeaderSegment, Bhs, padding};
use crate::violation::Violation;

/// Which parts carry a CRC32C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Digests {
    pub(crate) header: bool,
    pub(crate) data: bool,
}

/// What the next bytes of the stream are.
#[derive(Debug)]
pub(crate) enum Next<'a> {
    /// More bytes are needed.
    Short,
    /// A PDU of `size` bytes, or without data the header of one whose data is too long to stage: then call [`Receiver::begin`]. Nothing is consumed
    /// until the caller says so.
    Pdu { pdu: ReceivedPdu<'a>, size: usize },
    /// `size` bytes of a large PDU's data went where they belong.
    Moved { size: usize },
    /// A large PDU's data is complete; its last `size` bytes were padding and digest.
    Ended { header: Bhs, buf: Option<Buf>, size: usize },
    /// The stream cannot go on.
    Fault { violation: Violation, header: Option<Bhs> },
}

/// A large data segment under way.
#[derive(Debug)]
struct Segment {
    header: Bhs,
    /// Where it goes; `None` while placed by somebody else, or if it is thrown away.
    buf: Option<Buf>,
    discard: bool,
    start: usize,
    length: usize,
    done: usize,
}

/// The receiving side of a connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) digests: Digests,
    /// The longest data segment that this side declared, in bytes.
    pub(crate) longest: u32,
    segment: Option<Segment>,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self { digests: Digests::default(), longest: DEFAULT_SEGMENT, segment: None }
    }

    /// Looks at the front of the staged bytes.
    #[expect(
        clippy::inline_always,
        reason = "once in each role's loop: what it finds would go through memory"
    )]
    #[inline(always)]
    pub(crate) fn next<'a>(&mut self, bytes: &'a [u8]) -> Next<'a> {
        match &mut self.segment {
            None => self.header(bytes),
            Some(segment) if segment.done < segment.length => segment.advance(bytes),
            Some(_) => self.trailer(bytes),
        }
    }

    #[inline]
    fn header<'a>(&self, bytes: &'a [u8]) -> Next<'a> {
        let Some(header) = bytes.first_chunk::<BHS>() else { return Next::Short };
        let view = BasicHeaderSegment::from_bytes(header);
        let bare = BHS + view.ahs_length();
        let size = bare + if self.digests.header { DIGEST } else { 0 };
        let Some((covered, digest)) = bytes.get(..size).and_then(|head| head.split_at_checked(bare)) else {
            return Next::Short;
        };
        if self.digests.header && digest != crc32c(covered).to_le_bytes() {
            return Next::Fault { violation: Violation::HeaderDigest, header: None };
        }
        if view.data_length() > self.longest {
            return Next::Fault { violation: Violation::SegmentTooLong, header: Some(*header) };
        }
        let ahs = covered.get(BHS..).unwrap_or_default();
        let length = view.data_length() as usize;
        if length > STAGED {
            return Next::Pdu { pdu: ReceivedPdu { header, ahs, data: None }, size };
        }
        let padded = length + padding(length);
        let whole = size + padded + self.data_digest(length);
        let Some(rest) = bytes.get(size..whole) else { return Next::Short };
        let (covered, digest) = rest.split_at(padded);
        if !digest.is_empty() && digest != crc32c(covered).to_le_bytes() {
            return Next::Fault { violation: Violation::DataDigest, header: Some(*header) };
        }
        let data = covered.get(..length).unwrap_or_default();
        Next::Pdu { pdu: ReceivedPdu { header, ahs, data: Some(data) }, size: whole }
    }

    fn data_digest(&self, length: usize) -> usize {
        if self.digests.data && length > 0 { DIGEST } else { 0 }
    }

    /// Says where the data of a large PDU goes: to `buf` from `start`, or nowhere.
    #[inline]
    pub(crate) fn begin(&mut self, header: Bhs, target: Option<(Buf, usize)>) {
        let length = BasicHeaderSegment::from_bytes(&header).data_length() as usize;
        let discard = target.is_none();
        let (buf, start) = target.map_or((None, 0), |(buf, start)| (Some(buf), start));
        self.segment = Some(Segment { header, buf, discard, start, length, done: 0 });
    }

    #[inline]
    fn trailer<'a>(&mut self, bytes: &'a [u8]) -> Next<'a> {
        let Some(segment) = &self.segment else { return Next::Short };
        let pad = padding(segment.length);
        let size = pad + self.data_digest(segment.length);
        let Some((pad, digest)) = bytes.get(..size).map(|trailer| trailer.split_at(pad)) else {
            return Next::Short;
        };
        let intact = digest.is_empty() || segment.discard || digest == segment.sum(pad).to_le_bytes();
        let Some(segment) = self.segment.take() else { return Next::Short };
        if !intact {
            return Next::Fault { violation: Violation::DataDigest, header: Some(segment.header) };
        }
        Next::Ended { header: segment.header, buf: segment.buf, size }
    }

    /// The memory for the rest of a large data segment.
    pub(crate) fn take_placement(&mut self) -> Option<Placement> {
        let segment = self.segment.as_mut()?;
        let len = segment.length - segment.done;
        let buf = if len == 0 { None } else { segment.buf.take() }?;
        Some(Placement { buf, start: segment.start + segment.done, len, token: 0 })
    }

    /// Takes back the memory, filled.
    pub(crate) fn placed(&mut self, placement: Placement) {
        if let Some(segment) = &mut self.segment {
            segment.done = segment.length;
            segment.buf = Some(placement.buf);
        }
    }
}

impl Segment {
    fn advance<'a>(&mut self, bytes: &'a [u8]) -> Next<'a> {
        let size = bytes.len().min(self.length - self.done);
        if size == 0 || (self.buf.is_none() && !self.discard) {
            return Next::Short;
        }
        if let Some(buf) = &mut self.buf {
            let from = self.start + self.done;
            let room = buf.get_mut(from..from + size).unwrap_or_default();
            let staged = bytes.get(..room.len()).unwrap_or_default();
            room.copy_from_slice(staged);
        }
        self.done += size;
        Next::Moved { size }
    }

    fn sum(&self, pad: &[u8]) -> u32 {
        let mut crc = Crc32c::new();
        let placed = self.buf.as_ref().and_then(|buf| buf.get(self.start..self.start + self.length));
        crc.update(placed.unwrap_or_default());
        crc.update(pad);
        crc.finish()
    }
}

/// A data segment to send.
#[derive(Debug, Clone)]
pub(crate) enum Payload<'a> {
    /// Copied.
    Bytes(&'a [u8]),
    /// Shared.
    Shared(BufList),
}

/// Sends one PDU. The header's length field is already right.
pub(crate) fn send(out: &mut Transmit, digests: Digests, header: &Bhs, payload: Payload<'_>) {
    out.put(header);
    if digests.header {
        out.put(&crc32c(header).to_le_bytes());
    }
    let mut crc = digests.data.then(Crc32c::new);
    let length = match payload {
        Payload::Bytes(bytes) => {
            sum(&mut crc, bytes);
            out.put(bytes);
            bytes.len()
        }
        Payload::Shared(list) => {
            let length = list.len();
            for piece in list.into_pieces() {
                sum(&mut crc, &piece);
                out.put_shared(piece);
            }
            length
        }
    };
    if length == 0 {
        return;
    }
    let pad = [0; 3];
    let pad = pad.get(..padding(length)).unwrap_or_default();
    sum(&mut crc, pad);
    out.put(pad);
    if let Some(crc) = crc {
        out.put(&crc.finish().to_le_bytes());
    }
}

fn sum(crc: &mut Option<Crc32c>, bytes: &[u8]) {
    if let Some(crc) = crc {
        crc.update(bytes);
    }
}
