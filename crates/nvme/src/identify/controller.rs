//! Identify Controller (CNS 01h; NVMe Base §5.1.13.2.1).

use wire::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::sgl::SglSupport;

/// The structure, with the fields that fabrics use named in the standard's order.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IdentifyController {
    /// PCI vendor; 0 over fabrics.
    pub vid: U16,
    /// PCI subsystem vendor.
    pub ssvid: U16,
    /// Serial number, padded with spaces.
    pub sn: [u8; 20],
    /// Model number, padded with spaces.
    pub mn: [u8; 40],
    /// Firmware revision, padded with spaces.
    pub fr: [u8; 8],
    /// Recommended arbitration burst.
    pub rab: u8,
    /// OUI.
    pub ieee: [u8; 3],
    /// Multi-path and sharing capabilities.
    pub cmic: u8,
    /// Maximum data transfer size, as a power of two of minimum pages.
    pub mdts: u8,
    /// Controller identifier.
    pub cntlid: U16,
    /// Version.
    pub ver: U32,
    /// RTD3 resume and entry latencies.
    pub rtd3: [U32; 2],
    /// Optional asynchronous events.
    pub oaes: U32,
    /// Controller attributes.
    pub ctratt: U32,
    reserved100: [u8; 11],
    /// Controller type: 1 I/O, 2 discovery, 3 administrative.
    pub cntrltype: u8,
    /// FRU identifier.
    pub fguid: [u8; 16],
    /// Command retry delays.
    pub crdt: [U16; 3],
    reserved134: [u8; 122],
    /// Optional admin commands.
    pub oacs: U16,
    /// Abort commands at a time, counted from zero.
    pub acl: u8,
    /// Asynchronous Event Requests at a time, counted from zero.
    pub aerl: u8,
    /// Firmware updates.
    pub frmw: u8,
    /// Log page attributes.
    pub lpa: u8,
    /// Error log entries, counted from zero.
    pub elpe: u8,
    /// Power states, counted from zero.
    pub npss: u8,
    reserved264: [u8; 2],
    /// Warning temperature in kelvin.
    pub wctemp: U16,
    /// Critical temperature in kelvin.
    pub cctemp: U16,
    reserved270: [u8; 10],
    /// Total capacity.
    pub tnvmcap: [U64; 2],
    reserved296: [u8; 24],
    /// Keep alive granularity, in units of 100 ms.
    pub kas: U16,
    reserved322: [u8; 190],
    /// Submission queue entry sizes.
    pub sqes: u8,
    /// Completion queue entry sizes.
    pub cqes: u8,
    /// The most commands at a time.
    pub maxcmd: U16,
    /// The highest namespace identifier.
    pub nn: U32,
    /// Optional NVM commands.
    pub oncs: U16,
    /// Fused operations.
    pub fuses: U16,
    /// Format attributes.
    pub fna: u8,
    /// Volatile write cache.
    pub vwc: u8,
    /// Atomic write unit, counted from zero.
    pub awun: U16,
    /// The same across power failure.
    pub awupf: U16,
    reserved530: [u8; 6],
    /// SGL support.
    pub sgls: U32,
    /// The most namespaces.
    pub mnan: U32,
    reserved544: [u8; 224],
    /// Name of the subsystem.
    pub subnqn: [u8; 256],
    reserved1024: [u8; 768],
    /// I/O queue command capsule size, in 16 bytes.
    pub ioccsz: U32,
    /// I/O queue response capsule size, in 16 bytes.
    pub iorcsz: U32,
    /// In-capsule data offset, in 16 bytes.
    pub icdoff: U16,
    /// Fabrics controller attributes.
    pub fcatt: u8,
    /// The most SGL descriptors in a capsule.
    pub msdbd: u8,
    /// Optional fabrics commands.
    pub ofcs: U16,
    reserved1806: [u8; 242],
    /// Power state 0: maximum power first.
    pub psd0: [u8; 32],
    reserved2080: [u8; 2016],
}

const _: () = assert!(size_of::<IdentifyController>() == super::SIZE);

/// CMIC: several ports, several controllers.
pub(crate) const CMIC_SHARED: u8 = 0b11;
/// CTRATT: 128-bit host identifiers.
pub(crate) const CTRATT_HOSTID: u32 = 1 << 0;
/// OAES: namespace attributes changed.
pub(crate) const OAES_NAMESPACE: u32 = 1 << 8;
/// OAES: discovery log page changed.
pub(crate) const OAES_DISCOVERY: u32 = 1 << 31;
/// OACS: the Get LBA Status capability.
pub(crate) const OACS_LBA_STATUS: u16 = 1 << 9;
/// FRMW: one slot, read-only.
pub(crate) const FRMW_ONE_FIXED: u8 = 0b0000_0011;
/// LPA: commands supported and effects, extended data (offsets), and the pages of 2.0.
pub(crate) const LPA: u8 = 1 << 1 | 1 << 2 | 1 << 5;
/// SQES and CQES: 64 and 16 bytes, required and most.
pub(crate) const SQES: u8 = 0x66;
pub(crate) const CQES: u8 = 0x44;
/// ONCS bits.
pub(crate) const ONCS_COMPARE: u16 = 1 << 0;
pub(crate) const ONCS_DATASET: u16 = 1 << 2;
pub(crate) const ONCS_WRITE_ZEROES: u16 = 1 << 3;
pub(crate) const ONCS_RESERVATIONS: u16 = 1 << 5;
pub(crate) const ONCS_VERIFY: u16 = 1 << 7;
/// VWC: present; Flush of all namespaces works.
pub(crate) const VWC_PRESENT: u8 = 1 << 0;
pub(crate) const VWC_FLUSH_ALL: u8 = 3 << 1;
/// SGLS: supported without alignment; keyed data blocks; offsets in capsules; transport data blocks.
const SGLS: u32 = 1 | 1 << 20;
const SGLS_KEYED: u32 = 1 << 2;
const SGLS_TRANSPORT: u32 = 1 << 21;

