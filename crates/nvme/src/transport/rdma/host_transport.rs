//! RDMA under a host's queue: the commands that wait to be sent, and where those are that were.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use buf::BufList;
use verbs::{QueuePair, RemoteRegion, STag, WorkRequest};
use zerocopy::IntoBytes;

use super::capsules::Capsules;
use super::work::Work;
use crate::cqe::CompletionQueueEntry;
use crate::host::{CommandCapsule, FabricTransport};
use crate::log::TransportType;
use crate::opcode::FABRICS;
use crate::sgl::{KeyedBlock, SglDescriptor};
use crate::sqe::SubmissionQueueEntry;
use crate::width::from_field;

/// How far a command is, by its identifier.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// There is none.
    Free,
    /// Its memory is being registered: it is sent when it has a key.
    Registering(SubmissionQueueEntry),
    /// It was sent, with the key of its memory, if it has any.
    Sent(Option<STag>),
    /// It was answered, and its memory is on its way back.
    Ending(CompletionQueueEntry),
}

/// Work requests that a command may still post: of registering, sending and invalidating, two wait for each other at most.
const WORK_OF_COMMAND: usize = 2;

/// The queue pair's send queue at the host, as the queue has filled it.
#[derive(Debug)]
pub(super) struct HostTransport {
    pub(super) waiting: VecDeque<CommandCapsule>,
    places: Vec<Place>,
    capsules: Capsules,
    /// Bytes of data that a capsule may carry.
    in_capsule: usize,
    /// Commands that may be under way at a time: as many as the controller has receives for.
    credit: usize,
    commands: usize,
    regions: usize,
    /// Requests that are under way.
    under_way: usize,
}

impl FabricTransport for HostTransport {
    const TRANSPORT: TransportType = TransportType::Rdma;

    #[inline]
    fn send_command(&mut self, capsule: CommandCapsule) {
        self.waiting.push_back(capsule);
    }

    fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl HostTransport {
    /// Of a queue with so many entries, and so much data in a capsule.
    pub(super) fn new(entries: u16, in_capsule: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            places: (0..entries).map(|_| Place::Free).collect(),
            capsules: Capsules::default(),
            in_capsule,
            credit: usize::from(entries),
            commands: 0,
            regions: 0,
            under_way: 0,
        }
    }

    /// The controller has so many receives.
    pub(super) fn limit(&mut self, receives: u16) {
        self.credit = self.credit.min(usize::from(receives));
    }

    /// Whether a command's data goes in its capsule. Fabrics commands have none there (§3.3.1).
    pub(super) fn is_in_capsule(&self, capsule: &CommandCapsule) -> bool {
        capsule.entry.opcode != FABRICS && capsule.data.len() <= self.in_capsule
    }

    /// The next command, if it may be sent now.
    #[inline]
    pub(super) fn next_command(&mut self, pair: &impl QueuePair) -> Option<CommandCapsule> {
        let limits = pair.limits();
        let promised = self.commands.saturating_add(1).saturating_mul(WORK_OF_COMMAND);
        let room = self.commands < self.credit
            && self.under_way.saturating_add(promised) <= limits.sends
            && self.regions < limits.regions;
        if room { self.waiting.pop_front() } else { None }
    }

    /// How far a command is.
    pub(super) fn place(&self, cid: u16) -> Place {
        self.places.get(usize::from(cid)).copied().unwrap_or(Place::Free)
    }

    fn set(&mut self, cid: u16, place: Place) {
        if let Some(own) = self.places.get_mut(usize::from(cid)) {
            *own = place;
        }
    }

    /// Commands with a region, and its key.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        (0_u16..).zip(&self.places).filter_map(|(cid, place)| match place {
            Place::Sent(Some(stag)) => Some(Key { cid, stag: *stag }),
            _ => None,
        })
    }

    /// A command begins whose memory is registered first.
    pub(super) fn begin_registering(&mut self, entry: SubmissionQueueEntry) {
        self.set(entry.cid.get(), Place::Registering(entry));
        self.commands = self.commands.saturating_add(1);
        self.regions = self.regions.saturating_add(1);
        self.under_way = self.under_way.saturating_add(1);
    }

    /// A command's memory has a key: the command is sent with it.
    pub(super) fn registered(&mut self, pair: &mut impl QueuePair, cid: u16, region: RemoteRegion) {
        self.under_way = self.under_way.saturating_sub(1);
        let Place::Registering(mut entry) = self.place(cid) else { return };
        let block = KeyedBlock {
            address: region.offset,
            key: region.stag.0,
            length: from_field(region.length),
            invalidate: pair.limits().remote_invalidation,
        };
        // The longest request of a queue pair is shorter than what a descriptor can say: the queue splits no command that is longer.
        entry.dptr = SglDescriptor::keyed(block).unwrap_or(SglDescriptor::NO_KEYED_DATA);
        self.set(cid, Place::Sent(Some(region.stag)));
        self.send(pair, &entry, BufList::new());
    }

    /// A command's memory could not be registered, as the queue pair has ended.
    pub(super) fn not_registered(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Sends a command without memory of its own at the host, or with its data in the capsule.
    pub(super) fn send_bare(&mut self, pair: &mut impl QueuePair, capsule: CommandCapsule) {
        let CommandCapsule { mut entry, data } = capsule;
        if data.is_empty() {
            entry.dptr = SglDescriptor::NO_KEYED_DATA;
        }
        self.commands = self.commands.saturating_add(1);
        self.set(entry.cid.get(), Place::Sent(None));
        self.send(pair, &entry, data);
    }

    #[inline]
    fn send(&mut self, pair: &mut impl QueuePair, entry: &SubmissionQueueEntry, data: BufList) {
        let data = self.capsules.fill(entry.as_bytes(), data);
        let posted = pair.post(Work::Send.id(), WorkRequest::Send { data, invalidate: None }).is_ok();
        self.under_way = self.under_way.saturating_add(usize::from(posted));
    }

    /// A capsule has gone out, and is free.
    pub(super) fn sent(&mut self, capsule: BufList) {
        self.under_way = self.under_way.saturating_sub(1);
        self.capsules.take_back(capsule);
    }

    /// A command was answered whose memory has a key: nobody may use that any more.
    pub(super) fn begin_ending(
        &mut self,
        pair: &mut impl QueuePair,
        key: Key,
        completion: CompletionQueueEntry,
    ) {
        self.set(key.cid, Place::Ending(completion));
        self.take_memory(pair, key);
    }

    /// Asks for the memory of a command back.
    pub(super) fn take_memory(&mut self, pair: &mut impl QueuePair, key: Key) {
        let request = WorkRequest::Invalidate { stag: key.stag };
        let posted = pair.post(Work::Invalidate(key.cid).id(), request).is_ok();
        self.under_way = self.under_way.saturating_add(usize::from(posted));
    }

    /// The memory of a command is back.
    pub(super) fn invalidated(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.regions = self.regions.saturating_sub(1);
    }

    /// A command has ended.
    pub(super) fn end(&mut self, cid: u16) {
        self.set(cid, Place::Free);
        self.commands = self.commands.saturating_sub(1);
    }
}

/// A command's region.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) cid: u16,
    pub(super) stag: STag,
}
