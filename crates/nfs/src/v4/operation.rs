//! The operations of a COMPOUND and their arguments (RFC 8881 §18, RFC 7862 §15; wire: RFC 5662, RFC 7863).
//!
//! What is not served is known by its number alone: it ends its COMPOUND.

use alloc::vec::Vec;

use buf::Buf;
use filesystem::{SeekWhat, SpecData, Stability};
use rpc::xdr::{Error, Reader, Step};

use super::attributes::Sent;
use super::types::{ClientId, SessionId, Stateid, StateidOther, Verifier};
use super::{Bitmap, Principal};
use crate::limits::{FILE_HANDLE, LINK_TARGET, LIST, OPAQUE, PAYLOAD, TESTED_STATEIDS};
use crate::named::numbers;
use crate::state::clients::{Owner, Purpose};
use crate::state::messages::{Claim, Locker, ReclaimScope};
use crate::state::ranges::LockMode;
use crate::state::sessions::ChannelAttributes;

/// `nfs_opnum4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpNumber(pub u32);

numbers! {
    OpNumber, "OP_", "ILLEGAL";
    ACCESS = 3; CLOSE = 4; COMMIT = 5; CREATE = 6; DELEGPURGE = 7; DELEGRETURN = 8; GETATTR = 9; GETFH = 10; LINK = 11;
    LOCK = 12; LOCKT = 13; LOCKU = 14; LOOKUP = 15; LOOKUPP = 16; NVERIFY = 17; OPEN = 18; OPENATTR = 19;
    OPEN_CONFIRM = 20; OPEN_DOWNGRADE = 21; PUTFH = 22; PUTPUBFH = 23; PUTROOTFH = 24; READ = 25; READDIR = 26;
    READLINK = 27; REMOVE = 28; RENAME = 29; RENEW = 30; RESTOREFH = 31; SAVEFH = 32; SECINFO = 33; SETATTR = 34;
    SETCLIENTID = 35; SETCLIENTID_CONFIRM = 36; VERIFY = 37; WRITE = 38; RELEASE_LOCKOWNER = 39; BACKCHANNEL_CTL = 40;
    BIND_CONN_TO_SESSION = 41; EXCHANGE_ID = 42; CREATE_SESSION = 43; DESTROY_SESSION = 44; FREE_STATEID = 45;
    GET_DIR_DELEGATION = 46; GETDEVICEINFO = 47; GETDEVICELIST = 48; LAYOUTCOMMIT = 49; LAYOUTGET = 50;
    LAYOUTRETURN = 51; SECINFO_NO_NAME = 52; SEQUENCE = 53; SET_SSV = 54; TEST_STATEID = 55; WANT_DELEGATION = 56;
    DESTROY_CLIENTID = 57; RECLAIM_COMPLETE = 58; ALLOCATE = 59; COPY = 60; COPY_NOTIFY = 61; DEALLOCATE = 62;
    IO_ADVISE = 63; LAYOUTERROR = 64; LAYOUTSTATS = 65; OFFLOAD_CANCEL = 66; OFFLOAD_STATUS = 67; READ_PLUS = 68;
    SEEK = 69; WRITE_SAME = 70; CLONE = 71;
}

impl OpNumber {
    /// OP_ILLEGAL, in results.
    pub const ILLEGAL: Self = Self(10_044);
    /// The last of minor version 1.
    const LAST_OF_1: Self = Self::RECLAIM_COMPLETE;
    /// The last of minor version 2.
    const LAST_OF_2: Self = Self::CLONE;

    /// True if the minor version, 1 or 2, has it. Those of version 4.0 that must not be used are among them: they have a status of their own.
    pub fn is_of(self, minor: u32) -> bool {
        let last = if minor >= 2 { Self::LAST_OF_2 } else { Self::LAST_OF_1 };
        self >= Self::ACCESS && self <= last
    }
}

