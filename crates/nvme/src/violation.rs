//! Every violation by a transport peer, and the fatal error status that answers it (NVMe TCP Transport §3.5,
//! §3.6.2.4 and §3.6.2.5).

use crate::pdu::PduType;

/// What a peer did that ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A PDU of a type that does not exist or does not go in this direction.
    UnexpectedType(PduType),
    /// A PDU that is not due in this state of the connection.
    OutOfSequence(PduType),
    /// The header's length is not its type's.
    HeaderLength,
    /// The PDU's length fits neither its type nor its header, or is beyond every limit.
    PduLength,
    /// The data's offset lies within the header, beyond the PDU, or is not aligned as agreed.
    DataOffset,
    /// A digest flag contradicts what was agreed.
    DigestFlags,
    /// The header digest does not match; the sum that was received.
    HeaderDigest(u32),
    /// The PDU format version is not 0.
    FormatVersion,
    /// An alignment that does not exist was asked for.
    Alignment,
    /// A data PDU names a command that expects no data.
    UnknownCommand,
    /// A data PDU bears another transfer tag than its R2T.
    TransferTag,
    /// A data PDU is not where the transfer continues, or goes beyond it.
    DataRange,
    /// More data in one PDU than was agreed, or an R2T beyond the limit.
    DataLimit,
    /// The last data PDU is not marked as such, or another one is.
    LastFlag,
    /// The controller offers less than the standard's minimum.
    Maxh2cdata,
    /// Digests that this side requires are not used.
    DigestsRequired,
}

/// Fatal error status and information, as they go on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FatalError {
    /// Fatal error status (FES).
    pub status: u16,
    /// Fatal error information (FEI): the offending field's offset, or the bad digest.
    pub information: u32,
}

const INVALID_HEADER_FIELD: u16 = 0x01;
const SEQUENCE: u16 = 0x02;
const HEADER_DIGEST: u16 = 0x03;
const OUT_OF_RANGE: u16 = 0x04;
const LIMIT_EXCEEDED: u16 = 0x05;
const UNSUPPORTED: u16 = 0x06;

impl Violation {
    /// The answer that the standard prescribes.
    pub const fn fatal_error(self) -> FatalError {
        let (status, information) = match self {
            Self::UnexpectedType(_) => (INVALID_HEADER_FIELD, 0),
            Self::DigestFlags | Self::LastFlag => (INVALID_HEADER_FIELD, 1),
            Self::HeaderLength => (INVALID_HEADER_FIELD, 2),
            Self::DataOffset => (INVALID_HEADER_FIELD, 3),
            Self::PduLength => (INVALID_HEADER_FIELD, 4),
            Self::UnknownCommand => (INVALID_HEADER_FIELD, 8),
            Self::TransferTag => (INVALID_HEADER_FIELD, 10),
            Self::Maxh2cdata => (INVALID_HEADER_FIELD, 12),
            Self::OutOfSequence(_) => (SEQUENCE, 0),
            Self::HeaderDigest(received) => (HEADER_DIGEST, received),
            Self::DataRange => (OUT_OF_RANGE, 0),
            Self::DataLimit => (LIMIT_EXCEEDED, 0),
            Self::FormatVersion => (UNSUPPORTED, 8),
            Self::Alignment => (UNSUPPORTED, 10),
            Self::DigestsRequired => (UNSUPPORTED, 11),
        };
        FatalError { status, information }
    }

    /// The violation in words, for the log.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::UnexpectedType(_) => "a PDU of a type that does not belong here",
            Self::OutOfSequence(_) => "a PDU out of sequence",
            Self::HeaderLength => "a PDU header of the wrong length",
            Self::PduLength => "a PDU of an impossible length",
            Self::DataOffset => "a PDU data offset that is not possible",
            Self::DigestFlags => "digest flags that were not agreed",
            Self::HeaderDigest(_) => "a header digest that does not match",
            Self::FormatVersion => "a PDU format version other than 0",
            Self::Alignment => "an alignment beyond 128 bytes",
            Self::UnknownCommand => "data for a command that expects none",
            Self::TransferTag => "a transfer tag that was not given out",
            Self::DataRange => "data outside the range that was asked for",
            Self::DataLimit => "more data or transfers at once than was agreed",
            Self::LastFlag => "a last flag in the wrong place",
            Self::Maxh2cdata => "a MAXH2CDATA below the minimum",
            Self::DigestsRequired => "required digests were not agreed on",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Every violation, for tests of what follows from each.
    pub(crate) const ALL: &[Violation] = &[
        Violation::UnexpectedType(PduType::IC_REQ),
        Violation::OutOfSequence(PduType::IC_REQ),
        Violation::HeaderLength,
        Violation::PduLength,
        Violation::DataOffset,
        Violation::DigestFlags,
        Violation::HeaderDigest(7),
        Violation::FormatVersion,
        Violation::Alignment,
        Violation::UnknownCommand,
        Violation::TransferTag,
        Violation::DataRange,
        Violation::DataLimit,
        Violation::LastFlag,
        Violation::Maxh2cdata,
        Violation::DigestsRequired,
    ];

    /// A violation that is missing above would be in no test.
    #[test]
    fn all_are_all_and_each_has_words_of_its_own() {
        let source = include_str!("violation.rs");
        let variants = source.split("pub enum Violation {").nth(1).unwrap().split("\n}").next().unwrap();
        let named = variants.lines().filter(|line| {
            let line = line.trim();
            line.starts_with(|first: char| first.is_ascii_uppercase()) && line.ends_with(',')
        });
        assert_eq!(named.count(), ALL.len(), "ALL lists every variant of Violation");
        for (index, violation) in ALL.iter().enumerate() {
            let text = violation.describe();
            assert!(text.len() > 8, "{violation:?}");
            assert!(ALL.iter().skip(index + 1).all(|other| other.describe() != text), "{violation:?}");
        }
    }
}
