//! The only `unsafe` code of the reactor: memory that the kernel reads or writes by address.
//!
//! An operation ([`Receive`], [`Send`], [`FileOp`]) *owns* every byte it names. The [`ring`] owns an operation while the
//! kernel may touch it, and gives it back with its completion; so nothing outside can free or move memory too early.
//!
//! [`SharedMemory`] maps files whose memory a pool's buffers lie in.
#![expect(unsafe_code, reason = "addresses given to the kernel; see the module's documentation")]

mod datagram;
mod file;
pub(crate) mod handle;
pub(crate) mod lock;
mod receive;
pub(crate) mod ring;
mod send;

pub(crate) use datagram::{choose_by_field, number, receive_now, send_now, set_number};
pub use file::FileOp;
pub(crate) use file::Verb;
pub use receive::Receive;
pub use send::Send;

/// A `msghdr` without address and control data, over nothing yet.
fn empty_message() -> libc::msghdr {
    // SAFETY: all-zero is a valid `msghdr`: null pointers with zero lengths.
    unsafe { std::mem::zeroed() }
}

/// An `iovec` over nothing.
const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// The result of a system call that answers -1 and sets `errno`.
fn outcome(result: isize) -> std::io::Result<usize> {
    usize::try_from(result).map_err(|_| std::io::Error::last_os_error())
}