/// How OPEN makes a file, if it does (`openflag4`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenHow {
    /// It does not.
    NoCreate,
    /// UNCHECKED4.
    Unchecked(Sent),
    /// GUARDED4.
    Guarded(Sent),
    /// EXCLUSIVE4.
    Exclusive(Verifier),
    /// EXCLUSIVE4_1.
    ExclusiveWith(Verifier, Sent),
}

/// What OPEN opens (`open_claim4`), as far as it is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenClaim {
    /// CLAIM_NULL: a name in the current directory.
    Null(Vec<u8>),
    /// CLAIM_PREVIOUS: the current file, reclaimed; true if a delegation was had, too.
    Previous(bool),
    /// CLAIM_FH: the current file.
    Fh,
    /// One that needs a delegation, which nobody is ever given.
    Delegation,
}

/// OPEN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// `share_access`, with what is wanted of delegations.
    pub access: u32,
    /// `share_deny`.
    pub deny: u32,
    /// The open owner; the client is the session's.
    pub owner: Vec<u8>,
    /// Whether it is made.
    pub how: OpenHow,
    /// What.
    pub claim: OpenClaim,
}

/// The type of an object that CREATE makes (`createtype4`); a number that is none stays one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateType {
    /// NF4LNK.
    Link(Vec<u8>),
    /// NF4BLK.
    Block(SpecData),
    /// NF4CHR.
    Character(SpecData),
    /// NF4SOCK.
    Socket,
    /// NF4FIFO.
    Fifo,
    /// NF4DIR.
    Directory,
    /// Any other, which CREATE does not make.
    Other,
}

/// READ, or the same of others: a stateid and a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranged {
    /// The stateid.
    pub stateid: Stateid,
    /// Where, in bytes.
    pub offset: u64,
    /// Bytes.
    pub count: u64,
}

/// WRITE. The data comes apart, where it is long.
#[derive(Debug)]
pub struct Write {
    /// The stateid.
    pub stateid: Stateid,
    /// Where, in bytes.
    pub offset: u64,
    /// `stable_how4`.
    pub stability: Stability,
    /// Bytes of the data.
    pub length: usize,
    /// The data, in pieces.
    pub data: Vec<Buf>,
}

/// LOCK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// How; a lock that may be waited for is asked for again by its client.
    pub mode: LockMode,
    /// Anew or from before.
    pub claim: Claim,
    /// Where, in bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Who.
    pub locker: Locker,
}

/// READDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadDirectory {
    /// Where to go on.
    pub cookie: u64,
    /// Of which listing.
    pub verifier: Verifier,
    /// Bytes of the answer at most.
    pub max_count: u32,
    /// What is asked for of each entry.
    pub attributes: Bitmap,
}

/// SEQUENCE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    /// The session.
    pub session: SessionId,
    /// The sequence ID.
    pub sequence: u32,
    /// The slot.
    pub slot: u32,
    /// The highest slot that the client uses.
    pub highest_slot: u32,
    /// Whether the reply is to be kept.
    pub cache: bool,
}

/// COPY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Of the saved file.
    pub from: Stateid,
    /// Of the current one.
    pub to: Stateid,
    /// Where in the saved file.
    pub from_offset: u64,
    /// Where in the current one.
    pub to_offset: u64,
    /// Bytes; zero up to the end.
    pub count: u64,
    /// True if the source is at another server.
    pub is_remote: bool,
}

/// What [`Operation::decode`] has read.
#[derive(Debug)]
pub struct Decoded {
    /// The operation.
    pub operation: Operation,
    /// What is to be read next.
    pub then: Step,
}

