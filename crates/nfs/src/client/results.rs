//! The answer to a COMPOUND, read operation by operation while its bytes arrive (RFC 8881 §16.2, RFC 5662).
//!
//! It must consist of the operations that were sent, in their order, and end with the first that failed. The data of a READ goes straight into the memory
//! that the call has named for it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use buf::Buf;
use rpc::Body;
use rpc::xdr::{Decoder, Error, Reader, Step};

use super::data::{DataAnswer, ReadAnswer, WriteAnswer};
use super::found::{Channel, Entry, Exchanged, FileFacts, Listed, SessionMade};
use super::limits::{ENTRIES, OPAQUE};
use super::plan::Plan;
use super::subject::Subject;
use crate::limits::{ATTRIBUTES, FILE_HANDLE, NAME, TAG};
use crate::v4::operation::OpNumber;
use crate::v4::{Bitmap, ClientId, SessionId, Stateid, StateidOther, Status, Verifier};

/// What SEQUENCE answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SequenceAnswer {
    pub(super) session: SessionId,
    pub(super) sequence: u32,
    pub(super) slot: u32,
    /// The highest slot that the client is to use from now on.
    pub(super) target: u32,
    pub(super) flags: u32,
}

/// What only calls that open a volume are answered with.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) exchanged: Option<Exchanged>,
    pub(super) session: Option<SessionMade>,
    pub(super) handle: Option<Vec<u8>>,
    pub(super) stateid: Option<Stateid>,
    pub(super) facts: Option<FileFacts>,
    pub(super) listed: Option<Listed>,
    /// The entries of a listing, if they were asked for.
    pub(super) entries: Vec<Entry>,
}

/// Where the answer stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopped {
    /// Which of the operations failed.
    pub(super) index: u32,
    pub(super) status: Status,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Results {
    /// What was called, for whoever takes the answer.
    pub(super) subject: Subject,
    plan: Plan,
    /// Operations that the answer has; none before its header is read.
    count: Option<u32>,
    /// Operations that were read.
    read: u32,
    pub(super) stopped: Option<Stopped>,
    pub(super) sequence: Option<SequenceAnswer>,
    pub(super) data: DataAnswer,
    pub(super) found: Option<Box<Found>>,
    /// The entries of a READDIR are being read.
    listing: bool,
    /// They are kept, beside their number.
    keeps_entries: bool,
}

impl Results {
    /// The decoder of the answer to a COMPOUND of these operations.
    pub(super) fn new(subject: Subject, plan: Plan) -> Self {
        Self {
            subject,
            plan,
            count: None,
            read: 0,
            stopped: None,
            sequence: None,
            data: DataAnswer::default(),
            found: None,
            listing: false,
            keeps_entries: false,
        }
    }

    /// Keeps the entries of a listing: no more than one reply has.
    pub(super) fn keeping_entries(self, keeps_entries: bool) -> Self {
        Self { keeps_entries, ..self }
    }

    /// The operations that were sent.
    pub(super) fn plan(&self) -> Plan {
        self.plan
    }

    /// The status of the whole.
    pub(super) fn status(&self) -> Status {
        self.stopped.map_or(Status::OK, |stopped| stopped.status)
    }

    /// The operation that failed, if one did.
    pub(super) fn failed(&self) -> Option<OpNumber> {
        self.stopped.and_then(|stopped| self.plan.at(stopped.index))
    }

    fn found(&mut self) -> &mut Found {
        self.found.get_or_insert_with(Box::default)
    }

    fn header(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        let status = Status(reader.u32()?);
        reader.opaque(TAG)?;
        let count = reader.u32()?;
        if count > self.plan.len() || (status.is_ok() && count != self.plan.len()) {
            return Err(Error::TooLong { length: count, maximum: wire::index(self.plan.len().into()) });
        }
        self.count = Some(count);
        if count == 0 {
            self.stopped = Some(Stopped { index: 0, status });
            return Ok(Step::End);
        }
        Ok(Step::Next)
    }

