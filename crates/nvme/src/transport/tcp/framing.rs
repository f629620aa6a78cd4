//! What both roles do alike with PDUs: framing, digests, padding, termination (NVMe TCP Transport §3.5, §3.6).

use buf::BufList;
use protocol::{Placement, Transmit};
use wire::{Crc32c, crc32c};
use zerocopy::{FromBytes, IntoBytes};

use crate::limits::LONGEST_PDU_DATA;
use crate::pdu::{C2hTermReq, CommonHeader, Digests, H2cTermReq, PduType, flags};
use crate::violation::Violation;
use crate::width::{from_field, to_field};

/// Bytes of a digest.
pub(crate) const DIGEST: usize = 4;

/// The highest HPDA or CPDA (§3.6.2.2), counted from zero: 128 bytes.
pub(crate) const MOST_ALIGNMENT: u8 = 31;

/// Which end of a connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Controller,
    Host,
}

/// What was agreed with ICReq and ICResp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Agreement {
    pub(crate) digests: Digests,
    /// What data in PDUs to the peer is aligned to, in dwords, counted from zero.
    pub(crate) alignment: u8,
}

/// A PDU whose header has arrived whole and is sound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Framed<'a> {
    pub(crate) common: CommonHeader,
    /// The header, digest left out.
    pub(crate) header: &'a [u8],
    /// Bytes from the PDU's start to its data, or to its end if it has none.
    pub(crate) before_data: usize,
    pub(crate) data: usize,
}

/// What a type's header looks like, if the type goes toward `role` at all.
fn shape(role: Role, kind: PduType) -> Option<(u8, bool)> {
    match (role, kind) {
        (Role::Controller, PduType::IC_REQ) | (Role::Host, PduType::IC_RESP) => Some((128, false)),
        (Role::Controller, PduType::H2C_TERM_REQ | PduType::H2C_DATA)
        | (Role::Host, PduType::C2H_TERM_REQ | PduType::C2H_DATA) => Some((24, true)),
        (Role::Controller, PduType::CAPSULE_CMD) => Some((72, true)),
        (Role::Host, PduType::CAPSULE_RESP | PduType::R2T) => Some((24, false)),
        _ => None,
    }
}

fn without_digests(kind: PduType) -> bool {
    matches!(kind, PduType::IC_REQ | PduType::IC_RESP | PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ)
}

/// Looks at the front of the staged bytes; `None` when the header has not arrived whole.
#[expect(clippy::inline_always, reason = "once in each role, for every PDU, where half of it is known")]
#[inline(always)]
pub(crate) fn frame(role: Role, agreed: Agreement, bytes: &[u8]) -> Result<Option<Framed<'_>>, Violation> {
    let Ok((common, _)) = CommonHeader::read_from_prefix(bytes) else { return Ok(None) };
    let (hlen, may_have_data) = shape(role, common.kind).ok_or(Violation::UnexpectedType(common.kind))?;
    if common.hlen != hlen {
        return Err(Violation::HeaderLength);
    }
    let plain = without_digests(common.kind);
    let header_digest = agreed.digests.header && !plain;
    if !plain && common.has(flags::HDGST) != header_digest {
        return Err(Violation::DigestFlags);
    }
    let base = usize::from(hlen).saturating_add(if header_digest { DIGEST } else { 0 });
    let length = from_field(common.plen.get());
    if length < base || (length > base && !may_have_data) {
        return Err(Violation::PduLength);
    }
    let (before_data, data) = if length == base { (base, 0) } else { locate_data(common, base, agreed)? };
    if bytes.len() < before_data {
        return Ok(None);
    }
    let header = bytes.get(..usize::from(hlen)).unwrap_or_default();
    if header_digest {
        check_digest(header, bytes.get(usize::from(hlen)..base).unwrap_or_default())?;
    }
    Ok(Some(Framed { common, header, before_data, data }))
}

