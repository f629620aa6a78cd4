//! Commands to a queue of `/dev/ublkcN`: fetch a request, or answer it and fetch the next.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};
use zerocopy::IntoBytes;

use crate::ublk::wire::{self, IoCommand, QueueSize};

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The command of this tag has ended with this result.
    Fetched(u16, i32),
    /// The bell was rung.
    Bell,
}

/// The mark of the bell among completions; tags have 16 bits.
const BELL: u64 = 1 << 32;

/// A ring for one queue's commands, and a bell that other threads ring.
pub(crate) struct Commands {
    ring: IoUring,
    device: Arc<File>,
    bell: Arc<OwnedFd>,
    queue: u16,
    events: Vec<Event>,
}

impl Commands {
    /// A ring for a queue with so many tags.
    pub(crate) fn new(device: Arc<File>, size: QueueSize, bell: Arc<OwnedFd>) -> io::Result<Self> {
        let QueueSize { queue, depth } = size;
        let ring = IoUring::new(u32::from(depth) + 1)?;
        let mut commands = Self { ring, device, bell, queue, events: Vec::new() };
        commands.listen()?;
        Ok(commands)
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: no entry that is made here names memory: data goes by `pread` and `pwrite` (UBLK_F_USER_COPY), and the address of
        // each command is zero. The kernel holds files for as long as it uses them.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Waits for the next ring of the bell.
    fn listen(&mut self) -> io::Result<()> {
        let fd = types::Fd(self.bell.as_raw_fd());
        let events = u32::from(libc::POLLIN.cast_unsigned());
        self.push(&opcode::PollAdd::new(fd, events).build().user_data(BELL))
    }

    fn command(&mut self, operation: u32, tag: u16, result: i32) -> io::Result<()> {
        let body = IoCommand { queue: self.queue, tag, result, address: 0 };
        let mut bytes = [0; size_of::<IoCommand>()];
        bytes.copy_from_slice(body.as_bytes());
        let fd = types::Fd(self.device.as_raw_fd());
        let entry = opcode::UringCmd16::new(fd, operation).cmd(bytes).build().user_data(tag.into());
        self.push(&entry)
    }

    /// Asks for a request with this tag.
    pub(crate) fn fetch(&mut self, tag: u16) -> io::Result<()> {
        self.command(wire::FETCH, tag, 0)
    }

    /// Answers the request with this tag, by bytes moved or a negative error number, and asks for the next one.
    pub(crate) fn answer(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.command(wire::COMMIT_AND_FETCH, tag, result)
    }

    /// Hands what was queued to the kernel without waiting.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.ring.submit().map(drop)
    }

    /// Hands what was queued to the kernel, and waits until something has happened.
    pub(crate) fn wait(&mut self) -> io::Result<Vec<Event>> {
        match self.ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        let mut events = std::mem::take(&mut self.events);
        let event = |done: io_uring::cqueue::Entry| match u16::try_from(done.user_data()) {
            Ok(tag) => Event::Fetched(tag, done.result()),
            Err(_) => Event::Bell,
        };
        events.extend(self.ring.completion().map(event));
        if events.contains(&Event::Bell) {
            let mut count = [0; 8];
            // Somebody rang, or nobody has yet: it is looked for again.
            let _rung = rustix::io::read(&self.bell, &mut count);
            self.listen()?;
        }
        Ok(events)
    }

    /// Takes the list of events back, to use its memory again.
    pub(crate) fn recycle(&mut self, mut events: Vec<Event>) {
        events.clear();
        self.events = events;
    }
}
