//! The thread that speaks with the device: what a core wants of it, and what becomes of it.
//!
//! A device that is gone is looked for until the volume is closed. Another one may take over only once the process of the first has ended, or if it is that process' own next connection: two
//! must never work on the same requests.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::limits::RETRY;
use crate::orders::{Order, Orders};
use crate::session::{InflightMemory, Session, Stretch};
use crate::shared::Shared;
use crate::slots::Held;
use crate::sys::Span;
use crate::vring::VringParts;

/// The thread, which ends with this.
#[derive(Debug)]
pub(crate) struct Control {
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Begins to speak with a device that has been met.
    pub(crate) fn begin(shared: &Arc<Shared>, session: Session) -> io::Result<Self> {
        let orders = Arc::clone(&shared.orders);
        let mut speaker = Speaker {
            shared: Arc::clone(shared),
            process: session.process(),
            session: Some(session),
            inflight: None,
            spans: BTreeMap::new(),
            lent: BTreeSet::new(),
            rings: BTreeMap::new(),
            ring_memory: BTreeSet::new(),
            abandoned: Vec::new(),
            has_ended: false,
        };
        let thread =
            std::thread::Builder::new().name("vhost-user".to_owned()).spawn(move || speaker.run())?;
        Ok(Self { orders, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.orders.give(Order::End);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has told so already.
            let _ended = thread.join();
        }
    }
}

/// The thread's own.
struct Speaker {
    shared: Arc<Shared>,
    session: Option<Session>,
    /// The process of the device that was met last.
    process: Option<OwnedFd>,
    inflight: Option<InflightMemory>,
    /// Memory that the device is to have, by its name.
    spans: BTreeMap<u64, Span>,
    /// What of it the device has.
    lent: BTreeSet<u64>,
    rings: BTreeMap<u16, VringParts>,
    /// Queues whose memory the device has.
    ring_memory: BTreeSet<u16>,
    /// What queues that are no more had under way, until no device can use it.
    abandoned: Vec<(u16, Vec<Held>)>,
    has_ended: bool,
}

impl Speaker {
    fn run(&mut self) {
        if let Err(error) = self.set_up() {
            self.lose(&error);
        }
        while !self.has_ended {
            self.wait();
            for order in self.shared.orders.take() {
                if let Err(error) = self.carry_out(order) {
                    self.lose(&error);
                }
            }
            if self.session.as_ref().is_some_and(has_left) {
                self.lose(&io::Error::other("the device has closed the connection"));
            }
            if self.session.is_none() && !self.has_ended {
                self.look_for_device();
            }
        }
        // The device lets go of everything when the connection ends.
        self.session = None;
    }

    /// Waits for orders, and for the device to leave; without a device, for the next attempt.
    fn wait(&self) {
        let bell = PollFd::new(&self.shared.orders.bell, PollFlags::IN);
        let (seconds, nanos) = (0, i64::from(RETRY.subsec_nanos()));
        let _ready = match &self.session {
            Some(session) => {
                let socket = session.socket();
                poll(&mut [bell, PollFd::from_borrowed_fd(socket, PollFlags::IN)], None)
            }
            None => poll(&mut [bell], Some(&Timespec { tv_sec: seconds, tv_nsec: nanos })),
        };
    }

    fn carry_out(&mut self, order: Order) -> io::Result<()> {
        match order {
            Order::Start(parts) => {
                let index = parts.index;
                self.rings.insert(index, parts);
                // The ring is a new one.
                self.inflight.as_ref().map_or(Ok(()), |memory| memory.forget(index))?;
                self.start(index)
            }
            Order::Stop { index, held } => {
                let is_served = self.rings.remove(&index).is_some();
                self.abandoned.push((index, held));
                self.stop(index, is_served)
            }
            Order::Add(span) => {
                let id = span.id;
                self.spans.insert(id, span);
                self.lend(id)
            }
            Order::Remove(span) => match (&self.session, self.spans.remove(&span.id)) {
                (Some(session), Some(span)) if self.lent.remove(&span.id) => {
                    session.remove(Stretch::of(&span))
                }
                _ => Ok(()),
            },
            Order::Distrust { violation } => Err(io::Error::new(io::ErrorKind::InvalidData, violation)),
            Order::End => {
                self.has_ended = true;
                Ok(())
            }
        }
    }

