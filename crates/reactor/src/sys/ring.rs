//! The io_uring driver: one ring per core, all memory that the kernel may touch owned here.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};

use super::{FileOp, Receive, Send};
use crate::clock;
use crate::convert::{bits, call_length, position};
use crate::driver::interface::{Driver, Event, Interest, Received, SendRoom, Wait, Woken};
use crate::limits::{FILES_AT_ONCE, RING_COMPLETIONS, SPIN_STRIDE};
use crate::wakeup::Sleeper;

/// What a completion belongs to; with an index it makes the entry's user data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Poll,
    Receive,
    Send,
    File,
    Cancel,
}

const KINDS: [Kind; 5] = [Kind::Poll, Kind::Receive, Kind::Send, Kind::File, Kind::Cancel];

fn user_data(kind: Kind, index: u32) -> u64 {
    u64::from(index) * KINDS.len() as u64 + kind as u64
}

fn kind_of(user_data: u64) -> Option<(Kind, u32)> {
    let kind = KINDS.get(usize::try_from(user_data % KINDS.len() as u64).ok()?)?;
    Some((*kind, u32::try_from(user_data / KINDS.len() as u64).ok()?))
}

/// A descriptor and what the kernel is doing with it.
#[derive(Debug, Default)]
struct Slot {
    descriptor: Option<Rc<OwnedFd>>,
    polling: bool,
    receive: Option<Box<Receive>>,
    send: Option<Box<Send>>,
}

/// The io_uring driver.
pub struct Ring {
    io: IoUring,
    slots: Vec<Slot>,
    files: Vec<Option<Box<FileOp>>>,
    free_files: Vec<u32>,
    /// Operations whose memory the kernel may touch.
    in_flight: usize,
    /// File operations that the kernel has not been given yet.
    held_files: usize,
    /// Entries that a full submission queue did not take.
    overdue: Vec<squeue::Entry>,
}

/// `IORING_ENTER_GETEVENTS`: run deferred work and post its completions.
const GET_EVENTS: u32 = 1;

impl Ring {
    /// A ring of `entries` for the calling thread, which alone may use it.
    pub fn new(entries: u32) -> io::Result<Self> {
        let io = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(RING_COMPLETIONS)
            .build(entries)?;
        Ok(Self {
            io,
            slots: Vec::new(),
            files: Vec::new(),
            free_files: Vec::new(),
            in_flight: 0,
            held_files: 0,
            overdue: Vec::new(),
        })
    }

