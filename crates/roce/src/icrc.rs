//! The invariant CRC: a CRC-32 over what no router changes, from the IP header to the end of the payload (IBTA §7.8.1, annex A17).
//!
//! It stands behind the payload, its least significant byte first. Eight bytes of ones come before it, and fields that change on the way count as ones.
//!
//! The identification in an IPv4 header is one of the fields that count, and a UDP socket does not tell it. It stands at one place and has 16 bits, so
//! that [`check`] asks whether *any* identification makes the sum right (docs/decisions/0027-icrc-without-the-ip-header.md). IPv6 has none, and there
//! the whole sum is checked.

use wire::Crc32;

/// Where a datagram comes from and goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// The addresses.
    pub addresses: Addresses,
    /// The sender's port of UDP.
    pub source_port: u16,
    /// The receiver's port of UDP.
    pub destination_port: u16,
}

/// The addresses of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4, without options and with "don't fragment", as RoCEv2 is sent.
    V4 {
        /// Of the sender.
        source: [u8; 4],
        /// Of the receiver.
        destination: [u8; 4],
    },
    /// IPv6, without extension headers.
    V6 {
        /// Of the sender.
        source: [u8; 16],
        /// Of the receiver.
        destination: [u8; 16],
    },
}

/// The sum does not fit the datagram: it has changed on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

/// Bytes of the sum.
pub const ICRC: usize = 4;

/// Bytes of the first header's part in front of the byte that counts as ones.
const BEFORE_CONGESTION: usize = 4;
const ONES: [u8; 8] = [0xff; 8];
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const DONT_FRAGMENT: [u8; 2] = [0x40, 0];
/// Bytes of an IPv4 header from its identification on.
const FROM_IDENTIFICATION: usize = 16;

impl Path {
    /// The four bytes that go behind `packet`, which begins with its first header and is filled up to a multiple of four. `identification` is the one
    /// that the IPv4 header will have; IPv6 does not look at it.
    pub fn icrc(&self, identification: u16, packet: &[u8]) -> [u8; ICRC] {
        self.sum(identification, packet).to_le_bytes()
    }

    fn sum(&self, identification: u16, packet: &[u8]) -> u32 {
        let mut sum = Crc32::new();
        sum.update(&ONES);
        let length = UDP_HEADER + packet.len() + ICRC;
        match &self.addresses {
            Addresses::V4 { source, destination } => {
                sum.update(&[0x45, 0xff]);
                sum.update(&length_of(IPV4_HEADER + length));
                sum.update(&identification.to_be_bytes());
                sum.update(&DONT_FRAGMENT);
                sum.update(&[0xff, UDP, 0xff, 0xff]);
                sum.update(source);
                sum.update(destination);
            }
            Addresses::V6 { source, destination } => {
                sum.update(&[0x6f, 0xff, 0xff, 0xff]);
                sum.update(&length_of(length));
                sum.update(&[UDP, 0xff]);
                sum.update(source);
                sum.update(destination);
            }
        }
        sum.update(&self.source_port.to_be_bytes());
        sum.update(&self.destination_port.to_be_bytes());
        sum.update(&length_of(length));
        sum.update(&[0xff, 0xff]);
        let (head, tail) = packet.split_at_checked(BEFORE_CONGESTION).unwrap_or((packet, &[]));
        sum.update(head);
        if let Some((_, rest)) = tail.split_first() {
            sum.update(&[0xff]);
            sum.update(rest);
        }
        sum.finish()
    }
}

/// Both bytes of a length; what has more is no datagram.
fn length_of(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

/// The packet in a datagram, without its sum, if that fits.
///
/// # Errors
/// The sum is wrong, for any identification in the IPv4 header, or is missing.
pub fn check<'a>(path: &Path, datagram: &'a [u8]) -> Result<&'a [u8], Damaged> {
    let (packet, icrc) = datagram.split_last_chunk::<ICRC>().ok_or(Damaged)?;
    let difference = path.sum(0, packet) ^ u32::from_le_bytes(*icrc);
    let fits = match path.addresses {
        Addresses::V4 { .. } => {
            let behind = FROM_IDENTIFICATION + UDP_HEADER + packet.len();
            u16::try_from(take_back(difference, behind)).is_ok()
        }
        Addresses::V6 { .. } => difference == 0,
    };
    if fits { Ok(packet) } else { Err(Damaged) }
}

/// The polynomial of CRC-32, bits in the order of the wire: the highest bit is the power 0.
const POLYNOMIAL: u32 = 0xEDB8_8320;
const ONE: u32 = 1 << 31;
/// For each bit of a length of 16 bits, the polynomial that takes so many bytes back.
const BACK: [u32; 16] = back();

/// What `difference` was before it went through so many bytes: the sum is linear, so a difference in two bytes shows there as these bytes alone.
fn take_back(difference: u32, bytes: usize) -> u32 {
    let used = BACK.iter().enumerate().filter(|(bit, _)| bytes & (1 << bit) != 0);
    used.fold(difference, |difference, (_, power)| times(difference, *power))
}

