//! Commands and the memory for their data.
//!
//! Data has a buffer of the pool: a read before it goes to the volume, a write before its data is asked for. Until then a command waits with nothing, in
//! order, and further commands come; only one with its data in the capsule is withheld until there is memory for it. Everything else that a host can make
//! grow is counted in bytes.
//!
//! A command whose data makes no progress ends with Data Transfer Error, and a connection whose data stops where nothing can come behind it is closed.
//! Both come sooner while others wait for memory. An admin queue is always read, as keep alive commands come there: what finds no memory is answered
//! that it may be tried again.

use buf::Buf;
use protocol::{CloseReason, Instant};
use volume::Operation;

use super::abort::Stopped;
use super::{Admission, ControllerQueue, Transfer};
use crate::controller::command::{CommandResult, DataTransfer, Plan, Position, Read, ReceivedCommand};
use crate::controller::data_progress::{DataSource, Demand};
use crate::controller::fabric_transport::{FabricTransport, GetData};
use crate::controller::memory_waiters::Candidate;
use crate::controller::queue_memory::QueueMemory;
use crate::controller::slots::{Slot, Step};
use crate::limits::{ADMIN_DATA, UNSENT, UNSENT_BYTES, UNSENT_OF_SLOT};
use crate::opcode::FABRICS;
use crate::sgl::{Capsule, DataPointer};
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;

impl<T: FabricTransport> ControllerQueue<T> {
    /// True while the host had better read first.
    pub(super) fn is_congested(&self) -> bool {
        let most = UNSENT.saturating_add(usize::from(self.slots.granted()).saturating_mul(UNSENT_OF_SLOT));
        let backlog = self.transport.backlog();
        self.slots.is_full()
            || backlog.count >= most
            || backlog.unpooled >= UNSENT_BYTES
            || self.memory.is_overdrawn(backlog.unpooled)
    }

    /// Whether there is memory for more commands and their answers; if not, this one waits for one of those under way.
    #[cold]
    pub(super) fn has_more_slots(&mut self, cid: u16) -> bool {
        let more = self.slots.wants();
        let each = size_of::<Slot>().saturating_add(T::UNSENT_SIZE.saturating_mul(UNSENT_OF_SLOT));
        let granted = more > 0 && self.memory.charge_tables(usize::from(more).saturating_mul(each));
        if granted {
            self.slots.grant(more);
            self.gate.on_memory();
        } else {
            self.gate.on_no_slot(cid);
        }
        granted
    }

