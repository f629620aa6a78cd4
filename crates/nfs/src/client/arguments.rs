//! The COMPOUNDs that a client sends, written operation by operation (RFC 8881 §16.2, §18; RFC 7862 §15; wire: RFC 5662, RFC 7863).

use buf::BufList;
use rpc::xdr::{Place, Stream, Writer};

use super::data::{Ask, Stable};
use super::found::FileFacts;
use super::limits::{CACHED_REPLY, OPERATIONS, OVERHEAD, PAYLOAD, SLOTS};
use super::plan::Plan;
use crate::v4::operation::OpNumber;
use crate::v4::{Bitmap, ClientId, SessionId, Stateid, Verifier};

/// FATTR4_SIZE (RFC 8881 §5.8.1.5).
const SIZE: u32 = 4;
/// FATTR4_MODE (RFC 8881 §6.2.4).
const MODE: u32 = 33;
/// OPEN4_SHARE_ACCESS_WANT_NO_DELEG (RFC 8881 §18.16.1): there is no backchannel to recall one.
const WANT_NO_DELEGATION: u32 = 0x0400;
/// OPEN4_SHARE_DENY_WRITE.
const DENY_WRITE: u32 = 2;
/// EXCHGID4_FLAG_USE_NON_PNFS (RFC 8881 §18.35).
const USE_NON_PNFS: u32 = 0x0001_0000;
/// CDFC4_FORE (RFC 8881 §18.34).
const FORE: u32 = 1;

/// What a SEQUENCE says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) session: SessionId,
    pub(super) id: u32,
    pub(super) slot: u32,
    pub(super) highest: u32,
    /// The reply is to be kept for a retry.
    pub(super) cache: bool,
}

/// What OPEN is to allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) writes: bool,
    /// Nobody else may open it for writing.
    pub(super) excludes_writers: bool,
}

/// A COMPOUND under construction.
#[derive(Debug)]
pub(super) struct Arguments {
    writer: Writer,
    count: Option<Place>,
    plan: Plan,
}

/// A finished COMPOUND, and what its answer consists of.
#[derive(Debug)]
pub(super) struct Compound {
    pub(super) stream: Stream,
    pub(super) plan: Plan,
}

impl Arguments {
    /// Begins one of a minor version, without a tag.
    pub(super) fn new(mut writer: Writer, minor: u32) -> Self {
        writer.opaque(&[]);
        writer.u32(minor);
        let count = Some(writer.place());
        Self { writer, count, plan: Plan::default() }
    }

    /// What was written.
    pub(super) fn finish(mut self) -> Compound {
        if let Some(count) = self.count.take() {
            self.writer.set(count, self.plan.len());
        }
        Compound { stream: self.writer.finish(), plan: self.plan }
    }

    fn begin(&mut self, operation: OpNumber) -> &mut Writer {
        self.plan.push(operation);
        self.writer.u32(operation.0);
        &mut self.writer
    }

    fn stateid(&mut self, stateid: Stateid) {
        self.writer.u32(stateid.seqid);
        self.writer.fixed(&stateid.other.0);
    }

    /// EXCHANGE_ID, without state protection.
    pub(super) fn exchange_id(mut self, owner: &[u8], verifier: Verifier) -> Self {
        let writer = self.begin(OpNumber::EXCHANGE_ID);
        writer.fixed(&verifier.0);
        writer.opaque(owner);
        writer.u32(USE_NON_PNFS);
        // SP4_NONE; no implementation identifier.
        writer.u32(0);
        writer.u32(0);
        self
    }

    /// CREATE_SESSION, without a backchannel.
    pub(super) fn create_session(mut self, client: ClientId, sequence: u32) -> Self {
        let writer = self.begin(OpNumber::CREATE_SESSION);
        writer.u64(client.0);
        writer.u32(sequence);
        // Flags; then the fore channel's attributes, and those of a backchannel that is not made.
        writer.u32(0);
        let message = PAYLOAD + OVERHEAD;
        for attributes in [[message, message, CACHED_REPLY, OPERATIONS, SLOTS], [4096, 4096, 0, 2, 1]] {
            writer.u32(0);
            for attribute in attributes {
                writer.u32(attribute);
            }
            writer.u32(0);
        }
        // The callback program, and AUTH_NONE for it.
        writer.u32(0);
        writer.u32(1);
        writer.u32(0);
        self
    }

