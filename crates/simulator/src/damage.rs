//! A network that damages what it carries: single bits of headers, digests and data.
//!
//! # Fault model
//! * One bit of a PDU is flipped, by [`Damage::flips`]; of one in two it is a bit of the data segment, if there is one.
//! * What no digest protects stays whole: login PDUs (RFC 7143 §13.1 begins digests in the full feature phase) and the exchange of ICReq and
//!   ICResp (NVMe TCP Transport §3.3). TCP's own checksum would find most of such damage; what it misses there, nobody can find.
//! * A [`PlantedBug`] hides damage from one end as if that end did not check.

use wire::crc32c;

use crate::dice::{Dice, Odds};

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    /// iSCSI with both digests.
    Iscsi,
    /// NVMe/TCP with both digests.
    Nvme,
}

/// A bug of one end: its network makes the digests of damaged data right, which is the same as an end that does not look at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// None.
    None,
    /// The server does not check the digest of data longer than this, in bytes.
    ServerUnchecked(usize),
    /// The client does not.
    ClientUnchecked(usize),
    /// The server does not check the digests of headers.
    ServerHeaders,
    /// The client does not.
    ClientHeaders,
}

/// How a network damages, and what came of it.
#[derive(Debug)]
pub struct Damage {
    /// What is spoken.
    pub speech: Speech,
    /// How often a PDU is damaged.
    pub flips: Odds,
    /// The bug.
    pub bug: PlantedBug,
    /// The throws.
    pub dice: Dice,
    /// PDUs damaged so far.
    pub done: u64,
    /// The direction of the bytes that come next.
    pub(crate) to_server: bool,
}

impl Damage {
    /// A network that damages so often.
    pub fn new(speech: Speech, flips: Odds, bug: PlantedBug, dice: Dice) -> Self {
        Self { speech, flips, bug, dice, done: 0, to_server: false }
    }

    /// Whether the receiver of these bytes overlooks damage: of the header, or of data so long.
    fn is_overlooked(&self, data: Option<usize>) -> bool {
        match (self.bug, self.to_server, data) {
            (PlantedBug::ServerUnchecked(above), true, Some(length))
            | (PlantedBug::ClientUnchecked(above), false, Some(length)) => length > above,
            (PlantedBug::ServerHeaders, true, None) | (PlantedBug::ClientHeaders, false, None) => true,
            _ => false,
        }
    }

    /// Damages a PDU, perhaps.
    fn strike(&mut self, pdu: &mut [u8], shape: &Shape) {
        if !shape.protected || !self.dice.happens(self.flips) {
            return;
        }
        self.done += 1;
        let in_data = shape.data.filter(|_| self.dice.coin());
        let (start, length) = in_data.unwrap_or((0, shape.header));
        let bit = self.dice.index(length * 8);
        pdu[start + bit / 8] ^= 1 << (bit % 8);
        if self.is_overlooked(in_data.map(|(_, length)| length)) {
            let sum = crc32c(&pdu[start..start + length]);
            pdu[start + length..start + length + 4].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

/// Where the parts of a PDU are.
struct Shape {
    /// Bytes of all.
    whole: usize,
    /// Bytes of the header, without its digest.
    header: usize,
    /// Where the data begins, and its bytes with padding that the digest covers.
    data: Option<(usize, usize)>,
    /// Digests protect it.
    protected: bool,
}

/// Cuts one direction of a stream into PDUs.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    held: Vec<u8>,
}

impl Framing {
    /// Adds bytes, and gives what may go on: whole PDUs.
    pub(crate) fn pass(&mut self, bytes: &[u8], damage: &mut Damage) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let mut out = Vec::new();
        while let Some(shape) =
            shape(damage.speech, &self.held).filter(|shape| shape.whole <= self.held.len())
        {
            let mut pdu: Vec<u8> = self.held.drain(..shape.whole).collect();
            damage.strike(&mut pdu, &shape);
            out.append(&mut pdu);
        }
        out
    }
}

fn shape(speech: Speech, bytes: &[u8]) -> Option<Shape> {
    match speech {
        Speech::Iscsi => iscsi_shape(bytes),
        Speech::Nvme => nvme_shape(bytes),
    }
}

/// The digest behind a header or data, in bytes.
const DIGEST: usize = 4;

fn iscsi_shape(bytes: &[u8]) -> Option<Shape> {
    let opcode = bytes.first()? & 0x3f;
    let [ahs, high, middle, low] = *bytes.get(4..)?.first_chunk()?;
    let header = 48 + usize::from(ahs) * 4;
    let length = u32::from_be_bytes([0, high, middle, low]) as usize;
    let padded = length.next_multiple_of(4);
    if opcode == 0x03 || opcode == 0x23 {
        return Some(Shape { whole: header + padded, header, data: None, protected: false });
    }
    let start = header + DIGEST;
    let data = (length > 0).then_some((start, padded));
    let whole = data.map_or(start, |(start, length)| start + length + DIGEST);
    Some(Shape { whole, header, data, protected: true })
}

fn nvme_shape(bytes: &[u8]) -> Option<Shape> {
    let [kind, flags, header, offset, a, b, c, d] = *bytes.first_chunk()?;
    let whole = u32::from_le_bytes([a, b, c, d]) as usize;
    let (header, offset) = (usize::from(header), usize::from(offset));
    let has_data = flags & 2 != 0 && offset > 0 && whole > offset + DIGEST;
    let data = has_data.then(|| (offset, whole - offset - DIGEST));
    Some(Shape { whole: whole.max(8), header, data, protected: kind > 1 && flags & 1 != 0 })
}
