//! The sockets for datagrams of a core, and what a turn does for each: what has come is given to its endpoint, which has a turn and sends what it has to say. Descriptors that are
//! watched for others have such turns, too, without anything to receive or to send.
//!
//! Both drivers say when a socket is readable; the calls that receive and send are made here, as one of them moves up to 64 KiB. A socket that takes
//! nothing for want of room is tried again after a moment: its poll waits for what comes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use host::{DatagramEndpoint, Datagrams, Dialer, EndpointId, ListenerId, OpenSocket, WatchEndpoint};
use protocol::{Ended, Instant};

use crate::core_io::CoreIo;
use crate::core_local::{CoreDialer, Watch, slot_of};
use crate::driver::{Interest, SendRoom};
use crate::limits::{DATAGRAM_AREA, LAST_DATAGRAMS, RECEIVES_AT_ONCE, SEND_RETRY};
use crate::socket_group::Member;
use crate::sys::{receive_now, send_now};

/// Whether a socket is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It is.
    Open,
    /// It goes once its poll has ended.
    Closing,
}

/// What a descriptor's readiness is for.
enum SocketEndpoint {
    /// Datagrams are received and sent here. The socket's place among those at its address, which it leaves when the descriptor is closed.
    Datagrams(Box<dyn DatagramEndpoint>, Member),
    /// Somebody else reads it.
    Watch(Box<dyn WatchEndpoint>),
}

impl SocketEndpoint {
    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Datagrams(endpoint, _) => endpoint.handle_timeout(now),
            Self::Watch(endpoint) => endpoint.handle_timeout(now),
        }
    }

    fn handle_retired(&mut self, now: Instant) {
        match self {
            Self::Datagrams(endpoint, member) => {
                member.stop_accepting();
                endpoint.handle_retired(now);
            }
            // It is no listener's.
            Self::Watch(_) => {}
        }
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        match self {
            Self::Datagrams(endpoint, _) => endpoint.handle_ended(now, how),
            Self::Watch(endpoint) => endpoint.handle_ended(now, how),
        }
    }

    fn turn(&mut self, now: Instant) {
        match self {
            Self::Datagrams(endpoint, member) => {
                member.take_forwarded(|datagrams| endpoint.handle_datagrams(now, datagrams));
                endpoint.turn(now);
            }
            Self::Watch(endpoint) => endpoint.turn(now),
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagrams<'_>> {
        match self {
            Self::Datagrams(endpoint, _) => endpoint.poll_transmit(now),
            Self::Watch(_) => None,
        }
    }

    fn handle_transmitted(&mut self, now: Instant) {
        match self {
            Self::Datagrams(endpoint, _) => endpoint.handle_transmitted(now),
            Self::Watch(_) => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Datagrams(endpoint, _) => endpoint.poll_timeout(),
            Self::Watch(endpoint) => endpoint.poll_timeout(),
        }
    }

    fn is_finished(&self) -> bool {
        match self {
            Self::Datagrams(endpoint, _) => endpoint.is_finished(),
            Self::Watch(endpoint) => endpoint.is_finished(),
        }
    }

    fn expects_work(&self) -> bool {
        match self {
            Self::Datagrams(endpoint, _) => endpoint.expects_work(),
            Self::Watch(endpoint) => endpoint.expects_work(),
        }
    }
}

/// A socket that is bound, before it has its place.
pub(crate) struct Bound {
    pub(crate) id: EndpointId,
    /// Whose it is, if it was bound by order.
    pub(crate) listener: Option<ListenerId>,
    pub(crate) member: Member,
}

impl Bound {
    /// What its endpoint is told.
    pub(crate) fn opened(&self) -> OpenSocket {
        let Self { id, member, .. } = self;
        OpenSocket { endpoint: *id, local: member.local(), membership: member.membership() }
    }
}

/// The driver does not take a socket, whose endpoint has been told.
#[derive(Debug)]
pub(crate) struct NotAttached;

