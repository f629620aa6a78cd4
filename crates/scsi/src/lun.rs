//! Logical unit numbers as their eight bytes on the wire (SAM-5 §4.7).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

/// The eight bytes of a LUN with its first level apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LunAddress {
    /// ADDRESS METHOD (bits 7:6), and the upper part of the number (or the bus).
    method: u8,
    /// The lower part of the number.
    low: u8,
    /// Further levels.
    levels: [u8; 6],
}

const _: () = assert!(size_of::<LunAddress>() == 8);

/// How the first level names a unit (ADDRESS METHOD, SAM-5 §4.7.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressMethod {
    /// By bus and target.
    Peripheral,
    /// By a number of 14 bits.
    Flat,
    /// In a way that no unit here has.
    Other,
}

impl LunAddress {
    const METHOD: u8 = 0xc0;
    const FLAT: u8 = 0x40;
    /// Peripheral device addressing reaches this far on bus 0 (SAM-5 §4.7.7.2).
    const LAST_PERIPHERAL: u16 = 255;

    fn method(self) -> AddressMethod {
        match self.method & Self::METHOD {
            0 => AddressMethod::Peripheral,
            Self::FLAT => AddressMethod::Flat,
            _ => AddressMethod::Other,
        }
    }

    /// The number that the first level says: with peripheral addressing above 255 for another bus than 0.
    fn number(self) -> u16 {
        u16::from_be_bytes([self.method & !Self::METHOD, self.low])
    }

    /// The address of a unit on the first level: peripheral addressing where it reaches, flat beyond.
    fn of(lun: u16) -> Self {
        let [high, low] = lun.to_be_bytes();
        let method = if lun > Self::LAST_PERIPHERAL { Self::FLAT } else { 0 };
        Self { method: high & !Self::METHOD | method, low, levels: [0; 6] }
    }
}

/// The number that eight LUN bytes name by peripheral or flat addressing; `None` for other methods and levels.
pub fn decode_lun(lun: [u8; 8]) -> Option<u16> {
    let address: LunAddress = transmute!(lun);
    let number = address.number();
    match address.method() {
        _ if address.levels != [0; 6] => None,
        AddressMethod::Peripheral => Some(number).filter(|number| *number <= LunAddress::LAST_PERIPHERAL),
        AddressMethod::Flat => Some(number),
        AddressMethod::Other => None,
    }
}

/// The eight bytes of a LUN (SAM-5 §4.7.7).
pub fn encode_lun(lun: u16) -> [u8; 8] {
    transmute!(LunAddress::of(lun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luns_go_round_and_other_methods_are_unknown() {
        for lun in [0, 1, 255, 256, 16383] {
            assert_eq!(decode_lun(encode_lun(lun)), Some(lun));
        }
        assert_eq!(decode_lun([0x40, 7, 0, 0, 0, 0, 0, 0]), Some(7), "flat addressing of a small number");
        assert_eq!(decode_lun([1, 0, 0, 0, 0, 0, 0, 0]), None, "another bus");
        assert_eq!(decode_lun([0xc1, 1, 0, 0, 0, 0, 0, 0]), None, "a well-known unit");
        assert_eq!(decode_lun([0, 1, 0, 1, 0, 0, 0, 0]), None, "a second level");
    }
}
