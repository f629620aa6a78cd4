//! Calls (RFC 5531 §9), and what every message begins with.

use super::auth::{AuthSys, OpaqueAuth};
use super::reply::{AuthStat, REPLY, ReplyStatus};
use crate::violation::{RPC_VERSION, Violation};
use crate::xdr::{Encode, Error, Reader, Writer};

/// The message type of a call (RFC 5531 §9, msg_type).
const CALL: u32 = 0;

/// What every message begins with: its number and its kind. A call's version of RPC belongs to it, as nothing behind has a meaning in another version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// A call.
    Call {
        /// Its number.
        xid: u32,
    },
    /// A reply.
    Reply {
        /// The number of its call.
        xid: u32,
    },
}

/// Why a message does not begin as it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpeningError {
    /// It ends too early.
    Truncated {
        /// At least so many bytes more are needed.
        missing: usize,
    },
    /// It is neither a call nor a reply, or a call of another version of RPC.
    Violation {
        /// Its number.
        xid: u32,
        /// What is wrong.
        violation: Violation,
    },
}

impl Opening {
    /// Reads the beginning of a message.
    ///
    /// # Errors
    /// See [`OpeningError`].
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, OpeningError> {
        let word = |read: Result<u32, Error>| {
            read.map_err(|error| match error {
                Error::Truncated { missing } => OpeningError::Truncated { missing },
                _ => OpeningError::Truncated { missing: 4 },
            })
        };
        let xid = word(reader.u32())?;
        match word(reader.u32())? {
            CALL => match word(reader.u32())? {
                RPC_VERSION => Ok(Self::Call { xid }),
                _ => Err(OpeningError::Violation { xid, violation: Violation::RpcVersion }),
            },
            REPLY => Ok(Self::Reply { xid }),
            _ => Err(OpeningError::Violation { xid, violation: Violation::MessageType }),
        }
    }
}

/// Names a procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Procedure {
    /// The program's number.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure's number within it.
    pub procedure: u32,
}

/// The header of a call, behind its opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHeader<'a> {
    /// The number of the call, chosen by its caller.
    pub xid: u32,
    /// What is called.
    pub procedure: Procedure,
    /// Who calls.
    pub credential: OpaqueAuth<'a>,
    /// What proves it.
    pub verifier: OpaqueAuth<'a>,
}

impl<'a> CallHeader<'a> {
    /// Reads a call behind its opening. `Ok(Err(…))` is a violation in what is there.
    ///
    /// # Errors
    /// [`Error::Truncated`] alone.
    pub fn decode(xid: u32, reader: &mut Reader<'a>) -> Result<Result<Self, Violation>, Error> {
        let procedure =
            Procedure { program: reader.u32()?, version: reader.u32()?, procedure: reader.u32()? };
        let credential = match OpaqueAuth::decode(reader) {
            Ok(credential) => credential,
            Err(error) => return violation(error, Violation::CredentialLength).map(Err),
        };
        let verifier = match OpaqueAuth::decode(reader) {
            Ok(verifier) => verifier,
            Err(error) => return violation(error, Violation::VerifierLength).map(Err),
        };
        Ok(Ok(Self { xid, procedure, credential, verifier }))
    }

    /// The credential of AUTH_SYS, if it is one.
    ///
    /// # Errors
    /// What its caller hears where it is malformed.
    pub fn auth_sys(&self) -> Result<Option<AuthSys<'a>>, ReplyStatus> {
        let malformed =
            |_| Violation::Credential.status().unwrap_or(ReplyStatus::auth_error(AuthStat::BADCRED));
        self.credential.sys().map_err(malformed)
    }

    /// Writes a call's header whole, opening included. The arguments follow.
    pub(crate) fn write(&self, writer: &mut Writer) {
        for word in [
            self.xid,
            CALL,
            RPC_VERSION,
            self.procedure.program,
            self.procedure.version,
            self.procedure.procedure,
        ] {
            word.encode(writer);
        }
        writer.put(&self.credential);
        writer.put(&self.verifier);
    }
}

/// The violation that an error in a credential or a verifier is.
fn violation(error: Error, length: Violation) -> Result<Violation, Error> {
    match error {
        Error::Truncated { .. } => Err(error),
        Error::Padding => Ok(Violation::HeaderPadding),
        _ => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use super::super::AuthSysToSend;
    use super::*;
    use alloc::vec::Vec;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_golden_call() {
        let credential = AuthSysToSend::new("h", 5, 6, &[]);
        let header = CallHeader {
            xid: 0xa1b2_c3d4,
            procedure: Procedure { program: 100_003, version: 4, procedure: 1 },
            credential: credential.as_auth(),
            verifier: OpaqueAuth::NONE,
        };
        let mut writer = Writer::new();
        header.write(&mut writer);
        let expected = words(&[
            0xa1b2_c3d4,
            0,
            2,
            100_003,
            4,
            1, // the call
            1,
            24,
            0,
            1,
            0x6800_0000,
            5,
            6,
            0, // AUTH_SYS
            0,
            0, // AUTH_NONE
        ]);
        let stream = writer.finish();
        assert_eq!(stream.bytes(), expected);
        let mut reader = Reader::new(&expected);
        assert_eq!(Opening::decode(&mut reader), Ok(Opening::Call { xid: 0xa1b2_c3d4 }));
        assert_eq!(CallHeader::decode(0xa1b2_c3d4, &mut reader), Ok(Ok(header)));
        assert_eq!(reader.end(), Ok(()));
        for end in 0..expected.len() {
            let mut reader = Reader::new(&expected[..end]);
            let truncated = match Opening::decode(&mut reader) {
                Ok(_) => matches!(CallHeader::decode(0, &mut reader), Err(Error::Truncated { .. })),
                Err(error) => matches!(error, OpeningError::Truncated { .. }),
            };
            assert!(truncated, "{end}");
        }
    }

    #[test]
    fn violations_of_headers() {
        let opening = |words_: &[u32]| Opening::decode(&mut Reader::new(&words(words_)));
        let violation = |violation| Err(OpeningError::Violation { xid: 9, violation });
        assert_eq!(opening(&[9, 0, 3]), violation(Violation::RpcVersion));
        assert_eq!(opening(&[9, 2]), violation(Violation::MessageType));
        let header =
            |words_: &[u32]| CallHeader::decode(9, &mut Reader::new(&words(words_))).map(Result::err);
        assert_eq!(header(&[1, 2, 3, 1, 401]), Ok(Some(Violation::CredentialLength)));
        assert_eq!(header(&[1, 2, 3, 0, 0, 1, 401]), Ok(Some(Violation::VerifierLength)));
        assert_eq!(header(&[1, 2, 3, 1, 1, 0x0100_0001, 0, 0]), Ok(Some(Violation::HeaderPadding)));
        assert_eq!(header(&[1, 2, 3, 0, 0, 0, 0]), Ok(None));
    }
}
