//! How a logical unit describes itself, as an initiator reads it: standard INQUIRY data (SPC-4 §6.6.2) and vital product data pages (§7.8, SBC-4 §6.6).
//!
//! Everything is read as far as it was transferred.

use alloc::string::String;
use alloc::vec::Vec;

use volume::Designator;
use wire::Reader;

use crate::cdb::Cdb;

/// What is behind a logical unit: the peripheral qualifier and device type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peripheral {
    /// A disk.
    Disk,
    /// A device of another kind.
    OtherDevice,
    /// No device, though there could be one.
    NoDevice,
    /// There is no such unit (qualifier 011b).
    NoUnit,
}

/// What is behind a logical unit, by its standard INQUIRY data.
pub fn peripheral(data: &[u8]) -> Option<Peripheral> {
    const NO_UNIT: u8 = 3;
    const DISK: u8 = 0;
    let first = Cdb(data.get(..1)?);
    Some(match (first.bits(0, 7, 5), first.bits(0, 4, 0)) {
        (0, DISK) => Peripheral::Disk,
        (0, _) => Peripheral::OtherDevice,
        (NO_UNIT, _) => Peripheral::NoUnit,
        _ => Peripheral::NoDevice,
    })
}

/// Who made a logical unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    /// T10 vendor identification.
    pub vendor: String,
    /// Product identification.
    pub product: String,
    /// Product revision level.
    pub revision: String,
}

/// Who made a logical unit, by its standard INQUIRY data.
pub fn product(data: &[u8]) -> Option<Product> {
    let mut reader = Reader::new(data);
    reader.skip(8).ok()?;
    let mut field = |length| reader.take(length).ok().map(text);
    Some(Product { vendor: field(8)?, product: field(16)?, revision: field(4)? })
}

/// The Unit Serial Number page.
pub fn serial_number(data: &[u8]) -> Option<String> {
    Some(text(page(data)?.rest()))
}

/// The names in the Device Identification page that are the logical unit's own, of the types that are known.
pub fn designators(data: &[u8]) -> Vec<Designator> {
    let mut found = Vec::new();
    let Some(mut list) = page(data) else { return found };
    while let Ok(head) = list.array::<4>()
        && let Ok(name) = list.take(Cdb(&head).u8(3).into())
    {
        found.extend(designator(Cdb(&head), name));
    }
    found
}

/// A designation descriptor (SPC-4 §7.8.6.1), if it names the logical unit and is of a known type.
fn designator(head: Cdb<'_>, name: &[u8]) -> Option<Designator> {
    const OF_THE_UNIT: u8 = 0;
    if head.bits(1, 5, 4) != OF_THE_UNIT {
        return None;
    }
    Some(match head.bits(1, 3, 0) {
        1 => Designator::T10(text(name)),
        2 => Designator::Eui64(name.to_vec()),
        3 => Designator::Naa(name.to_vec()),
        8 => Designator::Name(text(name)),
        10 => Designator::Uuid(name.get(2..18)?.try_into().ok()?),
        _ => return None,
    })
}

/// What the Logical Block Provisioning page says (SBC-4 §6.6.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provisioning {
    /// LBPU: UNMAP works.
    pub unmap: bool,
    /// LBPWS: WRITE SAME (16) with its UNMAP bit does.
    pub write_same_unmaps: bool,
    /// LBPRZ: blocks without space read as zeros.
    pub reads_zeros: bool,
}

/// Reads the Logical Block Provisioning page.
pub fn provisioning(data: &[u8]) -> Option<Provisioning> {
    let page = Cdb(data.get(..6)?);
    Some(Provisioning {
        unmap: page.bit(5, 7),
        write_same_unmaps: page.bit(5, 6),
        reads_zeros: page.bit(5, 2),
    })
}

/// What a vital product data page holds behind its head (SPC-4 §7.8.2).
fn page(data: &[u8]) -> Option<Reader<'_>> {
    let mut reader = Reader::new(data);
    reader.skip(2).ok()?;
    let length = reader.u16_be().ok()?;
    reader.sub(usize::from(length).min(reader.remaining())).ok()
}

/// Text that is padded with spaces or ended by zeros.
fn text(bytes: &[u8]) -> String {
    let is_filler = |letter: char| letter == ' ' || letter == '\0';
    String::from(String::from_utf8_lossy(bytes).trim_matches(is_filler))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every first byte of INQUIRY data.
    #[test]
    fn the_first_byte_says_what_is_there() {
        for byte in 0..=u8::MAX {
            let expected = match byte {
                0 => Peripheral::Disk,
                0x01..=0x1f => Peripheral::OtherDevice,
                0x60..=0x7f => Peripheral::NoUnit,
                _ => Peripheral::NoDevice,
            };
            assert_eq!(peripheral(&[byte]), Some(expected), "{byte:#04x}");
        }
        assert_eq!(peripheral(&[]), None);
    }

    /// Made by hand from SPC-4 §7.8.6: an NAA and a T10 name of the unit, a relative port, a name cut short.
    #[test]
    fn names_of_the_unit_are_read_as_far_as_they_came() {
        let naa = [1, 3, 0, 8, 0x30, 1, 2, 3, 4, 5, 6, 7];
        let others = [1, 0x94, 0, 4, 0, 0, 0, 1, 2, 1, 0, 4, b'A', b'C', b'M', b'E', 1, 3, 0, 8, 0x30];
        let page = [&[0, 0x83, 0, 60][..], &naa, &others].concat();
        assert_eq!(designators(&page), [Designator::Naa(naa[4..].to_vec()), Designator::T10("ACME".into())]);
    }

    #[test]
    fn bits_of_provisioning() {
        let flags = |flags| provisioning(&[0, 0xb2, 0, 4, 0, flags]).unwrap();
        let none = Provisioning { unmap: false, write_same_unmaps: false, reads_zeros: false };
        assert_eq!(flags(0x80), Provisioning { unmap: true, ..none });
        assert_eq!(flags(0x40), Provisioning { write_same_unmaps: true, ..none });
        assert_eq!(flags(0x04), Provisioning { reads_zeros: true, ..none });
        assert_eq!(provisioning(&[0, 0xb2, 0, 4, 0]), None);
    }
}
