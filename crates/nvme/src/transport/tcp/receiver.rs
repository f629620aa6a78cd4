//! What the next bytes of the stream are, for both roles (NVMe TCP Transport §3.6): a header, data for a command, or data that is passed
//! over. `receiver.table` has every transition.

use super::framing::DIGEST;

/// What the next bytes are. `O` names the command to which data belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Receiver<O> {
    /// A PDU's header.
    #[default]
    Header,
    /// Data for a command's buffer.
    Data { owner: O, range: DataRange },
    /// The same, and the transport has the buffer.
    Placing { owner: O },
    /// A data digest, and the sum that it must be.
    Digest { owner: O, sum: u32 },
    /// Data that nobody wants, digest included.
    Discard { bytes: usize },
}

/// Where data goes in its buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataRange {
    pub(crate) start: usize,
    pub(crate) length: usize,
}

/// A data digest that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DigestCheck<O> {
    /// Whose data it covers.
    pub(crate) owner: O,
    pub(crate) matches: bool,
}

impl<O: Copy + PartialEq + core::fmt::Debug> Receiver<O> {
    /// Data of a command comes next.
    pub(crate) fn expect_data(&mut self, owner: O, range: DataRange) {
        debug_assert_eq!(*self, Self::Header, "a PDU begins with its header");
        *self = Self::Data { owner, range };
    }

    /// So many bytes come next that nobody wants.
    pub(crate) fn discard(&mut self, bytes: usize) {
        debug_assert_eq!(*self, Self::Header, "a PDU begins with its header");
        *self = Self::Discard { bytes };
    }

    /// The transport has the buffer of the data that comes next.
    pub(crate) fn lend(&mut self) {
        if let Self::Data { owner, .. } = *self {
            *self = Self::Placing { owner };
        }
    }

    /// The data is in its buffer, and a digest that must be `sum` follows, if there are digests.
    pub(crate) fn place(&mut self, sum: Option<u32>) {
        if let Self::Placing { owner } = *self {
            *self = sum.map_or(Self::Header, |sum| Self::Digest { owner, sum });
        }
    }

    /// Takes a digest from the front of `bytes`, if it is next and there whole.
    pub(crate) fn take_digest(&mut self, bytes: &[u8]) -> Option<DigestCheck<O>> {
        let (Self::Digest { owner, sum }, Some(received)) = (*self, bytes.first_chunk::<DIGEST>()) else {
            return None;
        };
        *self = Self::Header;
        Some(DigestCheck { owner, matches: u32::from_le_bytes(*received) == sum })
    }

    /// Passes over as many of `available` bytes as nobody wants: how many.
    pub(crate) fn skip(&mut self, available: usize) -> usize {
        let Self::Discard { bytes } = *self else { return 0 };
        let count = bytes.min(available);
        let left = bytes.saturating_sub(count);
        *self = if left == 0 { Self::Header } else { Self::Discard { bytes: left } };
        count
    }

    /// True when data for this command is just coming.
    pub(crate) fn is_for(self, command: O) -> bool {
        match self {
            Self::Data { owner, .. } | Self::Placing { owner } | Self::Digest { owner, .. } => {
                owner == command
            }
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

    const DATA: Receiver<u16> = Receiver::Data { owner: 1, range: DataRange { start: 0, length: 512 } };

    #[test]
    fn table_of_all_transitions() {
        type Event = fn(&mut Receiver<u16>) -> Option<String>;
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
            Receiver::Placing { owner: 1 },
            Receiver::Digest { owner: 1, sum: 7 },
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
    fn a_command_is_known_while_its_data_comes() {
        let states = [DATA, Receiver::Placing { owner: 1 }, Receiver::Digest { owner: 1, sum: 7 }];
        assert!(states.iter().all(|state| state.is_for(1) && !state.is_for(2)));
        assert!(![Receiver::Header, Receiver::Discard { bytes: 1 }].iter().any(|state| state.is_for(1)));
    }
}
