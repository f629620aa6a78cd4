//! What a volume says of itself: who made it, and the names by which it is known everywhere.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A volume's self-description, as its maker gave it. What it does not say is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// Who made it (SCSI's vendor identification).
    pub vendor: String,
    /// What it is (SCSI's product identification, NVMe's model number).
    pub product: String,
    /// Which revision of it (SCSI's product revision level, NVMe's firmware revision).
    pub revision: String,
    /// Its serial number: the logical unit's, or the NVMe subsystem's.
    pub serial: String,
    /// The controller that answers, where there are such.
    pub controller: Option<u16>,
    /// World-wide names, in the order in which they are told.
    pub designators: Vec<Designator>,
}

/// A name that nothing else has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Designator {
    /// Vendor and vendor's own text (SPC-4 §7.8.6.4).
    T10(String),
    /// IEEE extended unique identifier of 8, 12 or 16 bytes.
    Eui64(Vec<u8>),
    /// Network address authority identifier of 8 or 16 bytes.
    Naa(Vec<u8>),
    /// A name such as `iqn.…` or `eui.…` (SPC-4 §7.8.6.11).
    Name(String),
    /// A UUID.
    Uuid([u8; 16]),
    /// Namespace globally unique identifier.
    Nguid([u8; 16]),
}

impl Designator {
    /// What kind of name it is, in one lower-case word.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::T10(_) => "t10",
            Self::Eui64(_) => "eui64",
            Self::Naa(_) => "naa",
            Self::Name(_) => "name",
            Self::Uuid(_) => "uuid",
            Self::Nguid(_) => "nguid",
        }
    }
}

/// The name itself: text as it is, a UUID with its hyphens, other bytes as hexadecimal digits.
impl fmt::Display for Designator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| {
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        };
        match self {
            Self::T10(text) | Self::Name(text) => f.write_str(text),
            Self::Eui64(bytes) | Self::Naa(bytes) => digits(f, bytes),
            Self::Nguid(bytes) => digits(f, bytes),
            Self::Uuid(bytes) => {
                for (index, part) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
                    f.write_str(if index > 0 { "-" } else { "" })?;
                    digits(f, &bytes[part])?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_people_know_them() {
        let bytes: [u8; 16] = std::array::from_fn(|index| u8::try_from(index).unwrap());
        for (designator, kind, text) in [
            (Designator::Uuid(bytes), "uuid", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
            (Designator::Nguid(bytes), "nguid", "000102030405060708090a0b0c0d0e0f"),
            (Designator::Naa(bytes[..8].to_vec()), "naa", "0001020304050607"),
            (Designator::Eui64(vec![0xab; 8]), "eui64", "abababababababab"),
            (Designator::T10("ACME disk".to_owned()), "t10", "ACME disk"),
        ] {
            assert_eq!((designator.kind(), designator.to_string().as_str()), (kind, text));
        }
    }
}
