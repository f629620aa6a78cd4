//! Sizes in bytes: `512`, `4k`, `600M`, `1.5T`, `2E`, in powers of 1024.

use alloc::format;
use core::fmt;

use crate::parse::parse_by_read;
use crate::piece::{Fault, Piece};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

pub(crate) const UNITS: &[(char, u64)] =
    &[('E', 1 << 60), ('P', 1 << 50), ('T', 1 << 40), ('G', 1 << 30), ('M', 1 << 20), ('k', 1 << 10)];
const REMEDY: &str =
    "write bytes, or a number with k, M, G, T, P or E (powers of 1024), such as 4k, 2G or 1.5T";
/// Digits after the point that still make whole bytes of any unit.
const FRACTION_DIGITS: usize = 12;

impl ByteSize {
    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let unit = UNITS.iter().find(|(letter, _)| {
            piece.text.chars().next_back().is_some_and(|last| last.eq_ignore_ascii_case(letter))
        });
        let (number, scale) = match unit {
            Some(&(_, scale)) => (piece.first(piece.text.len() - 1), scale),
            None => (piece, 1),
        };
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (number, None),
        };
        let bad = || {
            let problem = format!("\"{}\" is not a size", piece.text);
            match short(piece) {
                Some(short) => piece.fault(problem, format!("did you mean {short}, in powers of 1024?")),
                None => piece.fault(problem, REMEDY),
            }
        };
        if whole.text.is_empty() || !whole.text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad());
        }
        let large =
            || piece.fault(format!("\"{}\" is too large a size", piece.text), "the most is 16E - 1 bytes");
        let whole = whole.number::<u64>().ok_or_else(large)?;
        let whole = whole.checked_mul(scale).ok_or_else(large)?;
        let part = fraction.map_or(Some(0), |fraction| part_of(fraction, scale)).ok_or_else(bad)?;
        whole.checked_add(part).map(Self).ok_or_else(large)
    }
}

/// A size with a unit's long name, such as `4GiB`, as it is written here.
fn short(piece: Piece<'_>) -> Option<&str> {
    let without = ["iB", "ib", "i", "B", "b"].iter().find_map(|tail| piece.strip_suffix(tail))?;
    ByteSize::read(without).is_ok().then_some(without.text)
}

/// The bytes in a decimal fraction of a unit, if they are whole.
fn part_of(fraction: Piece<'_>, scale: u64) -> Option<u64> {
    if fraction.text.len() > FRACTION_DIGITS {
        return None;
    }
    let parts = u128::from(fraction.number::<u64>()?) * u128::from(scale);
    let divisor = 10_u128.pow(u32::try_from(fraction.text.len()).ok()?);
    // `1.1G` is no whole number of bytes: it means the nearest below.
    u64::try_from(parts / divisor).ok().filter(|_| scale > 1)
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, scale)| self.0 > 0 && self.0.is_multiple_of(*scale));
        match unit {
            Some((letter, scale)) => write!(f, "{}{letter}", self.0 / scale),
            None => write!(f, "{}", self.0),
        }
    }
}

parse_by_read!(ByteSize, "size");

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let good = [
            ("0", 0),
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("600M", 600 << 20),
            ("1.5T", 3 << 39),
            ("15E", 15 << 60),
        ];
        for (text, bytes) in good {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        assert_eq!("1.1k".parse(), Ok(ByteSize(1126)));
        assert_eq!(ByteSize(2 << 60).to_string(), "2E");
        for (text, meant) in [("4GiB", "mean 4G,"), ("1MB", "mean 1M,"), ("512B", "mean 512,")] {
            let error = text.parse::<ByteSize>().unwrap_err().to_string();
            assert!(error.contains(meant), "{error}");
        }
        assert_eq!(ByteSize(3 << 60).to_string(), "3E");
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "", "k", "-1", "+1", "1 G", "4Q", "1.", ".5G", "1.5", "1e3", "0x10", "99999P", "16E", "1Ek",
            "1.2.3G",
        ] {
            let error = text.parse::<ByteSize>().unwrap_err().to_string();
            assert!(error.contains("size") && error.contains(';'), "{text}: {error}");
        }
    }
}
