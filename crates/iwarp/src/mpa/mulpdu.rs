//! How much one FPDU carries (RFC 5044 §5.1).

use super::marker::Markers;
use crate::limits::{LEAST_MULPDU, MULPDU};

/// Bytes of a length and a CRC.
const FRAMING: usize = 2 + 4;
const MARKER: usize = 4;
const INTERVAL: usize = 512;

/// The most bytes of a ULPDU whose FPDU fits into a TCP segment of `mss` bytes, with as many markers as can be in it if there are any.
pub fn mulpdu(mss: usize, markers: Markers) -> usize {
    let markers = match markers {
        Markers::With => mss.div_ceil(INTERVAL).saturating_mul(MARKER),
        Markers::Without => 0,
    };
    let less = FRAMING.saturating_add(markers).saturating_add(mss % 4);
    mss.saturating_sub(less).clamp(LEAST_MULPDU, MULPDU)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_fpdu_fits_into_a_segment() {
        // What Linux' siw sends at an MTU of 1500 with timestamps.
        assert_eq!(mulpdu(1448, Markers::Without), 1442);
        assert_eq!(mulpdu(1448, Markers::With), 1430);
        assert_eq!(mulpdu(1459, Markers::Without), 1450);
        assert_eq!(mulpdu(65_483, Markers::Without), MULPDU);
        assert_eq!((mulpdu(0, Markers::With), mulpdu(100, Markers::Without)), (LEAST_MULPDU, LEAST_MULPDU));
    }
}
