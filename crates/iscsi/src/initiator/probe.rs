//! How a logical unit becomes a remote unit: a fixed list of questions, each with the parser of its answer.

use alloc::string::String;
use alloc::vec::Vec;

use buf::LARGEST;
use scsi::builder::{self, Block};
use scsi::unit_description::{self, Peripheral, Product, Provisioning};
use volume::{Designator, Features, Geometry, Identity, Limits};

use crate::limits::INITIATOR_DEPTH;

/// What a logical unit is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteUnit {
    /// Its size.
    pub geometry: Geometry,
    /// What requests may look like.
    pub limits: Limits,
    /// What it can do.
    pub features: Features,
    /// It takes UNMAP, even if it does not promise what is read afterwards.
    pub discards: bool,
    /// Commands may have the FUA bit set.
    pub fua: bool,
    /// Blocks in one COMPARE AND WRITE at most; zero if it has none.
    pub longest_compare: u8,
    /// T10 vendor identification.
    pub vendor: String,
    /// Product identification.
    pub product: String,
    /// Product revision level.
    pub revision: String,
    /// Its NAA designator, if it has one.
    pub naa: Vec<u8>,
    /// Unit serial number.
    pub serial: String,
    /// The names that are its own, not its target's.
    pub designators: Vec<Designator>,
    /// What changes whenever the target begins anew and has lost what was in its memory, if it says.
    pub incarnation: Option<[u8; 16]>,
    /// The target portal group that the session belongs to, if the target said so: with the names of both sides it tells whether
    /// another login reinstates this session (RFC 7143 §6.3.5).
    pub portal_group: Option<u16>,
}

impl RemoteUnit {
    /// What it says of itself.
    pub fn identity(&self) -> Identity {
        Identity {
            vendor: self.vendor.clone(),
            product: self.product.clone(),
            revision: self.revision.clone(),
            serial: self.serial.clone(),
            controller: None,
            designators: self.designators.clone(),
        }
    }
}

/// The vendor of units that have an incarnation mark.
const OURS: &str = "LINERATE";

/// Bytes that every question asks for.
pub(super) const ANSWER: u8 = 252;

/// A question to the logical unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Standard INQUIRY data.
    Inquiry,
    /// Unit serial number, page 80h.
    Serial,
    /// Device identification, page 83h.
    Identification,
    /// READ CAPACITY (16).
    Capacity,
    /// Block limits, page B0h.
    BlockLimits,
    /// Logical block provisioning, page B2h.
    Provisioning,
    /// The caching mode page.
    Caching,
    /// The incarnation mark of a unit of ours.
    Incarnation,
}

impl Question {
    /// All questions in order.
    const ALL: [Self; 8] = [
        Self::Inquiry,
        Self::Serial,
        Self::Identification,
        Self::Capacity,
        Self::BlockLimits,
        Self::Provisioning,
        Self::Caching,
        Self::Incarnation,
    ];

    /// The first question.
    pub(super) const FIRST: Self = Self::Inquiry;

    /// The one after this.
    fn next(self) -> Option<Self> {
        let at = Self::ALL.iter().position(|question| *question == self)?;
        Self::ALL.get(at + 1).copied()
    }

    /// The command that asks it.
    pub(super) fn cdb(self) -> Block {
        match self {
            Self::Inquiry => builder::inquiry(None, ANSWER.into()),
            Self::Serial => builder::inquiry(Some(0x80), ANSWER.into()),
            Self::Identification => builder::inquiry(Some(0x83), ANSWER.into()),
            Self::Capacity => builder::read_capacity(ANSWER.into()),
            Self::BlockLimits => builder::inquiry(Some(0xb0), ANSWER.into()),
            Self::Provisioning => builder::inquiry(Some(0xb2), ANSWER.into()),
            Self::Caching => builder::mode_sense_caching(ANSWER),
            Self::Incarnation => builder::inquiry(Some(builder::INCARNATION), ANSWER.into()),
        }
    }
}

/// What is known so far.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) question: Question,
    unit: RemoteUnit,
    /// What is behind the unit, once it has said so.
    peripheral: Option<Peripheral>,
    /// False once the unit has said that it takes no UNMAP.
    unmaps: bool,
    /// True once the unit has said that blocks without space read as zeros.
    zeros: bool,
}

impl Probe {
    pub(super) fn new() -> Self {
        let geometry = Geometry { blocks: 0, block_size: 0, physical_block_size: 0 };
        let limits = Limits { depth: INITIATOR_DEPTH.into(), ..Limits::default() };
        let unit = RemoteUnit {
            geometry,
            limits,
            features: Features::VOLATILE_CACHE,
            discards: false,
            fua: false,
            longest_compare: 0,
            vendor: String::new(),
            product: String::new(),
            revision: String::new(),
            naa: Vec::new(),
            serial: String::new(),
            designators: Vec::new(),
            incarnation: None,
            portal_group: None,
        };
        Self { question: Question::FIRST, unit, peripheral: None, unmaps: true, zeros: false }
    }

