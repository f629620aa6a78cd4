//! What the next bytes of the stream are, at a controller (NVMe TCP Transport §3.6): a header, data for a command, or data that is
//! passed over. `receiver.table` has every transition.

use crate::transport::DIGEST;

/// What the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    /// A PDU's header.
    Header,
    /// Data for a slot's buffer.
    Data { slot: u16, range: DataRange },
    /// The same, and the transport has the buffer.
    Placing { slot: u16 },
    /// A data digest, and the sum that it must be.
    Digest { slot: u16, sum: u32 },
    /// Data that nobody wants, digest included.
    Discard { bytes: usize },
}

/// Where data goes in its buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataRange {
    pub(super) start: usize,
    pub(super) length: usize,
}

/// A data digest that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DigestCheck {
    /// Whose data it covers.
    pub(super) slot: u16,
    pub(super) matches: bool,
}

impl Receiver {
    /// Data of a command comes next.
    pub(super) fn expect_data(&mut self, slot: u16, range: DataRange) {
        debug_assert_eq!(*self, Self::Header, "a PDU begins with its header");
        *self = Self::Data { slot, range };
    }

    /// So many bytes come next that nobody wants.
    pub(super) fn discard(&mut self, bytes: usize) {
        debug_assert_eq!(*self, Self::Header, "a PDU begins with its header");
        *self = Self::Discard { bytes };
    }

    /// The transport has the buffer of the data that comes next.
    pub(super) fn lend(&mut self) {
        if let Self::Data { slot, .. } = *self {
            *self = Self::Placing { slot };
        }
    }

    /// The data is in its buffer, and a digest that must be `sum` follows, if there are digests.
    pub(super) fn place(&mut self, sum: Option<u32>) {
        if let Self::Placing { slot } = *self {
            *self = sum.map_or(Self::Header, |sum| Self::Digest { slot, sum });
        }
    }

    /// Takes a digest from the front of `bytes`, if it is next and there whole.
    pub(super) fn take_digest(&mut self, bytes: &[u8]) -> Option<DigestCheck> {
        let (Self::Digest { slot, sum }, Some(received)) = (*self, bytes.first_chunk::<DIGEST>()) else {
            return None;
        };
        *self = Self::Header;
        Some(DigestCheck { slot, matches: u32::from_le_bytes(*received) == sum })
    }

    /// Passes over as many of `available` bytes as nobody wants: how many.
    pub(super) fn skip(&mut self, available: usize) -> usize {
        let Self::Discard { bytes } = *self else { return 0 };
        let count = bytes.min(available);
        let left = bytes.saturating_sub(count);
        *self = if left == 0 { Self::Header } else { Self::Discard { bytes: left } };
        count
    }

    /// True when data for this slot is just coming.
    pub(super) fn is_for(self, index: u16) -> bool {
        match self {
            Self::Data { slot, .. } | Self::Placing { slot } | Self::Digest { slot, .. } => slot == index,
            Self::Header | Self::Discard { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use core::fmt::Write;

    use super::*;

    const DATA: Receiver = Receiver::Data { slot: 1, range: DataRange { start: 0, length: 512 } };

    #[test]
    fn table_of_all_transitions() {
        type Event = fn(&mut Receiver) -> Option<String>;
        let headers: [(&str, Event); 2] = [
            ("header of data", |state| {
                state.expect_data(2, DataRange { start: 512, length: 512 });
                None
            }),
            ("header of unwanted data", |state| {
                state.discard(8);
                None
            }),
        ];
        let events: [(&str, Event); 7] = [
            ("lend", |state| {
                state.lend();
                None
            }),
            ("placed", |state| {
                state.place(None);
                None
            }),
            ("placed before a digest", |state| {
                state.place(Some(7));
                None
            }),
            ("right digest", |state| state.take_digest(&[7, 0, 0, 0, 9]).map(|check| format!("{check:?}"))),
            ("wrong digest", |state| state.take_digest(&[8, 0, 0, 0]).map(|check| format!("{check:?}"))),
            ("part of a digest", |state| state.take_digest(&[7, 0, 0]).map(|check| format!("{check:?}"))),
            ("5 bytes", |state| {
                Some(state.skip(5)).filter(|count| *count != 0).map(|count| format!("skips {count}"))
            }),
        ];
        let states = [
            Receiver::Header,
            DATA,
            Receiver::Placing { slot: 1 },
            Receiver::Digest { slot: 1, sum: 7 },
            Receiver::Discard { bytes: 8 },
            Receiver::Discard { bytes: 5 },
        ];
        let mut table = String::new();
        for state in states {
            let headers = headers.iter().filter(|_| state == Receiver::Header);
            for (name, event) in headers.chain(&events) {
                let mut next = state;
                let result = event(&mut next).map_or_else(String::new, |result| format!(", {result}"));
                if next != state || !result.is_empty() {
                    writeln!(table, "{state:?} --{name}--> {next:?}{result}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("receiver.table"));
    }

    #[test]
    fn a_slot_is_known_while_its_data_comes() {
        let states = [DATA, Receiver::Placing { slot: 1 }, Receiver::Digest { slot: 1, sum: 7 }];
        assert!(states.iter().all(|state| state.is_for(1) && !state.is_for(2)));
        assert!(![Receiver::Header, Receiver::Discard { bytes: 1 }].iter().any(|state| state.is_for(1)));
    }
}
