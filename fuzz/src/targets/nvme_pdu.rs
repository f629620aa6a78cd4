//! NVMe/TCP PDU headers (NVMe TCP Transport §3.6): what their fields say survives being written again.

use nvme::cqe::CompletionQueueEntry;
use nvme::pdu::{
    C2hData, C2hTermReq, CapsuleCmd, CapsuleResp, CommonHeader, H2cData, H2cTermReq, IcReq, IcResp, PduType,
    R2t,
};
use nvme::sqe::SubmissionQueueEntry;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Every header type on the same bytes.
///
/// # Panics
/// When a header changes by being written again: that is what the fuzzer looks for.
pub fn headers(bytes: &[u8]) {
    common(bytes);
    connection(bytes);
    data(bytes);
    terminations(bytes);
    capsules(bytes);
}

/// The header in front of `bytes`, after a look whether its own bytes are those.
fn read<T: FromBytes + IntoBytes + Immutable>(bytes: &[u8]) -> Option<T> {
    let (header, rest) = T::read_from_prefix(bytes).ok()?;
    assert_eq!(Some(header.as_bytes()), bytes.get(..bytes.len() - rest.len()));
    Some(header)
}

fn common(bytes: &[u8]) {
    let Some(header) = read::<CommonHeader>(bytes) else { return };
    for flag in (0..8).map(|bit| 1 << bit) {
        assert_eq!(header.has(flag), header.flags & flag != 0);
    }
}

fn connection(bytes: &[u8]) {
    if let Some(read) = read::<IcReq>(bytes) {
        let written = IcReq::new(read.digests(), read.maxr2t.get());
        assert_eq!(written.digests(), read.digests());
        assert_eq!((written.maxr2t, written.header.kind), (read.maxr2t, PduType::IC_REQ));
    }
    if let Some(read) = read::<IcResp>(bytes) {
        let written = IcResp::new(read.digests(), read.maxh2cdata.get());
        assert_eq!(written.digests(), read.digests());
        assert_eq!((written.maxh2cdata, written.header.kind), (read.maxh2cdata, PduType::IC_RESP));
    }
}

fn data(bytes: &[u8]) {
    if let Some(read) = read::<H2cData>(bytes) {
        let written = H2cData::new(read.cccid.get(), read.ttag.get(), read.datao.get(), read.datal.get());
        assert_eq!((written.cccid, written.ttag), (read.cccid, read.ttag));
        assert_eq!((written.datao, written.datal), (read.datao, read.datal));
    }
    if let Some(read) = read::<C2hData>(bytes) {
        let written = C2hData::new(read.cccid.get(), read.datao.get(), read.datal.get());
        assert_eq!((written.cccid, written.datao, written.datal), (read.cccid, read.datao, read.datal));
    }
    if let Some(read) = read::<R2t>(bytes) {
        let written = R2t::new(read.cccid.get(), read.ttag.get(), read.r2to.get(), read.r2tl.get());
        assert_eq!((written.cccid, written.ttag), (read.cccid, read.ttag));
        assert_eq!((written.r2to, written.r2tl), (read.r2to, read.r2tl));
    }
}

fn terminations(bytes: &[u8]) {
    if let Some(read) = read::<H2cTermReq>(bytes) {
        let written = H2cTermReq::new(read.fes.get(), read.fei.get(), read.header.pdo);
        assert_eq!((written.fes, written.fei), (read.fes, read.fei));
        assert_eq!(written.header.plen.get(), 24 + u32::from(read.header.pdo));
    }
    if let Some(read) = read::<C2hTermReq>(bytes) {
        let written = C2hTermReq::new(read.fes.get(), read.fei.get(), read.header.pdo);
        assert_eq!((written.fes, written.fei), (read.fes, read.fei));
        assert_eq!(written.header.plen.get(), 24 + u32::from(read.header.pdo));
    }
}

fn capsules(bytes: &[u8]) {
    if let Some(read) = read::<CapsuleCmd>(bytes) {
        let written = CapsuleCmd::new(read.entry);
        assert_eq!((written.entry, written.header.plen.get()), (read.entry, 72));
    }
    if let Some(read) = read::<CapsuleResp>(bytes) {
        let entry = read.entry;
        let written = CompletionQueueEntry::new(entry.cid.get(), entry.sqhd.get(), entry.status())
            .with_result(entry.result());
        assert_eq!((written.cid, written.sqhd), (entry.cid, entry.sqhd));
        assert_eq!((written.status(), written.result()), (entry.status(), entry.result()));
        assert_eq!(written.status().is_success(), entry.status().code() == 0);
        assert_eq!(CapsuleResp::new(written).entry, written);
        std::hint::black_box(entry.status().to_volume());
    }
    if let Some(entry) = read::<SubmissionQueueEntry>(bytes) {
        let written = SubmissionQueueEntry::new(entry.opcode, entry.nsid.get())
            .with_quad(10, entry.quad(10))
            .with(12, entry.dword(12))
            .with(13, entry.dword(13))
            .with_quad(14, entry.quad(14));
        assert_eq!((written.cdw, written.opcode, written.nsid), (entry.cdw, entry.opcode, entry.nsid));
        assert_eq!(entry.dword(9) | entry.dword(16), 0, "only dwords 10 to 15 are the command's own");
    }
}
