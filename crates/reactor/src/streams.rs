//! The streams of a core, and what a turn does for each: events in, its endpoint's turn, one send out, and the next receive.

use std::io;
use std::time::Duration;

use host::EndpointId;
use protocol::{Ended, Instant};
use rustix::net::Shutdown;

use crate::areas::Areas;
use crate::config::Config;
use crate::connection::{Connection, Phase};
use crate::connection_table::ConnectionTable;
use crate::contention::Contention;
use crate::core_io::CoreIo;
use crate::core_local::slot_of;
use crate::driver::{Interest, Receive, Send};
use crate::limits;
use crate::listener;
use crate::staging_holders::{Moved, StagingHolders};

/// The error's number, for endpoints.
fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// True when the same call may succeed next time.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM))
}

/// The streams of a core, what they hold, and which of them have something to do.
pub(crate) struct Streams {
    connections: ConnectionTable,
    areas: Areas,
    holders: StagingHolders,
    contention: Contention,
    /// Slots whose stream is over, until their endpoints are idle.
    closing: Vec<u32>,
    /// Connections whose endpoint expects work soon.
    expecting: usize,
}

/// A connection that is over, and was dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GoneConnection {
    pub(crate) id: EndpointId,
    /// It was accepted here, and is counted.
    pub(crate) accepted: bool,
}

