//! The end of an I/O queue: its controller is reset or shut down (NVMe Base §3.5, §3.6), or its host disconnects it (NVMe Base §6.4).
//!
//! In each case somebody is told that the queue's commands are over: the controller, which shows it in CSTS, or the host. That is not
//! so before every request of the queue has ended at its volume.

use protocol::{CloseReason, Instant};

use super::{ControllerQueue, QueueState};
use crate::controller::Action;
use crate::controller::command::{CommandResult, ReceivedCommand};
use crate::controller::fabric_transport::FabricTransport;
use crate::controller::quiesce::Waiter;
use crate::controller::slots::Step;
use crate::limits::QUIESCE_TIME;
use crate::subsystem::Request;

impl<T: FabricTransport> ControllerQueue<T> {
    /// The controller is reset, shut down or gone.
    pub(super) fn handle_close(&mut self, now: Instant) {
        self.end(self.withdrawn.reason().unwrap_or(CloseReason::Finished));
        self.end_all(now);
        self.quiesce.begin(Waiter::Group);
        self.check_quiesced();
    }

    /// Takes a Disconnect.
    pub(super) fn begin_disconnect(&mut self, now: Instant, command: &ReceivedCommand) {
        let Some(slot) = self.slots.begin(command, Step::Held) else { return };
        self.quiesce.begin(Waiter::Disconnect { slot });
        self.end_commands(now, |_| true);
        self.check_quiesced();
    }

    /// Nobody hears of this queue's commands any more: they end soon.
    pub(super) fn end_all(&mut self, now: Instant) {
        self.waiters.clear();
        self.end_commands(now, |_| true);
    }

    /// Tells whoever waits for it that none of the queue's requests is with a volume any more.
    pub(super) fn check_quiesced(&mut self) {
        if !self.quiesce.is_under_way() || self.slots.submitted().next().is_some() {
            return;
        }
        match self.quiesce.end() {
            None => {}
            Some(Waiter::Group) => self.actions.push_back(Action::Group(Request::Quiesced)),
            Some(Waiter::Disconnect { slot }) => {
                self.finish(slot, CommandResult::SUCCESS, None);
                self.end(CloseReason::Finished);
            }
        }
    }

    /// Takes the Property Set that disables the controller or shuts it down: it is answered when that is so, as hosts that do not look
    /// at CSTS take it.
    pub(super) fn begin_quiesce(&mut self, now: Instant, command: &ReceivedCommand) {
        let Some(slot) = self.slots.begin(command, Step::Held) else { return };
        self.quiesce.hold(slot, now + QUIESCE_TIME);
    }

    /// The I/O queues of this controller have ended.
    pub(super) fn handle_quiesced(&mut self) {
        if let QueueState::Admin(admin) = &mut self.state
            && admin.quiesced()
        {
            self.answer_quiesce();
        }
        self.after_admin();
    }

    /// Answers what has waited for the I/O queues, or has waited long enough.
    pub(super) fn answer_quiesce(&mut self) {
        for slot in self.quiesce.release() {
            self.finish(slot, CommandResult::SUCCESS, None);
        }
    }
}
