//! What a queue holds, and how long.
//!
//! Data has a buffer of the pool: a read before it goes to the volume, a write before its data is asked for. Until then a command waits with nothing, in
//! order, and further commands come; only one with its data in the capsule is withheld until there is memory for it. Everything else that a host can make
//! grow is counted in bytes.
//!
//! A command whose data makes no progress ends with Data Transfer Error, and a connection whose data stops where nothing can come behind it is closed.
//! Both come sooner while others wait for memory. An admin queue is always read, as keep alive commands come there: what finds no memory is answered
//! that it may be tried again.

use buf::{Account, Buf, Outside};
use protocol::{CloseReason, Instant};
use volume::Operation;

use super::abort::Stopped;
use super::{Admission, ControllerQueue, State, Transfer, WaitReason};
use crate::controller::command::{CommandResult, DataTransfer, Plan, Position, Read};
use crate::controller::fabric_transport::{FabricTransport, GetData};
use crate::controller::slots::{Slot, Step};
use crate::limits::{
    ADMIN_DATA, DATA_TIME, MEMORY_RETRY, OVERDRAFT, SCARCE_DATA_TIME, STARVED_TIME, UNSENT, UNSENT_BYTES,
    UNSENT_OF_SLOT, WATCH,
};
use crate::opcode::{FABRICS, admin, nvm};
use crate::sgl::{Capsule, DataPointer};
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;

impl<T: FabricTransport> ControllerQueue<T> {
    /// True while the host had better read first.
    pub(super) fn is_congested(&self) -> bool {
        let most = UNSENT.saturating_add(usize::from(self.slots.granted()).saturating_mul(UNSENT_OF_SLOT));
        let backlog = self.transport.backlog();
        let bytes = backlog.unpooled;
        self.slots.is_full()
            || backlog.count >= most
            || bytes >= UNSENT_BYTES
            || bytes > 0 && self.account.overdrawn() > OVERDRAFT
    }

    /// Whether there is memory for more commands and their answers; if not, this one waits for one of those under way.
    #[cold]
    pub(super) fn has_more_slots(&mut self, cid: u16) -> bool {
        let more = self.slots.wants();
        let each = size_of::<Slot>().saturating_add(T::UNSENT_SIZE.saturating_mul(UNSENT_OF_SLOT));
        let bytes = usize::from(more).saturating_mul(each);
        let granted = more > 0 && self.account.charge_table(bytes);
        if granted {
            self.granted = self.granted.saturating_add(bytes);
            self.slots.grant(more);
            self.waiting_for_memory_since = None;
        } else {
            self.submission_waits_for = Some(WaitReason::Slot { cid });
        }
        granted
    }

    /// Whether there is room for a command's answer, where that has data which no volume reads. Asked before the command is looked at,
    /// which may change what the answer says.
    #[inline]
    pub(super) fn has_room_for_answer(&mut self, entry: &SubmissionQueueEntry, capsule: Capsule) -> bool {
        let answers = match self.state {
            State::Admin(_) => {
                matches!(entry.opcode, admin::IDENTIFY | admin::GET_LOG_PAGE | admin::GET_FEATURES)
            }
            State::Io(_) => entry.opcode == nvm::RESERVATION_REPORT,
            _ => false,
        };
        if !answers || entry.opcode == FABRICS {
            return true;
        }
        let length = entry.data_pointer(capsule).map_or(0, DataPointer::length);
        let returns = self.account.returns();
        if length == 0 || length > ADMIN_DATA {
            return true;
        }
        let room = self.account.charge(length);
        if room {
            // What the answer turns out to be takes its place when the batch is over.
            self.counted.data = self.counted.data.saturating_add(length);
            self.waiting_for_memory_since = None;
        } else {
            self.submission_waits_for = Some(WaitReason::Memory { returns, cid: entry.cid.get() });
        }
        room
    }

    /// Whether the next command may wait for memory. It may not while transfers are under way, as what they wait for may come behind it; nor, on an admin
    /// queue, for long, as a Keep Alive may. The host is to try the command again then.
    pub(super) fn may_wait(&mut self) -> bool {
        let since = *self.waiting_for_memory_since.get_or_insert(self.now);
        let patient = !matches!(self.state, State::Admin(_)) || self.now < since + STARVED_TIME;
        self.transfers == 0 && patient
    }

