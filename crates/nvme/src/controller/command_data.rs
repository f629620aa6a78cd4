//! The data of one queue's commands, and the memory for it.
//!
//! Data has a buffer of the pool: a read before it goes to the volume, a write before its data is asked for. Until then a command waits with nothing, in
//! order (`memory_waiters`), and further commands come; only one with its data in the capsule is withheld until there is memory for it (`submission_gate`).
//! Everything else that a host can make grow is counted in bytes (`queue_memory`).
//!
//! A command whose data makes no progress ends with Data Transfer Error (`data_progress`), and a connection whose data stops where nothing can come behind it is closed.
//! Both come sooner while others wait for memory. An admin queue is always read, as keep alive commands come there: what finds no memory is answered
//! that it may be tried again.

use buf::{Buf, Outside, Pool};
use protocol::{CloseReason, Instant, NoticeKind};
use volume::Operation;

use super::command::{CommandResult, DataTransfer, Plan, Position, Read, ReceivedCommand};
use super::command_table::CommandTable;
use super::data_progress::{DataProgress, DataSource, Demand};
use super::fabric_transport::{FabricTransport, GetData, Withdrawal};
use super::memory_waiters::{Candidate, MemoryWaiters};
use super::outgoing::Outgoing;
use super::queue_memory::QueueMemory;
use super::slots::{Slot, Step};
use super::submission_gate::{Gate, Patience, SubmissionGate};
use crate::limits::{ADMIN_DATA, UNSENT, UNSENT_BYTES, UNSENT_OF_SLOT};
use crate::opcode::FABRICS;
use crate::sgl::{Capsule, DataPointer};
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;

/// What has become of a command that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It was taken. What data its capsule has is of no use.
    Taken,
    /// It was taken, and the capsule's data is to be put into the memory of this slot.
    Receives {
        /// The command's slot.
        slot: u16,
        /// Where the data begins behind the queue entry, in bytes.
        offset: usize,
    },
    /// It waits where it is: it is to come again when [`ControllerQueue::takes_submissions`](super::ControllerQueue::takes_submissions) says so.
    Withheld,
}

/// A command's data as far as it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The command's identifier.
    pub cid: u16,
    /// Bytes that have come.
    pub received: usize,
    /// Bytes in all.
    pub length: usize,
    /// The command has ended: what still comes is passed over.
    pub abandoned: bool,
}

/// Whether data came as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// As far as the transport can tell.
    Intact,
    /// The transport has found it damaged.
    Damaged,
}

/// What has become of a command whose data is not to be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    /// It has ended.
    Ended,
    /// Its data is just arriving: it ends then.
    Arriving,
    /// It goes on: too much is owed for commands that have ended already.
    Owed,
}

/// Which memory a command may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// Whatever there is.
    Any,
    /// What is left of the floor.
    Floor,
}

/// A command that has its data whole.
#[derive(Debug)]
pub(super) struct WholeData {
    pub(super) transfer: Option<DataTransfer>,
    pub(super) data: Buf,
}

/// The data of one queue's commands.
#[derive(Debug)]
pub(super) struct CommandData {
    memory: QueueMemory,
    waiters: MemoryWaiters,
    progress: DataProgress,
    gate: SubmissionGate,
}

impl CommandData {
    /// Of a queue that expects no data.
    pub(super) fn new(pool: &Pool, now: Instant) -> Self {
        Self {
            memory: QueueMemory::new(pool),
            waiters: MemoryWaiters::new(pool.returns()),
            progress: DataProgress::new(now),
            gate: SubmissionGate::default(),
        }
    }

    /// The queue is over: others are to have the memory that commands here wait for.
    pub(super) fn end(&mut self) {
        self.waiters.clear();
        self.gate.open();
    }

    /// No command begins any more that waits for memory.
    pub(super) fn clear_waiters(&mut self) {
        self.waiters.clear();
    }

    /// How long the next command may wait for memory, on a queue that has this patience. It may not while transfers are under way, as what they wait for may
    /// come behind it.
    pub(super) fn patience(&self, of_queue: Patience) -> Patience {
        if self.progress.has_transfers() { Patience::None } else { of_queue }
    }

