//! Every protocol violation of a peer, and the one place that says what the standard prescribes for it.
//!
//! A violation during login is answered by a Login Response with a status of class 2 (RFC 7143 §7.9, §11.13.5); later by a
//! Reject (§11.17), after which, at ErrorRecoveryLevel 0, the connection ends unless the violation harmed nothing (§7.1.4.1).

use core::fmt;

use crate::pdu::{Reason, Status};

/// What a peer did wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Violation {
    /// A header digest does not match: where the next PDU begins is not known any more.
    HeaderDigest,
    /// A data digest does not match.
    DataDigest,
    /// A data segment is longer than this side declared.
    SegmentTooLong,
    /// The opcode is none that the peer may send.
    UnknownOpcode,
    /// The first PDU of a connection is not a login.
    NotLogin,
    /// A login request came after the login.
    LoginAfterLogin,
    /// A login request's stages, T and C bits make no sense at this point.
    BadStage,
    /// A login request changed the session's name, the connection's or the task tag half-way.
    LoginChanged,
    /// The version is not 0.
    BadVersion,
    /// The login took more requests than the limit.
    TooManyLoginPdus,
    /// Text is not made of key=value pairs.
    BadText,
    /// A value is longer than allowed.
    ValueTooLong,
    /// More keys than the limit.
    TooManyKeys,
    /// More text than the limit.
    TooMuchText,
    /// A key came twice in one negotiation.
    DuplicateKey,
    /// The answer to an offer is not one that the offer allows.
    BadAnswer,
    /// InitiatorName or TargetName is missing or is no iSCSI name.
    MissingName,
    /// SessionType is neither Normal nor Discovery.
    BadSessionType,
    /// The other side does not offer an authentication method that this side needs, or went around it.
    NoCommonMethod,
    /// CHAP keys are missing, malformed, or out of order.
    BadChap,
    /// The CHAP response is wrong, or the name is unknown.
    WrongResponse,
    /// The peer sent back this side's own challenge.
    Reflection,
    /// A digest that this side requires was not negotiated.
    DigestRequired,
    /// CmdSN skips a number that nobody else can send.
    CmdSnGap,
    /// A task tag is in use.
    DuplicateTask,
    /// Immediate or unsolicited data that was not negotiated, or more of it than FirstBurstLength.
    UnexpectedData,
    /// A command is both reading and writing, which this target does not do.
    Bidirectional,
    /// Data beyond what was announced or asked for.
    DataOverrun,
    /// DataSN or the buffer offset is out of order.
    DataOutOfOrder,
    /// The last PDU of a sequence came too early.
    DataUnderrun,
    /// A transfer tag that names no open R2T or exchange.
    UnknownTransferTag,
    /// A SNACK, although ErrorRecoveryLevel is 0.
    Snack,
    /// A SCSI command in a discovery session.
    CommandInDiscovery,
    /// More immediate commands than the limit.
    TooManyImmediate,
    /// A response to no request.
    UnknownTask,
    /// More open R2Ts for a task than MaxOutstandingR2T.
    TooManyR2ts,
    /// A message is too short or too long for its headers, or its iSER header is not that of an iSCSI PDU (RFC 7145 §9.2).
    IserHeader,
    /// A command names no memory for the data that it reads or writes (RFC 7145 §9.2).
    MissingStag,
    /// A response invalidates memory of another task than its own (RFC 7145 §7.3).
    WrongInvalidation,
    /// RDMA carries the session, and RDMAExtensions=Yes was not negotiated, or is to begin with Hello messages.
    RdmaRequired,
}

/// How a violation after the login is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The PDU is rejected, and the connection goes on.
    Reject(Reason),
    /// The PDU is rejected, and the connection ends.
    RejectAndClose(Reason),
    /// The connection ends without a word: the stream cannot be trusted.
    Close,
}

impl Violation {
    /// What the target does about it in the full feature phase.
    pub fn answer(self) -> Answer {
        match self {
            Self::HeaderDigest | Self::IserHeader => Answer::Close,
            Self::DataDigest => Answer::RejectAndClose(Reason::DATA_DIGEST),
            Self::UnknownOpcode | Self::CommandInDiscovery | Self::Bidirectional => {
                Answer::Reject(Reason::COMMAND_NOT_SUPPORTED)
            }
            Self::Snack => Answer::Reject(Reason::SNACK),
            Self::TooManyImmediate => Answer::Reject(Reason::IMMEDIATE),
            Self::DuplicateTask => Answer::Reject(Reason::TASK_IN_PROGRESS),
            Self::TooMuchText => Answer::Reject(Reason::LONG_OPERATION),
            Self::UnknownTransferTag => Answer::Reject(Reason::INVALID_FIELD),
            Self::BadText | Self::ValueTooLong | Self::TooManyKeys | Self::DuplicateKey => {
                Answer::Reject(Reason::PROTOCOL_ERROR)
            }
            _ => Answer::RejectAndClose(Reason::PROTOCOL_ERROR),
        }
    }