    /// When an admin queue's next command has waited long enough.
    pub(super) fn submission_due(&self) -> Option<Instant> {
        let waits =
            matches!(self.submission_waits_for, Some(WaitReason::Memory { .. } | WaitReason::Slot { .. }))
                && matches!(self.state, State::Admin(_));
        self.waiting_for_memory_since.filter(|_| waits).map(|since| since + STARVED_TIME)
    }

    /// Lets an admin queue go on without memory.
    pub(super) fn watch_submission(&mut self, now: Instant) {
        if self.submission_due().is_some_and(|due| due <= now) {
            self.submission_waits_for = None;
        }
    }

    /// Takes a command with its data; it is withheld until there is memory for that.
    pub(super) fn receive_capsule(
        &mut self,
        entry: SubmissionQueueEntry,
        length: usize,
        transfer: Option<DataTransfer>,
    ) -> Admission {
        let returns = self.account.returns();
        let Some(buf) = self.account.take(length) else {
            if self.may_wait() {
                self.submission_waits_for = Some(WaitReason::Memory { returns, cid: entry.cid.get() });
                return Admission::Withheld;
            }
            self.complete(&entry, CommandResult::of(Status::COMMAND_INTERRUPTED), None);
            return Admission::Taken;
        };
        self.waiting_for_memory_since = None;
        let heard = self.now;
        let step = Step::Data { buf: Some(buf), received: 0, length, damaged: false, heard, transfer };
        let Some(slot) = self.slots.begin(entry, step) else { return Admission::Taken };
        self.watch_at.get_or_insert(self.now + WATCH);
        Admission::Receives { slot }
    }

    /// Begins a read for which nothing waits in line, if there is memory for its data.
    pub(super) fn begin_read(&mut self, entry: &SubmissionQueueEntry, read: &Read) -> bool {
        let Some(into) = self.account.take(read.length) else { return false };
        let step =
            Step::Submitted { volume: read.volume_ref.volume, ranges: None, position: Position::START };
        let slot = self.slots.begin(*entry, step);
        self.submit(slot, read.volume_ref, Operation::Read { extent: read.extent, into });
        true
    }

    /// Begins a new command, which has nothing yet, if there is memory for its data. What is little need not wait behind what is long.
    pub(super) fn serve_new(&mut self, index: u16, plan: &Plan) -> bool {
        if self.waiting.is_empty() {
            self.serve(index, plan, Account::take)
        } else {
            self.serve(index, plan, Account::take_within_floor)
        }
    }

    /// Begins a waiting command if there is memory for its data.
    fn serve(&mut self, index: u16, plan: &Plan, take: impl Fn(&mut Account, usize) -> Option<Buf>) -> bool {
        let length = match plan {
            Plan::Read(read) => read.length,
            Plan::Receive { length, .. } => *length,
            _ => return true,
        };
        let Some(buf) = take(&mut self.account, length) else { return false };
        let Some(slot) = self.slots.get(index) else { return true };
        match *plan {
            Plan::Read(Read { volume_ref, extent, .. }) => {
                slot.step =
                    Step::Submitted { volume: volume_ref.volume, ranges: None, position: Position::START };
                self.submit(Some(index), volume_ref, Operation::Read { extent, into: buf });
            }
            Plan::Receive { transfer, .. } => {
                let heard = self.now;
                slot.step =
                    Step::Data { buf: Some(buf), received: 0, length, damaged: false, heard, transfer };
                self.transfers = self.transfers.saturating_add(1);
                self.watch_at.get_or_insert(heard + WATCH);
                self.transport.get_data(GetData { slot: index, command: &slot.entry, length });
            }
            _ => {}
        }
        true
    }

    /// Begins as many waiting commands as there is memory for. What may be done is decided anew: reservations
    /// may have changed meanwhile.
    #[inline]
    pub(super) fn serve_waiting(&mut self, now: Instant) {
        if self.waiting.is_empty() {
            self.retry = None;
        } else {
            self.serve_line(now);
        }
    }

