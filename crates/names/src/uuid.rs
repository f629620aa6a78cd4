//! Universally unique identifiers (RFC 9562), as volumes are given them.

use alloc::format;
use core::fmt;

use crate::parse::parse_by_read;
use crate::piece::{Fault, Piece};

const REMEDY: &str = "write one such as uuidgen prints, 0b3f5f0e-6a1d-4c58-9f2b-7d1f0c9a4e21";

/// A UUID of a version that RFC 9562 defines: neither nil nor all ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// The random UUID (version 4, RFC 9562 §5.4) that these bits give.
    pub const fn random(bits: [u8; 16]) -> Self {
        let mut bytes = bits;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// Its bytes, in the order in which they are written.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let bytes = parse(piece.text)
            .ok_or_else(|| piece.fault(format!("\"{}\" is not a UUID", piece.text), REMEDY))?;
        // RFC 9562 §4.1 and §4.2: the variant 10x, and the versions that it has.
        if bytes[8] >> 6 != 0b10 || !(1..=8).contains(&(bytes[6] >> 4)) {
            let problem = format!("\"{}\" has no version and variant of RFC 9562", piece.text);
            return Err(piece.fault(problem, REMEDY));
        }
        Ok(Self(bytes))
    }
}

/// True for `8-4-4-4-12` hexadecimal digits.
pub(crate) fn is_uuid(text: &str) -> bool {
    let groups = text.split('-').map(str::len);
    groups.eq([8, 4, 4, 4, 12]) && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// The bytes that the digits give.
pub(crate) fn parse(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut digits = text.chars().filter_map(|letter| letter.to_digit(16));
    for byte in bytes.iter_mut().filter(|_| is_uuid(text)) {
        *byte = u8::try_from(digits.next()? * 16 + digits.next()?).ok()?;
    }
    is_uuid(text).then_some(bytes)
}

/// Writes 16 bytes as a UUID.
pub(crate) fn write(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, byte) in bytes.iter().enumerate() {
        let dash = if [4, 6, 8, 10].contains(&index) { "-" } else { "" };
        write!(f, "{dash}{byte:02x}")?;
    }
    Ok(())
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.0, f)
    }
}

parse_by_read!(Uuid, "UUID");

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn random_ones_are_version_4_and_read_as_they_are_written() {
        for bits in [[0; 16], [0xff; 16], [0x5a; 16]] {
            let uuid = Uuid::random(bits);
            let text = uuid.to_string();
            assert_eq!((&text[14..15], "89ab".contains(&text[19..20])), ("4", true), "{text}");
            assert_eq!(text.parse(), Ok(uuid));
            assert_eq!(text.to_uppercase().parse(), Ok(uuid));
        }
    }

    #[test]
    fn what_is_no_uuid_is_refused() {
        for (text, why) in [
            ("", "is not a UUID"),
            ("0b3f5f0e6a1d4c589f2b7d1f0c9a4e21", "is not a UUID"),
            ("0b3f5f0e-6a1d-4c58-9f2b-7d1f0c9a4e2g", "is not a UUID"),
            ("00000000-0000-0000-0000-000000000000", "no version and variant"),
            ("ffffffff-ffff-ffff-ffff-ffffffffffff", "no version and variant"),
            ("0b3f5f0e-6a1d-0c58-9f2b-7d1f0c9a4e21", "no version and variant"),
            ("0b3f5f0e-6a1d-4c58-1f2b-7d1f0c9a4e21", "no version and variant"),
        ] {
            let error = text.parse::<Uuid>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?} says {error:?}");
        }
    }
}
