//! What a connection holds, and how long: buffers for commands that wait for one, everything else in bytes, and an end for what makes no
//! progress.
//!
//! Until there is memory for it a command waits with nothing (`buffer_queue`), and receiving goes on. Only data that comes unsolicited stays where it is until
//! there is memory for it, and what is behind it too (`withheld_receive`).
//!
//! Whoever leaves the target waiting loses what it holds: a command whose data does not come ends with INITIATOR RESPONSE TIMEOUT (the code of other
//! transports for a transfer that nobody serves, `data_watch`), and a connection whose answers nobody reads (`send_watch`), or whose PDU stops half-way, is closed.
//! Both come sooner while others wait for memory.

use buf::{Outside, Standing};
use protocol::{CloseReason, Instant};
use volume::{Operation, Request, Submission, Tag};

use super::buffer_queue::Granted;
use super::commands::lend_buffer;
use super::connection::{Action, Target};
use super::login::Login;
use super::send_watch::{Memory, Progress};
use super::tasks::{State, Task, Wanted};
use crate::connection::State as Life;
use crate::datamover::{Pending, TargetDatamover, TaskHandle};
use crate::keys::Parameters;
use crate::limits::{IMMEDIATE_DEPTH, OVERDRAFT};
use crate::sequence::Delivery;

impl<D: TargetDatamover> Target<D> {
    /// Gets a task the buffer that it waits for, or a place behind those that wait already.
    #[inline]
    pub(super) fn request_buffer(&mut self, slot: u16) {
        let Some(need) = self.tasks.awaited_buffer(slot) else { return };
        if let Some(buf) = self.buffers.request(slot, need, &mut self.account) {
            self.give_buffer(Granted { slot, buf });
        }
    }

    /// Tries again to find buffers for the tasks that wait for one.
    pub(super) fn retry_buffers(&mut self) {
        let Some(mut pass) = self.buffers.begin_pass(&self.account) else { return };
        while let Some(granted) = self.buffers.next_granted(&mut pass, &mut self.tasks, &mut self.account) {
            self.give_buffer(granted);
        }
    }

    /// Goes on with a task that waited for a buffer.
    #[inline]
    fn give_buffer(&mut self, granted: Granted) {
        let Granted { slot, buf } = granted;
        let Some(task) = self.tasks.get(slot) else { return };
        let State::AwaitBuffer(wanted) = task.state else { return };
        match wanted {
            Wanted::Read { volume, epoch, extent } => {
                task.state = State::AtVolume(volume);
                let operation = Operation::Read { extent, into: buf };
                let request = Request { tag: Tag(slot.into()), operation };
                self.actions.push_back(Action::Submit(Submission { volume, epoch, request }));
            }
            Wanted::Data => {
                task.heard = self.now;
                lend_buffer(&mut self.mover, slot, task, buf);
                self.collect(slot);
            }
        }
    }

    /// Removes a task, and what was kept for it.
    #[inline]
    pub(super) fn remove_task(&mut self, slot: u16) -> Option<Delivery> {
        if let Some(task) = self.tasks.get(slot) {
            task.buffer.release(&mut self.account);
        }
        self.tasks.remove(slot)
    }

    /// Counts what is held outside of buffers; nothing that grows with what a peer does is left out.
    #[inline]
    pub(super) fn settle_account(&mut self) {
        let talk = self.text.size();
        let in_login = self.life.state() == Life::InLogin;
        let login = if in_login { self.login.as_deref().map_or(0, Login::size) } else { 0 };
        let Pending { data, queue } = self.mover.pending();
        let tasks = self.tasks.used().saturating_mul(size_of::<Task>().saturating_add(D::TASK_SIZE));
        let text = talk.saturating_add(login);
        let held = Outside { data: data.saturating_add(text), tables: queue.saturating_add(tasks) };
        if self.outside.settle(&mut self.account, held) {
            self.check_text(text);
        }
        if self.buffers.is_empty() && !self.withheld.is_waiting() {
            self.account.stop_waiting();
        }
    }