    /// True while the host had better read first.
    #[inline]
    pub(super) fn is_congested<T: FabricTransport>(&self, table: &CommandTable, out: &Outgoing<T>) -> bool {
        let slots = &table.slots;
        let most = UNSENT.saturating_add(usize::from(slots.granted()).saturating_mul(UNSENT_OF_SLOT));
        let backlog = out.transport.backlog();
        slots.is_full()
            || backlog.count >= most
            || backlog.unpooled >= UNSENT_BYTES
            || self.memory.is_overdrawn(backlog.unpooled)
    }

    /// Whether there is room for what the next command asks. If not, it waits.
    #[inline]
    pub(super) fn has_room<T: FabricTransport>(&mut self, table: &CommandTable, out: &Outgoing<T>) -> bool {
        let congested = self.is_congested(table, out);
        if congested {
            self.gate.on_congestion();
        } else {
            self.gate.open();
        }
        !congested
    }

    /// Whether the next command may come, or what waited may come again.
    #[inline]
    pub(super) fn takes_submissions<T: FabricTransport>(
        &self,
        table: &CommandTable,
        out: &Outgoing<T>,
    ) -> bool {
        match self.gate.state() {
            Gate::Open => true,
            Gate::AwaitsMemory { returns, .. } => self.memory.returns() != returns,
            Gate::AwaitsSlot { .. } => !table.slots.is_spent(),
            Gate::AwaitsRoom => !self.is_congested(table, out),
        }
    }

    /// Whether a command that found no memory, or no slot, is withheld; otherwise it is to be taken and to fail.
    pub(super) fn withholds(&mut self, now: Instant, of_queue: Patience) -> bool {
        let patience = self.patience(of_queue);
        self.gate.withholds(now, patience)
    }

    /// An Abort names the command with this identifier: true if it is the one that waits before it is taken. It comes at once, and fails.
    pub(super) fn release_withheld(&mut self, cid: u16) -> bool {
        self.gate.on_abort(cid)
    }

    /// Lets the next command come in any case.
    pub(super) fn open_gate(&mut self) {
        self.gate.open();
    }

    /// When the next command comes in any case, although there is no memory for it.
    pub(super) fn submission_due(&self) -> Option<Instant> {
        self.gate.due()
    }

    /// Whether there is memory for more commands and their answers; if not, this one waits for one of those under way.
    #[cold]
    pub(super) fn has_more_slots<T: FabricTransport>(&mut self, table: &mut CommandTable, cid: u16) -> bool {
        let more = table.slots.wants();
        let each = size_of::<Slot>().saturating_add(T::UNSENT_SIZE.saturating_mul(UNSENT_OF_SLOT));
        let granted = more > 0 && self.memory.charge_tables(usize::from(more).saturating_mul(each));
        if granted {
            table.slots.grant(more);
            self.gate.on_memory();
        } else {
            self.gate.on_no_slot(cid);
        }
        granted
    }

    /// Whether there is room for a command's answer, which has data that no volume reads. Asked before the command is looked at,
    /// which may change what the answer says.
    pub(super) fn has_room_for_answer(&mut self, entry: &SubmissionQueueEntry, capsule: Capsule) -> bool {
        if entry.opcode == FABRICS {
            return true;
        }
        let length = entry.data_pointer(capsule).map_or(0, DataPointer::length);
        let returns = self.memory.returns();
        if length == 0 || length > ADMIN_DATA {
            return true;
        }
        let room = self.memory.charge_answer(length);
        if room {
            self.gate.on_memory();
        } else {
            self.gate.on_no_memory(entry.cid.get(), returns);
        }
        room
    }

    /// Memory for the answer of a command that volumes are asked for.
    pub(super) fn take_for_answer(&mut self, length: usize) -> Option<Buf> {
        self.memory.take(length)
    }

