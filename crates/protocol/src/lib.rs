//! The contract of every protocol, both roles: bytes and time in, bytes, actions and a deadline out.
//!
//! A [`Connection`] is one transport connection's protocol as a pure state machine. It has no socket, no
//! clock, no thread and no source of randomness ([`Entropy`] is given to it), so the same inputs give the
//! same outputs, and the reactor, the simulator and a test's [`pair`](pair::Pair) drive the same code.
//!
//! Zero copies without I/O: the machine *names the memory* of the next payload with
//! [`Connection::take_placement`], and whoever moves the bytes puts them there.
//!
//! Architecture invariant: nothing here knows a protocol, a volume or an operating system.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod connection;
mod entropy;
mod instant;
mod layer;
mod notice;
pub mod pair;
mod transmit;
mod unsent;

pub use connection::{CloseReason, Connection, Ended, Group, GroupMessage, Placement};
pub use entropy::{Entropy, SeededEntropy};
pub use instant::{Instant, nanos};
pub use layer::{Layer, Layered};
pub use notice::{Notice, NoticeKind, Notices, Parties};
pub use transmit::{Segment, Transmit};
pub use unsent::Unsent;
