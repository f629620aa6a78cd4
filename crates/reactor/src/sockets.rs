//! A core's sockets for datagrams, each with its endpoint. `socket_turns` is what a turn of the loop does for them.
//!
//! Both drivers say when a socket is readable; the calls that receive and send are made here, as one of them moves up to 64 KiB. A socket that takes
//! nothing for want of room is tried again after a moment: its poll waits for what comes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use host::{DatagramEndpoint, Datagrams, EndpointId, ListenerId};
use protocol::Instant;

use crate::limits::DATAGRAM_AREA;
use crate::socket_group::Member;
use crate::sys::{receive_now, send_now};

/// Whether a socket is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is.
    Open,
    /// It goes once its poll has ended.
    Closing,
}

/// A socket with its endpoint.
pub(crate) struct Socket {
    pub(crate) id: EndpointId,
    /// Whose it is, if it was bound by order.
    pub(crate) listener: Option<ListenerId>,
    pub(crate) descriptor: Rc<OwnedFd>,
    /// Its place among those at its address, which it leaves when the descriptor is closed.
    pub(crate) member: Member,
    pub(crate) endpoint: Box<dyn DatagramEndpoint>,
    pub(crate) polling: bool,
    pub(crate) touched: bool,
    pub(crate) phase: Phase,
    /// When a send that found no room is tried again.
    pub(crate) retry_at: Option<Instant>,
    /// The earliest entry among the timers.
    pub(crate) scheduled: Option<Instant>,
    pub(crate) expects: bool,
}

impl Socket {
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        [self.endpoint.poll_timeout(), self.retry_at].into_iter().flatten().min()
    }

    /// Sends what is next. Its bytes, which are none when there is nothing.
    pub(crate) fn transmit(&mut self, now: Instant) -> io::Result<usize> {
        let Some(datagrams) = self.endpoint.poll_transmit(now) else { return Ok(0) };
        let length = datagrams.bytes.len();
        match send_now(self.descriptor.as_fd(), &datagrams) {
            Err(error) if is_without_room(&error) => Err(error),
            // What cannot be sent is lost, as on the way.
            _ => {
                self.endpoint.handle_transmitted(now);
                Ok(length.max(1))
            }
        }
    }
}

fn is_without_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM))
}

/// A core's sockets, by the slots that the driver knows them by.
#[derive(Default)]
pub(crate) struct Sockets {
    pub(crate) by_slot: BTreeMap<u32, Socket>,
    /// Those that have something to do in this turn.
    pub(crate) touched: Vec<u32>,
    /// Sockets whose endpoint expects work soon.
    pub(crate) expecting: usize,
    /// When they close although their endpoints have not finished; none before the loop is to end.
    pub(crate) close_at: Option<Instant>,
    /// Where one call receives.
    area: Vec<u8>,
}

impl Sockets {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_slot.is_empty()
    }

    /// True while some endpoint expects work soon.
    pub(crate) fn expect_work(&self) -> bool {
        self.expecting > 0
    }

    /// Makes the socket take part in this turn.
    pub(crate) fn touch(&mut self, slot: u32) {
        if let Some(socket) = self.by_slot.get_mut(&slot)
            && !std::mem::replace(&mut socket.touched, true)
        {
            self.touched.push(slot);
        }
    }

    /// Gives the endpoint what one call receives; its bytes.
    pub(crate) fn receive(&mut self, slot: u32, now: Instant) -> io::Result<usize> {
        self.area.resize(DATAGRAM_AREA, 0);
        let socket = self.by_slot.get_mut(&slot).ok_or(io::ErrorKind::WouldBlock)?;
        let arrived = receive_now(socket.descriptor.as_fd(), &mut self.area)?;
        let bytes = self.area.get(..arrived.length).unwrap_or_default();
        let datagrams = Datagrams { peer: arrived.peer, bytes, segment: arrived.segment };
        socket.endpoint.handle_datagrams(now, &datagrams);
        Ok(arrived.length)
    }

    /// Gives the endpoint what other event loops have forwarded, and a turn.
    pub(crate) fn take_turn(&mut self, slot: u32, now: Instant) {
        if let Some(socket) = self.by_slot.get_mut(&slot).filter(|socket| socket.phase == Phase::Open) {
            let Socket { member, endpoint, .. } = socket;
            member.take_forwarded(|datagrams| endpoint.handle_datagrams(now, datagrams));
            endpoint.turn(now);
        }
    }
}