/// One operation with its arguments.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are the standard's operations, each in the section of its name")]
pub enum Operation {
    Access(u32),
    Close(Stateid),
    Commit {
        offset: u64,
        count: u32,
    },
    Create {
        kind: CreateType,
        name: Vec<u8>,
        attributes: Sent,
    },
    GetAttr(Bitmap),
    GetFh,
    Link(Vec<u8>),
    Lock(Lock),
    LockT {
        mode: LockMode,
        offset: u64,
        length: u64,
        owner: Vec<u8>,
    },
    LockU {
        stateid: Stateid,
        offset: u64,
        length: u64,
    },
    Lookup(Vec<u8>),
    LookupP,
    Verify(Sent),
    NVerify(Sent),
    Open(Open),
    OpenDowngrade {
        stateid: Stateid,
        access: u32,
        deny: u32,
    },
    PutFh(Vec<u8>),
    PutPubFh,
    PutRootFh,
    Read(Ranged),
    ReadDir(ReadDirectory),
    ReadLink,
    Remove(Vec<u8>),
    Rename {
        from: Vec<u8>,
        to: Vec<u8>,
    },
    RestoreFh,
    SaveFh,
    SecInfo(Vec<u8>),
    SecInfoNoName {
        parent: bool,
    },
    SetAttr {
        stateid: Stateid,
        attributes: Sent,
    },
    Write(Write),
    BindConnToSession {
        session: SessionId,
        direction: u32,
    },
    ExchangeId {
        owner: Owner,
        flags: u32,
        protection: u32,
    },
    CreateSession {
        client: ClientId,
        sequence: u32,
        attributes: ChannelAttributes,
    },
    DestroySession(SessionId),
    DestroyClientId(ClientId),
    FreeStateid(Stateid),
    TestStateid(Vec<Stateid>),
    ReclaimComplete(ReclaimScope),
    Sequence(Sequence),
    Allocate(Ranged),
    Deallocate(Ranged),
    Seek {
        stateid: Stateid,
        offset: u64,
        what: SeekWhat,
    },
    Copy(Copy),
    /// Known, and not served; its arguments are not read.
    NotServed(OpNumber),
    /// Not known in this minor version.
    Illegal,
    /// The arguments are none.
    Undecodable(OpNumber),
}

/// EXCHGID4_FLAG_UPD_CONFIRMED_REC_A.
pub const UPDATE_CONFIRMED: u32 = 0x4000_0000;
/// Every flag that a client may send in EXCHANGE_ID (RFC 8881 §18.35.3).
pub const EXCHANGE_FLAGS: u32 = 0x4007_0103;
/// EXCHGID4_FLAG_USE_NON_PNFS.
pub const USE_NON_PNFS: u32 = 0x0001_0000;
/// EXCHGID4_FLAG_CONFIRMED_R.
pub const CONFIRMED: u32 = 0x8000_0000;

impl Operation {
    /// Its number, as it stands in results.
    pub fn number(&self) -> OpNumber {
        match self {
            Self::Access(_) => OpNumber::ACCESS,
            Self::Close(_) => OpNumber::CLOSE,
            Self::Commit { .. } => OpNumber::COMMIT,
            Self::Create { .. } => OpNumber::CREATE,
            Self::GetAttr(_) => OpNumber::GETATTR,
            Self::GetFh => OpNumber::GETFH,
            Self::Link(_) => OpNumber::LINK,
            Self::Lock(_) => OpNumber::LOCK,
            Self::LockT { .. } => OpNumber::LOCKT,
            Self::LockU { .. } => OpNumber::LOCKU,
            Self::Lookup(_) => OpNumber::LOOKUP,
            Self::LookupP => OpNumber::LOOKUPP,
            Self::Verify(_) => OpNumber::VERIFY,
            Self::NVerify(_) => OpNumber::NVERIFY,
            Self::Open(_) => OpNumber::OPEN,
            Self::OpenDowngrade { .. } => OpNumber::OPEN_DOWNGRADE,
            Self::PutFh(_) => OpNumber::PUTFH,
            Self::PutPubFh => OpNumber::PUTPUBFH,
            Self::PutRootFh => OpNumber::PUTROOTFH,
            Self::Read(_) => OpNumber::READ,
            Self::ReadDir(_) => OpNumber::READDIR,
            Self::ReadLink => OpNumber::READLINK,
            Self::Remove(_) => OpNumber::REMOVE,
            Self::Rename { .. } => OpNumber::RENAME,
            Self::RestoreFh => OpNumber::RESTOREFH,
            Self::SaveFh => OpNumber::SAVEFH,
            Self::SecInfo(_) => OpNumber::SECINFO,
            Self::SecInfoNoName { .. } => OpNumber::SECINFO_NO_NAME,
            Self::SetAttr { .. } => OpNumber::SETATTR,
            Self::Write(_) => OpNumber::WRITE,
            Self::BindConnToSession { .. } => OpNumber::BIND_CONN_TO_SESSION,
            Self::ExchangeId { .. } => OpNumber::EXCHANGE_ID,
            Self::CreateSession { .. } => OpNumber::CREATE_SESSION,
            Self::DestroySession(_) => OpNumber::DESTROY_SESSION,
            Self::DestroyClientId(_) => OpNumber::DESTROY_CLIENTID,
            Self::FreeStateid(_) => OpNumber::FREE_STATEID,
            Self::TestStateid(_) => OpNumber::TEST_STATEID,
            Self::ReclaimComplete(_) => OpNumber::RECLAIM_COMPLETE,
            Self::Sequence(_) => OpNumber::SEQUENCE,
            Self::Allocate(_) => OpNumber::ALLOCATE,
            Self::Deallocate(_) => OpNumber::DEALLOCATE,
            Self::Seek { .. } => OpNumber::SEEK,
            Self::Copy(_) => OpNumber::COPY,
            Self::NotServed(number) | Self::Undecodable(number) => *number,
            Self::Illegal => OpNumber::ILLEGAL,
        }
    }