    /// Takes the answer to the current question, or that there is none. False when the unit cannot be used.
    pub(super) fn take(&mut self, answer: Option<&[u8]>) -> bool {
        let data = answer.unwrap_or_default();
        let known = match self.question {
            Question::Inquiry => self.inquiry(data),
            Question::Serial => self.serial(data),
            Question::Identification => self.identification(data),
            Question::Capacity => self.capacity(data),
            Question::BlockLimits => self.block_limits(data),
            Question::Provisioning => self.provisioning(data),
            Question::Caching => self.caching(data),
            Question::Incarnation => self.incarnation(data),
        };
        match self.question {
            Question::Inquiry => self.peripheral == Some(Peripheral::Disk),
            Question::Capacity => known.is_some() && self.unit.geometry.block_size > 0,
            _ => true,
        }
    }

    /// Why the unit is not used, after [`Self::take`] said that it cannot be.
    pub(super) const fn refusal(&self) -> &'static str {
        match self.peripheral {
            None => "it does not answer INQUIRY",
            Some(Peripheral::NoUnit) => "the target has no such unit",
            Some(Peripheral::NoDevice) => "no device is behind it now",
            Some(Peripheral::Disk) => "it tells no capacity in blocks",
            Some(Peripheral::OtherDevice) => "it is a device of another kind than a disk",
        }
    }

    /// What is to be asked next. The code of the last page means something else to other vendors.
    pub(super) fn next(&self) -> Option<Question> {
        self.question.next().filter(|next| *next != Question::Incarnation || self.unit.vendor == OURS)
    }

    /// What was found.
    pub(super) fn finish(mut self) -> RemoteUnit {
        let block = self.unit.geometry.block_size.max(1);
        let largest = wire::bounded::<u32>(LARGEST).min(self.unit.limits.max_transfer);
        self.unit.limits.max_transfer = (largest / block).max(1).saturating_mul(block);
        self.unit.discards &= self.unmaps;
        // What was discarded reads as zeros only where the unit says so (SBC-4 §6.6.7, LBPRZ); LIO does not by default.
        self.unit.features.set(Features::DISCARD, self.unit.discards && self.zeros);
        self.unit
    }

    fn inquiry(&mut self, data: &[u8]) -> Option<()> {
        self.peripheral = Some(unit_description::peripheral(data)?);
        let Product { vendor, product, revision } = unit_description::product(data)?;
        (self.unit.vendor, self.unit.product, self.unit.revision) = (vendor, product, revision);
        Some(())
    }

    fn serial(&mut self, data: &[u8]) -> Option<()> {
        self.unit.serial = unit_description::serial_number(data)?;
        Some(())
    }

    fn identification(&mut self, data: &[u8]) -> Option<()> {
        self.unit.designators = unit_description::designators(data);
        let naa = self.unit.designators.iter().rev().find_map(|designator| match designator {
            Designator::Naa(bytes) => Some(bytes),
            _ => None,
        });
        self.unit.naa.clone_from(naa?);
        Some(())
    }

    fn capacity(&mut self, data: &[u8]) -> Option<()> {
        let builder::Capacity { geometry, unmaps } = builder::capacity(data)?;
        self.unit.geometry = geometry;
        (self.unit.discards, self.zeros) = (unmaps, unmaps);
        Some(())
    }

    fn block_limits(&mut self, data: &[u8]) -> Option<()> {
        let limits = builder::block_limits(data)?;
        self.unit.features.set(Features::COMPARE, limits.compare_and_write > 0);
        self.unit.longest_compare = limits.compare_and_write;
        if limits.transfer > 0 {
            self.unit.limits.max_transfer = limits.transfer.saturating_mul(self.unit.geometry.block_size);
        }
        // One number bounds both commands; zero says nothing about WRITE SAME.
        let same = if limits.write_same == 0 { u64::from(u32::MAX) } else { limits.write_same };
        // At least one wherever UNMAP is taken (SBC-4 §6.6.4), whatever other pages say.
        self.unmaps = limits.unmap > 0;
        self.unit.limits.max_discard = if self.unmaps { u64::from(limits.unmap).min(same) } else { same };
        self.unit.limits.discard_granularity = limits.granularity.max(1);
        Some(())
    }

    fn provisioning(&mut self, data: &[u8]) -> Option<()> {
        let Provisioning { unmap, write_same_unmaps, reads_zeros } = unit_description::provisioning(data)?;
        self.unit.discards = unmap;
        self.unit.features.set(Features::WRITE_ZEROES, write_same_unmaps);
        // LBPRZ here or in READ CAPACITY (16): only then is a hole as good as zeros (SBC-4 §6.6.7).
        self.zeros |= reads_zeros;
        self.unit.features.set(Features::ALLOCATION, self.unit.discards && self.zeros);
        Some(())
    }

    fn incarnation(&mut self, data: &[u8]) -> Option<()> {
        self.unit.incarnation = Some(builder::incarnation(data)?);
        Some(())
    }

    fn caching(&mut self, data: &[u8]) -> Option<()> {
        let builder::Caching { features, fua } = builder::caching(data)?;
        self.unit.fua = fua;
        self.unit.features.remove(Features::VOLATILE_CACHE | Features::READ_ONLY);
        self.unit.features.insert(features);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_known_after_its_answers() {
        let mut probe = Probe::new();
        let mut standard = [0; 36];
        standard[8..16].copy_from_slice(b"LINERATE");
        assert!(probe.take(Some(&standard)));
        probe.question = Question::Capacity;
        let capacity = [0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 2, 0, 0, 3, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(probe.take(Some(&capacity)), "READ CAPACITY (16)");
        probe.question = Question::BlockLimits;
        assert!(probe.take(None), "not every unit has the page");
        let unit = probe.finish();
        assert_eq!(unit.geometry, Geometry { blocks: 100, block_size: 512, physical_block_size: 4096 });
        assert_eq!((unit.vendor.as_str(), unit.features.contains(Features::DISCARD)), ("LINERATE", true));
    }

    #[test]
    fn a_unit_is_known_by_its_own_names() {
        let mut probe = Probe::new();
        probe.question = Question::Serial;
        assert!(probe.take(Some(b"\0\x80\0\x07  ab12 ")));
        probe.question = Question::Identification;
        let naa = [1, 3, 0, 8, 0x30, 1, 2, 3, 4, 5, 6, 7];
        // A relative target port, which is not the unit's, and a vendor's name.
        let others = [1, 0x94, 0, 4, 0, 0, 0, 1, 2, 1, 0, 6, b'A', b'C', b'M', b'E', b' ', b'1'];
        let page = [&[0, 0x83, 0, 30][..], &naa, &others].concat();
        assert!(probe.take(Some(&page)));
        let identity = probe.finish().identity();
        assert_eq!(identity.serial, "ab12");
        let names = [Designator::Naa(naa[4..].to_vec()), Designator::T10("ACME 1".into())];
        assert_eq!(identity.designators, names);
    }

    #[test]
    fn holes_are_asked_for_only_where_they_read_as_zeros() {
        for (capacity, provisioning, expected) in
            [(0x80, 0x80, false), (0x80, 0x84, true), (0xc0, 0x80, true)]
        {
            let mut probe = Probe::new();
            probe.question = Question::Capacity;
            assert!(probe.take(Some(&[0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 2, 0, 0, 3, capacity, 0])));
            probe.question = Question::Provisioning;
            assert!(probe.take(Some(&[0, 0xb2, 0, 4, 0, provisioning, 0, 0])));
            let unit = probe.finish();
            assert_eq!(unit.features.contains(Features::ALLOCATION), expected);
            assert_eq!((unit.discards, unit.features.contains(Features::DISCARD)), (true, expected));
        }
    }

    #[test]
    fn a_unit_that_unmaps_no_block_at_a_time_is_not_asked_to() {
        let mut probe = Probe::new();
        probe.question = Question::Capacity;
        assert!(probe.take(Some(&[0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 2, 0, 0, 3, 0xc0, 0])));
        let mut limits = [0; 64];
        limits[1] = 0xb0;
        probe.question = Question::BlockLimits;
        assert!(probe.take(Some(&limits)));
        probe.question = Question::Provisioning;
        assert!(probe.take(Some(&[0, 0xb2, 0, 4, 0, 0x80, 0, 0])));
        let unit = probe.finish();
        assert!(!unit.discards && !unit.features.contains(Features::DISCARD) && unit.limits.max_discard > 0);
    }

    #[test]
    fn only_a_unit_of_ours_is_asked_for_its_mark() {
        for (vendor, expected) in [(b"LINERATE", Some([7; 16])), (b"LIO-ORG ", None)] {
            let mut probe = Probe::new();
            let mut standard = [0; 36];
            standard[8..16].copy_from_slice(vendor);
            assert!(probe.take(Some(&standard)));
            probe.question = Question::Caching;
            probe.take(None);
            if let Some(next) = probe.next() {
                probe.question = next;
                probe.take(Some(&[&[0, 0xe1, 0, 24][..], b"LINERATE", &[7; 16]].concat()));
            }
            assert_eq!(probe.finish().incarnation, expected);
        }
    }

    #[test]
    fn what_is_no_disk_or_has_no_capacity_is_not_used() {
        let mut probe = Probe::new();
        assert!(!probe.take(Some(&[0x1f; 36])));
        probe.question = Question::Capacity;
        assert!(!probe.take(Some(&[0; 4])));
    }
}
