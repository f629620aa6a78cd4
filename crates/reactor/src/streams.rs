//! What a turn does for one connection: events in, its endpoint's turn, one send out, and the next receive.

use std::io;

use host::Service;
use protocol::{Ended, Instant};
use rustix::net::Shutdown;

use crate::connection::{Connection, Phase};
use crate::driver::{Interest, Receive, Send};
use crate::event_loop::EventLoop;
use crate::limits;
use crate::listener;
use crate::staging_holders::Moved;

/// The error's number, for endpoints.
fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// True when the same call may succeed next time.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM))
}

impl<S: Service> EventLoop<S> {
    pub(crate) fn connection(&mut self, slot: u32) -> Option<&mut Connection> {
        self.connections.get_mut(slot)
    }

    pub(crate) fn insert(&mut self, slot: u32, connection: Connection) {
        self.connections.insert(slot, connection);
    }

    /// Makes the connection take part in this turn.
    pub(crate) fn touch(&mut self, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        if !std::mem::replace(&mut connection.touched, true) {
            self.touched.push(slot);
        }
    }

    /// Lets endpoints that wait for a buffer try again.
    pub(crate) fn retry_awaiting_buffer(&mut self) {
        let mut awaiting_buffer = std::mem::take(&mut self.awaiting_buffer);
        for slot in awaiting_buffer.drain(..) {
            if let Some(connection) = self.connection(slot) {
                connection.awaiting_buffer = false;
            }
            self.touch(slot);
        }
        self.awaiting_buffer = awaiting_buffer;
    }

    /// Lets the endpoint do what has come from inside, and take what is staged.
    pub(crate) fn take_turn(&mut self, slot: u32, now: Instant) {
        let Some(connection) = self.connection(slot) else { return };
        if connection.phase == Phase::Connecting {
            return;
        }
        connection.endpoint.turn(now);
        connection.feed(now);
    }

    /// The end of a connection's turn: send, close or receive, and see to its deadline.
    pub(crate) fn finish_turn(&mut self, slot: u32, now: Instant) {
        let Some(connection) = self.connection(slot) else { return };
        connection.touched = false;
        connection.late = false;
        match connection.phase {
            Phase::Open => {
                self.transmit(slot, now);
                self.close_if_asked(slot, now);
                self.arm(slot, now);
            }
            Phase::Flushing => {
                self.transmit(slot, now);
                if self.connection(slot).is_some_and(|connection| !connection.sending) {
                    self.end(slot, Ended::ByPeer, now);
                }
            }
            Phase::Lingering => self.arm(slot, now),
            Phase::Connecting | Phase::Ended => {}
        }
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let expects = !connection.is_end_reported() && connection.endpoint.expects_work();
        self.expecting += usize::from(expects);
        self.expecting -= usize::from(std::mem::replace(&mut connection.expects, expects));
        self.timers.schedule(slot, connection.poll_timeout(), &mut connection.scheduled);
    }

