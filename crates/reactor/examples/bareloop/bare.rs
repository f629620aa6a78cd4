//! One stream, driven with the reactor's driver and nothing else.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use protocol::Instant;
use reactor::Alarm;
use reactor::driver::{self, Event, Receive, Send, Wait};

use crate::options::Options;
use crate::party::Party;

/// As in the reactor's own configuration.
const STAGING: usize = 256 * 1024;
const BUDGET: usize = 1 << 20;
const SEGMENTS: usize = 512;

/// Runs `party` over `stream` until it is finished, or the peer ends the stream.
pub(crate) fn run<P: Party>(options: &Options, stream: TcpStream, party: &mut P) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // Not permitted, or not there: then the figures are those of the system's own choice.
    let _ = socket2::SockRef::from(&stream).set_tcp_congestion(b"cubic");
    let mut driver = driver::open(options.driver)?;
    let alarm = Alarm::new()?;
    driver.attach(0, Rc::new(OwnedFd::from(stream)), true)?;
    let mut events = Vec::new();
    let mut idle_send = Some(Box::new(Send::new(BUDGET, SEGMENTS)));
    driver.receive(0, Box::new(Receive::new(STAGING)));
    loop {
        let now = reactor::now();
        for event in events.drain(..) {
            match event {
                Event::Received(_, mut receive, Ok(count)) if count > 0 => {
                    receive.received(count);
                    feed(party, &mut receive, now);
                    driver.receive(0, receive);
                }
                Event::Received(_, _, Ok(_)) => return Ok(()),
                Event::Received(_, _, Err(error)) | Event::Sent(_, _, Err(error)) => return ended(error),
                Event::Sent(_, mut send, Ok(count)) => {
                    if send.sent(count) {
                        send.clear();
                        idle_send = Some(send);
                    } else {
                        driver.send(0, send);
                    }
                }
                Event::Ready(_) => {}
            }
        }
        if party.is_finished() {
            return Ok(());
        }
        if let Some(mut send) = idle_send.take() {
            party.poll_transmit(now, send.transmit());
            if send.seal(usize::MAX) {
                driver.send(0, send);
            } else {
                idle_send = Some(send);
            }
        }
        driver.wait(Wait::Forever, options.spin, &alarm)?;
        driver.reap(&mut events);
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
