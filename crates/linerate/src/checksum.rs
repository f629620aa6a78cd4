//! Sums over a volume's bytes, as other tools print them.

use sha2::{Digest, Sha256, Sha512};

use crate::control::Effort;

/// How to sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// SHA-256 (FIPS 180-4), as `sha256sum` prints it.
    #[default]
    Sha256,
    /// SHA-512 (FIPS 180-4), as `sha512sum` prints it.
    Sha512,
    /// CRC32C (RFC 7143 §13.1), as eight digits of one number.
    Crc32c,
}

/// What to sum.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChecksumPlan {
    /// How.
    pub algorithm: Algorithm,
    /// The first byte.
    pub offset: u64,
    /// How many bytes; to the volume's end if not given.
    pub length: Option<u64>,
    /// How much goes on side by side.
    pub effort: Effort,
}

/// A sum of what has come so far.
pub(crate) enum Sum {
    Sha256(Sha256),
    Sha512(Box<Sha512>),
    Crc32c(wire::Crc32c),
}

impl Sum {
    /// The sum of nothing.
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Box::new(Sha512::new())),
            Algorithm::Crc32c => Self::Crc32c(wire::Crc32c::new()),
        }
    }

    /// Adds what comes next.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(sum) => sum.update(bytes),
            Self::Sha512(sum) => sum.update(bytes),
            Self::Crc32c(sum) => sum.update(bytes),
        }
    }

    /// The sum in hexadecimal digits.
    pub(crate) fn digits(&self) -> String {
        match self {
            Self::Sha256(sum) => hex(&sum.clone().finalize()),
            Self::Sha512(sum) => hex(&sum.clone().finalize()),
            Self::Crc32c(sum) => format!("{:08x}", sum.finish()),
        }
    }
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('?');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vectors() {
        for (algorithm, expected) in [
            // FIPS 180-4's own example.
            (Algorithm::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                Algorithm::Sha512,
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
        ] {
            let mut sum = Sum::new(algorithm);
            sum.update(b"a");
            sum.update(b"bc");
            assert_eq!(sum.digits(), expected);
        }
        let mut sum = Sum::new(Algorithm::Crc32c);
        sum.update(b"123456789");
        assert_eq!(sum.digits(), "e3069283");
    }
}