    /// Reads the arguments of operation `number`. A WRITE's data is left to whoever reads payloads: [`Step::Payload`].
    ///
    /// # Errors
    /// Those of XDR; the operation is then [`Operation::Undecodable`].
    pub fn decode(number: OpNumber, reader: &mut Reader<'_>, principal: Principal) -> Result<Decoded, Error> {
        let operation = match number {
            OpNumber::WRITE => return write(reader),
            OpNumber::ACCESS => Self::Access(reader.u32()?),
            OpNumber::CLOSE => {
                reader.u32()?;
                Self::Close(stateid(reader)?)
            }
            OpNumber::COMMIT => Self::Commit { offset: reader.u64()?, count: reader.u32()? },
            OpNumber::CREATE => {
                let kind = create_type(reader)?;
                Self::Create { kind, name: name(reader)?, attributes: Sent::decode(reader)? }
            }
            OpNumber::GETATTR => Self::GetAttr(reader.get()?),
            OpNumber::GETFH => Self::GetFh,
            OpNumber::LINK => Self::Link(name(reader)?),
            OpNumber::LOCK => Self::Lock(lock(reader)?),
            OpNumber::LOCKT => {
                let (mode, offset, length) = (lock_mode(reader)?, reader.u64()?, reader.u64()?);
                Self::LockT { mode, offset, length, owner: state_owner(reader)? }
            }
            OpNumber::LOCKU => {
                lock_mode(reader)?;
                reader.u32()?;
                Self::LockU { stateid: stateid(reader)?, offset: reader.u64()?, length: reader.u64()? }
            }
            OpNumber::LOOKUP => Self::Lookup(name(reader)?),
            OpNumber::LOOKUPP => Self::LookupP,
            OpNumber::VERIFY => Self::Verify(Sent::decode(reader)?),
            OpNumber::NVERIFY => Self::NVerify(Sent::decode(reader)?),
            OpNumber::OPEN => Self::Open(open(reader)?),
            OpNumber::OPEN_DOWNGRADE => {
                let stateid = stateid(reader)?;
                reader.u32()?;
                Self::OpenDowngrade { stateid, access: reader.u32()?, deny: reader.u32()? }
            }
            OpNumber::PUTFH => Self::PutFh(reader.opaque(FILE_HANDLE)?.to_vec()),
            OpNumber::PUTPUBFH => Self::PutPubFh,
            OpNumber::PUTROOTFH => Self::PutRootFh,
            OpNumber::READ => Self::Read(Ranged {
                stateid: stateid(reader)?,
                offset: reader.u64()?,
                count: reader.u32()?.into(),
            }),
            OpNumber::READDIR => Self::ReadDir(read_directory(reader)?),
            OpNumber::READLINK => Self::ReadLink,
            OpNumber::REMOVE => Self::Remove(name(reader)?),
            OpNumber::RENAME => Self::Rename { from: name(reader)?, to: name(reader)? },
            OpNumber::RESTOREFH => Self::RestoreFh,
            OpNumber::SAVEFH => Self::SaveFh,
            OpNumber::SECINFO => Self::SecInfo(name(reader)?),
            OpNumber::SETATTR => {
                Self::SetAttr { stateid: stateid(reader)?, attributes: Sent::decode(reader)? }
            }
            _ => Self::decode_newer(number, reader, principal)?,
        };
        Ok(Decoded { operation, then: Step::Next })
    }

