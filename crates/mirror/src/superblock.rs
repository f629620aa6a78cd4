//! The superblock: what a leg says of the mirror that it belongs to.
//!
//! Each change of who is in sync is an epoch, and each opening a generation. Whoever opens the mirror believes the newest record among enough legs
//! (`assembly.rs`). The record is one block of the leg, so that it is written whole or not at all, and has a checksum for what is not.

use wire::{Full, Reader, Truncated, Writer};

use crate::limits::{LEGS, OWNER, UNIT};

/// What every superblock begins with.
pub(crate) const MAGIC: [u8; 8] = *b"LNRMIRR\x01";
const VERSION: u32 = 1;
/// Bytes before the checksum.
const BODY: usize = UNIT - 4;
/// Stands for no member.
const NO_MEMBER: u8 = u8::MAX;

/// What all legs of a mirror have in common for as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The mirror's own number, at random.
    pub(crate) uuid: [u8; 16],
    /// Legs, spares among them.
    pub(crate) legs: u16,
    /// Of these, how many are spares.
    pub(crate) spares: u16,
    /// Members that hold each slab.
    pub(crate) copies: u16,
    /// Bytes in a block.
    pub(crate) block_size: u32,
    /// Bytes in a slab; the mirror's size where every member holds everything.
    pub(crate) slab: u64,
    /// Bytes of the mirror.
    pub(crate) size: u64,
    /// Bytes in a region.
    pub(crate) region: u64,
}

impl Layout {
    /// How many regions there are.
    pub(crate) fn regions(&self) -> u64 {
        self.size / self.region.max(1)
    }
}

/// What a record says of one leg's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// It has every acknowledged write.
    InSync,
    /// It had, but for the regions whose bits are set.
    Out,
    /// Nothing on it counts.
    Blank,
}

/// What a record says of one leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Role {
    /// Which member it is; `None` for a spare.
    pub(crate) member: Option<u8>,
    /// Its data.
    pub(crate) content: Content,
}

/// The order of records: a later opening is newer than anything that an earlier one writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Version {
    /// Openings so far.
    pub(crate) generation: u64,
    /// Records written since the mirror exists.
    pub(crate) sequence: u64,
}

/// One leg's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) layout: Layout,
    /// Which leg it is on, by its place in the URL.
    pub(crate) leg: u16,
    pub(crate) version: Version,
    /// Changes of who is in sync, so far.
    pub(crate) epoch: u64,
    /// Tells openings apart that took the same generation: at random.
    pub(crate) nonce: u64,
    /// The role of each leg.
    pub(crate) roles: Vec<Role>,
    /// Who opened the mirror, for people.
    pub(crate) owner: String,
}

/// What a block that should hold a superblock holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// A record.
    Record(Box<Superblock>),
    /// Zeros alone.
    Blank,
    /// A record that was not written whole, or has been changed since.
    Damaged,
    /// A record of a later version.
    Later(u32),
    /// Something else.
    Foreign,
}

impl Content {
    fn code(self) -> u8 {
        match self {
            Self::InSync => 1,
            Self::Out => 2,
            Self::Blank => 3,
        }
    }

    fn of(code: u8) -> Option<Self> {
        [Self::InSync, Self::Out, Self::Blank].into_iter().find(|content| content.code() == code)
    }
}

impl Superblock {
    /// The bytes of the record.
    pub(crate) fn encode(&self) -> [u8; UNIT] {
        let mut bytes = [0; UNIT];
        let (body, sum) = bytes.split_at_mut(BODY);
        // The fields take 231 bytes at most, as a test sees.
        let written = self.write(&mut Writer::new(body));
        debug_assert!(written.is_ok(), "a superblock fits its block");
        sum.copy_from_slice(&wire::crc32c(body).to_le_bytes());
        bytes
    }

    fn write(&self, to: &mut Writer<'_>) -> Result<(), Full> {
        let Layout { uuid, legs, spares, copies, block_size, slab, size, region } = self.layout;
        to.put(&MAGIC)?;
        to.u32_le(VERSION)?;
        to.put(&uuid)?;
        [self.leg, legs, spares, copies].into_iter().try_for_each(|number| to.u16_le(number))?;
        to.u32_le(block_size)?;
        let Version { generation, sequence } = self.version;
        let numbers = [slab, size, region, generation, sequence, self.epoch, self.nonce];
        numbers.into_iter().try_for_each(|number| to.u64_le(number))?;
        for role in self.roles.iter().take(LEGS) {
            to.u8(role.member.unwrap_or(NO_MEMBER))?;
            to.u8(role.content.code())?;
        }
        to.zero(2 * LEGS.saturating_sub(self.roles.len()))?;
        let owner = self.owner.as_bytes();
        let owner = owner.get(..owner.len().min(OWNER)).unwrap_or_default();
        to.u8(wire::bounded(owner.len()))?;
        to.put(owner)
    }