    /// Queues an entry; everything that it names is owned by `self` until its completion.
    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: callers store the operation in `slots` or `files` before they build its entry, and take it out only
        // in `complete`. `Drop` waits for, or leaks, what is still under way.
        if self.overdue.is_empty() && unsafe { self.io.submission().push(&entry) }.is_ok() {
            return;
        }
        self.overdue.push(entry);
        // A failure shows again at the next wait, which reports it.
        let _ = self.flush();
    }

    /// Gives queued entries to the kernel, without waiting.
    fn flush(&mut self) -> io::Result<()> {
        loop {
            self.enter(0, None)?;
            let mut taken = 0;
            {
                let mut queue = self.io.submission();
                for entry in &self.overdue {
                    // SAFETY: as in `push`.
                    if unsafe { queue.push(entry) }.is_err() {
                        break;
                    }
                    taken += 1;
                }
            }
            self.overdue.drain(..taken);
            if taken == 0 {
                return Ok(());
            }
        }
    }

    /// Submits, and waits for `want` completions at most as long as `timeout`.
    fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<()> {
        self.held_files = 0;
        let result = if want == 0 {
            let queued = position(self.io.submission().len());
            // SAFETY: without `EXT_ARG` no further memory is named.
            unsafe { self.io.submitter().enter::<libc::sigset_t>(queued, 0, GET_EVENTS, None) }
        } else if let Some(span) = timeout {
            let span = types::Timespec::from(span);
            let arguments = types::SubmitArgs::new().timespec(&span);
            self.io.submitter().submit_with_args(want, &arguments)
        } else {
            self.io.submitter().submit_and_wait(want)
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Time passed, a signal came, or completions must be taken before more fits.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// True when a look at the queue is worth while.
    fn has_completions(&mut self) -> bool {
        !self.io.completion().is_empty() || self.io.submission().taskrun()
    }

    /// Turns one completion into an event.
    fn complete(&mut self, user_data: u64, result: i32) -> Option<Event> {
        let (kind, index) = kind_of(user_data)?;
        if kind == Kind::File {
            self.complete_file(index, result);
            return None;
        }
        let slot = self.slots.get_mut(index as usize)?;
        let outcome = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        match kind {
            Kind::Poll => {
                slot.polling = false;
                Some(Event::Ready(index))
            }
            Kind::Receive => {
                let receive = slot.receive.take()?;
                self.in_flight -= 1;
                Some(Event::Received(index, receive, outcome))
            }
            Kind::Send => {
                let send = slot.send.take()?;
                self.in_flight -= 1;
                Some(Event::Sent(index, send, outcome))
            }
            Kind::File | Kind::Cancel => None,
        }
    }

    fn complete_file(&mut self, index: u32, result: i32) {
        let Some(place) = self.files.get_mut(index as usize) else { return };
        let Some(mut op) = place.take() else { return };
        self.in_flight -= 1;
        self.free_files.push(index);
        if op.advance(result) {
            op.finish();
        } else {
            self.start_file(op);
        }
    }

    fn start_file(&mut self, op: Box<FileOp>) {
        let index = self.free_files.pop().unwrap_or_else(|| {
            self.files.push(None);
            position(self.files.len() - 1)
        });
        let Some(place) = self.files.get_mut(index as usize) else { return op.finish() };
        let entry = place.insert(op).entry().user_data(user_data(Kind::File, index));
        self.in_flight += 1;
        self.push(entry);
    }

    fn cancel_kind(&mut self, kind: Kind, index: u32) {
        let entry = opcode::AsyncCancel::new(user_data(kind, index)).build();
        self.push(entry.user_data(user_data(Kind::Cancel, index)));
    }

    /// Looks for completions without sleeping; true when there are some, or the wakeup was notified.
    fn spin(&mut self, span: Duration, sleeper: Sleeper<'_>) -> bool {
        let end = clock::now() + span;
        loop {
            for _ in 0..SPIN_STRIDE {
                if self.has_completions() || sleeper.has_news() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if clock::now() >= end {
                return false;
            }
        }
    }
}

impl Driver for Ring {
    fn waits_with_memory(&self) -> bool {
        true
    }

    fn attach(&mut self, slot: u32, descriptor: Rc<OwnedFd>, _room: SendRoom) -> io::Result<()> {
        let index = slot as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, Slot::default);
        }
        if let Some(slot) = self.slots.get_mut(index) {
            slot.descriptor = Some(descriptor);
        }
        Ok(())
    }

    fn detach(&mut self, slot: u32) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            slot.descriptor = None;
        }
    }

    fn poll(&mut self, index: u32, interest: Interest) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(descriptor) = slot.descriptor.as_ref() else { return };
        let mask = u32::from(match interest {
            Interest::Read => (libc::POLLIN | libc::POLLRDHUP).cast_unsigned(),
            Interest::Write => libc::POLLOUT.cast_unsigned(),
        });
        slot.polling = true;
        let entry = opcode::PollAdd::new(types::Fd(descriptor.as_raw_fd()), mask).build();
        self.push(entry.user_data(user_data(Kind::Poll, index)));
    }

    fn drained(&mut self, _slot: u32) {}

    fn receive(&mut self, index: u32, receive: Box<Receive>) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(descriptor) = slot.descriptor.as_ref() else { return };
        if slot.receive.is_some() {
            return;
        }
        let fd = types::Fd(descriptor.as_raw_fd());
        let receive = slot.receive.insert(receive);
        let message = std::ptr::from_mut(receive.message());
        let entry = match receive.single() {
            Some((place, room)) => opcode::Recv::new(fd, place, call_length(room)).build(),
            None => opcode::RecvMsg::new(fd, message).build(),
        };
        self.in_flight += 1;
        self.push(entry.user_data(user_data(Kind::Receive, index)));
    }

    fn receive_announced(&mut self, index: u32, mut receive: Box<Receive>) -> Result<Received, Box<Receive>> {
        let Some(descriptor) = self.slots.get(index as usize).and_then(|slot| slot.descriptor.as_ref())
        else {
            return Err(receive);
        };
        let result = receive.receive_now(descriptor.as_fd());
        Ok((receive, result))
    }

    fn send(&mut self, index: u32, send: Box<Send>) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(descriptor) = slot.descriptor.as_ref() else { return };
        if slot.send.is_some() {
            return;
        }
        let message = std::ptr::from_ref(slot.send.insert(send).message());
        let flags = bits(libc::MSG_NOSIGNAL);
        let entry = opcode::SendMsg::new(types::Fd(descriptor.as_raw_fd()), message).flags(flags).build();
        self.in_flight += 1;
        self.push(entry.user_data(user_data(Kind::Send, index)));
    }

    fn cancel(&mut self, index: u32) {
        let Some(slot) = self.slots.get(index as usize) else { return };
        let (polling, receiving, sending) = (slot.polling, slot.receive.is_some(), slot.send.is_some());
        for (kind, wanted) in [(Kind::Poll, polling), (Kind::Receive, receiving), (Kind::Send, sending)] {
            if wanted {
                self.cancel_kind(kind, index);
            }
        }
    }

    fn file(&mut self, op: Box<FileOp>) -> Option<Box<FileOp>> {
        self.start_file(op);
        self.held_files += 1;
        if self.held_files == FILES_AT_ONCE {
            self.held_files = 0;
            // A failure shows again at the next wait, which reports it.
            let _ = self.io.submitter().submit();
        }
        None
    }

    fn reap(&mut self, events: &mut Vec<Event>) {
        loop {
            let Some(entry) = self.io.completion().next() else { return };
            events.extend(self.complete(entry.user_data(), entry.result()));
        }
    }

    fn wait(&mut self, wait: Wait, spin: Duration, sleeper: Sleeper<'_>) -> io::Result<Woken> {
        if !self.overdue.is_empty() {
            self.flush()?;
        }
        let waiting = !self.io.completion().is_empty();
        if wait == Wait::No || waiting || sleeper.has_news() {
            self.enter(0, None)?;
            return Ok(Woken::Awake);
        }
        if !spin.is_zero() {
            self.enter(0, None)?;
            if self.spin(spin, sleeper) {
                if self.io.completion().is_empty() {
                    self.enter(0, None)?;
                }
                return Ok(Woken::Awake);
            }
        }
        if !sleeper.begin_sleep() {
            self.enter(0, None)?;
            return Ok(Woken::Awake);
        }
        let timeout = if let Wait::For(span) = wait { Some(span) } else { None };
        let result = self.enter(1, timeout);
        sleeper.end_sleep();
        result?;
        Ok(if spin.is_zero() { Woken::Slept } else { Woken::SpunInVain })
    }
}

