//! Discovery log page (LID 70h; NVMe Base §5.1.12.3.1): which subsystems are behind which addresses.

use alloc::format;
use alloc::string::{String, ToString};
use core::net::{IpAddr, SocketAddr};

use wire::little_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::fabrics::put_text;

/// What an entry describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubsystemType {
    /// Another discovery service.
    Referral,
    /// A subsystem with namespaces.
    Nvm,
    /// The discovery service that was asked.
    CurrentDiscovery,
}

/// How hosts reach what an entry describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportType {
    /// NVMe/RDMA.
    Rdma,
    /// NVMe/TCP.
    Tcp,
}

/// The page's header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DiscoveryHeader {
    /// Moves with every change.
    pub genctr: U64,
    /// Entries.
    pub numrec: U64,
    /// Record format; 0.
    pub recfmt: U16,
    reserved18: [u8; 1006],
}

const _: () = assert!(size_of::<DiscoveryHeader>() == 1024);

impl DiscoveryHeader {
    /// The header of a page with `numrec` entries.
    pub fn new(genctr: u64, numrec: u64) -> Self {
        let mut header = Self::new_zeroed();
        header.genctr.set(genctr);
        header.numrec.set(numrec);
        header
    }
}

/// One entry as it is on the wire.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawEntry {
    trtype: u8,
    adrfam: u8,
    subtype: u8,
    treq: u8,
    portid: U16,
    cntlid: U16,
    asqsz: U16,
    eflags: U16,
    reserved12: [u8; 20],
    trsvcid: [u8; 32],
    reserved64: [u8; 192],
    subnqn: [u8; 256],
    traddr: [u8; 256],
    tsas: [u8; 256],
}

const _: () = assert!(size_of::<RawEntry>() == 1024);

impl core::fmt::Debug for DiscoveryHeader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "DiscoveryHeader({} entries)", self.numrec.get())
    }
}

impl core::fmt::Debug for RawEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("RawEntry").field(&self.decode()).finish()
    }
}

/// The longest qualified name in bytes (NVMe Base §4.7).
const LONGEST_NAME: usize = 223;
const TRTYPE_RDMA: u8 = 1;
const TRTYPE_TCP: u8 = 3;
/// How RDMA entries begin their transport specific address subtype (NVMe RDMA Transport §3.1, figure 3): reliable connected queue pairs, of a provider that
/// is not specified, by the connection manager of IP addresses.
const TSAS_RDMA: [u8; 3] = [1, 1, 1];
const ADRFAM_IPV4: u8 = 1;
const ADRFAM_IPV6: u8 = 2;
/// TREQ: a secure channel is not required (10b), and queue flow control may be disabled (bit 2).
const TREQ: u8 = 0b110;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveryEntry {
    /// How it is reached.
    pub transport: TransportType,
    /// What it describes.
    pub kind: SubsystemType,
    /// Name of the subsystem.
    pub subnqn: String,
    /// Where it is.
    pub address: SocketAddr,
    /// Identifies the port within the subsystem.
    pub portid: u16,
}

impl DiscoveryEntry {
    /// The entry on the wire, for controllers with admin queues of up to `asqsz` entries.
    pub fn encode(&self, asqsz: u16) -> RawEntry {
        let mut raw = RawEntry::new_zeroed();
        raw.trtype = match self.transport {
            TransportType::Rdma => TRTYPE_RDMA,
            TransportType::Tcp => TRTYPE_TCP,
        };
        if self.transport == TransportType::Rdma {
            raw.tsas.iter_mut().zip(TSAS_RDMA).for_each(|(field, value)| *field = value);
        }
        raw.adrfam = if self.address.is_ipv4() { ADRFAM_IPV4 } else { ADRFAM_IPV6 };
        raw.subtype = match self.kind {
            SubsystemType::Referral => 1,
            SubsystemType::Nvm => 2,
            SubsystemType::CurrentDiscovery => 3,
        };
        raw.treq = TREQ;
        raw.portid.set(self.portid);
        raw.cntlid.set(crate::fabrics::ANY_CONTROLLER);
        raw.asqsz.set(asqsz);
        put_text(&mut raw.trsvcid, &format!("{}", self.address.port()));
        put_text(&mut raw.subnqn, &self.subnqn);
        put_text(&mut raw.traddr, &self.address.ip().to_string());
        raw
    }
}

impl RawEntry {
    /// The entry, if it speaks of NVMe/RDMA or NVMe/TCP and is well formed.
    pub fn decode(&self) -> Option<DiscoveryEntry> {
        let kind = match self.subtype {
            1 => SubsystemType::Referral,
            2 => SubsystemType::Nvm,
            3 => SubsystemType::CurrentDiscovery,
            _ => return None,
        };
        let transport = match self.trtype {
            TRTYPE_RDMA => TransportType::Rdma,
            TRTYPE_TCP => TransportType::Tcp,
            _ => return None,
        };
        let ip: IpAddr = fixed_text(&self.traddr)?.parse().ok()?;
        let port: u16 = fixed_text(&self.trsvcid)?.parse().ok()?;
        let subnqn =
            fixed_text(&self.subnqn).filter(|name| (1..=LONGEST_NAME).contains(&name.len()))?.to_string();
        let address = SocketAddr::new(ip, port);
        Some(DiscoveryEntry { transport, kind, subnqn, address, portid: self.portid.get() })
    }
}

/// Text in a fixed field; some controllers pad with zeros and some with spaces.
fn fixed_text(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    core::str::from_utf8(field.get(..end)?).ok().map(str::trim_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let entry = DiscoveryEntry {
            transport: TransportType::Tcp,
            kind: SubsystemType::Nvm,
            subnqn: "nqn.disk".into(),
            address: "127.0.0.1:4420".parse().unwrap(),
            portid: 1,
        };
        let raw = entry.encode(128);
        let bytes = raw.as_bytes();
        assert_eq!(&bytes[..12], &[3, 1, 2, 6, 1, 0, 0xff, 0xff, 128, 0, 0, 0]);
        assert_eq!(&bytes[32..37], b"4420\0");
        assert_eq!(&bytes[256..265], b"nqn.disk\0");
        assert_eq!(&bytes[512..522], b"127.0.0.1\0");
        assert_eq!(&bytes[768..], [0; 256]);
        assert_eq!(raw.decode().as_ref(), Some(&entry));
        let entry = DiscoveryEntry { transport: TransportType::Rdma, ..entry };
        let raw = entry.encode(128);
        let bytes = raw.as_bytes();
        assert_eq!((&bytes[..4], &bytes[32..37]), (&[1, 1, 2, 6][..], &b"4420\0"[..]));
        assert_eq!(&bytes[768..772], [1, 1, 1, 0]);
        assert_eq!(raw.decode(), Some(entry));
        assert_eq!(RawEntry::new_zeroed().decode(), None);
        let header = DiscoveryHeader::new(7, 2);
        assert_eq!(&header.as_bytes()[..18], &[7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn an_entry_without_a_possible_name_is_passed_over() {
        let kind = SubsystemType::Nvm;
        let address = "127.0.0.1:4420".parse().unwrap();
        let named = |length| {
            let transport = TransportType::Tcp;
            let entry = DiscoveryEntry { transport, kind, subnqn: "n".repeat(length), address, portid: 1 };
            entry.encode(128).decode().is_some()
        };
        assert_eq!([0, 1, 223, 224, 255].map(named), [false, true, true, false, false]);
    }
}