    /// Text for which there is no memory ends the connection.
    #[cold]
    fn check_text(&mut self, text: usize) {
        if text > 0 && self.account.overdrawn() > OVERDRAFT && !self.life.state().is_over() {
            self.close(CloseReason::Limit("there is no memory for the text of a login or discovery"));
        }
    }

    /// The window is used up: it becomes wider if there is memory for more tasks and their answers.
    #[cold]
    pub(super) fn widen(&mut self) {
        let more = self.portal.queue_depth.saturating_sub(self.width).min(self.width);
        let each = size_of::<Task>().saturating_add(D::TASK_SIZE).saturating_add(D::QUEUE_SIZE);
        let width = self.width.saturating_add(more);
        let receives = Self::receive_bytes(&self.parameters, width);
        let receives = receives.saturating_sub(Self::receive_bytes(&self.parameters, self.width));
        let standing = Standing { tables: usize::from(more).saturating_mul(each), receives };
        if !self.nexus.is_open() || more == 0 || !self.outside.grant(&mut self.account, standing) {
            return;
        }
        self.width = width;
        self.tasks.grow(self.width.saturating_add(IMMEDIATE_DEPTH));
        self.mover.allocate_connection_resources(self.width.saturating_add(IMMEDIATE_DEPTH));
        self.numbers.window.widen(more);
    }

    /// Bytes of receives that a session needs whose window is so wide.
    fn receive_bytes(agreed: &Parameters, width: u16) -> usize {
        D::receive_bytes(agreed, width.saturating_add(IMMEDIATE_DEPTH))
    }

    /// Asks for the receives of a session that is about to begin.
    pub(super) fn grant_receives(&mut self, agreed: &Parameters) -> bool {
        let receives = Self::receive_bytes(agreed, self.width);
        self.outside.grant(&mut self.account, Standing { tables: 0, receives })
    }

    /// True while this side has reasons of its own to receive nothing more.
    #[inline]
    pub(super) fn is_receiving_withheld(&self) -> bool {
        let joining = self.life.state() == Life::InLogin
            && self.login.as_ref().is_some_and(|login| login.waiting().is_some());
        let overdrawn = self.account.overdrawn() > OVERDRAFT;
        self.withheld.is_waiting() && self.withheld.is_withheld(self.account.returns())
            || joining
            || (self.mover.pending().data > 0 && (overdrawn || self.account.is_over()))
    }

    /// Whether receiving may wait for memory for a command's data. It may not while buffers wait for what comes behind it.
    pub(super) fn may_wait(&mut self) -> bool {
        let is_patient = self.withheld.may_wait(self.now);
        is_patient && !self.tasks.are_collecting()
    }

    fn memory(&self) -> Memory {
        if self.account.is_wanted() { Memory::Wanted } else { Memory::Free }
    }

    /// Closes the connection when nothing of what is sent to it is read.
    pub(super) fn watch_sending(&mut self, now: Instant) {
        if self.send_watch.handle_timeout(now, self.memory()) == Progress::Stalled {
            self.mover.connection_terminate();
            self.close(CloseReason::TimedOut("the initiator does not read what is sent to it"));
        }
    }

    /// Ends commands whose data makes no progress.
    pub(super) fn watch_data(&mut self, now: Instant) {
        let Some(limit) = self.data_watch.handle_timeout(now, self.memory()) else { return };
        for slot in self.tasks.slots() {
            let Some(task) = self.tasks.peek(slot) else { continue };
            if !matches!(task.state, State::Collecting) {
                continue;
            }
            if task.heard + limit > now {
                self.data_watch.begin(now);
            } else if self.mover.deallocate_task_resources(TaskHandle(slot)).is_some() {
                self.end_collection(slot);
            } else {
                self.close(CloseReason::TimedOut("the initiator stopped in the middle of a PDU"));
            }
        }
        if self.life.state().is_over() {
            self.data_watch.end();
        }
    }

    /// A write's data did not come in time.
    fn end_collection(&mut self, slot: u16) {
        let (Some(server), Some(task)) = (self.nexus.server_mut(), self.tasks.get(slot)) else { return };
        let step = server.data_timed_out(&mut task.command);
        self.run(slot, step);
    }
}