impl Streams {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            connections: ConnectionTable::default(),
            areas: Areas::new(config),
            holders: StagingHolders::default(),
            contention: Contention::default(),
            closing: Vec::new(),
            expecting: 0,
        }
    }

    /// Bytes that a turn moves in each direction, about.
    pub(crate) fn turn_budget(&self) -> usize {
        self.areas.turn()
    }

    /// The last turn has moved so much, and taken so long.
    pub(crate) fn learn(&mut self, moved: usize, took: Option<Duration>) {
        self.areas.learn(moved, took);
    }

    /// Bytes that an endpoint may ask to be staged at most.
    pub(crate) fn least_staging(&self) -> usize {
        self.areas.least_staging()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// True while some endpoint expects work soon.
    pub(crate) fn expect_work(&self) -> bool {
        self.expecting > 0
    }

    /// When areas are to be taken back from quiet connections.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.holders.poll_timeout()
    }

    fn connection(&mut self, slot: u32) -> Option<&mut Connection> {
        self.connections.get_mut(slot)
    }

    /// Adds a connection, which takes part in this turn.
    pub(crate) fn insert(&mut self, slot: u32, connection: Connection) {
        self.connections.insert(slot, connection);
        self.touch(slot);
    }

    fn touch(&mut self, slot: u32) {
        self.connections.touch(slot);
    }

    /// Lets endpoints that wait for a buffer try again.
    pub(crate) fn retry_awaiting_buffer(&mut self) {
        self.connections.touch_awaiting_buffer();
    }

    /// Lets the endpoints to which something has come do what follows.
    pub(crate) fn take_turns(&mut self, now: Instant) {
        let mut index = 0;
        while let Some(slot) = self.connections.touched().get(index).copied() {
            self.take_turn(slot, now);
            index += 1;
        }
    }

    /// Lets an endpoint have a turn: false if the name is no connection's.
    pub(crate) fn wake(&mut self, id: EndpointId, now: Instant) -> bool {
        let slot = slot_of(id);
        let is_meant = self.connection(slot).is_some_and(|connection| connection.id == id);
        if is_meant {
            self.touch(slot);
            self.take_turn(slot, now);
        }
        is_meant
    }

    /// Ends the turns of the connections, first of those that were late in the last turn, until as much was sent as fits into one.
    pub(crate) fn finish_turns(&mut self, core: &mut CoreIo) {
        self.contention.observe(self.connections.touched());
        let mut due = self.connections.take_due();
        core.traffic.sent = 0;
        let mut finished = 0;
        while let Some(slot) = due.get(finished).copied().filter(|_| core.traffic.sent < self.areas.turn()) {
            finished += 1;
            self.finish_turn(core, slot);
        }
        due.drain(..finished);
        self.connections.postpone(due);
        core.again |= self.connections.have_turns_to_come();
    }

    /// Drops the connections that are over and idle, and adds them to `gone`.
    pub(crate) fn reap_closed(&mut self, core: &mut CoreIo, gone: &mut Vec<GoneConnection>) {
        let Self { connections, closing, expecting, .. } = self;
        closing.retain(|slot| {
            let Some(connection) = connections.take_gone(*slot) else { return true };
            core.driver.detach(*slot);
            *expecting -= usize::from(connection.expects);
            gone.push(GoneConnection { id: connection.id, accepted: connection.accepted });
            false
        });
    }

    /// The loop ends, and with it every stream: at once, or when its endpoint has said so to its peer.
    pub(crate) fn end_all(&mut self, core: &mut CoreIo) {
        for slot in self.connections.slots() {
            let open = self.connection(slot).filter(|connection| connection.phase == Phase::Open);
            if let Some(connection) = open
                && connection.endpoint.handle_shutdown(core.now)
            {
                connection.deadline.get_or_insert(core.now + limits::LAST_WORDS);
                self.touch(slot);
            } else {
                self.end(core, slot, Ended::ByUs);
            }
        }
    }

    /// Takes staging areas back from connections that have been quiet, if it is time.
    pub(crate) fn sweep_if_due(&mut self, core: &mut CoreIo) {
        if self.holders.take_sweep(core.now) {
            self.sweep(core);
        }
    }

    /// Lets the endpoint do what has come from inside, and take what is staged.
    fn take_turn(&mut self, slot: u32, now: Instant) {
        let Some(connection) = self.connection(slot) else { return };
        if connection.phase == Phase::Connecting {
            return;
        }
        connection.endpoint.turn(now);
        connection.feed(now);
    }

    /// The end of a connection's turn: send, close or receive, and see to its deadline.
    fn finish_turn(&mut self, core: &mut CoreIo, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        connection.touched = false;
        connection.late = false;
        match connection.phase {
            Phase::Open => {
                self.transmit(core, slot);
                self.close_if_asked(core, slot);
                self.arm(core, slot);
            }
            Phase::Flushing => {
                self.transmit(core, slot);
                if self.connection(slot).is_some_and(|connection| !connection.sending) {
                    self.end(core, slot, Ended::ByPeer);
                }
            }
            Phase::Lingering => self.arm(core, slot),
            Phase::Connecting | Phase::Ended => {}
        }
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let expects = !connection.is_end_reported() && connection.endpoint.expects_work();
        self.expecting += usize::from(expects);
        self.expecting -= usize::from(std::mem::replace(&mut connection.expects, expects));
        core.timers.schedule(slot, connection.poll_timeout(), &mut connection.scheduled);
    }

    /// Starts a send, if none is under way and there is anything to say.
    fn transmit(&mut self, core: &mut CoreIo, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if let Some(rest) = connection.unsent.take() {
            return core.send(slot, rest);
        }
        if connection.sending {
            return;
        }
        let share = self.areas.send_share(self.contention.sharing());
        let mut send = self.areas.take_send(share);
        connection.endpoint.poll_transmit(core.now, send.transmit());
        if send.seal(share) {
            connection.sending = true;
            core.send(slot, send);
        } else {
            self.areas.put_send(send);
        }
    }

    fn close_if_asked(&mut self, core: &mut CoreIo, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        if connection.endpoint.poll_close().is_none() {
            return;
        }
        if connection.sending {
            // What is left may still go out, but not for ever: the peer may not read at all.
            connection.deadline.get_or_insert(core.now + limits::LAST_SENDS);
            return;
        }
        connection.report_end(core.now, Ended::ByUs);
        connection.phase = Phase::Lingering;
        connection.deadline = Some(core.now + limits::LINGER);
        connection.readable = false;
        let shut =
            connection.descriptor.as_ref().map(|socket| rustix::net::shutdown(socket, Shutdown::Write));
        if let Some(receive) = connection.receive.take() {
            self.release(slot, receive);
        }
        if !matches!(shut, Some(Ok(()))) {
            self.end(core, slot, Ended::ByUs);
        }
    }

    /// Makes the next bytes come: by a receive that waits, or by a poll that holds no memory.
    fn arm(&mut self, core: &mut CoreIo, slot: u32) {
        let waits = core.driver.waits_with_memory();
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
        core.again |= connection.feed(core.now);
        if !connection.wants_bytes() {
            return self.await_buffer(slot);
        }
        match connection.receive.take() {
            Some(receive) if !receive.is_empty() || holds => self.receive(core, slot, receive),
            unused => {
                connection.polling = true;
                core.driver.poll(slot, Interest::Read);
                if let Some(receive) = unused {
                    self.release(slot, receive);
                }
            }
        }
    }

    fn receive(&mut self, core: &mut CoreIo, slot: u32, mut receive: Box<Receive>) {
        receive.limit(self.areas.receive_share(self.holders.len().max(core.traffic.arrivals)));
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if receive.room() == 0 {
            // The endpoint asks for more than it said it would ever need.
            self.release(slot, receive);
            return self.end(core, slot, Ended::Failed(libc::EMSGSIZE));
        }
        connection.committed = !receive.is_empty();
        connection.receiving = true;
        if std::mem::take(&mut connection.readable) {
            return self.receive_announced(core, slot, receive);
        }
        if !connection.committed && core.driver.waits_with_memory() {
            self.holders.watch(core.now);
        }
        core.driver.receive(slot, receive);
    }

    /// Receives what a poll has announced: in the same turn where the driver can, so that the area is needed for a moment only.
    fn receive_announced(&mut self, core: &mut CoreIo, slot: u32, receive: Box<Receive>) {
        match core.driver.receive_announced(slot, receive) {
            Ok((receive, result)) => self.handle_received(core, slot, receive, result),
            Err(receive) => core.driver.receive(slot, receive),
        }
    }

    /// Lets the endpoint try again in the next turn, whatever that is for.
    fn await_buffer(&mut self, slot: u32) {
        self.connections.await_buffer(slot);
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
    fn sweep(&mut self, core: &mut CoreIo) {
        self.areas.trim();
        let mut waiting = false;
        for slot in self.holders.slots() {
            let connection = self.connections.get_mut(*slot);
            let Some(connection) =
                connection.filter(|connection| connection.receiving && !connection.committed)
            else {
                continue;
            };
            if !connection.sending && core.now.since(connection.active_at) >= limits::QUIET {
                core.driver.cancel(*slot);
            } else {
                waiting = true;
            }
        }
        if waiting {
            self.holders.watch(core.now);
        }
    }

    /// A poll's condition holds: false if the slot is no stream's.
    #[inline]
    pub(crate) fn handle_ready(&mut self, core: &mut CoreIo, slot: u32) -> bool {
        let Some(connection) = self.connection(slot) else { return false };
        connection.polling = false;
        match connection.phase {
            Phase::Connecting => self.handle_connected(core, slot),
            Phase::Open | Phase::Lingering => {
                connection.readable = true;
                connection.warm = true;
                connection.active_at = core.now;
                self.arm(core, slot);
                self.touch(slot);
            }
            Phase::Flushing | Phase::Ended => self.touch(slot),
        }
        true
    }

    fn handle_connected(&mut self, core: &mut CoreIo, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        let Some(descriptor) = connection.descriptor.as_ref() else { return };
        match listener::connected(descriptor) {
            Ok((local, peer)) => {
                connection.phase = Phase::Open;
                connection.deadline = None;
                connection.endpoint.handle_connected(core.now, local, peer);
                self.touch(slot);
            }
            Err(error) => self.end(core, slot, Ended::Failed(number(&error))),
        }
    }

    /// A receive has ended.
    pub(crate) fn handle_received(
        &mut self,
        core: &mut CoreIo,
        slot: u32,
        receive: Box<Receive>,
        result: io::Result<usize>,
    ) {
        core.traffic.received += result.as_ref().map_or(0, |count| *count);
        let Some(connection) = self.connection(slot) else { return };
        connection.receiving = false;
        match (connection.phase, result) {
            (Phase::Open, Ok(count)) if count > 0 => {
                let receive = connection.receive.insert(receive);
                receive.received(count);
                connection.warm = true;
                connection.active_at = core.now;
                connection.feed(core.now);
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
                    Ok(_) if phase == Phase::Open => self.begin_flushing(core, slot),
                    Ok(_) => self.end(core, slot, Ended::ByPeer),
                    Err(error) => self.end(core, slot, Ended::Failed(number(&error))),
                }
            }
        }
        self.touch(slot);
    }

    /// The peer has closed its side: what is ready to be sent goes out first, for a while.
    fn begin_flushing(&mut self, core: &mut CoreIo, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        connection.phase = Phase::Flushing;
        connection.deadline = Some(core.now + limits::LINGER);
    }

    /// A send has ended.
    pub(crate) fn handle_sent(
        &mut self,
        core: &mut CoreIo,
        slot: u32,
        mut send: Box<Send>,
        result: io::Result<usize>,
    ) {
        let Some(connection) = self.connection(slot) else { return };
        connection.active_at = core.now;
        let over = connection.phase == Phase::Ended;
        let failure = match result {
            Ok(count) if !send.sent(count) && !over => return self.send_on(slot, send),
            Err(error) if is_passing(&error) && !over => return self.send_on(slot, send),
            Ok(_) => None,
            Err(error) => Some(number(&error)),
        };
        connection.sending = false;
        if failure.is_none() && !connection.is_end_reported() {
            connection.endpoint.handle_transmitted(core.now, send.len());
        }
        self.areas.put_send(send);
        if let Some(failure) = failure {
            self.end(core, slot, Ended::Failed(failure));
        }
        self.touch(slot);
    }

    /// The rest of a send goes out with the connection's turn.
    fn send_on(&mut self, slot: u32, send: Box<Send>) {
        let Some(connection) = self.connection(slot) else { return };
        connection.unsent = Some(send);
        self.touch(slot);
    }

    /// An entry of the timers has come due: false if the slot is no stream's.
    pub(crate) fn handle_due(&mut self, core: &mut CoreIo, slot: u32, when: Instant) -> bool {
        let Some(connection) = self.connection(slot) else { return false };
        if connection.scheduled != Some(when) {
            return true;
        }
        connection.scheduled = None;
        if connection.deadline.is_some_and(|deadline| deadline <= core.now) {
            let how = match connection.phase {
                Phase::Connecting => Ended::Failed(libc::ETIMEDOUT),
                Phase::Flushing => Ended::ByPeer,
                Phase::Open | Phase::Lingering | Phase::Ended => Ended::ByUs,
            };
            self.end(core, slot, how);
        } else if !connection.is_end_reported()
            && connection.endpoint.poll_timeout().is_some_and(|due| due <= core.now)
        {
            connection.endpoint.handle_timeout(core.now);
        }
        self.touch(slot);
        true
    }

    /// The stream is over: cancels what is under way, and reports the end to the endpoint.
    pub(crate) fn end(&mut self, core: &mut CoreIo, slot: u32, how: Ended) {
        let Some(connection) = self.connection(slot) else { return };
        if connection.phase == Phase::Ended {
            return;
        }
        connection.phase = Phase::Ended;
        connection.deadline = None;
        connection.report_end(core.now, how);
        let (receive, unsent) = (connection.receive.take(), connection.unsent.take());
        connection.sending &= unsent.is_none();
        if let Some(receive) = receive {
            self.release(slot, receive);
        }
        if let Some(send) = unsent {
            self.areas.put_send(send);
        }
        core.driver.cancel(slot);
        self.closing.push(slot);
        self.touch(slot);
    }
}