impl Drop for Ring {
    /// Ends everything that is under way, so that its memory may be freed; what does not end is leaked.
    fn drop(&mut self) {
        for _ in 0..1000 {
            let mut events = Vec::new();
            self.reap(&mut events);
            if self.in_flight == 0 {
                return;
            }
            let any = types::CancelBuilder::any();
            // Nothing left to cancel, or an older kernel: the waits below show which.
            let _ = self.io.submitter().register_sync_cancel(None, any);
            if self.enter(1, Some(Duration::from_millis(5))).is_err() {
                break;
            }
        }
        std::mem::forget(std::mem::take(&mut self.slots));
        std::mem::forget(std::mem::take(&mut self.files));
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::task::Waker;

    use buf::Buf;
    use host::{BlockOperation, BlockRequest, OpenOptions, Storage};

    use super::*;
    use crate::core_local::{self, CoreLocal};
    use crate::file::Files;

    #[test]
    fn user_data_names_kind_and_index() {
        for kind in KINDS {
            for index in [0, 1, u32::MAX] {
                assert_eq!(kind_of(user_data(kind, index)), Some((kind, index)));
            }
        }
    }

    #[test]
    fn the_drive_gets_the_first_file_operations_before_the_last_are_made() {
        let local = Rc::new(CoreLocal::default());
        let _guard = core_local::enter(Rc::clone(&local)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let options = OpenOptions { size: Some(4096), ..OpenOptions::default() };
        let file = Files.open(path.to_str().unwrap(), options).unwrap();
        let mut queue = file.open_queue(Waker::noop().clone()).unwrap();
        for tag in 0..=FILES_AT_ONCE as u64 {
            let operation = BlockOperation::Read { offset: 0, into: Buf::zeroed(512) };
            queue.submit(BlockRequest { tag, operation }).unwrap();
        }

        let mut ring = Ring::new(64).unwrap();
        let mut held = Vec::new();
        for op in local.files.borrow_mut().drain(..) {
            assert!(ring.file(op).is_none());
            held.push(ring.io.submission().len());
        }

        assert_eq!(held, [1, 2, 3, 0, 1], "entries that the kernel has not seen, after each operation");
    }
}
