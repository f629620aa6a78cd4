//! What is to be done with a command, decided from its queue entry alone.

use buf::SharedBuf;
use volume::{Durability, Epoch, Extent, Operation, VolumeId};

use super::allocation::Query;
use crate::opcode::CommandGroup;
use crate::sgl::{Capsule, DataPointer, KeyedBlock, SglSupport};
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;

/// A command as its capsule has brought it.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedCommand {
    /// The queue entry.
    pub entry: SubmissionQueueEntry,
    /// Where its data is, as its data pointer says; `None` if that is of no known kind. Whoever has to know looks here: it is read once.
    pub pointer: Option<DataPointer>,
}

impl ReceivedCommand {
    /// No command.
    pub(crate) const NONE: Self = Self { entry: SubmissionQueueEntry::NONE, pointer: None };

    /// Reads where the command's data is.
    #[inline]
    pub(crate) fn new(entry: SubmissionQueueEntry) -> Self {
        Self { entry, pointer: entry.dptr.data_pointer() }
    }

    /// The command's memory at the host, if a key opens it.
    #[inline]
    pub fn keyed_block(&self) -> Option<KeyedBlock> {
        self.pointer.and_then(DataPointer::keyed_block)
    }

    /// What is left of the command when it ends.
    #[inline]
    pub(super) const fn ended(&self) -> EndedCommand {
        EndedCommand { cid: self.entry.cid.get(), pointer: self.pointer }
    }

    /// The command in a capsule with so many bytes of data behind it.
    #[inline]
    pub(super) const fn capsule(&self, data: usize, sgls: SglSupport) -> Capsule {
        Capsule { data, sgls, pointer: self.pointer }
    }
}

/// What is left of a command when it ends: what its completion and its data need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedCommand {
    pub(crate) cid: u16,
    pub(crate) pointer: Option<DataPointer>,
}

/// Where a request goes, and what it was judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VolumeRef {
    pub(crate) volume: VolumeId,
    pub(crate) epoch: Epoch,
}

/// Blocks that the host wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    pub(crate) volume_ref: VolumeRef,
    pub(crate) extent: Extent,
    /// Bytes of them.
    pub(crate) length: usize,
}

/// A write or compare whose data is on its way, decoded and checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataTransfer {
    pub(crate) extent: Extent,
    /// Position of the namespace among those of the queue.
    pub(crate) namespace: u32,
    pub(crate) kind: TransferKind,
}

/// What a volume does with data from the host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TransferKind {
    Write(Durability),
    Compare,
}

/// How a command ends: the status, and the value of its completion (dwords 0 and 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandResult {
    pub(crate) status: Status,
    pub(crate) value: u64,
}

impl CommandResult {
    pub(crate) const SUCCESS: Self = Self::of(Status::SUCCESS);

    /// This status, without a value.
    pub(crate) const fn of(status: Status) -> Self {
        Self { status, value: 0 }
    }

    /// Success with this value.
    pub(crate) const fn success(value: u64) -> Self {
        Self { status: Status::SUCCESS, value }
    }
}

impl TransferKind {
    /// What reservations take it for.
    pub(crate) const fn group(self) -> CommandGroup {
        match self {
            Self::Write(_) => CommandGroup::Write,
            Self::Compare => CommandGroup::Read,
        }
    }
}

/// How far a command is that needs several requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// The next range of a Dataset Management command, or namespace of a Flush.
    pub(crate) next: usize,
    /// Blocks of that range that are done.
    pub(crate) done: u64,
}

impl Position {
    /// Nothing is done.
    pub(crate) const START: Self = Self { next: 0, done: 0 };
    /// The first request is with its volume.
    pub(crate) const AFTER_FIRST: Self = Self { next: 1, done: 0 };
}

/// A decision.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Complete it now.
    Finish(CommandResult),
    /// Complete it now with data to the host, of exactly the length that its data pointer says.
    Respond(SharedBuf),
    /// Get its data first: for a transfer, or for a command whose queue entry says what the data means.
    Receive { length: usize, in_capsule: bool, transfer: Option<DataTransfer> },
    /// Read blocks for the host.
    Read(Read),
    /// Submit a request without data; further steps follow from the queue entry.
    Submit { volume_ref: VolumeRef, operation: Operation },
    /// Look how blocks are allocated.
    Query(Query),
    /// Keep it until something happens.
    Hold,
    /// Abort the command that it names, and keep it until that has ended.
    Abort,
    /// Keep it until the controller's I/O queues have ended.
    Quiesce,
    /// End the queue, and keep it until the queue's other commands have ended.
    Disconnect,
}

impl Plan {
    pub(crate) const fn fail(status: Status) -> Self {
        Self::Finish(CommandResult::of(status))
    }

    /// Gets the data of a command that is no transfer.
    pub(crate) const fn receive(pointer: DataPointer) -> Self {
        Self::Receive { length: pointer.length(), in_capsule: pointer.is_in_capsule(), transfer: None }
    }

    pub(crate) const fn success(value: u64) -> Self {
        Self::Finish(CommandResult::success(value))
    }
}
