//! One receive: the rest of a payload into its place, and what follows it into the staging area.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use protocol::Placement;

use super::{NOTHING, empty_message, outcome};

/// A staging area with what is staged in it, and the placement that comes first, if any.
///
/// Invariant: while a placement is not full, nothing is staged.
pub struct Receive {
    area: Box<[u8]>,
    start: usize,
    end: usize,
    placement: Option<Placement>,
    filled: usize,
    /// Bytes that one call may bring.
    most: usize,
    vectors: [libc::iovec; 2],
    message: libc::msghdr,
}

impl Receive {
    /// An empty staging area of `bytes`.
    pub fn new(bytes: usize) -> Self {
        Self {
            area: vec![0; bytes].into_boxed_slice(),
            start: 0,
            end: 0,
            placement: None,
            filled: 0,
            most: usize::MAX,
            vectors: [NOTHING; 2],
            message: empty_message(),
        }
    }

    /// Bytes of the staging area.
    pub fn capacity(&self) -> usize {
        self.area.len()
    }

    /// The staged bytes.
    pub fn staged(&self) -> &[u8] {
        self.area.get(self.start..self.end).unwrap_or_default()
    }

    /// Drops `count` staged bytes from the front.
    pub fn consume(&mut self, count: usize) {
        self.start = self.start.saturating_add(count).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// True when a payload's place is not full yet.
    pub fn is_placing(&self) -> bool {
        self.placement.is_some()
    }

    /// True when nothing is staged and no payload is under way: the area may serve another connection.
    pub fn is_empty(&self) -> bool {
        self.placement.is_none() && self.start == self.end
    }

    /// Names where the next bytes go, and moves what is staged of them there.
    pub fn place(&mut self, placement: Placement) {
        let count = placement.len.min(self.staged().len());
        let from = self.start;
        let placement = self.placement.insert(placement);
        let target = placement.buf.get_mut(placement.start..placement.start.saturating_add(count));
        if let (Some(target), Some(source)) = (target, self.area.get(from..from.saturating_add(count))) {
            target.copy_from_slice(source);
        }
        self.filled = count;
        self.consume(count);
    }

    /// The placement, once it is full.
    pub fn take_full(&mut self) -> Option<Placement> {
        self.placement.take_if(|placement| self.filled >= placement.len)
    }

    /// Forgets everything, giving up a placement.
    pub fn clear(&mut self) {
        self.placement = None;
        (self.start, self.end, self.filled) = (0, 0, 0);
    }

    /// Bytes that the next call may bring.
    pub fn room(&self) -> usize {
        let rest = self.placement.as_ref().map_or(0, |placement| placement.len.saturating_sub(self.filled));
        let staged = self.end.saturating_sub(self.start);
        rest.saturating_add(self.area.len()).saturating_sub(staged).min(self.most)
    }

    /// Lets the next call bring `most` bytes at most, at least one.
    pub fn limit(&mut self, most: usize) {
        self.most = most.max(1);
    }

    /// Counts `count` bytes that were received.
    pub fn received(&mut self, count: usize) {
        let rest = self.placement.as_ref().map_or(0, |placement| placement.len.saturating_sub(self.filled));
        let placed = count.min(rest);
        self.filled = self.filled.saturating_add(placed);
        self.end = self.end.saturating_add(count.saturating_sub(placed)).min(self.area.len());
    }

    /// Points the vectors at the memory; the message stays valid while the receive is neither moved out of its box nor
    /// touched.
    pub(super) fn message(&mut self) -> &mut libc::msghdr {
        if self.start > 0 {
            self.area.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end.saturating_sub(self.start));
        }
        let (mut used, mut most) = (0, self.most);
        if let Some(placement) = self.placement.as_mut() {
            let (from, to) =
                (placement.start.saturating_add(self.filled), placement.start.saturating_add(placement.len));
            let rest = placement.buf.get_mut(from..to).unwrap_or_default();
            self.vectors[0] = vector(rest, most);
            most = most.saturating_sub(rest.len());
            used = 1;
        }
        if most > 0 {
            self.vectors[used] = vector(self.area.get_mut(self.end..).unwrap_or_default(), most);
            used += 1;
        }
        self.message.msg_iov = self.vectors.as_mut_ptr();
        self.message.msg_iovlen = used;
        &mut self.message
    }

    /// The only vector, when there is no placement.
    pub(super) fn single(&self) -> Option<(*mut u8, usize)> {
        (self.message.msg_iovlen == 1).then(|| (self.vectors[0].iov_base.cast(), self.vectors[0].iov_len))
    }

    /// Receives what is there, without waiting.
    pub fn receive_now(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let message = self.message();
        // SAFETY: the message names memory that this receive owns, for the time of the call.
        outcome(unsafe { libc::recvmsg(socket.as_raw_fd(), message, libc::MSG_DONTWAIT) })
    }
}

/// The first `most` bytes of `place`, or all.
fn vector(place: &mut [u8], most: usize) -> libc::iovec {
    libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len().min(most) }
}

impl fmt::Debug for Receive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receive")
            .field("staged", &self.staged().len())
            .field("placement", &self.placement)
            .field("filled", &self.filled)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use buf::Buf;

    use super::*;

    #[test]
    fn staged_bytes_move_into_a_placement_and_the_rest_stays() {
        let mut receive = Receive::new(16);
        receive.area[..6].copy_from_slice(b"abcdef");
        receive.received(6);
        receive.consume(1);
        receive.place(Placement { buf: Buf::zeroed(8), start: 2, len: 3, token: 7 });
        let placement = receive.take_full().unwrap();
        assert_eq!(&placement.buf[..], b"\0\0bcd\0\0\0");
        assert_eq!(receive.staged(), b"ef");
        receive.place(Placement { buf: Buf::zeroed(4), start: 0, len: 4, token: 8 });
        assert!(receive.take_full().is_none() && receive.staged().is_empty());
        assert_eq!(receive.room(), 2 + 16);
        receive.received(3);
        assert_eq!(receive.take_full().unwrap().token, 8);
        assert_eq!(receive.staged().len(), 1);
    }

    #[test]
    fn a_call_brings_no_more_than_it_may() {
        let mut receive = Receive::new(8);
        receive.limit(5);
        assert_eq!(receive.room(), 5);
        receive.message();
        assert_eq!(receive.single().map(|(_, room)| room), Some(5));
        receive.place(Placement { buf: Buf::zeroed(8), start: 0, len: 8, token: 1 });
        receive.message();
        assert_eq!(receive.single().map(|(_, room)| room), Some(5));
        receive.received(5);
        receive.message();
        assert!(receive.single().is_none());
        assert_eq!([receive.vectors[0].iov_len, receive.vectors[1].iov_len], [3, 2]);
    }

    #[test]
    fn a_partial_header_is_moved_to_the_front_before_more_is_received() {
        let mut receive = Receive::new(8);
        receive.area.copy_from_slice(b"01234567");
        receive.received(8);
        receive.consume(5);
        assert_eq!(receive.room(), 5);
        assert_eq!(receive.message().msg_iovlen, 1);
        assert_eq!(receive.vectors[0].iov_len, 5);
        assert_eq!(receive.staged(), b"567");
    }
}