/// Offset and length of a PDU's data.
fn locate_data(common: CommonHeader, base: usize, agreed: Agreement) -> Result<(usize, usize), Violation> {
    let plain = without_digests(common.kind);
    let data_digest = agreed.digests.data && !plain;
    if !plain && common.has(flags::DDGST) != data_digest {
        return Err(Violation::DigestFlags);
    }
    // A termination request's data follows its header; its PDO is reserved.
    let offset = if plain { base } else { usize::from(common.pdo) };
    if offset < base || !offset.is_multiple_of(4) {
        return Err(Violation::DataOffset);
    }
    let trailer = if data_digest { DIGEST } else { 0 };
    let length = from_field(common.plen.get());
    let data = length.checked_sub(offset.saturating_add(trailer)).ok_or(Violation::DataOffset)?;
    if data == 0 || data > LONGEST_PDU_DATA || (plain && data > 128) {
        return Err(Violation::PduLength);
    }
    Ok((offset, data))
}

fn check_digest(header: &[u8], digest: &[u8]) -> Result<(), Violation> {
    let received = digest.first_chunk::<DIGEST>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if received == crc32c(header) { Ok(()) } else { Err(Violation::HeaderDigest(received)) }
}

/// The digest of data that is in its place.
pub(crate) fn data_digest(placement: &Placement) -> u32 {
    let end = placement.start.saturating_add(placement.len);
    crc32c(placement.buf.get(placement.start..end).unwrap_or_default())
}

/// Puts a PDU without data.
#[inline]
pub(crate) fn put_bare(send: &mut Transmit, agreed: Agreement, common: &mut [u8]) {
    if agreed.digests.header
        && let Ok((header, _)) = CommonHeader::mut_from_prefix(common)
    {
        header.flags |= flags::HDGST;
        let length = header.plen.get();
        header.plen.set(length.saturating_add(4));
    }
    put_header(send, agreed, common);
}

#[inline]
fn put_header(send: &mut Transmit, agreed: Agreement, header: &[u8]) {
    send.put(header);
    if agreed.digests.header {
        send.put(&crc32c(header).to_le_bytes());
    }
}

/// Puts a PDU with data: header, digest, padding, data, digest.
#[inline]
pub(crate) fn put_with_data(send: &mut Transmit, agreed: Agreement, header: &mut [u8], data: BufList) {
    let length = data.len();
    let base = header.len().saturating_add(if agreed.digests.header { DIGEST } else { 0 });
    let unit = usize::from(agreed.alignment).saturating_add(1).saturating_mul(4);
    let offset = base.next_multiple_of(unit);
    let trailer = if agreed.digests.data { DIGEST } else { 0 };
    let whole = offset.saturating_add(length).saturating_add(trailer);
    if let Ok((common, _)) = CommonHeader::mut_from_prefix(header) {
        common.flags |= u8::from(agreed.digests.header) * flags::HDGST;
        common.flags |= u8::from(agreed.digests.data) * flags::DDGST;
        common.pdo = wire::bounded::<u8>(offset);
        common.plen.set(to_field(whole));
    }
    put_header(send, agreed, header);
    send.put([0; 128].get(..offset.saturating_sub(base)).unwrap_or_default());
    if agreed.digests.data {
        let mut sum = Crc32c::new();
        for piece in data.into_pieces() {
            sum.update(&piece);
            send.put_shared(piece);
        }
        send.put(&sum.finish().to_le_bytes());
    } else {
        data.into_pieces().for_each(|piece| send.put_shared(piece));
    }
}

/// A termination request that waits to be sent: the answer, and the head of what it answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Termination {
    violation: Violation,
    offending: [u8; 128],
    length: u8,
}

impl Termination {
    pub(crate) fn new(violation: Violation, bytes: &[u8]) -> Self {
        let mut offending = [0; 128];
        let hlen = bytes.get(2).map_or(8, |hlen| usize::from(*hlen).max(8));
        let length = bytes.len().min(hlen).min(offending.len());
        for (target, byte) in offending.iter_mut().zip(bytes.iter().take(length)) {
            *target = *byte;
        }
        Self { violation, offending, length: u8::try_from(length).unwrap_or(0) }
    }