    /// Has the device serve a ring.
    fn start(&mut self, index: u16) -> io::Result<()> {
        let (Some(session), Some(parts)) = (&self.session, self.rings.get(&index)) else { return Ok(()) };
        if self.ring_memory.insert(index) {
            session.add(parts.stretch(), &parts.file)?;
        }
        session.start(&parts.setup())?;
        // What was put into the ring before is seen, and what was used before is taken.
        parts.kick();
        parts.call();
        Ok(())
    }

    fn stop(&mut self, index: u16, is_served: bool) -> io::Result<()> {
        if let Some(session) = self.session.as_ref().filter(|_| is_served) {
            session.stop(index)?;
            self.abandoned.retain(|(of, _)| *of != index);
            self.shared.give_back(index);
        }
        Ok(())
    }

    /// Has the device know some memory, if it takes one more region.
    fn lend(&mut self, id: u64) -> io::Result<()> {
        let (Some(session), Some(span)) = (&self.session, self.spans.get(&id)) else { return Ok(()) };
        if usize::from(self.shared.queues) + self.lent.len() >= session.regions {
            return Ok(());
        }
        session.add(Stretch::of(span), &span.file)?;
        self.lent.insert(id);
        let shared = &self.shared;
        shared.memory.while_there(id, || shared.regions.add(span));
        self.rings.values().for_each(VringParts::call);
        Ok(())
    }

    /// The device is gone, or cannot be relied on.
    fn lose(&mut self, why: &io::Error) {
        self.session = None;
        self.shared.regions.clear();
        self.lent.clear();
        self.ring_memory.clear();
        self.shared.lose(&format!("{}: {why}", self.shared.path.display()));
        self.rings.values().for_each(VringParts::call);
    }

    /// Everything that a device has to know, once it has been met.
    fn set_up(&mut self) -> io::Result<()> {
        let Some(session) = &self.session else { return Ok(()) };
        self.inflight = session.track(self.inflight.take())?;
        self.shared.set_tracks(self.inflight.is_some());
        let spans: Vec<u64> = self.spans.keys().copied().collect();
        spans.into_iter().try_for_each(|id| self.lend(id))
    }

    /// One attempt.
    fn look_for_device(&mut self) {
        match self.try_to_meet() {
            Ok(()) => {}
            Err(error) => {
                self.session = None;
                self.shared.note(format!("{}: {error}", self.shared.path.display()));
            }
        }
    }

    fn try_to_meet(&mut self) -> io::Result<()> {
        let session = Session::begin(&self.shared.path, self.shared.ring)?;
        if !session.is_of(self.process.as_ref()) {
            return Err(io::Error::other(
                "another process answers, and the one before has not ended: end it, so that two do not work on the same requests",
            ));
        }
        if !self.shared.is_matched_by(&session) {
            return Err(io::Error::other(
                "another device answers: its size, its features or its number of queues differ",
            ));
        }
        self.process = session.process();
        self.session = Some(session);
        for (index, _) in self.abandoned.drain(..) {
            self.shared.give_back(index);
        }
        self.set_up()?;
        let had_track = self.shared.tracks();
        self.shared.meet();
        if had_track {
            let rings: Vec<u16> = self.rings.keys().copied().collect();
            rings.into_iter().try_for_each(|index| self.start(index))?;
        } else {
            // Each core makes its ring anew, and says so.
            self.rings.values().for_each(VringParts::call);
            self.rings.clear();
        }
        Ok(())
    }
}

/// Whether the device has closed its end. It says nothing by itself.
fn has_left(session: &Session) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(session.socket(), PollFlags::IN | PollFlags::HUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}
