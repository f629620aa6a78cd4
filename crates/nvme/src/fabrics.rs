//! Fabrics commands (NVMe Base §6): Connect, Property Get and Set, Disconnect.

use alloc::sync::Arc;

use wire::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use crate::opcode::{FABRICS, fctype};
use crate::sgl::SglDescriptor;
use crate::sqe::SubmissionQueueEntry;

/// The controller identifier that asks for any controller (dynamic model).
pub const ANY_CONTROLLER: u16 = 0xffff;

/// CATTR: the host asks that submission queue flow control be disabled.
const DISABLE_SQ_FLOW: u8 = 1 << 2;

/// The Connect command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Connect {
    opcode: u8,
    flags: u8,
    cid: U16,
    fctype: u8,
    reserved: [u8; 19],
    dptr: SglDescriptor,
    /// Record format; 0.
    pub recfmt: U16,
    /// Queue identifier; 0 is the admin queue.
    pub qid: U16,
    /// Entries of the submission queue, counted from zero.
    pub sqsize: U16,
    cattr: u8,
    reserved2: u8,
    /// Keep alive timeout in milliseconds; admin queue only.
    pub kato: U32,
    reserved3: [u8; 12],
}

const _: () = assert!(size_of::<Connect>() == 64);

/// Byte offsets of fields that a refused Connect may point to.
pub mod field {
    /// QID in the command.
    pub const QID: u16 = 42;
    /// SQSIZE in the command.
    pub const SQSIZE: u16 = 44;
    /// HOSTID in the data.
    pub const HOSTID: u16 = 0;
    /// CNTLID in the data.
    pub const CNTLID: u16 = 16;
    /// SUBNQN in the data.
    pub const SUBNQN: u16 = 256;
    /// HOSTNQN in the data.
    pub const HOSTNQN: u16 = 512;
}

impl Connect {
    /// A Connect for queue `qid` of `sqsize` + 1 entries, with its data in the capsule.
    pub fn entry(qid: u16, sqsize: u16, kato: u32) -> SubmissionQueueEntry {
        let mut command = Self::new_zeroed();
        command.opcode = FABRICS;
        command.flags = 0x40;
        command.fctype = fctype::CONNECT;
        command.dptr = SglDescriptor::in_capsule(1024);
        command.qid.set(qid);
        command.sqsize.set(sqsize);
        command.cattr = DISABLE_SQ_FLOW;
        command.kato.set(kato);
        transmute!(command)
    }

    /// The command's view of an entry.
    pub fn view(entry: &SubmissionQueueEntry) -> Self {
        transmute!(*entry)
    }

    /// The host asks that submission queue flow control be disabled.
    pub const fn disables_sq_flow(&self) -> bool {
        self.cattr & DISABLE_SQ_FLOW != 0
    }
}

/// The data of a Connect command.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ConnectData {
    /// Host identifier.
    pub hostid: [u8; 16],
    /// Controller identifier.
    pub cntlid: U16,
    reserved: [u8; 238],
    /// Name of the subsystem.
    pub subnqn: [u8; 256],
    /// Name of the host.
    pub hostnqn: [u8; 256],
    reserved2: [u8; 256],
}

const _: () = assert!(size_of::<ConnectData>() == 1024);

impl ConnectData {
    /// Data with the given identities; names beyond 223 bytes are cut, as they cannot exist.
    pub fn new(host: &HostIdentity, cntlid: u16, subnqn: &str) -> Self {
        let mut data = Self::new_zeroed();
        data.hostid = host.identifier;
        data.cntlid.set(cntlid);
        put_text(&mut data.subnqn, subnqn);
        put_text(&mut data.hostnqn, &host.nqn);
        data
    }
}

impl core::fmt::Debug for ConnectData {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ConnectData")
            .field("cntlid", &self.cntlid.get())
            .field("subnqn", &text(&self.subnqn))
            .field("hostnqn", &text(&self.hostnqn))
            .finish_non_exhaustive()
    }
}

/// Who a host is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostIdentity {
    /// Its identifier; zeros from a host that has none.
    pub identifier: [u8; 16],
    /// Its qualified name; empty from a host that has none.
    pub nqn: Arc<str>,
}

impl HostIdentity {
    /// False when HOSTID is zero: controllers with that identifier belong to different hosts (NVMe Base §5.27.1.25), so
    /// that it identifies none.
    pub fn is_identified(&self) -> bool {
        self.identifier != [0; 16]
    }
}

/// The text before the first zero byte of a fixed field, if it is a name's: 1 to 223 bytes of UTF-8.
pub fn text(field: &[u8; 256]) -> Option<&str> {
    let end = field.iter().position(|&byte| byte == 0)?;
    let name = field.get(..end)?;
    if name.is_empty() || name.len() > 223 {
        return None;
    }
    core::str::from_utf8(name).ok()
}