    /// The login status that it ends in.
    pub fn status(self) -> Status {
        match self {
            Self::BadVersion => Status::UNSUPPORTED_VERSION,
            Self::MissingName | Self::DigestRequired | Self::RdmaRequired => Status::MISSING_PARAMETER,
            Self::BadSessionType => Status::SESSION_TYPE,
            Self::NoCommonMethod | Self::BadChap | Self::WrongResponse | Self::Reflection => {
                Status::AUTHENTICATION_FAILURE
            }
            Self::NotLogin => Status::INVALID_REQUEST,
            Self::TooMuchText | Self::TooManyKeys => Status::OUT_OF_RESOURCES,
            _ => Status::INITIATOR_ERROR,
        }
    }

    /// The violation in words, for logs.
    pub fn text(self) -> &'static str {
        match self {
            Self::HeaderDigest => "a header digest does not match",
            Self::DataDigest => "a data digest does not match",
            Self::SegmentTooLong => "a data segment is longer than declared",
            Self::UnknownOpcode => "an unknown opcode",
            Self::NotLogin => "the first PDU is not a login request",
            Self::LoginAfterLogin => "a login request after the login",
            Self::BadStage => "a login request in the wrong stage",
            Self::LoginChanged => "a login request for another session than before",
            Self::BadVersion => "an unsupported version",
            Self::TooManyLoginPdus => "too many login requests",
            Self::BadText => "text that is not key=value",
            Self::ValueTooLong => "a value longer than allowed",
            Self::TooManyKeys => "too many keys",
            Self::TooMuchText => "too much text",
            Self::DuplicateKey => "a key sent twice",
            Self::BadAnswer => "an answer outside its offer",
            Self::MissingName => "a name is missing or malformed",
            Self::BadSessionType => "an unknown session type",
            Self::NoCommonMethod => "no common authentication method",
            Self::BadChap => "malformed CHAP keys",
            Self::WrongResponse => "a wrong CHAP response",
            Self::Reflection => "a reflected CHAP challenge",
            Self::DigestRequired => "a required digest was not negotiated",
            Self::CmdSnGap => "a gap in CmdSN",
            Self::DuplicateTask => "a task tag in use",
            Self::UnexpectedData => "data that was not negotiated",
            Self::Bidirectional => "a bidirectional command",
            Self::DataOverrun => "data beyond the expected length",
            Self::DataOutOfOrder => "data out of order",
            Self::DataUnderrun => "a data sequence ended early",
            Self::UnknownTransferTag => "an unknown target transfer tag",
            Self::Snack => "a SNACK at error recovery level 0",
            Self::CommandInDiscovery => "a SCSI command in a discovery session",
            Self::TooManyImmediate => "too many immediate commands",
            Self::UnknownTask => "a response to no request",
            Self::TooManyR2ts => "more open R2Ts than negotiated",
            Self::IserHeader => "a message without a valid iSER header",
            Self::MissingStag => "a command without a tag for its data",
            Self::WrongInvalidation => "an invalidated tag of another task",
            Self::RdmaRequired => "RDMA as it is here was not agreed on",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Violation {}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Every violation, for tests of what follows from each.
    pub(crate) const ALL: &[Violation] = &[
        Violation::HeaderDigest,
        Violation::DataDigest,
        Violation::SegmentTooLong,
        Violation::UnknownOpcode,
        Violation::NotLogin,
        Violation::LoginAfterLogin,
        Violation::BadStage,
        Violation::LoginChanged,
        Violation::BadVersion,
        Violation::TooManyLoginPdus,
        Violation::BadText,
        Violation::ValueTooLong,
        Violation::TooManyKeys,
        Violation::TooMuchText,
        Violation::DuplicateKey,
        Violation::BadAnswer,
        Violation::MissingName,
        Violation::BadSessionType,
        Violation::NoCommonMethod,
        Violation::BadChap,
        Violation::WrongResponse,
        Violation::Reflection,
        Violation::DigestRequired,
        Violation::CmdSnGap,
        Violation::DuplicateTask,
        Violation::UnexpectedData,
        Violation::Bidirectional,
        Violation::DataOverrun,
        Violation::DataOutOfOrder,
        Violation::DataUnderrun,
        Violation::UnknownTransferTag,
        Violation::Snack,
        Violation::CommandInDiscovery,
        Violation::TooManyImmediate,
        Violation::UnknownTask,
        Violation::TooManyR2ts,
        Violation::IserHeader,
        Violation::MissingStag,
        Violation::WrongInvalidation,
        Violation::RdmaRequired,
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
            let text = violation.text();
            assert!(text.len() > 8, "{violation:?}");
            assert!(ALL.iter().skip(index + 1).all(|other| other.text() != text), "{violation:?}");
        }
    }
}