    /// Operations that version 4.0 does not have.
    fn decode_newer(number: OpNumber, reader: &mut Reader<'_>, principal: Principal) -> Result<Self, Error> {
        Ok(match number {
            OpNumber::SECINFO_NO_NAME => {
                Self::SecInfoNoName { parent: reader.enumeration(|style| (style < 2).then_some(style == 1))? }
            }
            OpNumber::BIND_CONN_TO_SESSION => {
                let session = session_id(reader)?;
                let direction = reader.u32()?;
                reader.bool()?;
                Self::BindConnToSession { session, direction }
            }
            OpNumber::EXCHANGE_ID => exchange_id(reader, principal)?,
            OpNumber::CREATE_SESSION => create_session(reader)?,
            OpNumber::DESTROY_SESSION => Self::DestroySession(session_id(reader)?),
            OpNumber::DESTROY_CLIENTID => Self::DestroyClientId(ClientId(reader.u64()?)),
            OpNumber::FREE_STATEID => Self::FreeStateid(stateid(reader)?),
            OpNumber::TEST_STATEID => Self::TestStateid(reader.array_with(TESTED_STATEIDS, stateid)?),
            OpNumber::RECLAIM_COMPLETE => {
                let one = reader.bool()?;
                Self::ReclaimComplete(if one { ReclaimScope::OneFileSystem } else { ReclaimScope::Global })
            }
            OpNumber::SEQUENCE => Self::Sequence(Sequence {
                session: session_id(reader)?,
                sequence: reader.u32()?,
                slot: reader.u32()?,
                highest_slot: reader.u32()?,
                cache: reader.bool()?,
            }),
            OpNumber::ALLOCATE => Self::Allocate(ranged(reader)?),
            OpNumber::DEALLOCATE => Self::Deallocate(ranged(reader)?),
            OpNumber::SEEK => {
                let (stateid, offset) = (stateid(reader)?, reader.u64()?);
                let what = reader.enumeration(|what| match what {
                    0 => Some(SeekWhat::Data),
                    1 => Some(SeekWhat::Hole),
                    _ => None,
                })?;
                Self::Seek { stateid, offset, what }
            }
            OpNumber::COPY => Self::Copy(copy(reader)?),
            _ => Self::NotServed(number),
        })
    }
}

fn write(reader: &mut Reader<'_>) -> Result<Decoded, Error> {
    let (stateid, offset) = (stateid(reader)?, reader.u64()?);
    let stability = reader.enumeration(|how| match how {
        0 => Some(Stability::Unstable),
        1 => Some(Stability::DataSync),
        2 => Some(Stability::FileSync),
        _ => None,
    })?;
    let length = reader.length(wire::index(PAYLOAD.into()))?;
    let then = if length == 0 { Step::Next } else { Step::Payload(length) };
    let operation = Operation::Write(Write { stateid, offset, stability, length, data: Vec::new() });
    Ok(Decoded { operation, then })
}

fn stateid(reader: &mut Reader<'_>) -> Result<Stateid, Error> {
    Ok(Stateid { seqid: reader.u32()?, other: StateidOther(reader.fixed()?) })
}

