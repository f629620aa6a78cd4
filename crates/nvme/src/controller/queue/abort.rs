//! Abort (NVMe Base §5.1.1): on the admin queue, and at the queue whose command is to end.
//!
//! Abort's own completion waits until the command has completed, so that it tells the truth: an immediate abort was
//! performed if the command ended in Command Abort Requested. The two answers are queued in that order.
//!
//! A command with a volume is cancelled there, and whatever the volume makes of that decides. A command that waits for
//! memory or for its data ends at once. Data that the host was asked for may still come, as the transport has it: then the slot stays taken, and the
//! data is passed over.

use protocol::{Instant, NoticeKind};
use volume::Tag;

use super::{ControllerQueue, QueueState};
use crate::abort::Abort;
use crate::controller::Action;
use crate::controller::abort_table::{Ending, ImmediateAbort};
use crate::controller::command::{CommandResult, ReceivedCommand};
use crate::controller::data_progress::DataSource;
use crate::controller::fabric_transport::{FabricTransport, Withdrawal};
use crate::controller::slots::Step;
use crate::opcode::admin::ABORT;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;
use crate::subsystem::Request;

/// What has become of a command whose data is not to be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It has ended.
    Ended,
    /// Its data is just arriving: it ends then.
    Arriving,
    /// It goes on: too much is owed for commands that have ended already.
    Owed,
}

impl<T: FabricTransport> ControllerQueue<T> {
    /// Takes an Abort on the admin queue. Its slot is the mark by which the outcome is known.
    pub(super) fn begin_abort(&mut self, now: Instant, command: &ReceivedCommand) {
        let Some(tag) = self.slots.begin(command, Step::Held) else { return };
        let QueueState::Admin(admin) = &mut self.state else { return };
        admin.aborts = admin.aborts.saturating_add(1);
        self.notices.push(NoticeKind::Management, "Abort");
        let Abort { sqid, cid, .. } = Abort::view(&command.entry);
        let (qid, cid) = (sqid.get(), cid.get());
        if qid == 0 {
            self.abort(now, cid, tag);
        } else {
            admin.news.push_back(Request::Abort { qid, cid, tag });
        }
    }

    /// Aborts a command of this queue, as far as that is possible.
    pub(super) fn abort(&mut self, now: Instant, cid: u16, tag: u16) {
        let Some(index) = self.slots.find(cid) else { return self.abort_unread(cid, tag) };
        let Some(slot) = self.slots.get(index) else { return };
        match slot.step {
            Step::Free | Step::Held | Step::Abandoned { .. } => self.abort_held(index, tag),
            Step::Submitted { .. } | Step::Query(_) | Step::Waiting | Step::Data { .. } => {
                self.end_command(now, index, Ending::Aborted { tag });
            }
        }
    }

    /// Lets a command end soon, and nothing of it go on: one that is with a volume when its request has ended, any other at once.
    pub(super) fn end_command(&mut self, now: Instant, index: u16, ending: Ending) {
        let Some(slot) = self.slots.get(index) else { return };
        let volume = slot.step.volume();
        let known = self.aborts.is_pending_for(index);
        self.aborts.add(index, ending);
        match volume {
            Some(volume) if !known => {
                self.actions.push_back(Action::Cancel { volume, tag: Tag(u64::from(index)) });
            }
            Some(_) => {}
            None => self.stop(now, index),
        }
    }

    /// Lets the commands that `affected` names end soon, for whatever they wait but an event or the group.
    pub(super) fn end_commands(&mut self, now: Instant, affected: impl Fn(&SubmissionQueueEntry) -> bool) {
        for index in self.slots.under_way() {
            let ends = self.slots.get(index).is_some_and(|slot| affected(&slot.command.entry));
            if ends && !self.aborts.is_pending_for(index) {
                self.end_command(now, index, Ending::Dropped);
            }
        }
    }

    /// Ends a command that is not with a volume, and lets others have its memory.
    fn stop(&mut self, now: Instant, index: u16) {
        if self.waiters.on_end(index) {
            self.finish_aborted(index);
        } else {
            self.stop_transfer(index, self.aborts.status(index));
        }
        self.offer_memory(now);
    }

    /// Ends a command of which nothing more is done, as it was to end.
    pub(super) fn finish_aborted(&mut self, index: u16) {
        self.finish(index, CommandResult::of(self.aborts.status(index)), None);
    }

    /// Ends a command whose data was expected, if that can be.
    pub(super) fn stop_transfer(&mut self, index: u16, status: Status) -> Stopped {
        let Some(slot) = self.slots.get(index) else { return Stopped::Owed };
        let Step::Data { received, length, .. } = slot.step else { return Stopped::Owed };
        let source = DataSource::of(&slot.command);
        let ended = match self.transport.withdraw(index) {
            Withdrawal::Arriving => return Stopped::Arriving,
            Withdrawal::Unsent => self.slots.end(index),
            Withdrawal::Passing if received == length => self.slots.end(index),
            Withdrawal::Passing => self.slots.abandon(index),
        };
        let Some(command) = ended else { return Stopped::Owed };
        self.data.on_abandoned(source);
        self.complete(command, CommandResult::of(status), None);
        self.settle_aborts(index, status);
        Stopped::Ended
    }

    /// An Asynchronous Event Request ends at once; nothing else that is held can be aborted.
    fn abort_held(&mut self, index: u16, tag: u16) {
        let held = match &mut self.state {
            QueueState::Admin(admin) => admin.release(index),
            _ => false,
        };
        let outcome = if held { ImmediateAbort::Performed } else { ImmediateAbort::NotPerformed };
        if held {
            self.finish(index, CommandResult::of(Status::ABORT_REQUESTED), None);
        }
        self.answer_abort(tag, outcome);
    }

    /// The command has no slot: it may be the one that waits for memory before it is taken. It comes again then.
    fn abort_unread(&mut self, cid: u16, tag: u16) {
        if self.gate.on_abort(cid) {
            self.aborts.add_unread(cid, tag);
        } else {
            self.answer_abort(tag, ImmediateAbort::NotPerformed);
        }
    }

    /// A command has completed: answers the aborts that waited for it.
    #[inline]
    pub(super) fn settle_aborts(&mut self, slot: u16, status: Status) {
        if !self.aborts.is_empty() {
            self.answer_aborts(slot, status);
        }
    }

    #[cold]
    fn answer_aborts(&mut self, slot: u16, status: Status) {
        let outcome = ImmediateAbort::of(status);
        for tag in self.aborts.take(slot) {
            self.answer_abort(tag, outcome);
        }
    }

    /// Tells whoever asked for an abort of its outcome.
    pub(super) fn answer_abort(&mut self, tag: u16, outcome: ImmediateAbort) {
        if matches!(self.state, QueueState::Admin(_)) {
            self.finish_abort(tag, outcome);
        } else {
            let aborted = outcome == ImmediateAbort::Performed;
            self.actions.push_back(Action::Group(Request::Aborted { tag, aborted }));
        }
    }

    /// Completes an Abort on the admin queue.
    pub(super) fn finish_abort(&mut self, tag: u16, outcome: ImmediateAbort) {
        let QueueState::Admin(admin) = &mut self.state else { return };
        let held = |step: &Step| matches!(step, Step::Held);
        if self.slots.get(tag).is_some_and(|slot| slot.command.entry.opcode == ABORT && held(&slot.step)) {
            admin.aborts = admin.aborts.saturating_sub(1);
            self.finish(tag, CommandResult::success(outcome.result()), None);
        }
    }
}