    /// Tries again what waits for memory, if any has come back since.
    pub(super) fn retry_line(&mut self) {
        let returns = self.account.returns();
        if core::mem::replace(&mut self.tried_at, returns) != returns {
            self.serve_line(self.now);
        }
    }

    #[inline(never)]
    fn serve_line(&mut self, now: Instant) {
        while let Some(&index) = self.waiting.front() {
            if !self.serve_again(now, index, Account::take) {
                self.retry = Some(now + MEMORY_RETRY);
                return self.serve_aside(now);
            }
            self.waiting.pop_front();
        }
        self.retry = None;
    }

    /// What is little may have found no room beside its own queue's data when it came, and does now: the oldest first. A queue that holds its
    /// floor, as those with much under way do, looks through nothing.
    fn serve_aside(&mut self, now: Instant) {
        let mut place = 1;
        while let left @ 1.. = self.account.floor_left()
            && let Some(&index) = self.waiting.get(place)
        {
            // What is longer than that need not be decided about again.
            let capsule = Capsule { data: 0, sgls: T::SGLS };
            let fits = self
                .slots
                .get(index)
                .is_none_or(|slot| slot.entry.data_pointer(capsule).map_or(0, DataPointer::length) <= left);
            if fits && self.serve_again(now, index, Account::take_within_floor) {
                self.waiting.remove(place);
            } else {
                place = place.saturating_add(1);
            }
        }
    }

    /// Decides anew about a waiting command, and begins or ends it; false while it has no memory.
    fn serve_again(
        &mut self,
        now: Instant,
        index: u16,
        take: impl Fn(&mut Account, usize) -> Option<Buf>,
    ) -> bool {
        let Some(entry) = self.slots.get(index).map(|slot| slot.entry) else { return true };
        match self.decide(now, &entry, Capsule { data: 0, sgls: T::SGLS }) {
            Plan::Finish(result) => {
                self.finish(index, result, None);
                true
            }
            plan => self.serve(index, &plan, take),
        }
    }

    /// Counts what is held outside of buffers; nothing that grows with what a peer does is left out.
    #[inline]
    pub(super) fn settle_account(&mut self) {
        let backlog = self.transport.backlog();
        // What is allocated cannot overflow.
        let tables = self.slots.size().wrapping_add(backlog.tables);
        let log = if let State::Admin(admin) = &self.state { admin.size() } else { 0 };
        let data = backlog.unpooled.saturating_add(log);
        let held = Outside { data, tables: tables.saturating_sub(self.granted) };
        if held != self.counted {
            self.account.recount(&mut self.counted, held);
        }
        if self.waiting.is_empty() && !matches!(self.submission_waits_for, Some(WaitReason::Memory { .. })) {
            self.account.stop_waiting();
        }
    }

    /// Ends commands whose data makes no progress.
    pub(super) fn watch_data(&mut self, now: Instant) {
        if self.watch_at.is_none_or(|at| at > now) {
            return;
        }
        let silent = self.account.is_wanted() && self.data_heard + SCARCE_DATA_TIME <= now;
        let mut collecting = false;
        for index in self.slots.indices() {
            let Some(Step::Data { heard, .. }) = self.slots.get(index).map(|slot| &slot.step) else {
                continue;
            };
            let limit = if silent { SCARCE_DATA_TIME } else { DATA_TIME };
            if *heard + limit > now {
                collecting = true;
            } else {
                match self.stop_transfer(index, Status::DATA_TRANSFER_ERROR) {
                    Stopped::Ended => {}
                    Stopped::Arriving => self.end(CloseReason::TimedOut(T::STALLED)),
                    Stopped::Owed => {
                        self.end(CloseReason::TimedOut("the host does not send the data of its commands"));
                    }
                }
            }
        }
        self.watch_at = (collecting && self.close.is_none()).then_some(now + WATCH);
    }

    /// Memory of the connection's own share for its transport, `len` bytes, or `None` when there is none.
    pub fn take_memory(&mut self, len: usize) -> Option<Buf> {
        self.account.take(len)
    }

    /// True while other connections wait for memory that this one may hold.
    pub fn is_memory_wanted(&self) -> bool {
        self.account.is_wanted()
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
        Some(Transfer { cid: slot.entry.cid.get(), received, length, abandoned })
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
        self.data_heard = self.now;
        let now = self.now;
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