/// SGLS of a transport with these descriptors.
pub(crate) const fn sgls(support: SglSupport) -> u32 {
    let keyed = if support.keyed { SGLS_KEYED } else { 0 };
    let transport = if support.transport { SGLS_TRANSPORT } else { 0 };
    SGLS | keyed | transport
}

impl IdentifyController {
    /// Bytes of in-capsule data that I/O queues accept.
    pub fn in_capsule(&self) -> u32 {
        self.ioccsz.get().saturating_mul(16).saturating_sub(64)
    }

    /// The longest transfer in bytes for pages of `page` bytes; `None` without a limit, or with one beyond what any command says.
    pub fn max_transfer(&self, page: u32) -> Option<u32> {
        if self.mdts == 0 {
            return None;
        }
        2_u32.checked_pow(self.mdts.into()).and_then(|pages| page.checked_mul(pages))
    }

    /// Sets MDTS to the greatest power of two of 4 KiB pages within `bytes`.
    pub fn set_max_transfer(&mut self, bytes: u32) {
        self.mdts = u8::try_from((bytes / 4096).checked_ilog2().unwrap_or(0).max(1)).unwrap_or(1);
    }

    /// Sets IOCCSZ for `bytes` of in-capsule data.
    pub fn set_in_capsule(&mut self, bytes: u32) {
        self.ioccsz.set(bytes.saturating_add(64) / 16);
    }
}

impl core::fmt::Debug for IdentifyController {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("IdentifyController")
            .field("cntlid", &self.cntlid.get())
            .field("cntrltype", &self.cntrltype)
            .field("mdts", &self.mdts)
            .finish_non_exhaustive()
    }
}

/// Fills a field with `text`, padded with spaces (NVMe Base §1.5: ASCII strings).
pub fn put_padded(field: &mut [u8], text: &str) {
    field.fill(b' ');
    for (target, byte) in field.iter_mut().zip(text.bytes().filter(|byte| (0x20..0x7f).contains(byte))) {
        *target = byte;
    }
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use zerocopy::FromZeros;

    use super::*;

    #[test]
    fn fields_are_where_the_standard_has_them() {
        assert_eq!(offset_of!(IdentifyController, mdts), 77);
        assert_eq!(offset_of!(IdentifyController, ver), 80);
        assert_eq!(offset_of!(IdentifyController, oaes), 92);
        assert_eq!(offset_of!(IdentifyController, cntrltype), 111);
        assert_eq!(offset_of!(IdentifyController, oacs), 256);
        assert_eq!(offset_of!(IdentifyController, lpa), 261);
        assert_eq!(offset_of!(IdentifyController, wctemp), 266);
        assert_eq!(offset_of!(IdentifyController, tnvmcap), 280);
        assert_eq!(offset_of!(IdentifyController, kas), 320);
        assert_eq!(offset_of!(IdentifyController, sqes), 512);
        assert_eq!(offset_of!(IdentifyController, oncs), 520);
        assert_eq!(offset_of!(IdentifyController, vwc), 525);
        assert_eq!(offset_of!(IdentifyController, sgls), 536);
        assert_eq!(offset_of!(IdentifyController, subnqn), 768);
        assert_eq!(offset_of!(IdentifyController, ioccsz), 1792);
        assert_eq!(offset_of!(IdentifyController, psd0), 2048);
    }

    #[test]
    fn sizes_in_the_standards_units() {
        let mut identify = IdentifyController::new_zeroed();
        assert_eq!(identify.max_transfer(4096), None);
        identify.set_max_transfer(1 << 20);
        identify.set_in_capsule(16384);
        assert_eq!((identify.mdts, identify.max_transfer(4096)), (8, Some(1 << 20)));
        for (mdts, bytes) in [(19, Some(1 << 31)), (20, None), (25, None), (255, None)] {
            identify.mdts = mdts;
            assert_eq!(identify.max_transfer(4096), bytes, "MDTS {mdts}");
        }
        assert_eq!((identify.ioccsz.get(), identify.in_capsule()), (1028, 16384));
        put_padded(&mut identify.fr, "1.0\n");
        assert_eq!(&identify.fr, b"1.0     ");
    }
}
