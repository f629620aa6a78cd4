//! The commands of one queue: their slots, which of them are to end, and who waits for that (NVMe Base §5.1.1).
//!
//! Abort's own completion waits until the command has completed, so that it tells the truth: an immediate abort was
//! performed if the command ended in Command Abort Requested. The two answers are queued in that order.

use buf::BufList;
use volume::Tag;

use super::Action;
use super::abort_table::{AbortTable, Ending, ImmediateAbort};
use super::command::{CommandResult, ReceivedCommand};
use super::fabric_transport::FabricTransport;
use super::outgoing::Outgoing;
use super::slots::{Slots, Step};
use crate::limits::ABORTS;
use crate::opcode::admin::ABORT;
use crate::status::Status;
use crate::subsystem::Request;

/// Where the host's Aborts come to, which name commands of this queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AbortSource {
    /// To the controller's admin queue: its group tells this one of them.
    Group,
    /// Here.
    Host,
}

/// How a command that is to end does so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// With its request, which a volume has.
    WithRequest,
    /// At once: whoever asked is to see to it.
    AtOnce,
}

/// The commands of one queue.
#[derive(Debug)]
pub(super) struct CommandTable {
    pub(super) slots: Slots,
    aborts: AbortTable,
    source: AbortSource,
    /// Abort commands of this queue that are not answered.
    open_aborts: u8,
}

impl CommandTable {
    /// Of a queue that nobody has connected yet: room for its Connect.
    pub(super) fn new() -> Self {
        let (slots, aborts) = (Slots::new(1), AbortTable::default());
        Self { slots, aborts, source: AbortSource::Group, open_aborts: 0 }
    }

    /// The queue is the admin queue of a controller: Aborts come to it.
    pub(super) fn take_aborts(&mut self) {
        self.source = AbortSource::Host;
    }

    /// Takes an Abort. Its slot, which this gives, is the mark by which the outcome is known.
    ///
    /// # Errors
    /// The host has too many of them under way.
    pub(super) fn begin_abort(&mut self, command: &ReceivedCommand) -> Result<Option<u16>, Status> {
        if self.open_aborts >= ABORTS {
            return Err(Status::ABORT_LIMIT);
        }
        let tag = self.slots.begin(command, Step::Held);
        self.open_aborts = self.open_aborts.saturating_add(u8::from(tag.is_some()));
        Ok(tag)
    }

    /// True when the command of this slot is to end.
    #[inline]
    pub(super) fn is_to_end(&self, slot: u16) -> bool {
        self.aborts.is_pending_for(slot)
    }

    /// How a command ends of which nothing more is done.
    pub(super) fn ending_status(&self, slot: u16) -> Status {
        self.aborts.status(slot)
    }

    /// How a command ends that has failed in this way.
    pub(super) fn judge(&self, slot: u16, status: Status) -> Status {
        self.aborts.judge(slot, status)
    }

    /// The command with this identifier is to end when it is read.
    pub(super) fn add_unread(&mut self, cid: u16, abort: u16) {
        self.aborts.add_unread(cid, abort);
    }

    /// The Abort of this command, which has now been read.
    #[inline]
    pub(super) fn take_unread(&mut self, cid: u16) -> Option<u16> {
        self.aborts.take_unread(cid)
    }

    /// The command of this slot is to end soon, and nothing of it goes on.
    pub(super) fn end_soon<T: FabricTransport>(
        &mut self,
        out: &mut Outgoing<T>,
        index: u16,
        ending: Ending,
    ) -> Ends {
        let Some(slot) = self.slots.get(index) else { return Ends::WithRequest };
        let volume = slot.step.volume();
        let known = self.aborts.is_pending_for(index);
        self.aborts.add(index, ending);
        let Some(volume) = volume else { return Ends::AtOnce };
        if !known {
            out.ask(Action::Cancel { volume, tag: Tag(u64::from(index)) });
        }
        Ends::WithRequest
    }

    /// A command that waits for memory ends, for this reason.
    pub(super) fn end_waiting<T: FabricTransport>(
        &mut self,
        out: &mut Outgoing<T>,
        index: u16,
        ending: Ending,
    ) {
        self.aborts.add(index, ending);
        self.finish_aborted(out, index);
    }

    /// Ends a slot's command.
    #[inline]
    pub(super) fn finish<T: FabricTransport>(
        &mut self,
        out: &mut Outgoing<T>,
        slot: u16,
        result: CommandResult,
        data: Option<BufList>,
    ) {
        if let Some(command) = self.slots.end(slot) {
            out.complete(command, result, data);
            self.settle_aborts(out, slot, result.status);
        }
    }

    /// Ends a slot's command with this status alone.
    #[inline]
    pub(super) fn finish_with<T: FabricTransport>(
        &mut self,
        out: &mut Outgoing<T>,
        slot: u16,
        status: Status,
    ) {
        self.finish(out, slot, CommandResult::of(status), None);
    }

    /// Ends a command of which nothing more is done, as it was to end.
    pub(super) fn finish_aborted<T: FabricTransport>(&mut self, out: &mut Outgoing<T>, index: u16) {
        self.finish_with(out, index, self.aborts.status(index));
    }

    /// A command has completed: answers the aborts that waited for it.
    #[inline]
    pub(super) fn settle_aborts<T: FabricTransport>(
        &mut self,
        out: &mut Outgoing<T>,
        slot: u16,
        status: Status,
    ) {
        if !self.aborts.is_empty() {
            self.answer_aborts(out, slot, status);
        }
    }

    #[cold]
    fn answer_aborts<T: FabricTransport>(&mut self, out: &mut Outgoing<T>, slot: u16, status: Status) {
        let outcome = ImmediateAbort::of(status);
        for tag in self.aborts.take(slot) {
            self.answer_abort(out, tag, outcome);
        }
    }

    /// Tells whoever asked for an abort of its outcome.
    pub(super) fn answer_abort<T: FabricTransport>(
        &mut self,
        out: &mut Outgoing<T>,
        tag: u16,
        outcome: ImmediateAbort,
    ) {
        match self.source {
            AbortSource::Host => self.finish_abort(out, tag, outcome),
            AbortSource::Group => {
                let aborted = outcome == ImmediateAbort::Performed;
                out.ask(Action::Group(Request::Aborted { tag, aborted }));
            }
        }
    }

    /// Completes an Abort of this queue.
    pub(super) fn finish_abort<T: FabricTransport>(
        &mut self,
        out: &mut Outgoing<T>,
        tag: u16,
        outcome: ImmediateAbort,
    ) {
        let held = |step: &Step| matches!(step, Step::Held);
        if self.source == AbortSource::Group {
            return;
        }
        if self.slots.get(tag).is_some_and(|slot| slot.command.entry.opcode == ABORT && held(&slot.step)) {
            self.open_aborts = self.open_aborts.saturating_sub(1);
            self.finish(out, tag, CommandResult::success(outcome.result()), None);
        }
    }
}
