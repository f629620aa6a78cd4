//! Sockets of one machine at one address: which of them a datagram comes to, and what one of them forwards to another, as the reactor and the kernel do it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::ROCE_SLOT;
use host::{Datagrams, Membership, SocketGroup, SocketSlot};

/// Datagrams that wait for the sockets to which others have forwarded them, at most.
const FORWARDED: usize = 64;

/// A datagram that one socket has forwarded to another.
#[derive(Debug)]
pub(crate) struct Forwarded {
    pub(crate) slot: SocketSlot,
    pub(crate) from: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// The sockets at an address.
#[derive(Debug, Default)]
pub(crate) struct Group(Mutex<Members>);

#[derive(Debug, Default)]
struct Members {
    /// Slots that decide about newcomers, in order.
    acceptors: Vec<SocketSlot>,
    forwarded: Vec<Forwarded>,
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, Members> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A socket's place among these.
    pub(crate) fn membership(self: &Arc<Self>, slot: SocketSlot) -> Membership {
        let group = Arc::clone(self);
        Membership { slot, group }
    }

    /// The socket of this slot decides about newcomers.
    pub(crate) fn begin_accepting(&self, slot: SocketSlot) {
        self.lock().acceptors.push(slot);
    }

    /// It does so no more.
    pub(crate) fn stop_accepting(&self, slot: SocketSlot) {
        self.lock().acceptors.retain(|acceptor| *acceptor != slot);
    }

    /// What was forwarded.
    pub(crate) fn take_forwarded(&self) -> Vec<Forwarded> {
        std::mem::take(&mut self.lock().forwarded)
    }
}

impl SocketGroup for Group {
    fn acceptor(&self, key: u32) -> Option<SocketSlot> {
        let members = self.lock();
        let count = u32::try_from(members.acceptors.len()).ok()?;
        let index = usize::try_from(key.checked_rem(count)?).ok()?;
        members.acceptors.get(index).copied()
    }

    fn forward(&self, to: SocketSlot, datagrams: &Datagrams<'_>) {
        let mut members = self.lock();
        if members.forwarded.len() < FORWARDED {
            let (from, bytes) = (datagrams.peer, datagrams.bytes.to_vec());
            members.forwarded.push(Forwarded { slot: to, from, bytes });
        }
    }
}

/// The slot that a datagram names, if it names one.
pub(crate) fn named_slot(bytes: &[u8]) -> Option<SocketSlot> {
    let field = bytes.get(usize::from(ROCE_SLOT.offset)..)?.first_chunk::<3>()?;
    let [high, middle, low] = *field;
    let number = u32::from_be_bytes([0, high, middle, low]);
    (number != ROCE_SLOT.unnamed).then_some(SocketSlot(low))
}
