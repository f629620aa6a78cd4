//! What a connection wants sent: headers copied, payloads shared, in order, as one vectored send.

use alloc::vec::Vec;
use core::ops::Range;

use buf::SharedBuf;

/// Payloads up to this many bytes are copied beside their header: cheaper than a segment of their own.
const COPY_UP_TO: usize = 1024;
/// Bytes in the scratch of one send beyond which payloads are no longer copied: what is copied leaves its pool, and so the account of the connection.
/// Answers to 128 reads of 512 bytes fit.
const MOST_COPIED: usize = 64 * 1024;
/// Bytes of scratch that an empty send keeps: what fits beside the headers of as many answers as wait at a time.
const KEPT: usize = 4 * MOST_COPIED;

/// One contiguous piece of a send.
#[derive(Debug, Clone)]
pub enum Segment {
    /// A range of [`Transmit::scratch`].
    Scratch(Range<usize>),
    /// Memory that is shared until the send is over.
    Shared(SharedBuf),
}

/// A send under construction. It is filled by [`Connection::poll_transmit`](crate::Connection::poll_transmit),
/// sent as a whole, and cleared for the next; its memory is kept, so that filling it allocates nothing in
/// the steady state.
#[derive(Debug)]
pub struct Transmit {
    scratch: Vec<u8>,
    segments: Vec<Segment>,
    len: usize,
    budget: usize,
    most_segments: usize,
}

impl Transmit {
    /// An empty send that asks to be filled with about `budget` bytes in at most about `most_segments` pieces.
    pub fn new(budget: usize, most_segments: usize) -> Self {
        Self { scratch: Vec::new(), segments: Vec::new(), len: 0, budget, most_segments }
    }

    /// Asks for about `budget` bytes from now on.
    pub fn set_budget(&mut self, budget: usize) {
        self.budget = budget;
    }

    /// Bytes that are left of the budget.
    pub fn room(&self) -> usize {
        self.budget.saturating_sub(self.len)
    }

    /// Bytes in all segments.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True once the budget is used: a connection adds no further PDU, and is asked again after this send.
    pub fn is_full(&self) -> bool {
        self.len >= self.budget || self.segments.len().saturating_add(4) > self.most_segments
    }

    /// Copies `bytes` to the end.
    pub fn put(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let start = self.scratch.len();
        self.scratch.extend_from_slice(bytes);
        self.len = self.len.saturating_add(bytes.len());
        let end = self.scratch.len();
        match self.segments.last_mut() {
            Some(Segment::Scratch(last)) if last.end == start => last.end = end,
            _ => self.segments.push(Segment::Scratch(start..end)),
        }
    }

    /// Adds shared memory to the end; short pieces are copied, as long as they are few.
    pub fn put_shared(&mut self, piece: SharedBuf) {
        if piece.len() <= COPY_UP_TO && self.scratch.len() < MOST_COPIED {
            self.put(&piece);
        } else {
            self.len = self.len.saturating_add(piece.len());
            self.segments.push(Segment::Shared(piece));
        }
    }

    /// The pieces in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The bytes of one segment.
    pub fn bytes<'a>(&'a self, segment: &'a Segment) -> &'a [u8] {
        match segment {
            Segment::Scratch(range) => self.scratch.get(range.clone()).unwrap_or_default(),
            Segment::Shared(piece) => piece,
        }
    }

    /// Lets go of everything, after it was sent.
    pub fn clear(&mut self) {
        self.scratch.clear();
        self.segments.clear();
        self.len = 0;
    }

    /// Gives up memory that only an unusual send needed.
    pub fn trim(&mut self) {
        if self.scratch.capacity() > KEPT {
            self.scratch.shrink_to(KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_merge_and_large_payloads_stand_alone() {
        let mut send = Transmit::new(1 << 20, 64);
        send.put(b"head");
        send.put_shared(SharedBuf::from(alloc::vec![1; 1024]));
        send.put_shared(SharedBuf::from(alloc::vec![2; 1025]));
        send.put(b"tail");
        let lengths: Vec<usize> = send.segments().iter().map(|segment| send.bytes(segment).len()).collect();
        assert_eq!(lengths, [1028, 1025, 4]);
        assert_eq!(send.len(), 2057);
        send.clear();
        assert!(send.is_empty() && send.segments().is_empty());
    }

    /// A peer that reads nothing must not have what it asked for outside of what its connection answers for.
    #[test]
    fn short_payloads_beyond_a_limit_stay_where_they_are_counted() {
        let mut send = Transmit::new(2 << 20, 512);
        let pool = buf::Pool::new(64 << 20);
        let (mut account, mut taken) = (buf::Account::new(&pool), 0);
        while !send.is_full() {
            send.put(&[0; 48]);
            send.put_shared(account.take(1024).unwrap().freeze());
            taken += 1024;
        }
        let uncounted = taken - account.held();
        assert!(taken > 2 * MOST_COPIED && uncounted <= MOST_COPIED + 1024, "{uncounted} of {taken} bytes");
        send.clear();
        assert_eq!(account.held(), 0);
    }

    #[test]
    fn an_empty_send_keeps_no_more_memory_than_usual_ones_need() {
        let mut send = Transmit::new(2 << 20, 512);
        send.put(&alloc::vec![0; 1 << 20]);
        send.clear();
        send.trim();
        assert!(send.scratch.capacity() <= KEPT);
    }
}