/// A socket with its endpoint.
struct Socket {
    id: EndpointId,
    /// Whose it is, if it was bound by order.
    listener: Option<ListenerId>,
    descriptor: Rc<OwnedFd>,
    endpoint: SocketEndpoint,
    polling: bool,
    touched: bool,
    phase: Phase,
    /// When a send that found no room is tried again.
    retry_at: Option<Instant>,
    /// The earliest entry among the timers.
    scheduled: Option<Instant>,
    expects: bool,
}

impl Socket {
    fn poll_timeout(&self) -> Option<Instant> {
        [self.endpoint.poll_timeout(), self.retry_at].into_iter().flatten().min()
    }

    /// Sends what is next. Its bytes, which are none when there is nothing.
    fn transmit(&mut self, now: Instant) -> io::Result<usize> {
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

    /// Sends what there is, up to `budget` bytes, about: true if there is more.
    fn transmit_some(&mut self, now: Instant, budget: usize) -> bool {
        let (mut sent, mut goes_on) = (0, true);
        self.retry_at = None;
        while goes_on && sent < budget {
            if let Ok(count) = self.transmit(now) {
                sent += count;
                goes_on = count > 0;
            } else {
                self.retry_at = Some(now + SEND_RETRY);
                goes_on = false;
            }
        }
        goes_on
    }
}

fn is_without_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM))
}

/// A core's sockets, by the slots that the driver knows them by, and which of them have something to do.
#[derive(Default)]
pub(crate) struct Sockets {
    by_slot: BTreeMap<u32, Socket>,
    /// Those that have something to do in this turn.
    touched: Vec<u32>,
    /// Sockets whose endpoint expects work soon.
    expecting: usize,
    /// Those that are over, until the loop has heard of it.
    gone: Vec<EndpointId>,
    /// When they close although their endpoints have not finished; none before the loop is to end.
    close_at: Option<Instant>,
    /// Where one call receives.
    area: Vec<u8>,
}