const fn back() -> [u32; 16] {
    let (mut power, mut bit) = (ONE, 0);
    while bit < 8 {
        power = if power & ONE != 0 { ((power ^ POLYNOMIAL) << 1) | 1 } else { power << 1 };
        bit += 1;
    }
    let (mut table, mut at) = ([0; 16], 0);
    while at < table.len() {
        table[at] = power;
        power = times(power, power);
        at += 1;
    }
    table
}

/// The product of two polynomials, modulo CRC-32's.
const fn times(left: u32, right: u32) -> u32 {
    let (mut product, mut shifted, mut bit) = (0, right, ONE);
    while bit != 0 {
        if left & bit != 0 {
            product ^= shifted;
        }
        shifted = if shifted & 1 != 0 { (shifted >> 1) ^ POLYNOMIAL } else { shifted >> 1 };
        bit >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    const fn v4(source: [u8; 4], destination: [u8; 4], source_port: u16) -> Path {
        Path { addresses: Addresses::V4 { source, destination }, source_port, destination_port: 4791 }
    }

    /// A congestion notice that a ConnectX-4 Lx sent, from the tests of scapy's RoCE layer.
    const NOTICE: Path = v4([10, 0, 17, 1], [10, 0, 18, 1], 0);

    fn notice() -> Vec<u8> {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&[0x81, 0, 0xff, 0xff, 0x40, 0, 1, 0x18]);
        bytes[28..].copy_from_slice(&[0x82, 0xfd, 0x00, 0x2a]);
        bytes.to_vec()
    }

    /// A message of an unreliable connection, from the same tests.
    const MESSAGE: Path = v4([192, 168, 0, 7], [192, 168, 0, 7], 49_152);
    const MESSAGE_BYTES: [u8; 36] = [
        0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17, 0x10, 0x46, 0x30, 0x81, 0x8b, 0xe2,
        0x89, 0x35, 0xd9, 0x0e, 0x9a, 0x95, 0x50, 0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50, 0x00, 0x00, 0x78, 0xf3,
        0x53, 0xf3,
    ];

    fn v6() -> Path {
        let (mut source, mut destination) = ([0; 16], [0; 16]);
        (source[0], source[15], destination[0], destination[15]) = (0xfd, 1, 0xfd, 2);
        let addresses = Addresses::V6 { source, destination };
        Path { addresses, source_port: 49_152, destination_port: 4791 }
    }

    /// Summed by zlib over the masked headers: no capture over IPv6 is published.
    fn v6_bytes() -> Vec<u8> {
        let head = [0x04, 0x40, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0, 0, 7];
        head.into_iter().chain(0..16).chain([0x76, 0x53, 0x3b, 0x1f]).collect()
    }

    #[test]
    fn golden_vectors() {
        let (packet, icrc) = MESSAGE_BYTES.split_last_chunk().unwrap();
        assert_eq!(MESSAGE.icrc(1144, packet), *icrc);
        let notice = notice();
        let (packet, icrc) = notice.split_last_chunk().unwrap();
        assert_eq!(NOTICE.icrc(0x718c, packet), *icrc);
        let bytes = v6_bytes();
        let (packet, icrc) = bytes.split_last_chunk().unwrap();
        assert_eq!(v6().icrc(0, packet), *icrc);
    }

    #[test]
    fn captures_are_right_though_their_identification_is_not_known() {
        assert_eq!(check(&MESSAGE, &MESSAGE_BYTES), Ok(&MESSAGE_BYTES[..32]));
        assert_eq!(check(&NOTICE, &notice()), Ok(&notice()[..28]));
        assert_eq!(check(&v6(), &v6_bytes()), Ok(&v6_bytes()[..28]));
    }

    #[test]
    fn every_identification_fits_at_every_length() {
        for len in [12, 28, 1036, 4124] {
            let packet: Vec<u8> = (0..=255).cycle().take(len).collect();
            for identification in [0, 1, 0x80, 0x8000, 0x1234, u16::MAX] {
                let mut datagram = packet.clone();
                datagram.extend(MESSAGE.icrc(identification, &packet));
                assert_eq!(check(&MESSAGE, &datagram), Ok(&packet[..]), "{len} bytes, {identification:#x}");
            }
        }
    }

    #[test]
    fn every_changed_bit_is_seen_but_those_that_routers_change() {
        for (path, good) in [(MESSAGE, MESSAGE_BYTES.to_vec()), (NOTICE, notice()), (v6(), v6_bytes())] {
            for bit in 0..good.len() * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                let seen = check(&path, &bad).is_err();
                assert_eq!(seen, bit / 8 != BEFORE_CONGESTION, "bit {bit}");
            }
        }
    }

    #[test]
    fn another_path_and_a_cut_datagram_are_seen() {
        let other = Path { source_port: 49_153, ..MESSAGE };
        assert_eq!(check(&other, &MESSAGE_BYTES), Err(Damaged));
        for len in 0..MESSAGE_BYTES.len() {
            assert_eq!(check(&MESSAGE, &MESSAGE_BYTES[..len]), Err(Damaged), "{len} bytes");
        }
    }
}
