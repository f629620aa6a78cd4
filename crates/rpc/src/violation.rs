//! What a peer may do wrong, and what RFC 5531 and RFC 8166 prescribe as the answer.

use crate::message::{AcceptStat, AuthStat, RejectStat, ReplyStatus, VersionRange};

/// The version of RPC that is spoken here (RFC 5531 §9).
pub const RPC_VERSION: u32 = 2;

/// Something that a peer may not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A record that is longer than the longest (RFC 5531 §11 leaves the bound to the receiver).
    RecordTooLong,
    /// A record that ends within the header of its message.
    HeaderTruncated,
    /// A message that is neither a call nor a reply (RFC 5531 §9).
    MessageType,
    /// A reply whose status does not exist (RFC 5531 §9).
    ReplyStatus,
    /// A call of another version of RPC (RFC 5531 §9).
    RpcVersion,
    /// A credential that is longer than 400 bytes (RFC 5531 §8.2).
    CredentialLength,
    /// A verifier that is longer than 400 bytes (RFC 5531 §8.2).
    VerifierLength,
    /// A credential of AUTH_SYS that is no authsys_parms (RFC 5531 appendix A).
    Credential,
    /// Bytes behind opaque data in a header that are not zeros (RFC 4506 §3).
    HeaderPadding,
    /// Arguments that are not those of the procedure (RFC 5531 §9, GARBAGE_ARGS).
    Arguments,
    /// A call with the number of one that is not answered yet (RFC 5531 §9: the number is used to see what was sent twice).
    DuplicateCall,
    /// A call beyond the credits that were granted (RFC 8166 §3.3.1).
    Credits,
    /// A reply to no call (RFC 5531 §9: the number is used to match them).
    UnknownReply,
}

/// What is done about a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The call is answered so.
    Reply(ReplyStatus),
    /// The message is dropped.
    Drop,
    /// The connection is closed: where the next message begins, or what this one is, is not known.
    Close,
}

impl Violation {
    /// What is done about it.
    pub const fn answer(self) -> Answer {
        match self {
            Self::RecordTooLong
            | Self::HeaderTruncated
            | Self::MessageType
            | Self::ReplyStatus
            | Self::HeaderPadding
            | Self::Credits => Answer::Close,
            Self::RpcVersion => {
                let range = VersionRange { low: RPC_VERSION, high: RPC_VERSION };
                Answer::Reply(ReplyStatus::Denied(RejectStat::RpcMismatch(range)))
            }
            Self::CredentialLength | Self::Credential => {
                Answer::Reply(ReplyStatus::Denied(RejectStat::AuthError(AuthStat::BADCRED)))
            }
            Self::VerifierLength => {
                Answer::Reply(ReplyStatus::Denied(RejectStat::AuthError(AuthStat::BADVERF)))
            }
            Self::Arguments => Answer::Reply(ReplyStatus::Accepted(AcceptStat::GarbageArguments)),
            Self::DuplicateCall | Self::UnknownReply => Answer::Drop,
        }
    }

    /// What its caller hears, if it hears anything.
    pub const fn status(self) -> Option<ReplyStatus> {
        if let Answer::Reply(status) = self.answer() { Some(status) } else { None }
    }

    /// In words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::RecordTooLong => "RPC: a record longer than the longest that is taken",
            Self::HeaderTruncated => "RPC: a record that ends within the header of its message",
            Self::MessageType => "RPC: a message that is neither a call nor a reply",
            Self::ReplyStatus => "RPC: a reply whose status does not exist",
            Self::RpcVersion => "RPC: a call of another version of RPC",
            Self::CredentialLength => "RPC: a credential longer than 400 bytes",
            Self::VerifierLength => "RPC: a verifier longer than 400 bytes",
            Self::Credential => "RPC: a credential that is not of its flavor",
            Self::HeaderPadding => "RPC: a header padded with other bytes than zeros",
            Self::Arguments => "RPC: arguments that are not those of the procedure",
            Self::DuplicateCall => "RPC: a call with the number of one that is not answered yet",
            Self::Credits => "RPC: a call beyond the credits that were granted",
            Self::UnknownReply => "RPC: a reply to no call",
        }
    }
}