    /// Puts the request of `role`'s direction.
    pub(crate) fn put(&self, role: Role, send: &mut Transmit) {
        let error = self.violation.fatal_error();
        match role {
            Role::Controller => {
                send.put(C2hTermReq::new(error.status, error.information, self.length).as_bytes());
            }
            Role::Host => {
                send.put(H2cTermReq::new(error.status, error.information, self.length).as_bytes());
            }
        }
        send.put(self.offending.get(..usize::from(self.length)).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::{C2hData, H2cData, IcReq};
    use alloc::vec::Vec;

    fn sent(agreed: Agreement, data: &[u8]) -> Vec<u8> {
        let mut send = Transmit::new(1 << 20, 64);
        let mut pdu = C2hData::new(1, 0, 3000);
        let data = BufList::from(buf::SharedBuf::from(data.to_vec()));
        put_with_data(&mut send, agreed, pdu.as_mut_bytes(), data);
        send.segments().iter().flat_map(|segment| send.bytes(segment).to_vec()).collect()
    }

    #[test]
    fn what_is_put_is_framed_alike_for_every_agreement() {
        for (header_digest, data_digest, alignment) in
            [(false, false, 0), (true, false, 0), (false, true, 7), (true, true, 31)]
        {
            let digests = Digests { header: header_digest, data: data_digest };
            let agreed = Agreement { digests, alignment };
            let bytes = sent(agreed, &[7; 3000]);
            for cut in 0..bytes.len().min(200) {
                let framed = frame(Role::Host, agreed, &bytes[..cut]).unwrap();
                assert!(framed.is_none_or(|framed| cut >= framed.before_data));
            }
            let framed = frame(Role::Host, agreed, &bytes).unwrap().unwrap();
            assert_eq!(framed.data, 3000);
            assert_eq!(framed.before_data % (usize::from(alignment) + 1) * 4, 0);
            assert_eq!(bytes[framed.before_data], 7);
            let end = framed.before_data + 3000 + if data_digest { 4 } else { 0 };
            assert_eq!(end, bytes.len());
        }
    }

    fn violation(change: impl Fn(&mut H2cData)) -> Option<Violation> {
        let mut pdu = H2cData::new(1, 2, 0, 512);
        pdu.header.pdo = 24;
        pdu.header.plen.set(24 + 512);
        change(&mut pdu);
        frame(Role::Controller, Agreement::default(), pdu.as_bytes()).err()
    }

    #[test]
    fn unsound_headers_are_named() {
        assert_eq!(violation(|_| {}), None);
        assert_eq!(violation(|pdu| pdu.header.hlen = 25), Some(Violation::HeaderLength));
        assert_eq!(violation(|pdu| pdu.header.pdo = 20), Some(Violation::DataOffset));
        assert_eq!(violation(|pdu| pdu.header.pdo = 26), Some(Violation::DataOffset));
        assert_eq!(violation(|pdu| pdu.header.plen.set(23)), Some(Violation::PduLength));
        assert_eq!(violation(|pdu| pdu.header.plen.set(u32::MAX)), Some(Violation::PduLength));
        assert_eq!(violation(|pdu| pdu.header.flags = flags::HDGST), Some(Violation::DigestFlags));
        assert_eq!(violation(|pdu| pdu.header.flags = flags::DDGST), Some(Violation::DigestFlags));
        let wrong = PduType::C2H_DATA;
        assert_eq!(violation(|pdu| pdu.header.kind = wrong), Some(Violation::UnexpectedType(wrong)));
        let mut long = IcReq::new(Digests::NONE, 0);
        long.header.plen.set(129);
        let found = frame(Role::Controller, Agreement::default(), long.as_bytes()).err();
        assert_eq!(found, Some(Violation::PduLength));
    }
}