fn session_id(reader: &mut Reader<'_>) -> Result<SessionId, Error> {
    reader.fixed().map(SessionId)
}

/// A component of a path. It may be longer than names are, so that it has an answer of its own.
fn name(reader: &mut Reader<'_>) -> Result<Vec<u8>, Error> {
    reader.opaque(LINK_TARGET).map(<[u8]>::to_vec)
}

/// `open_owner4`, `lock_owner4`: the client in it means nothing any more (RFC 8881 §18.16.3).
fn state_owner(reader: &mut Reader<'_>) -> Result<Vec<u8>, Error> {
    reader.u64()?;
    reader.opaque(OPAQUE).map(<[u8]>::to_vec)
}

fn ranged(reader: &mut Reader<'_>) -> Result<Ranged, Error> {
    Ok(Ranged { stateid: stateid(reader)?, offset: reader.u64()?, count: reader.u64()? })
}

fn spec_data(reader: &mut Reader<'_>) -> Result<SpecData, Error> {
    Ok(SpecData { major: reader.u32()?, minor: reader.u32()? })
}

fn create_type(reader: &mut Reader<'_>) -> Result<CreateType, Error> {
    Ok(match reader.u32()? {
        5 => CreateType::Link(reader.opaque(LINK_TARGET)?.to_vec()),
        3 => CreateType::Block(spec_data(reader)?),
        4 => CreateType::Character(spec_data(reader)?),
        6 => CreateType::Socket,
        7 => CreateType::Fifo,
        2 => CreateType::Directory,
        _ => CreateType::Other,
    })
}

fn lock_mode(reader: &mut Reader<'_>) -> Result<LockMode, Error> {
    reader.enumeration(|mode| match mode {
        1 | 3 => Some(LockMode::Read),
        2 | 4 => Some(LockMode::Write),
        _ => None,
    })
}

fn lock(reader: &mut Reader<'_>) -> Result<Lock, Error> {
    let (mode, reclaim) = (lock_mode(reader)?, reader.bool()?);
    let (offset, length) = (reader.u64()?, reader.u64()?);
    let locker = if reader.bool()? {
        reader.u32()?;
        let open = stateid(reader)?;
        reader.u32()?;
        Locker::New { open, owner: state_owner(reader)? }
    } else {
        let existing = stateid(reader)?;
        reader.u32()?;
        Locker::Existing(existing)
    };
    Ok(Lock { mode, claim: if reclaim { Claim::Reclaim } else { Claim::New }, offset, length, locker })
}

fn read_directory(reader: &mut Reader<'_>) -> Result<ReadDirectory, Error> {
    let (cookie, verifier) = (reader.u64()?, Verifier(reader.fixed()?));
    // dircount is a hint.
    reader.u32()?;
    Ok(ReadDirectory { cookie, verifier, max_count: reader.u32()?, attributes: reader.get()? })
}

fn create_how(reader: &mut Reader<'_>) -> Result<OpenHow, Error> {
    Ok(match reader.enumeration(|mode| (mode < 4).then_some(mode))? {
        0 => OpenHow::Unchecked(Sent::decode(reader)?),
        1 => OpenHow::Guarded(Sent::decode(reader)?),
        2 => OpenHow::Exclusive(Verifier(reader.fixed()?)),
        _ => OpenHow::ExclusiveWith(Verifier(reader.fixed()?), Sent::decode(reader)?),
    })
}

fn open(reader: &mut Reader<'_>) -> Result<Open, Error> {
    reader.u32()?;
    let (access, deny) = (reader.u32()?, reader.u32()?);
    let owner = state_owner(reader)?;
    let how = if reader.bool()? { create_how(reader)? } else { OpenHow::NoCreate };
    let claim = match reader.enumeration(|claim| (claim < 7).then_some(claim))? {
        0 => OpenClaim::Null(name(reader)?),
        1 => OpenClaim::Previous(reader.u32()? != 0),
        4 => OpenClaim::Fh,
        2 => {
            stateid(reader)?;
            name(reader)?;
            OpenClaim::Delegation
        }
        3 => {
            name(reader)?;
            OpenClaim::Delegation
        }
        5 => {
            stateid(reader)?;
            OpenClaim::Delegation
        }
        _ => OpenClaim::Delegation,
    };
    Ok(Open { access, deny, owner, how, claim })
}

