//! Replies (RFC 5531 §9): what became of a call. The results follow where it was carried out.

use super::auth::OpaqueAuth;
use crate::xdr::{Encode, Error, Reader, Writer};

/// Versions from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// The lowest.
    pub low: u32,
    /// The highest.
    pub high: u32,
}

impl VersionRange {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self { low: reader.u32()?, high: reader.u32()? })
    }
}

impl Encode for VersionRange {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.low);
        writer.u32(self.high);
    }
}

/// What became of a call that was accepted (RFC 5531 §9, accept_stat).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptStat {
    /// SUCCESS: it was carried out, and its results follow.
    Success,
    /// PROG_UNAVAIL: there is no such program here.
    ProgramUnavailable,
    /// PROG_MISMATCH: the program has other versions.
    ProgramMismatch(VersionRange),
    /// PROC_UNAVAIL: the program has no such procedure.
    ProcedureUnavailable,
    /// GARBAGE_ARGS: its arguments could not be decoded.
    GarbageArguments,
    /// SYSTEM_ERR: something like a lack of memory.
    SystemError,
}

/// Why a call was not accepted (RFC 5531 §9, reject_stat).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectStat {
    /// RPC_MISMATCH: other versions of RPC are spoken here.
    RpcMismatch(VersionRange),
    /// AUTH_ERROR: the caller is not who it says, or may not call.
    AuthError(AuthStat),
}

/// Why authentication failed (RFC 5531 §9, auth_stat).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthStat(pub u32);

impl AuthStat {
    /// AUTH_OK: it did not fail. Not in an AUTH_ERROR.
    pub const OK: Self = Self(0);
    /// AUTH_BADCRED: the credential is malformed.
    pub const BADCRED: Self = Self(1);
    /// AUTH_REJECTEDCRED: the client must begin a new session.
    pub const REJECTEDCRED: Self = Self(2);
    /// AUTH_BADVERF: the verifier is malformed.
    pub const BADVERF: Self = Self(3);
    /// AUTH_REJECTEDVERF: the verifier has expired or was sent before.
    pub const REJECTEDVERF: Self = Self(4);
    /// AUTH_TOOWEAK: a stronger flavor is wanted.
    pub const TOOWEAK: Self = Self(5);
    /// AUTH_INVALIDRESP: a client found the verifier of a response invalid.
    pub const INVALIDRESP: Self = Self(6);
    /// AUTH_FAILED: for a reason that is not known.
    pub const FAILED: Self = Self(7);
    /// AUTH_KERB_GENERIC.
    pub const KERB_GENERIC: Self = Self(8);
    /// AUTH_TIMEEXPIRE.
    pub const TIMEEXPIRE: Self = Self(9);
    /// AUTH_TKT_FILE.
    pub const TKT_FILE: Self = Self(10);
    /// AUTH_DECODE.
    pub const DECODE: Self = Self(11);
    /// AUTH_NET_ADDR.
    pub const NET_ADDR: Self = Self(12);
    /// RPCSEC_GSS_CREDPROBLEM: there is no credential of the user.
    pub const GSS_CREDPROBLEM: Self = Self(13);
    /// RPCSEC_GSS_CTXPROBLEM: there is no such context.
    pub const GSS_CTXPROBLEM: Self = Self(14);
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyStatus {
    /// MSG_ACCEPTED.
    Accepted(AcceptStat),
    /// MSG_DENIED.
    Denied(RejectStat),
}

impl ReplyStatus {
    /// The call was carried out.
    pub const SUCCESS: Self = Self::Accepted(AcceptStat::Success);

    /// AUTH_ERROR for this reason.
    pub const fn auth_error(why: AuthStat) -> Self {
        Self::Denied(RejectStat::AuthError(why))
    }
}

/// The header of a reply, behind its opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader<'a> {
    /// Who the server says it is; AUTH_NONE in a reply that denies.
    pub verifier: OpaqueAuth<'a>,
    /// What became of the call.
    pub status: ReplyStatus,
}