/// The host's name in a Connect: as [`text`], but a field that begins with a zero byte is a host without a name. SPDK's
/// tools send none unless they are told one, and other controllers accept that; no access rule names such a host.
pub fn host_name(field: &[u8; 256]) -> Option<&str> {
    if field.starts_with(&[0]) { Some("") } else { text(field) }
}

/// Copies a name to a fixed field and leaves the rest as it is.
pub(crate) fn put_text(field: &mut [u8], name: &str) {
    let last = field.len().saturating_sub(1);
    for (target, byte) in field.iter_mut().take(last).zip(name.bytes()) {
        *target = byte;
    }
}

/// Property Get and Property Set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Property {
    opcode: u8,
    flags: u8,
    cid: U16,
    fctype: u8,
    reserved: [u8; 35],
    attrib: u8,
    reserved2: [u8; 3],
    /// Offset of the property.
    pub ofst: U32,
    /// The value to set.
    pub value: U64,
    reserved3: [u8; 8],
}

const _: () = assert!(size_of::<Property>() == 64);

/// How long a property is, as ATTRIB says it (NVMe Base §6.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertySize {
    /// 4 bytes.
    Four = 0,
    /// 8 bytes.
    Eight = 1,
}

impl Property {
    /// A Property Get.
    pub fn get(ofst: u32, size: PropertySize) -> SubmissionQueueEntry {
        Self::entry(fctype::PROPERTY_GET, ofst, size, 0)
    }

    /// A Property Set of 4 bytes.
    pub fn set(ofst: u32, value: u32) -> SubmissionQueueEntry {
        Self::entry(fctype::PROPERTY_SET, ofst, PropertySize::Four, value.into())
    }

    fn entry(kind: u8, ofst: u32, size: PropertySize, value: u64) -> SubmissionQueueEntry {
        let mut command = Self::new_zeroed();
        command.opcode = FABRICS;
        command.flags = 0x40;
        command.fctype = kind;
        command.attrib = size as u8;
        command.ofst.set(ofst);
        command.value.set(value);
        transmute!(command)
    }

    /// The command's view of an entry.
    pub fn view(entry: &SubmissionQueueEntry) -> Self {
        transmute!(*entry)
    }

    /// The property's size in bytes, if it is one that exists.
    pub const fn size(&self) -> Option<u8> {
        match self.attrib & 7 {
            0 => Some(4),
            1 => Some(8),
            _ => None,
        }
    }
}

/// A Disconnect of an I/O queue.
pub fn disconnect() -> SubmissionQueueEntry {
    let mut entry = SubmissionQueueEntry::new(FABRICS, u32::from(fctype::DISCONNECT));
    entry.flags = 0x40;
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_golden_vector() {
        let entry = Connect::entry(3, 127, 5000);
        let bytes = entry.as_bytes();
        assert_eq!(&bytes[..5], &[0x7f, 0x40, 0, 0, 1]);
        assert_eq!(&bytes[40..52], &[0, 0, 3, 0, 127, 0, 4, 0, 0x88, 0x13, 0, 0]);
        let view = Connect::view(&entry);
        assert_eq!((view.qid.get(), view.sqsize.get(), view.kato.get()), (3, 127, 5000));
        assert!(view.disables_sq_flow());
    }

    #[test]
    fn connect_data_golden_vector() {
        let host = HostIdentity { identifier: [9; 16], nqn: "nqn.host".into() };
        let data = ConnectData::new(&host, ANY_CONTROLLER, "nqn.sub");
        let bytes = data.as_bytes();
        assert_eq!(&bytes[14..18], &[9, 9, 0xff, 0xff]);
        assert_eq!(&bytes[256..264], b"nqn.sub\0");
        assert_eq!(&bytes[512..521], b"nqn.host\0");
        assert_eq!(text(&data.hostnqn), Some("nqn.host"));
        assert_eq!(text(&[b'x'; 256]), None);
        assert_eq!(text(&[0; 256]), None);
        assert_eq!(host_name(&data.hostnqn), Some("nqn.host"));
        assert_eq!((host_name(&[0; 256]), host_name(&[b'x'; 256])), (Some(""), None));
    }

    #[test]
    fn property_golden_vectors() {
        let bytes = Property::get(0x1c, PropertySize::Four);
        assert_eq!((bytes.fctype(), &bytes.as_bytes()[40..48]), (4, &[0, 0, 0, 0, 0x1c, 0, 0, 0][..]));
        let bytes = Property::set(0x14, 0x0046_0001);
        assert_eq!(&bytes.as_bytes()[44..56], &[0x14, 0, 0, 0, 1, 0, 0x46, 0, 0, 0, 0, 0]);
    }
}
