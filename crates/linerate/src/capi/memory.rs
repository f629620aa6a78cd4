//! A C program's memory, lent until its request has ended and nobody uses the memory any more.
//!
//! The two need not come together. A target may answer before it has read all that was sent to it; a connection that is lost may
//! still be receiving into the memory of a read that another connection answers. So the program is told by whichever is last.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use ::volume::{Outcome, VolumeErrorKind};
use buf::{Buf, BufList, Foreign};

use super::callback::CompletionCallback;
use super::status::Status;

/// A piece of memory that belongs to a C program and is ours until its request has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lent {
    start: *mut u8,
    len: usize,
}

// SAFETY: the program promised that nobody else touches the memory until the request has ended.
unsafe impl Send for Lent {}
// SAFETY: as above; shared access is read-only.
unsafe impl Sync for Lent {}

impl Lent {
    /// The memory of `len` bytes from `start`.
    ///
    /// # Safety
    /// It is initialised and writable (or only read: a write's data), and until the request has ended it stays and nobody
    /// else touches it.
    pub(super) unsafe fn new(start: *mut c_void, len: usize) -> Self {
        let start = if len == 0 { std::ptr::NonNull::dangling().as_ptr() } else { start.cast() };
        Self { start, len }
    }

    /// Bytes.
    pub(super) fn len(self) -> usize {
        self.len
    }

    /// Takes what a read came to. Data that lies there already, or that was lent in place of it, holds the memory, which so
    /// nobody else has: it is put there and let go of. Other data is given back until the memory is free.
    fn take(self, data: BufList) -> Option<BufList> {
        let first = data.pieces().first()?;
        if !std::ptr::eq(first.as_ptr(), self.start) {
            if !data.pieces().iter().any(|piece| piece.holds(self.start)) {
                return Some(data);
            }
            self.fill(&data);
        }
        None
    }

    /// Puts data there that lies elsewhere.
    fn fill(self, data: &BufList) {
        // SAFETY: by the promise of `new` the memory is ours until the callback, which comes after this; whoever had it as a
        // buffer has let go, or is `data`, which does not look at it; and `data` is other memory.
        data.copy_to(unsafe { std::slice::from_raw_parts_mut(self.start, self.len) });
    }
}

/// How a request ended, and data that does not lie in the program's memory yet.
struct End {
    status: Status,
    data: Option<BufList>,
}

/// A request of a C program until the program is told.
pub(super) struct Flight {
    lent: Lent,
    callback: CompletionCallback,
    end: OnceLock<End>,
    /// What is not over: the request, and the use of the memory.
    open: AtomicU8,
}

/// The program's memory in a request. Its last holder's letting go is the end of its use.
struct Held(Arc<Flight>);

impl Flight {
    /// A request that is to be told so; the use of its memory, if it has any, begins with [`Flight::lend`].
    pub(super) fn new(lent: Lent, callback: CompletionCallback) -> Arc<Self> {
        Arc::new(Self { lent, callback, end: OnceLock::new(), open: AtomicU8::new(1) })
    }

    /// The memory, as a buffer; called at most once, before the request can end.
    pub(super) fn lend(self: &Arc<Self>) -> Buf {
        self.open.fetch_add(1, Ordering::Relaxed);
        Buf::foreign(Box::new(Held(Arc::clone(self))))
    }

    /// The request has ended.
    pub(super) fn finish(&self, result: Result<Outcome, VolumeErrorKind>) {
        let (status, data) = match result {
            Ok(Outcome::Data(data)) => (Status::Ok, self.lent.take(data)),
            Ok(_) => (Status::Ok, None),
            Err(kind) => (Status::from(kind), None),
        };
        let _only_once = self.end.set(End { status, data });
        self.close_one();
    }

    /// One of the two is over; after the other, the program is told.
    fn close_one(&self) {
        if self.open.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let Some(end) = self.end.get() else { return };
        if let Some(data) = &end.data {
            self.lent.fill(data);
        }
        self.callback.call(end.status);
    }
}

impl Foreign for Held {
    fn memory(&mut self) -> &mut [u8] {
        // SAFETY: by the promise of `Lent::new`; called once for each request.
        unsafe { std::slice::from_raw_parts_mut(self.0.lent.start, self.0.lent.len) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.close_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// What a request was told: 0 while nothing.
    static TOLD: [AtomicU32; 5] = [const { AtomicU32::new(0) }; 5];

    unsafe extern "C" fn told(context: *mut c_void, status: Status) {
        let number = context.addr() - 1;
        TOLD[number].store(100 + status as u32, Ordering::SeqCst);
    }

    fn flight(number: usize, bytes: &mut [u8]) -> Arc<Flight> {
        // SAFETY: each test keeps the bytes until the flight is over; the context is a number.
        let lent = unsafe { Lent::new(bytes.as_mut_ptr().cast(), bytes.len()) };
        Flight::new(lent, CompletionCallback::new(told, std::ptr::without_provenance_mut(number + 1)))
    }

    fn state(number: usize) -> u32 {
        TOLD[number].load(Ordering::SeqCst)
    }

    #[test]
    fn a_write_is_told_when_its_last_holder_has_let_go() {
        let mut bytes = vec![7; 8192];
        let flight = flight(0, &mut bytes);
        let data = flight.lend().freeze();
        let in_a_send = data.slice(4096..);
        drop(data);
        flight.finish(Err(VolumeErrorKind::NoSpace));
        assert_eq!(state(0), 0, "a send still has half of it");
        drop(in_a_send);
        assert_eq!(state(0), 100 + Status::from(VolumeErrorKind::NoSpace) as u32);
    }

    #[test]
    fn a_write_whose_memory_is_let_go_of_first_is_told_at_its_end() {
        let mut bytes = vec![7; 512];
        let flight = flight(1, &mut bytes);
        drop(flight.lend().freeze());
        assert_eq!(state(1), 0, "it is still under way");
        flight.finish(Ok(Outcome::Done));
        assert_eq!(state(1), 100);
    }

    #[test]
    fn a_read_in_its_place_is_told_at_once() {
        let mut bytes = vec![0; 512];
        let flight = flight(2, &mut bytes);
        let mut into = flight.lend();
        into.fill(9);
        flight.finish(Ok(Outcome::Data(into.freeze().into())));
        assert_eq!((state(2), bytes[511]), (100, 9));
    }

    #[test]
    fn a_read_that_was_lent_other_memory_is_put_in_its_place_and_told_at_once() {
        let mut bytes = vec![0; 512];
        let flight = flight(4, &mut bytes);
        let page = buf::SharedBuf::from(vec![6; 512]);
        let lent = flight.lend().lend(page, None);
        flight.finish(Ok(Outcome::Data(lent.into())));
        assert_eq!((state(4), bytes), (100, vec![6; 512]));
    }

    #[test]
    fn a_read_that_was_repeated_elsewhere_is_put_in_its_place_after_the_first_has_let_go() {
        let mut bytes = vec![0; 512];
        let flight = flight(3, &mut bytes);
        let mut old = flight.lend();
        flight.finish(Ok(Outcome::Data(BufList::from(buf::SharedBuf::from(vec![5; 512])))));
        assert_eq!(state(3), 0, "the lost connection may still receive into it");
        old.fill(1);
        drop(old);
        assert_eq!((state(3), bytes), (100, vec![5; 512]));
    }
}
