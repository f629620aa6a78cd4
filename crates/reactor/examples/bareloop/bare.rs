//! Streams, driven with the reactor's driver and nothing else.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use protocol::Instant;
use reactor::driver::{self, Driver, Event, Receive, Send, SendRoom, Wait};
use reactor::{Sleeper, Wakeup};

use crate::options::Options;
use crate::party::Party;

/// As in the reactor's own configuration.
const STAGING: usize = 256 * 1024;
const BUDGET: usize = 1 << 20;
const SEGMENTS: usize = 512;
const UNSENT: u32 = 256 * 1024;

/// Runs each party over a stream of its own until it is finished, or the peer ends the stream.
pub(crate) fn run<P: Party>(options: &Options, streams: Vec<TcpStream>, parties: &mut [P]) -> io::Result<()> {
    let mut driver = driver::open(options.driver)?;
    let wakeup = Wakeup::new()?;
    let mut lines = Vec::with_capacity(parties.len());
    for ((slot, stream), party) in (0_u32..).zip(streams).zip(parties) {
        stream.set_nodelay(true)?;
        let socket = socket2::SockRef::from(&stream);
        socket.set_tcp_notsent_lowat(UNSENT)?;
        // Not permitted, or not there: then the figures are those of the system's own choice.
        let _ = socket.set_tcp_congestion(b"cubic");
        driver.attach(slot, Rc::new(OwnedFd::from(stream)), SendRoom::Free)?;
        driver.receive(slot, Box::new(Receive::new(STAGING)));
        lines.push(Line {
            party,
            idle_send: Some(Box::new(Send::new(BUDGET, SEGMENTS))),
            progress: Progress::Runs,
        });
    }
    let mut events = Vec::new();
    let mut active: Vec<u32> = (0..).take(lines.len()).collect();
    let mut left = lines.len();
    loop {
        let now = reactor::now();
        for event in events.drain(..) {
            active.push(slot_of(&event));
            if let Some(line) = lines.get_mut(slot_of(&event) as usize) {
                line.handle(event, driver.as_mut(), now)?;
            }
        }
        for slot in active.drain(..) {
            if let Some(line) = lines.get_mut(slot as usize) {
                line.transmit(slot, driver.as_mut(), now);
                left -= usize::from(line.has_just_ended());
            }
        }
        if left == 0 {
            return Ok(());
        }
        driver.wait(Wait::Forever, options.spin, Sleeper::without_polled(&wakeup))?;
        driver.reap(&mut events);
    }
}

/// A stream, by the party that speaks on it.
struct Line<'a, P> {
    party: &'a mut P,
    idle_send: Option<Box<Send>>,
    progress: Progress,
}

/// How far a stream is.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Runs,
    HasEnded,
    IsCounted,
}

impl<P: Party> Line<'_, P> {
    fn handle(&mut self, event: Event, driver: &mut dyn Driver, now: Instant) -> io::Result<()> {
        match event {
            Event::Received(slot, mut receive, Ok(count)) if count > 0 => {
                receive.received(count);
                feed(self.party, &mut receive, now);
                driver.receive(slot, receive);
            }
            Event::Received(_, _, Ok(_)) => self.end(),
            Event::Received(_, _, Err(error)) | Event::Sent(_, _, Err(error)) => {
                ended(error)?;
                self.end();
            }
            Event::Sent(slot, mut send, Ok(count)) => {
                if send.sent(count) {
                    send.clear();
                    self.idle_send = Some(send);
                } else {
                    driver.send(slot, send);
                }
            }
            Event::Ready(_) => {}
        }
        Ok(())
    }

    fn transmit(&mut self, slot: u32, driver: &mut dyn Driver, now: Instant) {
        if self.party.is_finished() {
            self.end();
        }
        if self.progress != Progress::Runs {
            return;
        }
        let Some(mut send) = self.idle_send.take() else { return };
        self.party.poll_transmit(now, send.transmit());
        if send.seal(usize::MAX) {
            driver.send(slot, send);
        } else {
            self.idle_send = Some(send);
        }
    }

    fn end(&mut self) {
        if self.progress == Progress::Runs {
            self.progress = Progress::HasEnded;
        }
    }

    /// True once, after the end.
    fn has_just_ended(&mut self) -> bool {
        let has_ended = self.progress == Progress::HasEnded;
        if has_ended {
            self.progress = Progress::IsCounted;
        }
        has_ended
    }
}

fn slot_of(event: &Event) -> u32 {
    match event {
        Event::Received(slot, ..) | Event::Sent(slot, ..) | Event::Ready(slot) => *slot,
    }
}

/// A client that is done goes without a word.
fn ended(error: io::Error) -> io::Result<()> {
    if error.raw_os_error() == Some(libc::ECONNRESET) { Ok(()) } else { Err(error) }
}

fn feed<P: Party>(party: &mut P, receive: &mut Receive, now: Instant) {
    loop {
        if let Some(placement) = receive.take_full() {
            party.handle_placed(now, placement);
        }
        if receive.is_placing() {
            return;
        }
        if let Some(placement) = party.take_placement() {
            receive.place(placement);
            continue;
        }
        let used = party.handle_bytes(now, receive.staged());
        if used == 0 {
            return;
        }
        receive.consume(used);
    }
}