impl<'a> ReplyHeader<'a> {
    /// Reads a reply behind its opening.
    ///
    /// # Errors
    /// [`Error::NotInEnumeration`] for a status that does not exist.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        match reader.u32()? {
            0 => {
                let verifier = OpaqueAuth::decode(reader)?;
                Ok(Self { verifier, status: ReplyStatus::Accepted(Self::accepted(reader)?) })
            }
            1 => Ok(Self { verifier: OpaqueAuth::NONE, status: ReplyStatus::Denied(Self::denied(reader)?) }),
            other => Err(Error::NotInEnumeration(other)),
        }
    }

    fn accepted(reader: &mut Reader<'_>) -> Result<AcceptStat, Error> {
        Ok(match reader.u32()? {
            0 => AcceptStat::Success,
            1 => AcceptStat::ProgramUnavailable,
            2 => AcceptStat::ProgramMismatch(VersionRange::decode(reader)?),
            3 => AcceptStat::ProcedureUnavailable,
            4 => AcceptStat::GarbageArguments,
            5 => AcceptStat::SystemError,
            other => return Err(Error::NotInEnumeration(other)),
        })
    }

    fn denied(reader: &mut Reader<'_>) -> Result<RejectStat, Error> {
        Ok(match reader.u32()? {
            0 => RejectStat::RpcMismatch(VersionRange::decode(reader)?),
            1 => RejectStat::AuthError(AuthStat(reader.u32()?)),
            other => return Err(Error::NotInEnumeration(other)),
        })
    }
}

/// The message type of a reply (RFC 5531 §9, msg_type).
pub(super) const REPLY: u32 = 1;

/// Writes the header of the reply to call `xid`: message type, status and a verifier of AUTH_NONE. The results follow.
pub(crate) fn write_reply(writer: &mut Writer, xid: u32, status: ReplyStatus) {
    writer.u32(xid);
    writer.u32(REPLY);
    match status {
        ReplyStatus::Accepted(accepted) => {
            writer.u32(0);
            writer.put(&OpaqueAuth::NONE);
            write_accepted(writer, accepted);
        }
        ReplyStatus::Denied(RejectStat::RpcMismatch(range)) => {
            writer.u32(1);
            writer.u32(0);
            writer.put(&range);
        }
        ReplyStatus::Denied(RejectStat::AuthError(why)) => {
            writer.u32(1);
            writer.u32(1);
            writer.u32(why.0);
        }
    }
}

fn write_accepted(writer: &mut Writer, accepted: AcceptStat) {
    match accepted {
        AcceptStat::Success => writer.u32(0),
        AcceptStat::ProgramUnavailable => writer.u32(1),
        AcceptStat::ProgramMismatch(range) => {
            writer.u32(2);
            writer.put(&range);
        }
        AcceptStat::ProcedureUnavailable => writer.u32(3),
        AcceptStat::GarbageArguments => writer.u32(4),
        AcceptStat::SystemError => writer.u32(5),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Opening;
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn golden_replies() {
        let range = VersionRange { low: 3, high: 4 };
        let accepted = |stat: AcceptStat, words: &[u32]| {
            (ReplyStatus::Accepted(stat), [&[0x0102_0304, 1, 0, 0, 0][..], words].concat())
        };
        let denied = |stat: RejectStat, words: &[u32]| {
            (ReplyStatus::Denied(stat), [&[0x0102_0304, 1, 1][..], words].concat())
        };
        let all = [
            accepted(AcceptStat::Success, &[0]),
            accepted(AcceptStat::ProgramUnavailable, &[1]),
            accepted(AcceptStat::ProgramMismatch(range), &[2, 3, 4]),
            accepted(AcceptStat::ProcedureUnavailable, &[3]),
            accepted(AcceptStat::GarbageArguments, &[4]),
            accepted(AcceptStat::SystemError, &[5]),
            denied(RejectStat::RpcMismatch(range), &[0, 3, 4]),
            denied(RejectStat::AuthError(AuthStat::TOOWEAK), &[1, 5]),
            denied(RejectStat::AuthError(AuthStat(99)), &[1, 99]),
        ];
        for (status, words) in all {
            let mut writer = Writer::new();
            write_reply(&mut writer, 0x0102_0304, status);
            let bytes = writer.finish();
            let expected: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            assert_eq!(bytes.bytes(), expected, "{status:?}");
            let mut reader = Reader::new(bytes.bytes());
            assert_eq!(Opening::decode(&mut reader), Ok(Opening::Reply { xid: 0x0102_0304 }));
            let header = ReplyHeader::decode(&mut reader).unwrap();
            assert_eq!((header.status, header.verifier, reader.end()), (status, OpaqueAuth::NONE, Ok(())));
        }
    }

    #[test]
    fn a_status_that_does_not_exist_is_refused() {
        for words in [&[2_u32][..], &[0, 0, 0, 6], &[1, 2]] {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let refused = ReplyHeader::decode(&mut Reader::new(&bytes));
            assert!(matches!(refused, Err(Error::NotInEnumeration(_))), "{words:?}");
        }
    }
}
