//! Lengths of time: `250us`, `5ms`, `2s`, `1m`.

use alloc::format;
use core::fmt;
use core::time::Duration;

use crate::parse::parse_by_read;
use crate::piece::{Fault, Piece};

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub Duration);

/// Unit and nanoseconds in it; longer names first, as `ms` ends in `s`.
pub(crate) const UNITS: &[(&str, u64)] =
    &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000)];
const REMEDY: &str = "write a whole number with ns, us, ms, s or m, such as 5ms or 2s";

impl Span {
    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let bad = || piece.fault(format!("\"{}\" is not a duration", piece.text), REMEDY);
        if piece.text == "0" {
            return Ok(Self::default());
        }
        let found = UNITS.iter().find_map(|(unit, nanos)| Some((piece.strip_suffix(unit)?, *nanos)));
        let (number, nanos) = found.ok_or_else(bad)?;
        let number = number.number::<u64>().ok_or_else(bad)?;
        let nanos = number.checked_mul(nanos).ok_or_else(|| {
            piece.fault(format!("\"{}\" is too long a duration", piece.text), "the most is 584 years")
        })?;
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let unit =
            UNITS.iter().rev().find(|(_, scale)| nanos > 0 && nanos.is_multiple_of(u128::from(*scale)));
        match unit {
            Some((unit, scale)) => write!(f, "{}{unit}", nanos / u128::from(*scale)),
            None => write!(f, "0"),
        }
    }
}

parse_by_read!(Span, "duration");

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn durations_have_units() {
        let good = [("5ms", 5_000_000), ("2s", 2_000_000_000), ("250us", 250_000), ("7ns", 7), ("0", 0)];
        for (text, nanos) in good {
            let span: Span = text.parse().unwrap();
            assert_eq!(span, Span(Duration::from_nanos(nanos)), "{text}");
            assert_eq!(span.to_string(), text);
        }
        assert_eq!("60s".parse::<Span>().unwrap().to_string(), "1m");
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "5", "ms", "-5ms", "5 ms", "1.5s", "5h", "99999999999999999999s", "999999999999999m"]
        {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
