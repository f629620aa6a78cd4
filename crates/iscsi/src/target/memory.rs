//! What a connection holds, and how long: buffers for commands that wait for one, everything else in bytes, and an end for what makes no
//! progress.
//!
//! A command gets its memory when it needs it: a read before it goes to the volume, a write before its data is asked for. Until then it waits with nothing, in
//! order, and receiving goes on. Only data that comes unsolicited stays where it is until there is memory for it, and what is behind it too.
//!
//! Whoever leaves the target waiting loses what it holds: a command whose data does not come ends with INITIATOR RESPONSE TIMEOUT (the code of other
//! transports for a transfer that nobody serves), and a connection whose answers nobody reads, or whose PDU stops half-way, is closed. Both come sooner while others
//! wait for memory. Receiving itself waits for memory only for a moment, as what keeps the session alive comes there, too.

use buf::{Account, Buf, LARGEST, Outside};
use protocol::{CloseReason, Instant};
use volume::{Operation, Request, Submission, Tag};

use super::connection::{Action, SendWatch, Target};
use super::login::Login;
use super::tasks::{State, Task, Wanted};
use super::text_exchange::TextExchange;
use crate::connection::State as Life;
use crate::datamover::{Pending, TargetDatamover, TaskHandle, WriteResources};
use crate::limits::{
    DATA_TIME, IMMEDIATE_DEPTH, MEMORY_WAIT_TIME, OVERDRAFT, SCARCE_DATA_TIME, SCARCE_SEND_TIME, SEND_TIME,
    WATCH,
};
use crate::sequence::Delivery;

impl<D: TargetDatamover> Target<D> {
    /// Gets a task the buffer that it waits for, or a place behind those that wait already. What is little need not wait behind what is long.
    pub(super) fn request_buffer(&mut self, slot: u16) {
        let assigned = if self.awaiting_buffer.is_empty() {
            self.assign_buffer(slot)
        } else {
            self.assign_buffer_aside(slot)
        };
        if !assigned {
            self.awaiting_buffer.push_back(slot);
        }
    }

    /// Goes on with a task of one buffer that this connection may have at any time.
    fn assign_buffer_aside(&mut self, slot: u16) -> bool {
        let Some(task) = self.tasks.get(slot) else { return true };
        let length = task.needed as usize;
        if length > LARGEST || task.reserved.is_some() || task.command.full_length() > length as u64 {
            return false;
        }
        self.assign_buffer_by(slot, Account::take_within_floor)
    }

    /// Tries again to find buffers for the tasks that wait for one, in order.
    pub(super) fn retry_awaiting_buffer(&mut self) {
        let returns = self.account.returns();
        if core::mem::replace(&mut self.retried_at, returns) == returns {
            return;
        }
        while let Some(&slot) = self.awaiting_buffer.front() {
            if !self.assign_buffer(slot) {
                return self.retry_aside();
            }
            self.awaiting_buffer.pop_front();
        }
    }

    /// What is little may have found no room beside its own connection's data when it came, and does now: the oldest first. A connection
    /// that holds its floor, as those with much under way do, looks through nothing.
    fn retry_aside(&mut self) {
        let mut place = 1;
        while self.account.floor_left() > 0
            && let Some(&slot) = self.awaiting_buffer.get(place)
        {
            if self.assign_buffer_aside(slot) {
                self.awaiting_buffer.remove(place);
            } else {
                place = place.saturating_add(1);
            }
        }
    }

    /// Goes on with a task if there is a buffer for it; true also when it no longer waits.
    fn assign_buffer(&mut self, slot: u16) -> bool {
        self.assign_buffer_by(slot, Account::take)
    }

    fn assign_buffer_by(&mut self, slot: u16, take: impl Fn(&mut Account, usize) -> Option<Buf>) -> bool {
        let Some(task) = self.tasks.get(slot) else { return true };
        let State::AwaitBuffer(wanted) = task.state else { return true };
        let length = (task.needed as usize).min(LARGEST);
        let buf = match &mut task.reserved {
            Some(reserved) if *reserved > 0 => {
                let buf = self.account.take_charged(length, *reserved);
                *reserved = if buf.is_some() { reserved.saturating_sub(length) } else { *reserved };
                buf
            }
            Some(_) => self.account.take(length),
            None => {
                // A read in several pieces begins only when all of them have room, or many could wait for each other's.
                let whole = wire::index(task.command.full_length());
                let rest = if task.reads { whole.saturating_sub(length) } else { 0 };
                if rest > 0 && !self.account.charge(rest) {
                    return false;
                }
                let buf = take(&mut self.account, length);
                if buf.is_none() {
                    self.account.release(rest);
                } else {
                    task.reserved = Some(rest);
                }
                buf
            }
        };
        let Some(buf) = buf else { return false };
        match wanted {
            Wanted::Read { volume, epoch, extent } => {
                task.state = State::AtVolume(volume);
                let operation = Operation::Read { extent, into: buf };
                let request = Request { tag: Tag(slot.into()), operation };
                self.actions.push_back(Action::Submit(Submission { volume, epoch, request }));
            }
            Wanted::Data => {
                task.state = State::Collecting;
                task.heard = self.now;
                let resources = WriteResources { task_tag: task.tag, buf, unsolicited: None };
                self.mover.allocate_task_resources(TaskHandle(slot), resources);
                self.collect(slot);
            }
        }
        true
    }

    /// Removes a task, and what was set aside for it.
    #[inline]
    pub(super) fn remove_task(&mut self, slot: u16) -> Option<Delivery> {
        if let Some(task) = self.tasks.get(slot)
            && let Some(reserved) = task.reserved.take()
        {
            self.account.release(reserved);
        }
        self.tasks.remove(slot)
    }

