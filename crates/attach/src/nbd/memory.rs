//! What a connection holds, and how long: data in buffers of the core's pool, everything else in bytes, all of it on the connection's account.
//!
//! A client that stops in the middle of a write's data, or reads nothing of what is sent to it, loses its connection: sooner while others wait
//! for memory.

use buf::Outside;
use protocol::{CloseReason, Instant};

use super::connection::{Action, Connection, Receive, WaitReason};
use super::limits::{DATA_TIME, OVERDRAFT, SCARCE_DATA_TIME, SCARCE_SEND_TIME, SEND_TIME};
use super::progress::DataWait;
use super::reply::Reply;

impl Connection {
    /// True while the client had better read first.
    pub(super) fn is_congested(&self) -> bool {
        self.out.is_full(self.table.room())
            || self.account.overdrawn() > OVERDRAFT
            || (self.out.bytes() > 0 && self.account.is_over())
    }

    /// Whether another request may be taken: there is a place for it, or memory for more places and their replies.
    pub(super) fn has_room(&mut self) -> bool {
        if !self.table.is_full() {
            return true;
        }
        let (more, each) = self.table.wants();
        let bytes = more * (each + size_of::<Reply>() + size_of::<Action>());
        let granted = more > 0 && self.account.charge_table(bytes);
        if granted {
            self.granted += bytes;
            self.table.grant(more);
        }
        granted
    }

    /// Counts what is held outside of buffers; nothing that grows with what a client does is left out.
    pub(super) fn update_account(&mut self) {
        let lists =
            self.actions.capacity() * size_of::<Action>() + self.waiting.capacity() * size_of::<usize>();
        let tables = (self.out.size() + self.table.size() + lists).saturating_sub(self.granted);
        let held = Outside { data: self.out.bytes() + self.table.answers(), tables };
        if held != self.counted {
            self.account.recount(&mut self.counted, held);
        }
        if self.waiting.is_empty() && !matches!(self.receive_wait, Some(WaitReason::Memory(_))) {
            self.account.stop_waiting();
        }
    }

    /// Closes the connection when its client makes no progress with the data of a write, or reads nothing of what is sent to it.
    pub(super) fn check_progress(&mut self, now: Instant) {
        let is_scarce = self.account.is_wanted();
        if self.progress.is_send_overdue(now, if is_scarce { SCARCE_SEND_TIME } else { SEND_TIME }) {
            self.out.clear();
            self.end(CloseReason::TimedOut("the client does not read what is sent to it"));
        }
        let wait = match self.receive {
            Receive::Header | Receive::Skip { .. } => DataWait::None,
            _ if matches!(self.receive_wait, Some(WaitReason::Memory(_))) => DataWait::Memory,
            Receive::Data(_) | Receive::Placing(_) => DataWait::Client,
        };
        if self.progress.is_data_overdue(now, wait, if is_scarce { SCARCE_DATA_TIME } else { DATA_TIME }) {
            self.end(CloseReason::TimedOut("the client stopped in the middle of a write's data"));
        }
    }
}
