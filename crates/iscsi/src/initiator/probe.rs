//! How a logical unit becomes a remote unit: a fixed list of questions, each with the parser of its answer.

use alloc::string::String;
use alloc::vec::Vec;

use buf::LARGEST;
use scsi::builder::{self, Block};
use volume::{Features, Geometry, Limits};
use wire::Reader;

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
    /// T10 vendor identification.
    pub vendor: String,
    /// Product identification.
    pub product: String,
    /// Product revision level.
    pub revision: String,
    /// Its NAA designator, if it has one.
    pub naa: Vec<u8>,
}

/// Bytes that every question asks for.
pub(super) const ANSWER: u8 = 252;

/// A question to the logical unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Standard INQUIRY data.
    Inquiry,
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
}

impl Question {
    /// All questions in order.
    const ALL: [Self; 6] = [
        Self::Inquiry,
        Self::Identification,
        Self::Capacity,
        Self::BlockLimits,
        Self::Provisioning,
        Self::Caching,
    ];

    /// The first question.
    pub(super) const FIRST: Self = Self::Inquiry;

    /// The one after this.
    pub(super) fn next(self) -> Option<Self> {
        let at = Self::ALL.iter().position(|question| *question == self)?;
        Self::ALL.get(at + 1).copied()
    }

    /// The command that asks it.
    pub(super) fn cdb(self) -> Block {
        match self {
            Self::Inquiry => builder::inquiry(None, ANSWER.into()),
            Self::Identification => builder::inquiry(Some(0x83), ANSWER.into()),
            Self::Capacity => builder::read_capacity(ANSWER.into()),
            Self::BlockLimits => builder::inquiry(Some(0xb0), ANSWER.into()),
            Self::Provisioning => builder::inquiry(Some(0xb2), ANSWER.into()),
            Self::Caching => builder::mode_sense_caching(ANSWER),
        }
    }
}

/// What is known so far.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) question: Question,
    unit: RemoteUnit,
    disk: bool,
    /// False once the unit has said that it takes no UNMAP.
    unmaps: bool,
}

impl Probe {
    pub(super) fn new() -> Self {
        let geometry = Geometry { blocks: 0, block_size: 0, physical_block_size: 0 };
        let limits = Limits { depth: INITIATOR_DEPTH.into(), ..Limits::default() };
        let unit = RemoteUnit {
            geometry,
            limits,
            features: Features::VOLATILE_CACHE,
            vendor: String::new(),
            product: String::new(),
            revision: String::new(),
            naa: Vec::new(),
        };
        Self { question: Question::FIRST, unit, disk: false, unmaps: true }
    }

    /// Takes the answer to the current question, or that there is none. False when the unit cannot be used.
    pub(super) fn take(&mut self, answer: Option<&[u8]>) -> bool {
        let data = answer.unwrap_or_default();
        let known = match self.question {
            Question::Inquiry => self.inquiry(data),
            Question::Identification => self.identification(data),
            Question::Capacity => self.capacity(data),
            Question::BlockLimits => self.block_limits(data),
            Question::Provisioning => self.provisioning(data),
            Question::Caching => self.caching(data),
        };
        match self.question {
            Question::Inquiry => self.disk,
            Question::Capacity => known.is_some() && self.unit.geometry.block_size > 0,
            _ => true,
        }
    }

    /// What was found.
    pub(super) fn finish(mut self) -> RemoteUnit {
        let block = self.unit.geometry.block_size.max(1);
        let largest = u32::try_from(LARGEST).unwrap_or(u32::MAX).min(self.unit.limits.max_transfer);
        self.unit.limits.max_transfer = (largest / block).max(1).saturating_mul(block);
        if !self.unmaps {
            self.unit.features.remove(Features::DISCARD);
        }
        self.unit
    }

    fn inquiry(&mut self, data: &[u8]) -> Option<()> {
        let mut reader = Reader::new(data);
        // A disk that is connected: qualifier 0, device type 0.
        self.disk = reader.u8().ok()? == 0;
        reader.skip(7).ok()?;
        let text = |bytes: &[u8]| String::from(String::from_utf8_lossy(bytes).trim_end());
        self.unit.vendor = text(reader.take(8).ok()?);
        self.unit.product = text(reader.take(16).ok()?);
        self.unit.revision = text(reader.take(4).ok()?);
        Some(())
    }

    fn identification(&mut self, data: &[u8]) -> Option<()> {
        let mut reader = Reader::new(data);
        reader.skip(2).ok()?;
        let length = reader.u16_be().ok()?;
        let mut list = reader.sub(usize::from(length).min(reader.remaining())).ok()?;
        while !list.is_empty() {
            let [_, kind, _, length] = list.array().ok()?;
            let designator = list.take(length.into()).ok()?;
            // Association with the logical unit, type NAA.
            if kind & 0x3f == 3 {
                self.unit.naa = designator.to_vec();
            }
        }
        Some(())
    }

    fn capacity(&mut self, data: &[u8]) -> Option<()> {
        let (geometry, unmaps) = builder::capacity(data)?;
        self.unit.geometry = geometry;
        self.unit.features.set(Features::DISCARD, unmaps);
        Some(())
    }

    fn block_limits(&mut self, data: &[u8]) -> Option<()> {
        let limits = builder::block_limits(data)?;
        self.unit.features.set(Features::COMPARE, limits.compare_and_write > 0);
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
        let flags = *data.get(5)?;
        // LBPU: UNMAP works. LBPWS: WRITE SAME (16) with its UNMAP bit does.
        self.unit.features.set(Features::DISCARD, flags & 0x80 != 0);
        self.unit.features.set(Features::WRITE_ZEROES, flags & 0x40 != 0);
        self.unit.features.set(Features::ALLOCATION, flags & 0x80 != 0);
        Some(())
    }

    fn caching(&mut self, data: &[u8]) -> Option<()> {
        let features = builder::caching(data)?;
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
        assert!(!unit.features.contains(Features::DISCARD) && unit.limits.max_discard > 0);
    }

    #[test]
    fn what_is_no_disk_or_has_no_capacity_is_not_used() {
        let mut probe = Probe::new();
        assert!(!probe.take(Some(&[0x1f; 36])));
        probe.question = Question::Capacity;
        assert!(!probe.take(Some(&[0; 4])));
    }
}