    /// Whether there is room for a command's answer, where that has data which no volume reads. Asked before the command is looked at,
    /// which may change what the answer says.
    #[inline]
    pub(super) fn has_room_for_answer(&mut self, entry: &SubmissionQueueEntry, capsule: Capsule) -> bool {
        if !self.state.answers_with_data(entry) || entry.opcode == FABRICS {
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

    /// Takes a command with its data; it is withheld until there is memory for that.
    pub(super) fn receive_capsule(
        &mut self,
        command: &ReceivedCommand,
        length: usize,
        transfer: Option<DataTransfer>,
    ) -> Admission {
        let returns = self.memory.returns();
        let Some(buf) = self.memory.take(length) else {
            self.gate.on_no_memory(command.entry.cid.get(), returns);
            if self.gate.withholds(self.now, self.patience()) {
                return Admission::Withheld;
            }
            self.complete(command.ended(), CommandResult::of(Status::COMMAND_INTERRUPTED), None);
            return Admission::Taken;
        };
        self.gate.on_memory();
        let step =
            Step::Data { buf: Some(buf), received: 0, length, damaged: false, heard: self.now, transfer };
        let Some(slot) = self.slots.begin(command, step) else { return Admission::Taken };
        self.data.on_expected(self.now, DataSource::Capsule);
        let offset = match command.pointer {
            Some(DataPointer::InCapsule { offset, .. }) => offset,
            _ => 0,
        };
        Admission::Receives { slot, offset }
    }

    /// Begins a read for which no command waits, if there is memory for its data.
    pub(super) fn begin_read(&mut self, command: &ReceivedCommand, read: &Read) -> bool {
        let Some(into) = self.memory.take(read.length) else { return false };
        let slot = self.slots.begin(command, Step::submitted(read.volume_ref.volume, Position::START));
        self.submit(slot, read.volume_ref, Operation::Read { extent: read.extent, into });
        true
    }

    /// Begins a new command with memory for its data, or lets it wait for that. What is little need not wait behind what is long.
    pub(super) fn begin_with_memory(&mut self, now: Instant, command: &ReceivedCommand, plan: &Plan) {
        let Some(slot) = self.slots.begin(command, Step::Waiting) else { return };
        let take = if self.waiters.is_empty() { QueueMemory::take } else { QueueMemory::take_of_floor };
        if !self.go_on_with_memory(slot, plan, take) {
            self.waiters.on_starved(now, slot);
        }
    }

    /// Goes on with a command that waits for memory for its data, if there is some.
    fn go_on_with_memory(
        &mut self,
        index: u16,
        plan: &Plan,
        take: impl Fn(&mut QueueMemory, usize) -> Option<Buf>,
    ) -> bool {
        let length = match plan {
            Plan::Read(read) => read.length,
            Plan::Receive { length, .. } => *length,
            _ => return true,
        };
        let Some(buf) = take(&mut self.memory, length) else { return false };
        let Some(slot) = self.slots.get(index) else { return true };
        match *plan {
            Plan::Read(Read { volume_ref, extent, .. }) => {
                slot.step = Step::submitted(volume_ref.volume, Position::START);
                self.submit(Some(index), volume_ref, Operation::Read { extent, into: buf });
            }
            Plan::Receive { transfer, .. } => {
                let heard = self.now;
                slot.step =
                    Step::Data { buf: Some(buf), received: 0, length, damaged: false, heard, transfer };
                self.data.on_expected(heard, DataSource::Host);
                self.transport.get_data(GetData { slot: index, command: &slot.command, length });
            }
            _ => {}
        }
        true
    }

    /// Offers commands that wait the memory that may have come back.
    #[inline]
    pub(super) fn offer_memory(&mut self, now: Instant) {
        if !self.waiters.is_empty() {
            self.offer_to_waiters(now);
        }
    }

    #[inline(never)]
    fn offer_to_waiters(&mut self, now: Instant) {
        self.waiters.on_memory();
        while let Some(candidate) = self.waiters.candidate() {
            let goes_on = match candidate {
                Candidate::Oldest { slot } => self.decide_again(now, slot, QueueMemory::take),
                Candidate::Behind { slot } => match self.memory.floor_left() {
                    // A queue that holds its floor, as those with much under way do, looks through nothing.
                    0 => return self.waiters.on_offered(),
                    left => self.fits(slot, left) && self.decide_again(now, slot, QueueMemory::take_of_floor),
                },
            };
            if goes_on {
                self.waiters.on_candidate_gone();
            } else {
                self.waiters.on_candidate_starved(now);
            }
        }
    }

    /// Whether a command's data may fit. What is longer need not be decided about again.
    fn fits(&mut self, slot: u16, bytes: usize) -> bool {
        let length = |slot: &Slot| slot.command.pointer.map_or(0, DataPointer::length);
        self.slots.get(slot).is_none_or(|slot| length(slot) <= bytes)
    }

    /// Decides anew about a command that waits, as reservations may have changed meanwhile, and goes on with it or ends it; false while it has no memory.
    fn decide_again(
        &mut self,
        now: Instant,
        index: u16,
        take: impl Fn(&mut QueueMemory, usize) -> Option<Buf>,
    ) -> bool {
        let Some(command) = self.slots.get(index).map(|slot| slot.command) else { return true };
        match self.decide(now, &command.entry, command.capsule(0, T::SGLS)) {
            Plan::Finish(result) => {
                self.finish(index, result, None);
                true
            }
            plan => self.go_on_with_memory(index, &plan, take),
        }
    }

    /// Ends commands whose data makes no progress.
    pub(super) fn watch_data(&mut self, now: Instant) {
        if !self.data.is_due(now) {
            return;
        }
        let demand = if self.memory.is_wanted() { Demand::Wanted } else { Demand::Met };
        let limit = self.data.limit(now, demand);
        let mut collecting = false;
        for index in self.slots.indices() {
            let Some(Step::Data { heard, .. }) = self.slots.get(index).map(|slot| &slot.step) else {
                continue;
            };
            if *heard + limit > now {
                collecting = true;
                continue;
            }
            match self.stop_transfer(index, Status::DATA_TRANSFER_ERROR) {
                Stopped::Ended => {}
                Stopped::Arriving => self.end(CloseReason::TimedOut(T::STALLED)),
                Stopped::Owed => {
                    self.end(CloseReason::TimedOut("the host does not send the data of its commands"));
                }
            }
        }
        if collecting && self.close.is_none() {
            self.data.on_watched(now);
        } else {
            self.data.stop_watching();
        }
    }

    /// Counts so many bytes for receives that the transport posts for as long as the connection is there, if they are free.
    #[must_use]
    pub fn charge_receives(&mut self, bytes: usize) -> bool {
        self.memory.charge_receives(bytes)
    }

    /// True while other connections wait for memory that this one may hold.
    pub fn is_memory_wanted(&self) -> bool {
        self.memory.is_wanted()
    }

    /// True for a slot that a command has had.
    #[inline]
    pub fn has_slot(&mut self, index: u16) -> bool {
        self.slots.get(index).is_some()
    }

    /// How far the data of a slot's command is; `None` when no data is expected.
    #[inline]
    pub fn transfer(&mut self, index: u16) -> Option<Transfer> {
        let slot = self.slots.get(index)?;
        let (received, length, abandoned) = match slot.step {
            Step::Data { received, length, .. } => (received, length, false),
            Step::Abandoned { received, length } => (received, length, true),
            _ => return None,
        };
        Some(Transfer { cid: slot.command.entry.cid.get(), received, length, abandoned })
    }

    /// Lends the memory for the data of a slot's command to the transport.
    #[inline]
    pub fn take_buffer(&mut self, index: u16) -> Option<Buf> {
        let Step::Data { buf, .. } = &mut self.slots.get(index)?.step else { return None };
        buf.take()
    }

    /// Takes that memory back. It has the data up to `end`, of which [`ControllerQueue::handle_data`] is told once it is known whether it is whole.
    #[inline]
    pub fn return_buffer(&mut self, index: u16, buffer: Buf, end: usize) {
        let now = self.now;
        self.data.on_piece(now);
        if let Some(slot) = self.slots.get(index)
            && let Step::Data { buf, received, heard, .. } = &mut slot.step
        {
            (*buf, *received, *heard) = (Some(buffer), end, now);
        }
    }

    /// Data of a command that has ended was passed over, up to `end`. Its slot is free once that is all.
    pub fn pass_over(&mut self, index: u16, end: usize) {
        self.slots.pass_over(index, end);
    }
}