    /// Starts a send, if none is under way and there is anything to say.
    fn transmit(&mut self, slot: u32, now: Instant) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if let Some(rest) = connection.unsent.take() {
            return self.send(slot, rest);
        }
        if connection.sending {
            return;
        }
        let share = self.areas.send_share(self.contention.sharing());
        let mut send = self.areas.take_send(share);
        connection.endpoint.poll_transmit(now, send.transmit());
        if send.seal(share) {
            connection.sending = true;
            self.send(slot, send);
        } else {
            self.areas.put_send(send);
        }
    }

    fn send(&mut self, slot: u32, send: Box<Send>) {
        self.sent += send.part();
        self.driver.send(slot, send);
    }

    fn close_if_asked(&mut self, slot: u32, now: Instant) {
        let Some(connection) = self.connection(slot) else { return };
        if connection.endpoint.poll_close().is_none() {
            return;
        }
        if connection.sending {
            // What is left may still go out, but not for ever: the peer may not read at all.
            connection.deadline.get_or_insert(now + limits::LAST_SENDS);
            return;
        }
        connection.report_end(now, Ended::ByUs);
        connection.phase = Phase::Lingering;
        connection.deadline = Some(now + limits::LINGER);
        connection.readable = false;
        let shut =
            connection.descriptor.as_ref().map(|socket| rustix::net::shutdown(socket, Shutdown::Write));
        if let Some(receive) = connection.receive.take() {
            self.release(slot, receive);
        }
        if !matches!(shut, Some(Ok(()))) {
            self.end(slot, Ended::ByUs, now);
        }
    }

    /// Makes the next bytes come: by a receive that waits, or by a poll that holds no memory.
    fn arm(&mut self, slot: u32, now: Instant) {
        let waits = self.driver.waits_with_memory();
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.receiving || connection.polling {
            return;
        }
        if !connection.wants_bytes() {
            return self.await_buffer(slot);
        }
        let most = self.areas.held() + usize::from(connection.receive.is_some());
        let may_wait = waits && self.holders.len() < most;
        let holds = connection.readable || (connection.warm && may_wait);
        if connection.receive.is_none() && holds {
            connection.receive = Some(self.areas.take_receive());
            if waits {
                connection.held_at = Some(self.holders.add(slot));
            }
        }
        self.again |= connection.feed(now);
        if !connection.wants_bytes() {
            return self.await_buffer(slot);
        }
        match connection.receive.take() {
            Some(receive) if !receive.is_empty() || holds => self.receive(slot, receive, now),
            unused => {
                connection.polling = true;
                self.driver.poll(slot, Interest::Read);
                if let Some(receive) = unused {
                    self.release(slot, receive);
                }
            }
        }
    }

    fn receive(&mut self, slot: u32, mut receive: Box<Receive>, now: Instant) {
        receive.limit(self.areas.receive_share(self.holders.len().max(self.arrivals)));
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if receive.room() == 0 {
            // The endpoint asks for more than it said it would ever need.
            self.release(slot, receive);
            return self.end(slot, Ended::Failed(libc::EMSGSIZE), now);
        }
        connection.committed = !receive.is_empty();
        connection.receiving = true;
        if std::mem::take(&mut connection.readable) {
            return self.receive_announced(slot, receive);
        }
        if !connection.committed && self.driver.waits_with_memory() {
            self.holders.watch(now);
        }
        self.driver.receive(slot, receive);
    }

    /// Receives what a poll has announced: in the same turn where the driver can, so that the area is needed for a moment only.
    fn receive_announced(&mut self, slot: u32, receive: Box<Receive>) {
        match self.driver.receive_announced(slot, receive) {
            Ok((receive, result)) => self.handle_received(slot, receive, result),
            Err(receive) => self.driver.receive(slot, receive),
        }
    }

    /// Lets the endpoint try again in the next turn, whatever that is for.
    fn await_buffer(&mut self, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        if !std::mem::replace(&mut connection.awaiting_buffer, true) {
            self.awaiting_buffer.push(slot);
        }
        // What waits to be placed or consumed stays; an empty area is for others.
        if let Some(receive) =
            self.connection(slot).and_then(|connection| connection.receive.take_if(|area| area.is_empty()))
        {
            self.release(slot, receive);
        }
    }

    fn release(&mut self, slot: u32, receive: Box<Receive>) {
        self.areas.put_receive(receive);
        let Some(place) = self.connection(slot).and_then(|connection| connection.held_at.take()) else {
            return;
        };
        if let Some(Moved { slot, place }) = self.holders.remove(place)
            && let Some(moved) = self.connection(slot)
        {
            moved.held_at = Some(place);
        }
    }

    /// Releases an empty staging area, where too many connections already wait with theirs.
    fn let_others_hold(&mut self, slot: u32) {
        if self.holders.len() <= self.areas.held() {
            return;
        }
        let empty =
            self.connection(slot).and_then(|connection| connection.receive.take_if(|area| area.is_empty()));
        if let Some(receive) = empty {
            self.release(slot, receive);
        }
    }

    /// Takes staging areas back from connections that have been quiet.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.areas.trim();
        let mut waiting = false;
        for slot in self.holders.slots() {
            let connection = self.connections.get_mut(*slot);
            let Some(connection) =
                connection.filter(|connection| connection.receiving && !connection.committed)
            else {
                continue;
            };
            if !connection.sending && now.since(connection.active_at) >= limits::QUIET {
                self.driver.cancel(*slot);
            } else {
                waiting = true;
            }
        }
        if waiting {
            self.holders.watch(now);
        }
    }

    /// A poll's condition holds.
    pub(crate) fn handle_ready(&mut self, slot: u32, now: Instant) {
        let Some(connection) = self.connection(slot) else { return self.handle_ready_elsewhere(slot, now) };
        connection.polling = false;
        match connection.phase {
            Phase::Connecting => self.handle_connected(slot, now),
            Phase::Open | Phase::Lingering => {
                connection.readable = true;
                connection.warm = true;
                connection.active_at = now;
                self.arm(slot, now);
                self.touch(slot);
            }
            Phase::Flushing | Phase::Ended => self.touch(slot),
        }
    }

    fn handle_connected(&mut self, slot: u32, now: Instant) {
        let Some(connection) = self.connection(slot) else { return };
        let Some(descriptor) = connection.descriptor.as_ref() else { return };
        match listener::connected(descriptor) {
            Ok((local, peer)) => {
                connection.phase = Phase::Open;
                connection.deadline = None;
                connection.endpoint.handle_connected(now, local, peer);
                self.touch(slot);
            }
            Err(error) => self.end(slot, Ended::Failed(number(&error)), now),
        }
    }

    /// A receive has ended.
    pub(crate) fn handle_received(&mut self, slot: u32, receive: Box<Receive>, result: io::Result<usize>) {
        let now = self.now;
        self.received += result.as_ref().map_or(0, |count| *count);
        let Some(connection) = self.connection(slot) else { return };
        connection.receiving = false;
        match (connection.phase, result) {
            (Phase::Open, Ok(count)) if count > 0 => {
                let receive = connection.receive.insert(receive);
                receive.received(count);
                connection.warm = true;
                connection.active_at = now;
                connection.feed(now);
                self.let_others_hold(slot);
            }
            (Phase::Open, Err(error)) if is_passing(&error) || number(&error) == libc::ECANCELED => {
                // Taken back by a sweep, or nothing there after all.
                connection.warm = false;
                connection.receive = Some(receive);
            }
            (Phase::Lingering, Ok(count)) if count > 0 => self.release(slot, receive),
            (phase, result) => {
                self.release(slot, receive);
                match result {
                    Ok(_) if phase == Phase::Open => self.begin_flushing(slot, now),
                    Ok(_) => self.end(slot, Ended::ByPeer, now),
                    Err(error) => self.end(slot, Ended::Failed(number(&error)), now),
                }
            }
        }
        self.touch(slot);
    }

    /// The peer has closed its side: what is ready to be sent goes out first, for a while.
    fn begin_flushing(&mut self, slot: u32, now: Instant) {
        let Some(connection) = self.connection(slot) else { return };
        connection.phase = Phase::Flushing;
        connection.deadline = Some(now + limits::LINGER);
    }

    /// A send has ended.
    pub(crate) fn handle_sent(&mut self, slot: u32, mut send: Box<Send>, result: io::Result<usize>) {
        let now = self.now;
        let Some(connection) = self.connection(slot) else { return };
        connection.active_at = now;
        let over = connection.phase == Phase::Ended;
        let failure = match result {
            Ok(count) if !send.sent(count) && !over => return self.send_on(slot, send),
            Err(error) if is_passing(&error) && !over => return self.send_on(slot, send),
            Ok(_) => None,
            Err(error) => Some(number(&error)),
        };
        connection.sending = false;
        if failure.is_none() && !connection.is_end_reported() {
            connection.endpoint.handle_transmitted(now, send.len());
        }
        self.areas.put_send(send);
        if let Some(failure) = failure {
            self.end(slot, Ended::Failed(failure), now);
        }
        self.touch(slot);
    }

    /// The rest of a send goes out with the connection's turn.
    fn send_on(&mut self, slot: u32, send: Box<Send>) {
        let Some(connection) = self.connection(slot) else { return };
        connection.unsent = Some(send);
        self.touch(slot);
    }

    /// An entry of the timers has come due.
    pub(crate) fn handle_due(&mut self, slot: u32, when: Instant, now: Instant) {
        let Some(connection) = self.connection(slot) else { return self.handle_socket_due(slot, when, now) };
        if connection.scheduled != Some(when) {
            return;
        }
        connection.scheduled = None;
        if connection.deadline.is_some_and(|deadline| deadline <= now) {
            let how = match connection.phase {
                Phase::Connecting => Ended::Failed(libc::ETIMEDOUT),
                Phase::Flushing => Ended::ByPeer,
                Phase::Open | Phase::Lingering | Phase::Ended => Ended::ByUs,
            };
            self.end(slot, how, now);
        } else if !connection.is_end_reported()
            && connection.endpoint.poll_timeout().is_some_and(|due| due <= now)
        {
            connection.endpoint.handle_timeout(now);
        }
        self.touch(slot);
    }

    /// The stream is over: cancels what is under way, and reports the end to the endpoint.
    pub(crate) fn end(&mut self, slot: u32, how: Ended, now: Instant) {
        let Some(connection) = self.connection(slot) else { return };
        if connection.phase == Phase::Ended {
            return;
        }
        connection.phase = Phase::Ended;
        connection.deadline = None;
        connection.report_end(now, how);
        let (receive, unsent) = (connection.receive.take(), connection.unsent.take());
        connection.sending &= unsent.is_none();
        if let Some(receive) = receive {
            self.release(slot, receive);
        }
        if let Some(send) = unsent {
            self.areas.put_send(send);
        }
        self.driver.cancel(slot);
        self.closing.push(slot);
        self.touch(slot);
    }
}
