//! A session as its client has it, and what outlives its connections (RFC 8881 §2.10).

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use rpc::xdr::{Stream, Writer};

use super::arguments::{Arguments, Sequence};
use super::found::Channel;
use super::limits::{LEAST_CACHED_REPLY, LEAST_PAYLOAD, LOOKUPS, PAYLOAD};
use super::plan::Plan;
use super::results::SequenceAnswer;
use super::slots::Slots;
use super::subject::SlotUse;
use crate::v4::{ClientId, SessionId, Stateid, Verifier};

/// Bytes of a call beside a WRITE's data: RPC's header with 400 bytes of AUTH_SYS (472), the COMPOUND's (12), SEQUENCE (44), PUTFH (136), WRITE (32).
const REQUEST_OVERHEAD: u32 = 704;
/// Bytes of a reply beside a READ's data: RPC's header with a verifier (440), the COMPOUND's (12 and an empty tag), SEQUENCE (44), PUTFH (8), READ (16).
const REPLY_OVERHEAD: u32 = 528;

/// A session.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) client: ClientId,
    pub(super) id: SessionId,
    pub(super) minor: u32,
    pub(super) slots: Slots,
    /// Bytes of the largest READ and of the largest WRITE that fit into its messages.
    pub(super) read_limit: u32,
    pub(super) write_limit: u32,
    /// Names that are looked up at a time.
    pub(super) lookups: usize,
    /// Replies are kept for retries.
    caches: bool,
}

impl Session {
    /// A session with what the server has granted; `None` if nothing useful can be done with it.
    pub(super) fn new(client: ClientId, id: SessionId, minor: u32, channel: &Channel) -> Option<Self> {
        let payload = |message: u32, overhead| {
            let most = message.saturating_sub(overhead).min(PAYLOAD);
            most / LEAST_PAYLOAD * LEAST_PAYLOAD
        };
        let (read_limit, write_limit) =
            (payload(channel.max_response, REPLY_OVERHEAD), payload(channel.max_request, REQUEST_OVERHEAD));
        // SEQUENCE, PUTFH, GETATTR and COMMIT.
        let useful = read_limit > 0 && write_limit > 0 && channel.max_operations >= 4 && channel.slots > 0;
        let lookups = channel.max_operations.saturating_sub(3).clamp(1, LOOKUPS);
        useful.then(|| Self {
            client,
            id,
            minor,
            slots: Slots::new(channel.slots),
            read_limit,
            write_limit,
            lookups: wire::index(lookups.into()),
            caches: channel.max_cached >= LEAST_CACHED_REPLY,
        })
    }

    /// Begins a COMPOUND in a slot.
    pub(super) fn begin(&self, writer: Writer, of: SlotUse, cache: bool) -> Arguments {
        let sequence = Sequence {
            session: self.id,
            id: of.sequence,
            slot: of.slot,
            highest: self.slots.highest(),
            cache: cache && self.caches,
        };
        Arguments::new(writer, self.minor).sequence(&sequence)
    }

    /// True if a SEQUENCE was answered as what it was.
    pub(super) fn recognises(&self, of: SlotUse, answer: &SequenceAnswer) -> bool {
        (answer.session, answer.slot, answer.sequence) == (self.id, of.slot, of.sequence)
    }
}

/// An open file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenFile {
    pub(super) handle: Vec<u8>,
    /// Of the open, with a seqid of zero: whatever its newest is (RFC 8881 §8.2.2).
    pub(super) stateid: Stateid,
}

/// A slot that carried something when its connection was lost.
#[derive(Debug, Clone)]
pub(super) struct Unsettled {
    pub(super) of: SlotUse,
    /// What it carried, if it changes something: it is sent again as it was. Otherwise a bare SEQUENCE says what became of the slot.
    pub(super) change: Option<Change>,
}

/// A COMPOUND that changes something.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) arguments: Stream,
    pub(super) plan: Plan,
    pub(super) key: ChangeKey,
}

/// Which part of which request a change is: requests have numbers that never come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangeKey {
    pub(super) tag: volume::Tag,
    /// Where in the file it begins, in bytes.
    pub(super) offset: u64,
    /// How many bytes it has.
    pub(super) length: u64,
}

/// A change that a connection before has sent, and that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) key: ChangeKey,
    /// Bytes.
    pub(super) written: u64,
    /// The write verifier that it was answered with; none for what has none.
    pub(super) verifier: Option<Verifier>,
}

/// What a connection leaves to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct Remains {
    pub(super) session: Option<Session>,
    /// A session that is of no use any more, and is to end before anything else is done.
    pub(super) obsolete: Option<SessionId>,
    pub(super) minor: Option<u32>,
    pub(super) file: Option<OpenFile>,
    pub(super) unsettled: Vec<Unsettled>,
    /// Changes that were carried out, and whose requests have not heard of it.
    pub(super) settled: VecDeque<Settled>,
}

/// What the connections of one volume queue, one after the other, have in common: client, session, and what is open. A new one has nothing.
#[derive(Debug, Clone, Default)]
pub struct Keep(Rc<RefCell<Remains>>);

impl Keep {
    pub(super) fn take(&self) -> Remains {
        self.0.take()
    }

    pub(super) fn put(&self, remains: Remains) {
        *self.0.borrow_mut() = remains;
    }
}