    /// Takes a command with its data; it is withheld until there is memory for that.
    #[inline]
    pub(super) fn receive_capsule<T: FabricTransport>(
        &mut self,
        parts: Parts<'_, T>,
        command: &ReceivedCommand,
        expected: CapsuleData,
    ) -> Admission {
        let Parts { table, out, now } = parts;
        let CapsuleData { length, transfer, patience } = expected;
        let returns = self.memory.returns();
        let Some(buf) = self.memory.take(length) else {
            self.gate.on_no_memory(command.entry.cid.get(), returns);
            if self.withholds(now, patience) {
                return Admission::Withheld;
            }
            out.complete(command.ended(), CommandResult::of(Status::COMMAND_INTERRUPTED), None);
            return Admission::Taken;
        };
        self.gate.on_memory();
        let step = Step::Data { buf: Some(buf), received: 0, length, damaged: false, heard: now, transfer };
        let Some(slot) = table.slots.begin(command, step) else { return Admission::Taken };
        self.progress.on_expected(now, DataSource::Capsule);
        let offset = match command.pointer {
            Some(DataPointer::InCapsule { offset, .. }) => offset,
            _ => 0,
        };
        Admission::Receives { slot, offset }
    }

    /// Begins a read, if no command waits and there is memory for its data.
    #[inline]
    pub(super) fn begin_read<T: FabricTransport>(
        &mut self,
        parts: Parts<'_, T>,
        command: &ReceivedCommand,
        read: &Read,
    ) -> bool {
        let Parts { table, out, .. } = parts;
        if !self.waiters.is_empty() {
            return false;
        }
        let Some(into) = self.memory.take(read.length) else { return false };
        let slot = table.slots.begin(command, Step::submitted(read.volume_ref.volume, Position::START));
        out.submit(slot, read.volume_ref, Operation::Read { extent: read.extent, into });
        true
    }

    /// Begins a new command with memory for its data, or lets it wait for that. What is little need not wait behind what is long.
    pub(super) fn begin_with_memory<T: FabricTransport>(
        &mut self,
        parts: Parts<'_, T>,
        command: &ReceivedCommand,
        plan: &Plan,
    ) {
        let now = parts.now;
        let Some(slot) = parts.table.slots.begin(command, Step::Waiting) else { return };
        let share = if self.waiters.is_empty() { Share::Any } else { Share::Floor };
        if !self.go_on_with_memory(parts, WaitingCommand { slot, share }, plan) {
            self.waiters.on_starved(now, slot);
        }
    }

    /// Goes on with a command that waits for memory for its data, if there is some; false while there is none.
    pub(super) fn go_on_with_memory<T: FabricTransport>(
        &mut self,
        parts: Parts<'_, T>,
        waiting: WaitingCommand,
        plan: &Plan,
    ) -> bool {
        let Parts { table, out, now } = parts;
        let WaitingCommand { slot: index, share } = waiting;
        let length = match plan {
            Plan::Read(read) => read.length,
            Plan::Receive { length, .. } => *length,
            _ => return true,
        };
        let buf = match share {
            Share::Any => self.memory.take(length),
            Share::Floor => self.memory.take_of_floor(length),
        };
        let Some(buf) = buf else { return false };
        let Some(slot) = table.slots.get(index) else { return true };
        match *plan {
            Plan::Read(Read { volume_ref, extent, .. }) => {
                slot.step = Step::submitted(volume_ref.volume, Position::START);
                out.submit(Some(index), volume_ref, Operation::Read { extent, into: buf });
            }
            Plan::Receive { transfer, .. } => {
                slot.step =
                    Step::Data { buf: Some(buf), received: 0, length, damaged: false, heard: now, transfer };
                self.progress.on_expected(now, DataSource::Host);
                out.transport.get_data(GetData { slot: index, command: &slot.command, length });
            }
            _ => {}
        }
        true
    }

    /// True when no command waits for memory.
    #[inline]
    pub(super) fn has_no_waiters(&self) -> bool {
        self.waiters.is_empty()
    }

    /// True if commands wait for memory, and some has come back to the pool since they were last offered it.
    #[inline]
    pub(super) fn has_returns(&mut self) -> bool {
        self.waiters.on_returns(self.memory.returns())
    }

    /// True when memory is to be looked for whatever happens.
    pub(super) fn is_retry_due(&self, now: Instant) -> bool {
        self.waiters.is_due(now)
    }