    fn operation(&mut self, reader: &mut Reader<'_>, count: u32) -> Result<Step, Error> {
        let number = OpNumber(reader.u32()?);
        let index = self.read;
        if self.plan.at(index) != Some(number) {
            return Err(Error::NotInEnumeration(number.0));
        }
        let status = Status(reader.u32()?);
        if number == OpNumber::SETATTR {
            // attrsset stands there even if it failed (RFC 8881 §18.30.2).
            reader.get::<Bitmap>()?;
        }
        if !status.is_ok() {
            self.read = count;
            self.stopped = Some(Stopped { index, status });
            return Ok(if number == OpNumber::READ { Step::NoPayload } else { Step::End });
        }
        let step = self.success(number, reader)?;
        self.read = index.saturating_add(1);
        // The entries of a listing follow in steps of their own.
        Ok(if step == Step::Next && !self.listing && self.read >= count { Step::End } else { step })
    }

    /// One entry of a listing, or its end (RFC 8881 §18.23.2).
    fn entry(&mut self, reader: &mut Reader<'_>, count: u32) -> Result<Step, Error> {
        if reader.bool()? {
            let cookie = reader.u64()?;
            let name = reader.opaque(NAME)?;
            if self.keeps_entries {
                let name = name.to_vec();
                let FileFacts { kind, size, modified, .. } = attributes(reader)?;
                self.found().entries.push(Entry { name, kind, size, modified });
            } else {
                reader.get::<Bitmap>()?;
                reader.opaque(ATTRIBUTES)?;
            }
            if let Some(listed) = &mut self.found().listed {
                listed.cookie = cookie;
                listed.entries = listed.entries.saturating_add(1);
            }
            return Ok(Step::Next);
        }
        let at_end = reader.bool()?;
        if let Some(listed) = &mut self.found().listed {
            listed.at_end = at_end;
        }
        self.listing = false;
        Ok(if self.read >= count { Step::End } else { Step::Next })
    }

    /// Reads what follows the status of an operation that was carried out.
    fn success(&mut self, number: OpNumber, reader: &mut Reader<'_>) -> Result<Step, Error> {
        match number {
            OpNumber::SEQUENCE => self.sequence = Some(sequence(reader)?),
            OpNumber::READ => {
                let (at_end, length) = (reader.bool()?, reader.length(usize::MAX)?);
                self.data.reading = Some(ReadAnswer { at_end, length });
                return Ok(Step::Payload(length));
            }
            OpNumber::WRITE => {
                let (count, committed) = (reader.u32()?, reader.u32()?);
                let verifier = Verifier(reader.fixed()?);
                self.data.written = Some(WriteAnswer { count, committed });
                self.data.verifier = Some(verifier);
            }
            OpNumber::COMMIT => self.data.verifier = Some(Verifier(reader.fixed()?)),
            OpNumber::GETATTR => {
                let facts = attributes(reader)?;
                self.found().facts = Some(facts);
            }
            OpNumber::GETFH => {
                let handle = reader.opaque(FILE_HANDLE)?.to_vec();
                self.found().handle = Some(handle);
            }
            OpNumber::OPEN => {
                let stateid = opened(reader)?;
                self.found().stateid = Some(stateid);
            }
            OpNumber::READDIR => {
                let verifier = reader.fixed()?;
                self.found().listed = Some(Listed { verifier, ..Listed::default() });
                self.listing = true;
                return Ok(Step::Next);
            }
            OpNumber::CREATE => {
                change(reader)?;
                reader.get::<Bitmap>()?;
            }
            OpNumber::REMOVE => change(reader)?,
            OpNumber::CLOSE => {
                stateid(reader)?;
            }
            OpNumber::EXCHANGE_ID => {
                let exchanged = exchanged(reader)?;
                self.found().exchanged = Some(exchanged);
            }
            OpNumber::CREATE_SESSION => {
                let session = session_made(reader)?;
                self.found().session = Some(session);
            }
            OpNumber::BIND_CONN_TO_SESSION => {
                reader.fixed::<16>()?;
                reader.u32()?;
                reader.bool()?;
            }
            // The others have no more than their status.
            _ => {}
        }
        Ok(Step::Next)
    }
}

impl Decoder for Results {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        match self.count {
            None => self.header(reader),
            Some(count) if self.listing => self.entry(reader, count),
            Some(count) if self.read >= count => Ok(Step::End),
            Some(count) => self.operation(reader, count),
        }
    }
}

impl Body for Results {
    fn payload(&mut self, piece: Buf) {
        self.data.add_payload(piece);
    }
}

fn stateid(reader: &mut Reader<'_>) -> Result<Stateid, Error> {
    Ok(Stateid { seqid: reader.u32()?, other: StateidOther(reader.fixed()?) })
}

