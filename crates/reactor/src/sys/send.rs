//! One send: everything that a connection had to say in a turn, as one vectored message.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use protocol::Transmit;

use super::{empty_message, outcome};
use crate::limits::{MOST_VECTORS, USUAL_VECTORS};

/// A filled [`Transmit`] on its way out.
pub struct Send {
    transmit: Transmit,
    vectors: Vec<libc::iovec>,
    first: usize,
    left: usize,
    /// Bytes that one call takes, about.
    most: usize,
    message: libc::msghdr,
}

impl Send {
    /// An empty send of about `budget` bytes in about `segments` pieces.
    pub fn new(budget: usize, segments: usize) -> Self {
        Self {
            transmit: Transmit::new(budget, segments),
            vectors: Vec::with_capacity(USUAL_VECTORS),
            first: 0,
            left: 0,
            most: usize::MAX,
            message: empty_message(),
        }
    }

    /// What is to be sent, for filling. Only before [`Send::seal`].
    pub fn transmit(&mut self) -> &mut Transmit {
        self.vectors.clear();
        &mut self.transmit
    }

    /// Asks for about `budget` bytes from now on.
    pub fn set_budget(&mut self, budget: usize) {
        self.transmit.set_budget(budget);
    }

    /// Bytes of the whole send.
    pub fn len(&self) -> usize {
        self.transmit.len()
    }

    /// True when there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.transmit.is_empty()
    }

    /// Ends the filling; false when there is nothing to send. One call sends at most `most` bytes of it, at least one.
    pub fn seal(&mut self, most: usize) -> bool {
        self.most = most.max(1);
        let transmit = &self.transmit;
        self.vectors.clear();
        self.vectors.extend(transmit.segments().iter().flat_map(|segment| {
            let parts = transmit.bytes(segment).chunks(self.most);
            parts.map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() })
        }));
        self.first = 0;
        self.left = transmit.len();
        self.left > 0
    }

    /// Bytes that the next call sends at most.
    pub fn part(&self) -> usize {
        self.left.min(self.most)
    }

    /// Counts `count` bytes that were sent; true when that was all.
    pub fn sent(&mut self, mut count: usize) -> bool {
        self.left = self.left.saturating_sub(count);
        while let Some(vector) = self.vectors.get_mut(self.first) {
            if count < vector.iov_len {
                vector.iov_base = vector.iov_base.cast::<u8>().wrapping_add(count).cast();
                vector.iov_len -= count;
                break;
            }
            count -= vector.iov_len;
            self.first += 1;
        }
        self.left == 0
    }

    /// Lets go of everything that was to be sent, and of memory that is not usually needed.
    pub fn clear(&mut self) {
        self.vectors.clear();
        self.transmit.clear();
        self.transmit.trim();
        self.left = 0;
    }

    /// The message over what is left, valid while the send is neither moved out of its box nor touched.
    pub(super) fn message(&mut self) -> &libc::msghdr {
        let rest = self.vectors.get_mut(self.first..).unwrap_or_default();
        self.message.msg_iov = rest.as_mut_ptr();
        self.message.msg_iovlen = rest.len().min(MOST_VECTORS);
        if self.left > self.most {
            self.message.msg_iovlen = fitting(rest, self.most).min(MOST_VECTORS);
        }
        &self.message
    }

    /// Sends what the socket takes, without waiting.
    pub fn send_now(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let message = self.message();
        // SAFETY: the vectors were built by `seal` from segments that `transmit` still owns.
        outcome(unsafe {
            libc::sendmsg(socket.as_raw_fd(), message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
        })
    }
}

/// How many vectors from the front hold `most` bytes or less, each of them no more than that.
fn fitting(vectors: &[libc::iovec], most: usize) -> usize {
    let within = |sum: &mut usize, vector: &libc::iovec| {
        *sum = sum.saturating_add(vector.iov_len);
        (*sum <= most).then_some(())
    };
    vectors.iter().scan(0, within).count()
}

impl fmt::Debug for Send {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Send").field("len", &self.len()).field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_continues_where_the_socket_stopped() {
        let mut send = Send::new(1 << 20, 64);
        send.transmit().put(b"head");
        send.transmit().put_shared(buf::SharedBuf::from(vec![7; 2000]));
        assert!(send.seal(usize::MAX));
        assert!(!send.sent(5));
        assert_eq!(send.message().msg_iovlen, 1);
        assert_eq!(send.vectors[1].iov_len, 1999);
        assert!(send.sent(1999));
        send.clear();
        assert!(!send.seal(usize::MAX));
    }

    #[test]
    fn a_call_takes_no_more_than_its_part() {
        let mut send = Send::new(1 << 20, 64);
        send.transmit().put(b"head");
        send.transmit().put_shared(buf::SharedBuf::from(vec![7; 2500]));
        assert!(send.seal(1000));
        let mut parts = Vec::new();
        while {
            let count = send.message().msg_iovlen;
            let part = &send.vectors[send.first..send.first + count];
            parts.push(part.iter().map(|vector| vector.iov_len).sum::<usize>());
            assert!(parts[parts.len() - 1] <= send.part());
            !send.sent(parts[parts.len() - 1])
        } {}
        assert_eq!(parts, [4, 1000, 1000, 500]);
    }
}