    /// Commands that wait are offered memory from now on, until [`CommandData::next_waiting`] has no more.
    pub(super) fn begin_offer(&mut self) {
        self.waiters.on_memory();
    }

    /// The command that is offered memory now, and which. One whose data cannot fit is passed.
    pub(super) fn next_waiting(&mut self, table: &mut CommandTable, now: Instant) -> Option<WaitingCommand> {
        while let Some(candidate) = self.waiters.candidate() {
            match candidate {
                Candidate::Oldest { slot } => return Some(WaitingCommand { slot, share: Share::Any }),
                Candidate::Behind { slot } => match self.memory.floor_left() {
                    // A queue that holds its floor, as those with much under way do, looks through nothing.
                    0 => {
                        self.waiters.on_offered();
                        return None;
                    }
                    left if fits(table, slot, left) => {
                        return Some(WaitingCommand { slot, share: Share::Floor });
                    }
                    _ => self.waiters.on_candidate_starved(now),
                },
            }
        }
        None
    }

    /// The command that was offered memory goes on, or has ended.
    pub(super) fn on_going_on(&mut self) {
        self.waiters.on_candidate_gone();
    }

    /// There was none for the command that was offered memory.
    pub(super) fn on_starved(&mut self, now: Instant) {
        self.waiters.on_candidate_starved(now);
    }

    /// A command that waits for memory ends; false if it does not wait.
    pub(super) fn stop_waiting(&mut self, slot: u16) -> bool {
        self.waiters.on_end(slot)
    }

    /// Ends a command that is not with a volume, as it is to end.
    pub(super) fn stop<T: FabricTransport>(
        &mut self,
        table: &mut CommandTable,
        out: &mut Outgoing<T>,
        index: u16,
    ) {
        if self.waiters.on_end(index) {
            table.finish_aborted(out, index);
        } else {
            self.stop_transfer(table, out, index, table.ending_status(index));
        }
    }

    /// Ends a command whose data was expected, if that can be.
    fn stop_transfer<T: FabricTransport>(
        &mut self,
        table: &mut CommandTable,
        out: &mut Outgoing<T>,
        index: u16,
        status: Status,
    ) -> Stopped {
        let Some(slot) = table.slots.get(index) else { return Stopped::Owed };
        let Step::Data { received, length, .. } = slot.step else { return Stopped::Owed };
        let source = DataSource::of(&slot.command);
        let ended = match out.transport.withdraw(index) {
            Withdrawal::Arriving => return Stopped::Arriving,
            Withdrawal::Unsent => table.slots.end(index),
            Withdrawal::Passing if received == length => table.slots.end(index),
            Withdrawal::Passing => table.slots.abandon(index),
        };
        let Some(command) = ended else { return Stopped::Owed };
        self.progress.on_abandoned(source);
        out.complete(command, CommandResult::of(status), None);
        table.settle_aborts(out, index, status);
        Stopped::Ended
    }

    /// A piece of a command's data has come. Gives the command when that was the last one, and it goes on; otherwise it waits for more, or has ended.
    #[inline]
    pub(super) fn take_whole<T: FabricTransport>(
        &mut self,
        table: &mut CommandTable,
        out: &mut Outgoing<T>,
        index: u16,
        integrity: Integrity,
    ) -> Option<WholeData> {
        if integrity == Integrity::Damaged
            && let Some(slot) = table.slots.get(index)
            && let Step::Data { damaged, .. } = &mut slot.step
        {
            *damaged = true;
        }
        if table.is_to_end(index) {
            self.stop_transfer(table, out, index, table.ending_status(index));
            return None;
        }
        let slot = table.slots.get(index)?;
        let Step::Data { buf, received, length, damaged, transfer, .. } = &mut slot.step else {
            return None;
        };
        if *received < *length {
            return None;
        }
        let (damaged, transfer) = (*damaged, *transfer);
        let data = buf.take()?;
        self.progress.on_whole(DataSource::of(&slot.command));
        if damaged {
            out.tell(NoticeKind::Reject, T::DAMAGED);
            table.finish_with(out, index, Status::TRANSIENT_TRANSPORT);
            return None;
        }
        Some(WholeData { transfer, data })
    }