    /// BIND_CONN_TO_SESSION, of the fore channel.
    pub(super) fn bind(mut self, session: SessionId) -> Self {
        let writer = self.begin(OpNumber::BIND_CONN_TO_SESSION);
        writer.fixed(&session.0);
        writer.u32(FORE);
        writer.u32(0);
        self
    }

    /// DESTROY_SESSION.
    pub(super) fn destroy_session(mut self, session: SessionId) -> Self {
        self.begin(OpNumber::DESTROY_SESSION).fixed(&session.0);
        self
    }

    /// DESTROY_CLIENTID.
    pub(super) fn destroy_client(mut self, client: ClientId) -> Self {
        self.begin(OpNumber::DESTROY_CLIENTID).u64(client.0);
        self
    }

    /// SEQUENCE.
    pub(super) fn sequence(mut self, of: &Sequence) -> Self {
        let writer = self.begin(OpNumber::SEQUENCE);
        writer.fixed(&of.session.0);
        writer.u32(of.id);
        writer.u32(of.slot);
        writer.u32(of.highest);
        writer.put(&of.cache);
        self
    }

    /// RECLAIM_COMPLETE, of everything.
    pub(super) fn reclaim_complete(mut self) -> Self {
        self.begin(OpNumber::RECLAIM_COMPLETE).put(&false);
        self
    }

    /// PUTROOTFH.
    pub(super) fn put_root(mut self) -> Self {
        self.begin(OpNumber::PUTROOTFH);
        self
    }

    /// PUTFH.
    pub(super) fn put_handle(mut self, handle: &[u8]) -> Self {
        self.begin(OpNumber::PUTFH).opaque(handle);
        self
    }

    /// LOOKUP.
    pub(super) fn lookup(mut self, name: &[u8]) -> Self {
        self.begin(OpNumber::LOOKUP).opaque(name);
        self
    }

    /// GETFH.
    pub(super) fn get_handle(mut self) -> Self {
        self.begin(OpNumber::GETFH);
        self
    }

    /// GETATTR.
    pub(super) fn get_attributes(mut self, wanted: &Bitmap) -> Self {
        self.begin(OpNumber::GETATTR).put(wanted);
        self
    }

    fn begin_open(&mut self, opening: Opening, client: ClientId, owner: &[u8]) {
        let writer = self.begin(OpNumber::OPEN);
        writer.u32(0);
        writer.u32(if opening.writes { 3 } else { 1 } | WANT_NO_DELEGATION);
        writer.u32(if opening.excludes_writers { DENY_WRITE } else { 0 });
        writer.u64(client.0);
        writer.opaque(owner);
    }

    /// OPEN of a name in the current directory (CLAIM_NULL).
    pub(super) fn open(mut self, opening: Opening, client: ClientId, owner: &[u8], name: &[u8]) -> Self {
        self.begin_open(opening, client, owner);
        // OPEN4_NOCREATE, CLAIM_NULL.
        self.writer.u32(0);
        self.writer.u32(0);
        self.writer.opaque(name);
        self
    }

    /// OPEN of the current file, which was open before the server restarted (CLAIM_PREVIOUS, without a delegation).
    pub(super) fn reclaim(mut self, opening: Opening, client: ClientId, owner: &[u8]) -> Self {
        self.begin_open(opening, client, owner);
        // OPEN4_NOCREATE, CLAIM_PREVIOUS, OPEN_DELEGATE_NONE.
        self.writer.u32(0);
        self.writer.u32(1);
        self.writer.u32(0);
        self
    }

    /// OPEN of a name in the current directory that must not be there yet (OPEN4_CREATE, GUARDED4, CLAIM_NULL), with these permissions.
    pub(super) fn open_new(
        mut self,
        opening: Opening,
        client: ClientId,
        owner: &[u8],
        name: &[u8],
        mode: u32,
    ) -> Self {
        self.begin_open(opening, client, owner);
        self.writer.u32(1);
        self.writer.u32(1);
        self.mode(mode);
        self.writer.u32(0);
        self.writer.opaque(name);
        self
    }

