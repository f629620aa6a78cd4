//! The listening sockets of the accepting core: they open, back off for want of descriptors, and close, while the core runs.
//!
//! ```text
//!            Exhausted
//! Accepting ───────────► BackedOff
//!    │   ▲                 │   │
//!    │   └────── Retry ────┘   │
//!    │ Close                   │ Close
//!    ▼          PollEnded      ▼
//! Closing ──────────────────► Closed
//! ```
//!
//! The driver knows the socket, and has a poll under way, in `Accepting` and `Closing` only: a closing listener goes when that poll has
//! ended. `listeners.table` has every transition.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use host::ListenerId;
use protocol::Instant;

use crate::driver::{Driver, Interest, SendRoom};
use crate::limits::ACCEPT_RETRY;

/// Where a listener is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerState {
    /// It waits for streams.
    Accepting,
    /// The process or the system is short of something that accepting takes; it is tried again later.
    BackedOff,
    /// It is to close, once its poll has ended.
    Closing,
    /// It is gone.
    Closed,
}

/// What happens to a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerEvent {
    /// Accepting failed for want of descriptors or memory.
    Exhausted,
    /// The time to try again has come.
    Retry,
    /// It is to be closed.
    Close,
    /// The poll under way has ended.
    PollEnded,
}

impl ListenerState {
    /// The state after an event; `None` where the event means nothing.
    pub(crate) fn after(self, event: ListenerEvent) -> Option<Self> {
        Some(match (self, event) {
            (Self::Accepting, ListenerEvent::Exhausted) => Self::BackedOff,
            (Self::Accepting, ListenerEvent::Close) => Self::Closing,
            (Self::BackedOff, ListenerEvent::Retry) => Self::Accepting,
            (Self::BackedOff, ListenerEvent::Close) | (Self::Closing, ListenerEvent::PollEnded) => {
                Self::Closed
            }
            _ => return None,
        })
    }
}

/// A listening socket, with the id that its streams are accepted under and the slot that the driver knows it by.
#[derive(Debug, Clone)]
pub(crate) struct ListenerSocket {
    pub(crate) slot: u32,
    pub(crate) id: ListenerId,
    pub(crate) descriptor: Rc<OwnedFd>,
}

/// A listener in its slot.
#[derive(Debug)]
struct Entry {
    socket: ListenerSocket,
    state: ListenerState,
}

impl Entry {
    fn start(&self, driver: &mut dyn Driver) -> io::Result<()> {
        driver.attach(self.socket.slot, Rc::clone(&self.socket.descriptor), SendRoom::Unknown)?;
        driver.poll(self.socket.slot, Interest::Read);
        Ok(())
    }
}

/// What a poll that has ended means.
#[derive(Debug)]
pub(crate) enum ListenerPoll {
    /// Streams wait at this listener.
    Streams(ListenerSocket),
    /// The listener is closed, and its slot free.
    Closed,
}

/// A core's listeners, by the slots that the driver knows them by.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    by_slot: BTreeMap<u32, Entry>,
    /// When those that have backed off try again; nothing while there are none.
    retry_at: Option<Instant>,
}

impl Listeners {
    /// Begins to accept from a socket.
    ///
    /// # Errors
    /// The driver cannot watch it now: it has backed off.
    pub(crate) fn open(
        &mut self,
        socket: ListenerSocket,
        driver: &mut dyn Driver,
        now: Instant,
    ) -> io::Result<()> {
        let slot = socket.slot;
        let mut entry = Entry { socket, state: ListenerState::Accepting };
        let started = entry.start(driver);
        if started.is_err() {
            entry.state = ListenerState::BackedOff;
            self.retry_at = Some(now + ACCEPT_RETRY);
        }
        self.by_slot.insert(slot, entry);
        started
    }

    /// Takes the event: the state that follows, unless the event means nothing to the listener in that slot.
    fn enter(&mut self, slot: u32, event: ListenerEvent) -> Option<ListenerState> {
        let entry = self.by_slot.get_mut(&slot)?;
        entry.state = entry.state.after(event)?;
        let state = entry.state;
        if state == ListenerState::Closed {
            self.by_slot.remove(&slot);
        }
        if !self.by_slot.values().any(|entry| entry.state == ListenerState::BackedOff) {
            self.retry_at = None;
        }
        Some(state)
    }

    /// Closes a listener; gives its slot back if that is free at once.
    pub(crate) fn close(&mut self, id: ListenerId, driver: &mut dyn Driver) -> Option<u32> {
        let is_meant = |entry: &Entry| entry.socket.id == id && entry.state != ListenerState::Closing;
        let slot = *self.by_slot.iter().find(|(_, entry)| is_meant(entry))?.0;
        let state = self.enter(slot, ListenerEvent::Close)?;
        if state == ListenerState::Closing {
            driver.cancel(slot);
        }
        (state == ListenerState::Closed).then_some(slot)
    }

    /// A poll has ended in a slot that may be a listener's.
    pub(crate) fn handle_ready(&mut self, slot: u32, driver: &mut dyn Driver) -> Option<ListenerPoll> {
        if self.enter(slot, ListenerEvent::PollEnded) == Some(ListenerState::Closed) {
            driver.detach(slot);
            return Some(ListenerPoll::Closed);
        }
        self.by_slot.get(&slot).map(|entry| ListenerPoll::Streams(entry.socket.clone()))
    }

    /// Lets a listener, whose poll has ended, accept nothing for a while.
    pub(crate) fn back_off(&mut self, slot: u32, driver: &mut dyn Driver, now: Instant) {
        if self.enter(slot, ListenerEvent::Exhausted).is_some() {
            driver.detach(slot);
            self.retry_at = Some(now + ACCEPT_RETRY);
        }
    }

    /// A descriptor has become free: those that have backed off need not wait any longer.
    pub(crate) fn handle_descriptor_freed(&mut self) {
        if self.retry_at.is_some() {
            self.retry_at = Some(Instant::ZERO);
        }
    }

    /// When [`Listeners::retry`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Lets those that have backed off accept again.
    ///
    /// # Errors
    /// The driver cannot watch one of them yet: it is tried again later.
    pub(crate) fn retry(&mut self, driver: &mut dyn Driver, now: Instant) -> io::Result<()> {
        let backed_off = |(_, entry): &(&u32, &Entry)| entry.state == ListenerState::BackedOff;
        let slots: Vec<u32> = self.by_slot.iter().filter(backed_off).map(|(slot, _)| *slot).collect();
        for slot in slots {
            let started = self.by_slot.get(&slot).map_or(Ok(()), |entry| entry.start(driver));
            if started.is_err() {
                self.retry_at = Some(now + ACCEPT_RETRY);
                return started;
            }
            self.enter(slot, ListenerEvent::Retry);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        use ListenerEvent::{Close, Exhausted, PollEnded, Retry};
        use ListenerState::{Accepting, BackedOff, Closed, Closing};
        let mut table = String::new();
        for state in [Accepting, BackedOff, Closing, Closed] {
            for event in [Exhausted, Retry, Close, PollEnded] {
                if let Some(next) = state.after(event) {
                    writeln!(table, "{state:?} --{event:?}--> {next:?}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("listeners.table"));
    }
}
