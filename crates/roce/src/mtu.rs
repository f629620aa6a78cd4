//! The path MTU: bytes of payload in a packet that is not the last of its message (IBTA §7.7.8 and §12.7.19).

/// The path MTU of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mtu {
    /// 256 bytes.
    Bytes256,
    /// 512 bytes.
    Bytes512,
    /// 1024 bytes, which fits into Ethernet frames of 1500.
    Bytes1024,
    /// 2048 bytes.
    Bytes2048,
    /// 4096 bytes.
    Bytes4096,
}

impl Mtu {
    /// Its code in connection management; none for reserved values.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Bytes256,
            2 => Self::Bytes512,
            3 => Self::Bytes1024,
            4 => Self::Bytes2048,
            5 => Self::Bytes4096,
            _ => return None,
        })
    }

    /// Its code in connection management.
    pub const fn code(self) -> u8 {
        match self {
            Self::Bytes256 => 1,
            Self::Bytes512 => 2,
            Self::Bytes1024 => 3,
            Self::Bytes2048 => 4,
            Self::Bytes4096 => 5,
        }
    }

    /// Bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bytes256 => 256,
            Self::Bytes512 => 512,
            Self::Bytes1024 => 1024,
            Self::Bytes2048 => 2048,
            Self::Bytes4096 => 4096,
        }
    }

    /// Packets for so many bytes: at least one.
    pub fn packets(self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(self.bytes()).max(1)).unwrap_or(u32::MAX)
    }

    /// The part of `length` bytes that the packet at `position` carries; none where there is no such packet.
    pub fn part(self, length: usize, position: u32) -> Part {
        let whole = self.bytes();
        let offset = usize::try_from(position).unwrap_or(usize::MAX).saturating_mul(whole).min(length);
        let left = length.saturating_sub(offset);
        Part { offset, length: left.min(whole), first: position == 0, last: left <= whole }
    }
}

/// A part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Where in the message it begins.
    pub offset: usize,
    /// Bytes.
    pub length: usize,
    /// It is the message's first.
    pub first: bool,
    /// It is the message's last.
    pub last: bool,
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn every_code_comes_back() {
        let known: Vec<u8> = (0..=15).filter(|code| Mtu::from_code(*code).is_some()).collect();
        assert_eq!(known, [1, 2, 3, 4, 5]);
        assert!(known.iter().all(|code| Mtu::from_code(*code).is_some_and(|mtu| mtu.code() == *code)));
    }

    #[test]
    fn messages_are_cut_into_packets() {
        let mtu = Mtu::Bytes256;
        assert_eq!([0, 1, 256, 257, 512, 513].map(|bytes| mtu.packets(bytes)), [1, 1, 1, 2, 2, 3]);
        assert_eq!(mtu.part(0, 0), Part { offset: 0, length: 0, first: true, last: true });
        assert_eq!(mtu.part(257, 0), Part { offset: 0, length: 256, first: true, last: false });
        assert_eq!(mtu.part(257, 1), Part { offset: 256, length: 1, first: false, last: true });
        assert_eq!(mtu.part(512, 1), Part { offset: 256, length: 256, first: false, last: true });
    }
}