    /// CREATE of a directory in the current one, with these permissions.
    pub(super) fn create_directory(mut self, name: &[u8], mode: u32) -> Self {
        let writer = self.begin(OpNumber::CREATE);
        writer.u32(FileFacts::DIRECTORY);
        writer.opaque(name);
        self.mode(mode);
        self
    }

    fn mode(&mut self, mode: u32) {
        self.writer.put(&Bitmap::of(&[MODE]));
        self.writer.u32(4);
        self.writer.u32(mode);
    }

    /// READDIR from a cookie on, with an answer of so many bytes at most.
    pub(super) fn list(mut self, cookie: u64, verifier: [u8; 8], bytes: u32, wanted: &Bitmap) -> Self {
        let writer = self.begin(OpNumber::READDIR);
        writer.u64(cookie);
        writer.fixed(&verifier);
        writer.u32(bytes);
        writer.u32(bytes);
        writer.put(wanted);
        self
    }

    /// REMOVE.
    pub(super) fn remove(mut self, name: &[u8]) -> Self {
        self.begin(OpNumber::REMOVE).opaque(name);
        self
    }

    /// CLOSE.
    pub(super) fn close(mut self, stateid: Stateid) -> Self {
        self.begin(OpNumber::CLOSE).u32(0);
        self.stateid(stateid);
        self
    }

    /// VERIFY that the size is so many bytes: what follows is done only then.
    pub(super) fn verify_size(mut self, size: u64) -> Self {
        self.begin(OpNumber::VERIFY);
        self.size(size);
        self
    }

    fn size(&mut self, size: u64) {
        self.writer.put(&Bitmap::of(&[SIZE]));
        self.writer.u32(8);
        self.writer.u64(size);
    }

    /// SETATTR of the size, in bytes.
    pub(super) fn set_size(mut self, stateid: Stateid, size: u64) -> Self {
        self.begin(OpNumber::SETATTR);
        self.stateid(stateid);
        self.size(size);
        self
    }

    /// FREE_STATEID.
    pub(super) fn free(mut self, stateid: Stateid) -> Self {
        self.begin(OpNumber::FREE_STATEID);
        self.stateid(stateid);
        self
    }

    /// READ.
    fn read(mut self, stateid: Stateid, offset: u64, count: u32) -> Self {
        self.begin(OpNumber::READ);
        self.stateid(stateid);
        self.writer.u64(offset);
        self.writer.u32(count);
        self
    }

    /// WRITE, of memory that is not copied.
    fn write(mut self, stateid: Stateid, offset: u64, stable: Stable, data: BufList) -> Self {
        self.begin(OpNumber::WRITE);
        self.stateid(stateid);
        self.writer.u64(offset);
        self.writer.u32(stable.number());
        self.writer.payload(data);
        self
    }

    /// COMMIT of a range, or of everything from its offset if the count is zero.
    pub(super) fn commit(mut self, offset: u64, count: u32) -> Self {
        let writer = self.begin(OpNumber::COMMIT);
        writer.u64(offset);
        writer.u32(count);
        self
    }

    /// What a request of the volume's asks for next.
    pub(super) fn ask(self, stateid: Stateid, ask: Ask) -> Self {
        match ask {
            Ask::Read { offset, count } => self.read(stateid, offset, count),
            Ask::Write { offset, stable, data } => self.write(stateid, offset, stable, data),
            Ask::Commit => self.commit(0, 0),
            Ask::Deallocate { offset, length } => self.deallocate(stateid, offset, length),
        }
    }

    /// DEALLOCATE (RFC 7862 §15.4).
    pub(super) fn deallocate(mut self, stateid: Stateid, offset: u64, length: u64) -> Self {
        self.begin(OpNumber::DEALLOCATE);
        self.stateid(stateid);
        self.writer.u64(offset);
        self.writer.u64(length);
        self
    }
}