    /// What `block`, whose first bytes should be a record, holds.
    pub(crate) fn decode(block: &[u8]) -> Found {
        if block.iter().all(|byte| *byte == 0) {
            return Found::Blank;
        }
        let Some(bytes) = block.get(..UNIT).filter(|bytes| bytes.starts_with(&MAGIC)) else {
            return Found::Foreign;
        };
        let (body, sum) = bytes.split_at(BODY);
        if wire::crc32c(body).to_le_bytes() != sum {
            return Found::Damaged;
        }
        let mut reader = Reader::new(body.get(MAGIC.len()..).unwrap_or_default());
        match reader.u32_le() {
            Ok(VERSION) => {}
            Ok(later) => return Found::Later(later),
            Err(Truncated) => return Found::Damaged,
        }
        match Self::read(&mut reader) {
            Ok(Some(record)) => Found::Record(Box::new(record)),
            Ok(None) | Err(Truncated) => Found::Damaged,
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Option<Self>, Truncated> {
        let uuid = from.array()?;
        let [leg, legs, spares, copies] = [from.u16_le()?, from.u16_le()?, from.u16_le()?, from.u16_le()?];
        let block_size = from.u32_le()?;
        let [slab, size, region] = [from.u64_le()?, from.u64_le()?, from.u64_le()?];
        let version = Version { generation: from.u64_le()?, sequence: from.u64_le()? };
        let (epoch, nonce) = (from.u64_le()?, from.u64_le()?);
        let layout = Layout { uuid, legs, spares, copies, block_size, slab, size, region };
        let mut roles = Vec::new();
        for index in 0..LEGS {
            let (member, content) = (from.u8()?, from.u8()?);
            if index >= usize::from(legs) {
                continue;
            }
            let Some(content) = Content::of(content) else { return Ok(None) };
            roles.push(Role { member: (member != NO_MEMBER).then_some(member), content });
        }
        let owner = usize::from(from.u8()?);
        let owner = String::from_utf8_lossy(from.take(owner.min(OWNER))?).into_owned();
        let record = Self { layout, leg, version, epoch, nonce, roles, owner };
        Ok(record.makes_sense().then_some(record))
    }

    /// True if each member is one leg, and the numbers fit each other.
    fn makes_sense(&self) -> bool {
        let Layout { legs, spares, copies, block_size, slab, size, region, .. } = self.layout;
        let members = legs.saturating_sub(spares);
        let is_leg = |member: u16| {
            self.roles.iter().filter(|role| role.member.map(u16::from) == Some(member)).count() == 1
        };
        let sizes = region.is_power_of_two() && slab >= region && size.is_multiple_of(region) && size > 0;
        usize::from(legs) <= LEGS
            && self.leg < legs
            && (1..=members).contains(&copies)
            && [512, 4096].contains(&block_size)
            && sizes
            && (0..members).all(is_leg)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn record() -> Superblock {
        let layout = Layout {
            uuid: [7; 16],
            legs: 3,
            spares: 1,
            copies: 2,
            block_size: 4096,
            slab: 1 << 30,
            size: 1 << 30,
            region: 1 << 20,
        };
        let role = |member, content| Role { member, content };
        Superblock {
            layout,
            leg: 1,
            version: Version { generation: 3, sequence: 9 },
            epoch: 5,
            nonce: 77,
            roles: vec![
                role(Some(0), Content::InSync),
                role(None, Content::Blank),
                role(Some(1), Content::Out),
            ],
            owner: "host-a".to_owned(),
        }
    }

    #[test]
    fn a_record_is_found_as_it_was_written() {
        let mut all = record();
        all.layout.legs = 16;
        all.layout.spares = 0;
        all.roles = (0..16).map(|member| Role { member: Some(member), content: Content::InSync }).collect();
        all.owner = "n".repeat(OWNER);
        for record in [record(), all] {
            let bytes = record.encode();
            assert_eq!(Superblock::decode(&bytes), Found::Record(Box::new(record)));
        }
        assert_eq!(record().encode()[..20], *b"LNRMIRR\x01\x01\0\0\0\x07\x07\x07\x07\x07\x07\x07\x07");
    }

    #[test]
    fn what_is_no_record_is_told_apart() {
        assert_eq!(Superblock::decode(&[0; 4096]), Found::Blank);
        assert_eq!(Superblock::decode(&[1; 4096]), Found::Foreign);
        assert_eq!(Superblock::decode(&MAGIC), Found::Foreign, "too short");
        let mut later = record().encode();
        later[8] = 2;
        let sum = wire::crc32c(&later[..BODY]).to_le_bytes();
        later[BODY..].copy_from_slice(&sum);
        assert_eq!(Superblock::decode(&later), Found::Later(2));
        let mut doubled = record();
        doubled.roles[2].member = Some(0);
        assert_eq!(Superblock::decode(&doubled.encode()), Found::Damaged, "two legs are one member");
    }

    #[test]
    fn a_later_opening_is_newer_than_anything_before() {
        let version = |generation, sequence| Version { generation, sequence };
        assert!(version(2, 1) > version(1, 900) && version(2, 2) > version(2, 1));
    }

    proptest! {
        #[test]
        fn damage_is_seen(at in 8_usize..UNIT, flip in 1_u8..=255) {
            let mut bytes = record().encode();
            bytes[at] ^= flip;
            prop_assert_eq!(Superblock::decode(&bytes), Found::Damaged);
        }

        #[test]
        fn a_torn_record_is_seen(at in 1_usize..UNIT) {
            let mut newer = record();
            newer.version.sequence = 10;
            newer.nonce = u64::MAX;
            let (old, new) = (record().encode(), newer.encode());
            let mut torn = old;
            torn[..at].copy_from_slice(&new[..at]);
            let found = Superblock::decode(&torn);
            prop_assert!(found == Found::Damaged || torn == old || torn == new);
        }

        #[test]
        fn any_bytes_are_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..600), magic in any::<bool>()) {
            let mut bytes = bytes;
            if magic && bytes.len() >= UNIT {
                bytes[..8].copy_from_slice(&MAGIC);
                bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
                let sum = wire::crc32c(&bytes[..BODY]).to_le_bytes();
                bytes[BODY..UNIT].copy_from_slice(&sum);
            }
            let _ = Superblock::decode(&bytes);
        }
    }
}
