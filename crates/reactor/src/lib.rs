//! One thin event loop per core: io_uring, or epoll where it is blocked.
//!
//! A [`Cluster`] has cores; each runs one [`host::Service`] on one thread and drives the endpoints that the service makes.
//! Per turn a core takes everything that has completed, feeds its endpoints, lets the service and the endpoints that have
//! something to do take their turns, and then starts *one* vectored send per endpoint that has anything to say. A turn
//! costs the number of endpoints that had something to do, never the number of connections: a thousand idle ones cost
//! nothing, and hold no memory to receive into.
//!
//! | module | what |
//! |---|---|
//! | `cluster` | cores, mailboxes, spreading streams |
//! | `core` | the turn |
//! | `listener_control`, `listeners` | listening sockets, which open and close while the cluster runs |
//! | `streams` | what a turn does for one connection |
//! | `connection` | one connection's state, and how its endpoint is fed |
//! | [`driver`] | the seam to the kernel; `driver::epoll` is one side of it |
//! | `sys` | the other side, io_uring, and all `unsafe` code |
//! | `file`, `threads` | files and devices |
//! | `folder` | a folder for state |
//! | `look` | what opening a file or device would come to |
//! | `turns` | how long turns keep the processor |
//! | `local` | how a service reaches the loop that is calling it |
//!
//! Architecture invariant: nothing here knows a protocol. `docs/decisions/0001-own-reactor.md` says why it is ours.
#![expect(clippy::vec_box, reason = "the kernel knows an operation's address: its box moves, it never does")]

mod alarm;
mod areas;
mod budget;
mod clock;
mod cluster;
mod config;
mod congestion;
mod connection;
mod core;
pub mod driver;
mod file;
mod folder;
mod limits;
mod listener;
mod listener_control;
mod listeners;
mod local;
mod look;
mod streams;
mod sys;
mod threads;
mod timers;
mod turns;

pub use alarm::Alarm;
pub use clock::now;
pub use cluster::{Cluster, Core, Running, Stopper};
pub use config::{Config, Driver};
pub use congestion::{Congestion, NoCongestion};
pub use file::Files;
pub use folder::SystemFolder;
pub use listener::{Listener, UNNAMED, while_taken};
pub use listener_control::{ListenerControl, ListenerIdInUse};
pub use look::Look;
pub use turns::Turns;
