//! What a connection holds, and how long: data in buffers of the core's pool, everything else in bytes, all of it on the connection's account.
//!
//! A client that stops in the middle of a write's data, or reads nothing of what is sent to it, loses its connection: sooner while others wait
//! for memory. A client without a request under way may be silent for as long as it likes, as NBD knows no sign of life.

use buf::{Account, Buf, Outside};
use protocol::{CloseReason, Instant};
use smallvec::SmallVec;

use super::connection::{Action, Connection, Receive, Starved};
use super::limits::{DATA_TIME, OVERDRAFT, SCARCE_DATA_TIME, SCARCE_SEND_TIME, SEND_TIME, WATCH};
use super::reply::Reply;

/// Buffers of these lengths, or none: room for all of them is set aside before the first is taken, or many clients could wait for each other's.
pub(super) fn take_all(
    account: &mut Account,
    sizes: impl ExactSizeIterator<Item = usize> + Clone,
) -> Option<SmallVec<[Buf; 1]>> {
    if sizes.len() <= 1 {
        return sizes.map(|size| account.take(size)).collect();
    }
    let mut set_aside: usize = sizes.clone().map(usize::next_power_of_two).sum();
    if !account.charge(set_aside) {
        return None;
    }
    let taken = sizes
        .map(|size| {
            let buf = account.take_charged(size, set_aside)?;
            set_aside -= size;
            Some(buf)
        })
        .collect();
    account.release(set_aside);
    taken
}

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
    pub(super) fn settle_account(&mut self) {
        let lists =
            self.actions.capacity() * size_of::<Action>() + self.waiting.capacity() * size_of::<usize>();
        let tables = (self.out.size() + self.table.size() + lists).saturating_sub(self.granted);
        let held = Outside { data: self.out.bytes() + self.table.answers(), tables };
        if held != self.counted {
            self.account.recount(&mut self.counted, held);
        }
        if self.waiting.is_empty() && !matches!(self.starved, Some(Starved::Memory(_))) {
            self.account.stop_waiting();
        }
    }

    /// Data of a write is awaited from now on.
    pub(super) fn begin_watch(&mut self) {
        self.heard = self.now;
        self.watch_at.get_or_insert(self.now + WATCH);
    }

    /// Closes the connection when the data of a write makes no progress. Silence does not count while this side does not read.
    pub(super) fn watch_data(&mut self, now: Instant) {
        if self.watch_at.is_none_or(|at| at > now) {
            return;
        }
        self.watch_at = None;
        if !matches!(self.receive, Receive::Data { .. } | Receive::Placing { .. }) {
            return;
        }
        if matches!(self.starved, Some(Starved::Memory(_))) {
            self.heard = now;
        }
        let limit = if self.account.is_wanted() { SCARCE_DATA_TIME } else { DATA_TIME };
        if self.heard + limit <= now {
            self.end(CloseReason::TimedOut("the client stopped in the middle of a write's data"));
        } else {
            self.watch_at = Some(now + WATCH);
        }
    }

    /// Closes the connection when nothing of what is sent to it is read.
    pub(super) fn watch_sending(&mut self, now: Instant) {
        let Some((since, due)) = self.sending else { return };
        let limit = if self.account.is_wanted() { SCARCE_SEND_TIME } else { SEND_TIME };
        if since + limit <= now {
            self.out.clear();
            self.end(CloseReason::TimedOut("the client does not read what is sent to it"));
            self.sending = None;
        } else if due <= now {
            self.sending = Some((since, now + WATCH));
        }
    }
}

impl Reply {
    /// Bytes of it outside of pools.
    pub(super) fn unpooled(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Extents(_, found) => size_of_val(found.as_slice()),
            Self::Plain(_, data) | Self::Data(_, data) => data.unpooled(),
            Self::Simple(_) | Self::Error(..) => 0,
        }
    }
}