impl Sockets {
    /// True when there is none, and nobody has to hear of one.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_slot.is_empty() && self.gone.is_empty()
    }

    /// True while some endpoint expects work soon.
    pub(crate) fn expect_work(&self) -> bool {
        self.expecting > 0
    }

    /// Adds a socket, which takes part in this turn.
    pub(crate) fn insert(
        &mut self,
        core: &mut CoreIo,
        bound: Bound,
        mut endpoint: Box<dyn DatagramEndpoint>,
    ) -> Result<(), NotAttached> {
        endpoint.handle_opened(core.now, bound.opened());
        let Bound { id, listener, member } = bound;
        let descriptor = member.descriptor();
        member.set_reader(CoreDialer.waker(id));
        self.attach(core, (id, listener), descriptor, SocketEndpoint::Datagrams(endpoint, member))
    }

    /// Adds a descriptor that is watched for somebody, who has a turn at once: it may have begun something that nothing but its own turn goes on with.
    pub(crate) fn watch(&mut self, core: &mut CoreIo, watch: Watch) -> Result<(), NotAttached> {
        let Watch { id, descriptor, endpoint } = watch;
        self.attach(core, (id, None), Ok(descriptor), SocketEndpoint::Watch(endpoint))?;
        self.take_turn(slot_of(id), core.now);
        Ok(())
    }

    fn attach(
        &mut self,
        core: &mut CoreIo,
        (id, listener): (EndpointId, Option<ListenerId>),
        descriptor: io::Result<OwnedFd>,
        mut endpoint: SocketEndpoint,
    ) -> Result<(), NotAttached> {
        let slot = slot_of(id);
        let attached = descriptor.map(Rc::new).and_then(|descriptor| {
            core.driver.attach(slot, Rc::clone(&descriptor), SendRoom::Unknown)?;
            Ok(descriptor)
        });
        let descriptor = match attached {
            Ok(descriptor) => descriptor,
            Err(error) => {
                endpoint.handle_ended(core.now, Ended::Failed(error.raw_os_error().unwrap_or(libc::EIO)));
                return Err(NotAttached);
            }
        };
        let socket = Socket {
            id,
            listener,
            descriptor,
            endpoint,
            polling: false,
            touched: false,
            phase: Phase::Open,
            retry_at: None,
            scheduled: None,
            expects: false,
        };
        self.by_slot.insert(slot, socket);
        self.touch(slot);
        Ok(())
    }

    /// The socket of a listener is to close, once its endpoint has finished.
    pub(crate) fn retire(&mut self, listener: ListenerId, now: Instant) {
        let meant = self.by_slot.iter_mut().find(|(_, socket)| socket.listener == Some(listener));
        if let Some((slot, socket)) = meant {
            let slot = *slot;
            socket.endpoint.handle_retired(now);
            self.touch(slot);
        }
    }

    /// The loop ends: endpoints say so to their peers, and have a moment to hear answers. What is watched for others ends now.
    pub(crate) fn shut_down(&mut self, core: &mut CoreIo) {
        self.close_at = Some(core.now + LAST_DATAGRAMS);
        let slots: Vec<u32> = self.by_slot.keys().copied().collect();
        for slot in slots {
            match self.by_slot.get_mut(&slot).map(|socket| &mut socket.endpoint) {
                Some(SocketEndpoint::Datagrams(endpoint, _)) => endpoint.handle_shutdown(core.now),
                Some(SocketEndpoint::Watch(endpoint)) => {
                    endpoint.handle_ended(core.now, Ended::ByUs);
                    self.close(core, slot);
                }
                None => {}
            }
            self.touch(slot);
        }
    }

    /// When [`Sockets::end_if_due`] is to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.close_at
    }

    /// That moment is over: all sockets close now.
    pub(crate) fn end_if_due(&mut self, core: &mut CoreIo) {
        if self.close_at.take_if(|close_at| *close_at <= core.now).is_some() {
            self.end_all(core);
        }
    }

    /// All sockets close now.
    fn end_all(&mut self, core: &mut CoreIo) {
        let slots: Vec<u32> = self.by_slot.keys().copied().collect();
        for slot in slots {
            if let Some(socket) = self.by_slot.get_mut(&slot) {
                socket.endpoint.handle_ended(core.now, Ended::ByUs);
            }
            self.close(core, slot);
        }
    }

    /// A poll has ended in a slot that may be a socket's: false if it is none.
    pub(crate) fn handle_ready(&mut self, core: &mut CoreIo, slot: u32) -> bool {
        let Some(socket) = self.by_slot.get_mut(&slot) else { return false };
        socket.polling = false;
        if socket.phase == Phase::Closing {
            self.remove(core, slot);
            return true;
        }
        if let SocketEndpoint::Watch(endpoint) = &mut socket.endpoint {
            endpoint.handle_ready(core.now);
            core.driver.drained(slot);
            self.touch(slot);
            return true;
        }
        self.touch(slot);
        for _ in 0..RECEIVES_AT_ONCE {
            match self.receive(slot, core.now) {
                Ok(count) => core.traffic.received += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    core.driver.drained(slot);
                    break;
                }
                // An error of something that was sent; it is told once.
                Err(_) => {}
            }
        }
        true
    }

    /// Gives the endpoint what one call receives; its bytes.
    fn receive(&mut self, slot: u32, now: Instant) -> io::Result<usize> {
        let socket = self.by_slot.get_mut(&slot).ok_or(io::ErrorKind::WouldBlock)?;
        let SocketEndpoint::Datagrams(endpoint, _) = &mut socket.endpoint else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        self.area.resize(DATAGRAM_AREA, 0);
        let arrived = receive_now(socket.descriptor.as_fd(), &mut self.area)?;
        let bytes = self.area.get(..arrived.length).unwrap_or_default();
        let datagrams = Datagrams { peer: arrived.peer, bytes, segment: arrived.segment };
        endpoint.handle_datagrams(now, &datagrams);
        Ok(arrived.length)
    }

    /// Lets a socket's endpoint have a turn: false if the name is no socket's.
    pub(crate) fn wake(&mut self, id: EndpointId, now: Instant) -> bool {
        let slot = slot_of(id);
        let is_meant = self.by_slot.get(&slot).is_some_and(|socket| socket.id == id);
        if is_meant {
            self.touch(slot);
            self.take_turn(slot, now);
        }
        is_meant
    }

    /// An entry of the timers has come due in a slot that may be a socket's.
    pub(crate) fn handle_due(&mut self, slot: u32, when: Instant, now: Instant) {
        let Some(socket) = self.by_slot.get_mut(&slot) else { return };
        if socket.scheduled != Some(when) {
            return;
        }
        socket.scheduled = None;
        if socket.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            socket.endpoint.handle_timeout(now);
        }
        self.touch(slot);
    }

    /// Lets the endpoints to which something has come do what follows.
    pub(crate) fn take_turns(&mut self, now: Instant) {
        for index in 0..self.touched.len() {
            if let Some(slot) = self.touched.get(index).copied() {
                self.take_turn(slot, now);
            }
        }
    }

    /// Ends the turns of sockets: each sends up to `budget` bytes, about, waits for what comes, or closes.
    pub(crate) fn finish_turns(&mut self, core: &mut CoreIo, budget: usize) {
        let mut touched = std::mem::take(&mut self.touched);
        for slot in touched.drain(..) {
            self.finish_turn(core, slot, budget);
        }
        // What is touched meanwhile has its turn in the next one.
        touched.append(&mut self.touched);
        core.again |= !touched.is_empty();
        self.touched = touched;
    }

    /// Adds the sockets that are over to `gone`.
    pub(crate) fn reap_closed(&mut self, gone: &mut Vec<EndpointId>) {
        gone.append(&mut self.gone);
    }

    /// Makes the socket take part in this turn.
    fn touch(&mut self, slot: u32) {
        if let Some(socket) = self.by_slot.get_mut(&slot)
            && !std::mem::replace(&mut socket.touched, true)
        {
            self.touched.push(slot);
        }
    }

    /// Gives the endpoint what other event loops have forwarded, and a turn.
    fn take_turn(&mut self, slot: u32, now: Instant) {
        if let Some(socket) = self.by_slot.get_mut(&slot).filter(|socket| socket.phase == Phase::Open) {
            socket.endpoint.turn(now);
        }
    }

    fn finish_turn(&mut self, core: &mut CoreIo, slot: u32, budget: usize) {
        let Some(socket) = self.by_slot.get_mut(&slot) else { return };
        socket.touched = false;
        if socket.phase == Phase::Closing {
            return;
        }
        let goes_on = socket.transmit_some(core.now, budget);
        let expects = socket.endpoint.expects_work();
        self.expecting += usize::from(expects);
        self.expecting -= usize::from(std::mem::replace(&mut socket.expects, expects));
        core.timers.schedule(slot, socket.poll_timeout(), &mut socket.scheduled);
        if !std::mem::replace(&mut socket.polling, true) {
            core.driver.poll(slot, Interest::Read);
        }
        if socket.endpoint.is_finished() {
            self.close(core, slot);
        } else if goes_on {
            self.touch(slot);
        }
    }

    fn close(&mut self, core: &mut CoreIo, slot: u32) {
        let Some(socket) = self.by_slot.get_mut(&slot) else { return };
        if std::mem::replace(&mut socket.phase, Phase::Closing) == Phase::Closing {
            return;
        }
        if socket.polling {
            core.driver.cancel(slot);
        } else {
            self.remove(core, slot);
        }
    }

    fn remove(&mut self, core: &mut CoreIo, slot: u32) {
        let Some(socket) = self.by_slot.remove(&slot) else { return };
        core.driver.detach(slot);
        self.expecting -= usize::from(socket.expects);
        self.gone.push(socket.id);
        core.again = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_want_of_room_keeps_datagrams() {
        let is_kept = |code| is_without_room(&io::Error::from_raw_os_error(code));
        assert!([libc::EAGAIN, libc::ENOBUFS, libc::ENOMEM].into_iter().all(is_kept));
        // A firewall of this machine, no way, a port that nobody has, and too much for the way: lost, as farther along it.
        let lost = [libc::EPERM, libc::ENETUNREACH, libc::EHOSTUNREACH, libc::ECONNREFUSED, libc::EMSGSIZE];
        assert!(!lost.into_iter().any(is_kept));
    }
}