fn exchange_id(reader: &mut Reader<'_>, principal: Principal) -> Result<Operation, Error> {
    let verifier = Verifier(reader.fixed()?);
    let id = reader.opaque(OPAQUE)?.to_vec();
    let flags = reader.u32()?;
    let protection = reader.enumeration(|how| (how < 3).then_some(how))?;
    if protection > 0 {
        // spo_must_enforce and spo_must_allow; SP4_SSV has algorithms, a window and a number of handles beside.
        reader.get::<Bitmap>()?;
        reader.get::<Bitmap>()?;
    }
    if protection == 2 {
        for _ in 0..2 {
            reader.array_with(LIST, |reader| reader.opaque(OPAQUE).map(|_| ()))?;
        }
        reader.u64()?;
    }
    reader.array_with(1, |reader| {
        reader.opaque(OPAQUE)?;
        reader.opaque(OPAQUE)?;
        reader.i64()?;
        reader.u32()
    })?;
    Ok(Operation::ExchangeId { owner: Owner { id, verifier, principal }, flags, protection })
}

/// The purpose that the flags of EXCHANGE_ID say.
pub fn purpose(flags: u32) -> Purpose {
    if flags & UPDATE_CONFIRMED == 0 { Purpose::Establish } else { Purpose::Update }
}

fn channel_attributes(reader: &mut Reader<'_>) -> Result<ChannelAttributes, Error> {
    // ca_headerpadsize.
    reader.u32()?;
    let attributes = ChannelAttributes {
        max_request: reader.u32()?,
        max_response: reader.u32()?,
        max_response_cached: reader.u32()?,
        max_operations: reader.u32()?,
        max_requests: reader.u32()?,
    };
    reader.array::<u32>(1)?;
    Ok(attributes)
}

fn create_session(reader: &mut Reader<'_>) -> Result<Operation, Error> {
    let (client, sequence) = (ClientId(reader.u64()?), reader.u32()?);
    reader.u32()?;
    let attributes = channel_attributes(reader)?;
    channel_attributes(reader)?;
    reader.u32()?;
    reader.array_with(LIST, callback_security)?;
    Ok(Operation::CreateSession { client, sequence, attributes })
}

/// `callback_sec_parms4`, which nobody here uses: nothing is called back.
fn callback_security(reader: &mut Reader<'_>) -> Result<(), Error> {
    match reader.enumeration(|flavor| matches!(flavor, 0 | 1 | 6).then_some(flavor))? {
        1 => {
            reader.u32()?;
            reader.opaque(OPAQUE)?;
            reader.u32()?;
            reader.u32()?;
            reader.array::<u32>(LIST)?;
        }
        6 => {
            reader.u32()?;
            reader.opaque(OPAQUE)?;
            reader.opaque(OPAQUE)?;
        }
        _ => {}
    }
    Ok(())
}

fn copy(reader: &mut Reader<'_>) -> Result<Copy, Error> {
    let (from, to) = (stateid(reader)?, stateid(reader)?);
    let (from_offset, to_offset, count) = (reader.u64()?, reader.u64()?, reader.u64()?);
    // ca_consecutive and ca_synchronous: every copy here is both.
    reader.bool()?;
    reader.bool()?;
    let servers = reader.array_with(LIST, |reader| {
        match reader.enumeration(|kind| (1..4).contains(&kind).then_some(kind))? {
            3 => {
                reader.opaque(OPAQUE)?;
                reader.opaque(OPAQUE)?;
            }
            _ => {
                reader.opaque(OPAQUE)?;
            }
        }
        Ok(())
    })?;
    Ok(Copy { from, to, from_offset, to_offset, count, is_remote: !servers.is_empty() })
}