    /// Counts what is held outside of buffers; nothing that grows with what a peer does is left out.
    #[inline]
    pub(super) fn settle_account(&mut self) {
        let talk = self.exchange.as_ref().map_or(0, TextExchange::size);
        let login =
            if self.state == Life::InLogin { self.login.as_deref().map_or(0, Login::size) } else { 0 };
        let Pending { data, queue } = self.mover.pending();
        let tasks = self.tasks.used().saturating_mul(size_of::<Task>().saturating_add(D::TASK_SIZE));
        let tables = queue.saturating_add(tasks).saturating_sub(self.table_allowance);
        let data = data.saturating_add(talk).saturating_add(login);
        let held = Outside { data, tables };
        if held != self.counted {
            self.recount(held);
        }
        if self.awaiting_buffer.is_empty() && self.waits_for_memory.is_none() {
            self.account.stop_waiting();
        }
    }

    /// What is held outside of buffers has changed, which is rare.
    #[cold]
    fn recount(&mut self, held: Outside) {
        self.account.recount(&mut self.counted, held);
        let text = held.data > self.mover.pending().data;
        if text && self.account.overdrawn() > OVERDRAFT && !self.state.is_over() {
            self.close(CloseReason::Limit("there is no memory for the text of a login or discovery"));
        }
    }

    /// The window is used up: it becomes wider if there is memory for more tasks and their answers.
    #[cold]
    pub(super) fn widen(&mut self) {
        let more = self.portal.queue_depth.saturating_sub(self.width).min(self.width);
        let each = size_of::<Task>().saturating_add(D::TASK_SIZE).saturating_add(D::QUEUE_SIZE);
        let bytes = usize::from(more).saturating_mul(each);
        if self.server.is_none() || more == 0 || !self.account.charge_table(bytes) {
            return;
        }
        self.table_allowance = self.table_allowance.saturating_add(bytes);
        self.width = self.width.saturating_add(more);
        self.tasks.grow(self.width.saturating_add(IMMEDIATE_DEPTH));
        self.mover.allocate_connection_resources(self.width.saturating_add(IMMEDIATE_DEPTH));
        self.numbers.window.widen(more);
    }

    /// True while this side has reasons of its own to receive nothing more.
    #[inline]
    pub(super) fn is_receiving_withheld(&self) -> bool {
        let waits = self.waits_for_memory.is_some_and(|returns| returns == self.account.returns());
        let joining =
            self.state == Life::InLogin && self.login.as_ref().is_some_and(|login| login.waiting().is_some());
        let overdrawn = self.account.overdrawn() > OVERDRAFT;
        waits || joining || (self.mover.pending().data > 0 && (overdrawn || self.account.is_over()))
    }

    /// Whether receiving may wait for memory for a command's data. It may not while buffers wait for what comes behind it; nor for long, as pings
    /// and their answers may come behind it.
    pub(super) fn may_wait(&mut self) -> bool {
        let since = *self.waiting_since.get_or_insert(self.now);
        !self.tasks.are_collecting() && self.now < since + MEMORY_WAIT_TIME
    }

    /// When receiving has waited long enough for a command's data.
    pub(super) fn receiving_due(&self) -> Option<Instant> {
        self.waiting_since
            .filter(|_| self.waits_for_memory.is_some() && self.unread.is_some())
            .map(|since| since + MEMORY_WAIT_TIME)
    }

    /// Lets receiving go on without memory.
    pub(super) fn watch_receiving(&mut self, now: Instant) {
        if self.receiving_due().is_some_and(|due| due <= now) {
            self.waits_for_memory = None;
        }
    }

    /// Closes the connection when nothing of what is sent to it is read.
    pub(super) fn watch_sending(&mut self, now: Instant) {
        let Some(SendWatch { since, due }) = self.sending else { return };
        let limit = if self.account.is_wanted() { SCARCE_SEND_TIME } else { SEND_TIME };
        if since + limit <= now {
            self.mover.connection_terminate();
            self.close(CloseReason::TimedOut("the initiator does not read what is sent to it"));
            self.sending = None;
        } else if due <= now {
            self.sending = Some(SendWatch { since, due: now + WATCH });
        }
    }

    /// Ends commands whose data makes no progress.
    pub(super) fn watch_data(&mut self, now: Instant) {
        if self.watch_at.is_none_or(|at| at > now) {
            return;
        }
        let silent = self.account.is_wanted() && self.data_heard + SCARCE_DATA_TIME <= now;
        let limit = if silent { SCARCE_DATA_TIME } else { DATA_TIME };
        let mut collecting = false;
        for slot in self.tasks.slots() {
            let Some(task) = self.tasks.peek(slot) else { continue };
            if !matches!(task.state, State::Collecting) {
                continue;
            }
            if task.heard + limit > now {
                collecting = true;
            } else if self.mover.deallocate_task_resources(TaskHandle(slot)).is_some() {
                self.end_collection(slot);
            } else {
                self.close(CloseReason::TimedOut("the initiator stopped in the middle of a PDU"));
            }
        }
        self.watch_at = (collecting && !self.state.is_over()).then_some(now + WATCH);
    }

    /// A write's data did not come in time.
    fn end_collection(&mut self, slot: u16) {
        let (Some(server), Some(task)) = (&mut self.server, self.tasks.get(slot)) else { return };
        let step = server.data_timed_out(&mut task.command);
        self.run(slot, step);
    }

    /// A command waits for its data from now on.
    pub(super) fn begin_watch(&mut self) {
        self.watch_at.get_or_insert(self.now + WATCH);
    }
}
