//! Readiness by epoll, edge-triggered: each descriptor is registered once, and its state is remembered here, so that the
//! steady state is one `epoll_wait`, one `recvmsg` and one `sendmsg` per turn.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::interface::{Driver, Event, Interest, Received, SendRoom, Wait, Woken};
use crate::clock;
use crate::limits::{EPOLL_EVENTS, EPOLL_SKIPS};
use crate::sys::{FileOp, Receive, Send};
use crate::wakeup::Sleeper;

/// What is known of a descriptor, and what waits for it.
#[derive(Debug, Default)]
struct Slot {
    descriptor: Option<Rc<OwnedFd>>,
    readable: bool,
    writable: bool,
    /// The peer's end or an error was reported: it stays readable, as no further edge will come.
    ended: bool,
    polling: Option<Interest>,
    receive: Option<Box<Receive>>,
    send: Option<Box<Send>>,
}

/// The epoll driver.
pub struct Epoll {
    descriptor: OwnedFd,
    slots: Vec<Slot>,
    ready: VecDeque<Event>,
    events: Vec<epoll::Event>,
    skips: u32,
}

impl Epoll {
    /// A driver without descriptors.
    pub fn new() -> io::Result<Self> {
        let descriptor = epoll::create(CreateFlags::CLOEXEC)?;
        let events = Vec::with_capacity(EPOLL_EVENTS);
        Ok(Self { descriptor, slots: Vec::new(), ready: VecDeque::new(), events, skips: 0 })
    }

    fn slot(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(slot as usize)
    }

    /// Does what the slot's state allows.
    fn progress(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize) else { return };
        let Some(descriptor) = slot.descriptor.as_ref() else { return };
        let wanted = match slot.polling {
            Some(Interest::Read) => slot.readable,
            Some(Interest::Write) => slot.writable,
            None => false,
        };
        if wanted {
            slot.polling = None;
            self.ready.push_back(Event::Ready(number));
        }
        if slot.readable
            && let Some(mut receive) = slot.receive.take()
        {
            let room = receive.room();
            let result = receive.receive_now(descriptor.as_fd());
            let emptied = match &result {
                Ok(count) => *count < room,
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            };
            slot.readable = slot.ended || !emptied;
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !slot.ended => {
                    slot.receive = Some(receive);
                }
                result => self.ready.push_back(Event::Received(number, receive, result)),
            }
        }
        if slot.writable
            && let Some(mut send) = slot.send.take()
        {
            match send.send_now(descriptor.as_fd()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    slot.writable = false;
                    slot.send = Some(send);
                }
                result => self.ready.push_back(Event::Sent(number, send, result)),
            }
        }
    }

    /// Asks epoll, waiting as `wait` says.
    fn ask(&mut self, wait: Wait) -> io::Result<usize> {
        let timeout = match wait {
            Wait::No => Some(Timespec::default()),
            Wait::For(span) => Some(timespec(span)),
            Wait::Forever => None,
        };
        self.skips = 0;
        self.events.clear();
        match epoll::wait(
            &self.descriptor,
            rustix::buffer::spare_capacity(&mut self.events),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let count = self.events.len();
        for index in 0..count {
            let Some(event) = self.events.get(index).copied() else { break };
            self.note(event);
        }
        Ok(count)
    }

    fn note(&mut self, event: epoll::Event) {
        let Ok(number) = u32::try_from(event.data.u64()) else { return };
        let Some(slot) = self.slot(number) else { return };
        let flags = event.flags;
        let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        slot.ended |= failed || flags.contains(EventFlags::RDHUP);
        slot.readable |= slot.ended || flags.contains(EventFlags::IN);
        slot.writable |= failed || flags.contains(EventFlags::OUT);
        self.progress(number);
    }
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoll").field("ready", &self.ready.len()).finish_non_exhaustive()
    }
}

/// A span as the kernel takes it.
fn timespec(span: Duration) -> Timespec {
    Timespec { tv_sec: wire::saturate::<i64>(span.as_secs()), tv_nsec: i64::from(span.subsec_nanos()) }
}

impl Driver for Epoll {
    fn waits_with_memory(&self) -> bool {
        false
    }

    fn attach(&mut self, slot: u32, descriptor: Rc<OwnedFd>, room: SendRoom) -> io::Result<()> {
        let index = slot as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, Slot::default);
        }
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.descriptor, &descriptor, EventData::new_u64(u64::from(slot)), flags)?;
        if let Some(slot) = self.slots.get_mut(index) {
            let writable = room == SendRoom::Free;
            *slot = Slot { descriptor: Some(descriptor), writable, ..Slot::default() };
        }
        Ok(())
    }

    fn detach(&mut self, slot: u32) {
        let Some(slot) = self.slots.get_mut(slot as usize) else { return };
        if let Some(descriptor) = std::mem::take(slot).descriptor {
            // It is registered; should the kernel disagree, closing it has the same effect.
            let _ = epoll::delete(&self.descriptor, &descriptor);
        }
    }

    fn poll(&mut self, slot: u32, interest: Interest) {
        if let Some(slot) = self.slot(slot) {
            slot.polling = Some(interest);
        }
        self.progress(slot);
    }

    fn drained(&mut self, slot: u32) {
        if let Some(slot) = self.slot(slot) {
            slot.readable = slot.ended;
        }
    }

    fn receive(&mut self, slot: u32, receive: Box<Receive>) {
        if let Some(slot) = self.slot(slot) {
            slot.receive = Some(receive);
        }
        self.progress(slot);
    }

    fn receive_announced(&mut self, _slot: u32, receive: Box<Receive>) -> Result<Received, Box<Receive>> {
        Err(receive)
    }

    fn send(&mut self, slot: u32, send: Box<Send>) {
        if let Some(slot) = self.slot(slot) {
            slot.send = Some(send);
        }
        self.progress(slot);
    }

    fn cancel(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize) else { return };
        let cancelled = || Err(io::Error::from_raw_os_error(libc::ECANCELED));
        if slot.polling.take().is_some() {
            self.ready.push_back(Event::Ready(number));
        }
        if let Some(receive) = slot.receive.take() {
            self.ready.push_back(Event::Received(number, receive, cancelled()));
        }
        if let Some(send) = slot.send.take() {
            self.ready.push_back(Event::Sent(number, send, cancelled()));
        }
    }

    fn file(&mut self, op: Box<FileOp>) -> Option<Box<FileOp>> {
        Some(op)
    }

    fn reap(&mut self, events: &mut Vec<Event>) {
        events.extend(self.ready.drain(..));
    }

    fn wait(&mut self, wait: Wait, spin: Duration, sleeper: Sleeper<'_>) -> io::Result<Woken> {
        if !self.ready.is_empty() {
            self.skips += 1;
            if self.skips > EPOLL_SKIPS {
                self.ask(Wait::No)?;
            }
            return Ok(Woken::Awake);
        }
        if wait == Wait::No {
            self.ask(Wait::No)?;
            return Ok(Woken::Awake);
        }
        if !spin.is_zero() {
            let end = clock::now() + spin;
            while clock::now() < end {
                if self.ask(Wait::No)? > 0 || sleeper.has_news() {
                    return Ok(Woken::Awake);
                }
            }
        }
        if !sleeper.begin_sleep() {
            return Ok(Woken::Awake);
        }
        let result = self.ask(wait);
        sleeper.end_sleep();
        result?;
        Ok(if spin.is_zero() { Woken::Slept } else { Woken::SpunInVain })
    }
}