    /// Ends commands whose data makes no progress. Gives why the queue ends, if it does.
    pub(super) fn watch<T: FabricTransport>(
        &mut self,
        table: &mut CommandTable,
        out: &mut Outgoing<T>,
        now: Instant,
    ) -> Option<CloseReason> {
        if !self.progress.is_due(now) {
            return None;
        }
        let demand = if self.memory.is_wanted() { Demand::Wanted } else { Demand::Met };
        let limit = self.progress.limit(now, demand);
        let (mut collecting, mut close) = (false, None);
        for index in table.slots.indices() {
            let Some(Step::Data { heard, .. }) = table.slots.get(index).map(|slot| &slot.step) else {
                continue;
            };
            if *heard + limit > now {
                collecting = true;
                continue;
            }
            let reason = match self.stop_transfer(table, out, index, Status::DATA_TRANSFER_ERROR) {
                Stopped::Ended => continue,
                Stopped::Arriving => T::STALLED,
                Stopped::Owed => "the host does not send the data of its commands",
            };
            // Nothing is answered from here on.
            out.close(CloseReason::TimedOut(reason));
            close = out.close_reason();
        }
        if collecting && !out.is_closing() {
            self.progress.on_watched(now);
        } else {
            self.progress.stop_watching();
        }
        close
    }

    /// When there is something to do although nothing comes.
    #[inline]
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiters.retry_at().into_iter().chain(self.progress.watch_at()).min()
    }

    /// Counts what is held outside of buffers: tables, and `held` bytes of other things.
    #[inline]
    pub(super) fn settle<T: FabricTransport>(
        &mut self,
        table: &CommandTable,
        out: &Outgoing<T>,
        held: usize,
    ) {
        let backlog = out.transport.backlog();
        // What is allocated cannot overflow.
        let tables = table.slots.size().wrapping_add(backlog.tables);
        let data = backlog.unpooled.saturating_add(held);
        self.memory.settle(Outside { data, tables });
        if self.waiters.is_empty() && !self.gate.awaits_memory() {
            self.memory.stop_waiting();
        }
    }

    /// Counts so many bytes for receives that the transport posts, if they are free.
    #[must_use]
    pub(super) fn charge_receives(&mut self, bytes: usize) -> bool {
        self.memory.charge_receives(bytes)
    }

    /// True while other connections wait for memory that this one may hold.
    pub(super) fn is_wanted(&self) -> bool {
        self.memory.is_wanted()
    }

    /// Takes a command's memory back. It has the data up to `end`.
    #[inline]
    pub(super) fn return_buffer(&mut self, table: &mut CommandTable, piece: ArrivedPiece, now: Instant) {
        self.progress.on_piece(now);
        if let Some(slot) = table.slots.get(piece.slot)
            && let Step::Data { buf, received, heard, .. } = &mut slot.step
        {
            (*buf, *received, *heard) = (Some(piece.buffer), piece.end, now);
        }
    }
}

/// What an operation on a command works with.
#[derive(Debug)]
pub(super) struct Parts<'a, T> {
    pub(super) table: &'a mut CommandTable,
    pub(super) out: &'a mut Outgoing<T>,
    pub(super) now: Instant,
}

/// Data that comes with a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct CapsuleData {
    /// Bytes.
    pub(super) length: usize,
    pub(super) transfer: Option<DataTransfer>,
    /// How long the queue may let it wait for memory.
    pub(super) patience: Patience,
}

/// A command that waits for memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingCommand {
    pub(super) slot: u16,
    pub(super) share: Share,
}

/// Data that has come into a command's memory.
#[derive(Debug)]
pub(super) struct ArrivedPiece {
    pub(super) slot: u16,
    pub(super) buffer: Buf,
    /// Bytes of the command's data that are there.
    pub(super) end: usize,
}

/// Whether a command's data may fit. What is longer need not be decided about again.
fn fits(table: &mut CommandTable, slot: u16, bytes: usize) -> bool {
    let length = |slot: &Slot| slot.command.pointer.map_or(0, DataPointer::length);
    table.slots.get(slot).is_none_or(|slot| length(slot) <= bytes)
}
