//! What the event loop asks of a driver: operations in, events out.
//!
//! A *slot* is a small number that stands for a descriptor. At most one receive, one send and one poll are under way
//! per slot. An operation is owned by the driver from its start to its event, so its memory cannot go away.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use crate::sys::{FileOp, Receive, Send};
use crate::wakeup::Sleeper;

/// What a poll waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Bytes, a stream to accept, or the end.
    Read,
    /// A connection attempt's outcome.
    Write,
}

/// What a driver may assume of a descriptor's send buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendRoom {
    /// There is room, as on a stream that was just accepted: sending may be tried at once.
    Free,
    /// Nothing: the kernel says when there is room.
    Unknown,
}

/// What has happened.
#[derive(Debug)]
pub enum Event {
    /// A poll's condition holds.
    Ready(u32),
    /// A receive has ended: bytes received (zero at the stream's end) or why not.
    Received(u32, Box<Receive>, io::Result<usize>),
    /// A send has ended: bytes sent, perhaps not all, or why not.
    Sent(u32, Box<Send>, io::Result<usize>),
}

/// A receive that has ended, as in [`Event::Received`].
pub type Received = (Box<Receive>, io::Result<usize>);

/// How to wait for events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// At most this long.
    For(Duration),
    /// Until something happens.
    Forever,
}

impl Wait {
    /// The shorter of two waits.
    #[must_use]
    pub fn at_most(self, other: Duration) -> Self {
        match self {
            Self::No => Self::No,
            _ if other.is_zero() => Self::No,
            Self::For(span) => Self::For(span.min(other)),
            Self::Forever => Self::For(other),
        }
    }
}

/// A mechanism that moves bytes.
pub trait Driver {
    /// True when a receive may wait in the kernel, holding its memory; else a poll has to come first.
    fn waits_with_memory(&self) -> bool;

    /// Makes `slot` stand for `descriptor`.
    fn attach(&mut self, slot: u32, descriptor: Rc<OwnedFd>, room: SendRoom) -> io::Result<()>;

    /// Ends what `attach` began. Nothing may be under way in the slot.
    fn detach(&mut self, slot: u32);

    /// Waits once for `interest`.
    fn poll(&mut self, slot: u32, interest: Interest);

    /// Says that a readable slot was emptied by calls that the driver did not see.
    fn drained(&mut self, slot: u32);

    /// Receives once.
    fn receive(&mut self, slot: u32, receive: Box<Receive>);

    /// Receives at once what a poll has just announced, or gives the receive back: this driver's [`Driver::receive`] does that itself.
    fn receive_announced(&mut self, slot: u32, receive: Box<Receive>) -> Result<Received, Box<Receive>>;

    /// Sends once, perhaps not all.
    fn send(&mut self, slot: u32, send: Box<Send>);

    /// Ends the slot's receive and poll soon; each that is under way still has its event.
    fn cancel(&mut self, slot: u32);

    /// Starts a file operation, or gives it back when this driver has none.
    fn file(&mut self, op: Box<FileOp>) -> Option<Box<FileOp>>;

    /// Adds what has happened, without a system call.
    fn reap(&mut self, events: &mut Vec<Event>);

    /// Starts what was asked for and waits for events, looking out for `spin` before it sleeps.
    fn wait(&mut self, wait: Wait, spin: Duration, sleeper: Sleeper<'_>) -> io::Result<Woken>;
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Without sleeping.
    Awake,
    /// The spin was in vain, so the core slept.
    SpunInVain,
    /// After a sleep without a spin.
    Slept,
}