fn sequence(reader: &mut Reader<'_>) -> Result<SequenceAnswer, Error> {
    let session = SessionId(reader.fixed()?);
    let (sequence, slot) = (reader.u32()?, reader.u32()?);
    reader.u32()?;
    Ok(SequenceAnswer { session, sequence, slot, target: reader.u32()?, flags: reader.u32()? })
}

fn exchanged(reader: &mut Reader<'_>) -> Result<Exchanged, Error> {
    let client = ClientId(reader.u64()?);
    let (sequence, flags) = (reader.u32()?, reader.u32()?);
    // SP4_NONE is what was asked for.
    reader.enumeration(|how| (how == 0).then_some(()))?;
    reader.u64()?;
    reader.opaque(OPAQUE)?;
    reader.opaque(OPAQUE)?;
    reader.array_with(1, |reader| {
        reader.opaque(OPAQUE)?;
        reader.opaque(OPAQUE)?;
        reader.i64()?;
        reader.u32()
    })?;
    Ok(Exchanged { client, sequence, flags })
}

fn channel(reader: &mut Reader<'_>) -> Result<Channel, Error> {
    reader.u32()?;
    let (max_request, max_response) = (reader.u32()?, reader.u32()?);
    let (max_cached, max_operations, slots) = (reader.u32()?, reader.u32()?, reader.u32()?);
    reader.array::<u32>(1)?;
    Ok(Channel { max_request, max_response, max_cached, max_operations, slots })
}

fn session_made(reader: &mut Reader<'_>) -> Result<SessionMade, Error> {
    let session = SessionId(reader.fixed()?);
    reader.u32()?;
    reader.u32()?;
    let fore = channel(reader)?;
    channel(reader)?;
    Ok(SessionMade { session, channel: fore })
}

/// `change_info4` (RFC 8881 §3.3.5).
fn change(reader: &mut Reader<'_>) -> Result<(), Error> {
    reader.bool()?;
    reader.u64()?;
    reader.u64()?;
    Ok(())
}

/// `OPEN4resok` (RFC 8881 §18.16.2). No delegation was asked for; one that comes is left to expire.
fn opened(reader: &mut Reader<'_>) -> Result<Stateid, Error> {
    let stateid_ = stateid(reader)?;
    // rflags and attrset follow.
    change(reader)?;
    reader.u32()?;
    reader.get::<Bitmap>()?;
    match reader.enumeration(|kind| (kind < 4).then_some(kind))? {
        0 => {}
        3 => {
            // WND4_CONTENTION and WND4_RESOURCE say whether the server will tell later.
            if matches!(reader.u32()?, 1 | 2) {
                reader.bool()?;
            }
        }
        kind => {
            stateid(reader)?;
            reader.bool()?;
            if kind == 2 {
                match reader.enumeration(|limit| matches!(limit, 1 | 2).then_some(limit))? {
                    1 => reader.u64().map(|_| ())?,
                    _ => reader.u64().map(|_| ())?,
                }
            }
            for _ in 0..3 {
                reader.u32()?;
            }
            reader.opaque(OPAQUE)?;
        }
    }
    Ok(stateid_)
}

/// The attributes that were asked for (RFC 8881 §5): others have no place in the answer.
fn attributes(reader: &mut Reader<'_>) -> Result<FileFacts, Error> {
    let told: Bitmap = reader.get()?;
    let values = reader.opaque(ATTRIBUTES)?;
    let mut values = Reader::new(values);
    let mut facts = FileFacts::default();
    for number in told.iter().take(ENTRIES) {
        match number {
            FileFacts::TYPE => facts.kind = Some(values.u32()?),
            FileFacts::SIZE => facts.size = Some(values.u64()?),
            FileFacts::FSID => facts.fsid = Some([values.u64()?, values.u64()?]),
            FileFacts::FILEID => facts.fileid = Some(values.u64()?),
            FileFacts::MAXREAD => facts.max_read = Some(values.u64()?),
            FileFacts::MAXWRITE => facts.max_write = Some(values.u64()?),
            FileFacts::CHANGE => {
                values.u64()?;
            }
            FileFacts::RDATTR_ERROR => {
                values.u32()?;
            }
            FileFacts::TIME_MODIFY => {
                facts.modified = Some(values.i64()?);
                values.u32()?;
            }
            // Of a stat, whatever follows is as long as it is.
            FileFacts::MODE => return Ok(facts),
            other => return Err(Error::NotInEnumeration(other)),
        }
    }
    values.end()?;
    Ok(facts)
}
