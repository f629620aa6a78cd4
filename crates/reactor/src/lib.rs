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
//! | `cluster` | cores: made, started, stopped |
//! | `shared` | inboxes, and what else the cores share |
//! | `event_loop` | the turn |
//! | `accept`, `acceptor`, `listeners`, `listener_control` | listening sockets, which open and close while the cluster runs |
//! | `spin`, `contention` | what the loop learns: whether spinning pays, whether connections share the core |
//! | `wakeup`, `polled_list` | waking a core; what it looks at by itself |
//! | `streams` | the streams of a core, and what a turn does for each |
//! | `core_io` | what streams and sockets share: the driver, deadlines, what a turn has moved |
//! | `connection`, `connection_table` | one connection's state, and how its endpoint is fed; all of a core |
//! | `areas`, `staging_holders` | memory that bytes move through, and who has some while it waits |
//! | `datagram_socket`, `sockets` | sockets for datagrams: bound, and what a turn does for them |
//! | [`driver`] | the seam to the kernel; `driver::epoll` is one implementation |
//! | `sys` | the other one, io_uring, and all `unsafe` code |
//! | `file`, `locked_file`, `completion_list`, `threads` | files and devices |
//! | `folder` | a folder for state |
//! | `tree`, `tree_queue` | a folder that is served, and what is read and written in it |
//! | `look` | what opening a file or device would come to |
//! | `turns` | how long turns keep the processor |
//! | `core_local` | how a service reaches the loop that is calling it |
//!
//! Architecture invariant: nothing here knows a protocol. `docs/decisions/0001-own-reactor.md` says why it is ours.
#![expect(clippy::vec_box, reason = "the kernel knows an operation's address: its box moves, it never does")]

mod accept;
mod acceptor;
mod areas;
mod budget;
mod clock;
mod cluster;
mod completion_list;
mod config;
mod congestion;
mod connection;
mod connection_table;
mod contention;
mod convert;
mod core_io;
mod core_local;
mod datagram_socket;
mod datagram_sockets;
pub mod driver;
mod event_loop;
mod file;
mod folder;
mod limits;
mod listener;
mod listener_control;
mod listeners;
mod locked_file;
mod look;
mod polled_list;
mod shared;
mod socket_group;
mod sockets;
mod spin;
mod staging_holders;
mod streams;
mod sys;
mod threads;
mod timers;
mod tree;
mod tree_queue;
mod turns;
mod wakeup;

pub use clock::now;
pub use cluster::{Cluster, Core, Running, Stopper};
pub use config::{Config, Driver};
pub use congestion::{Congestion, NoCongestion};
pub use core_local::CoreDialer;
pub use datagram_sockets::DatagramSockets;
pub use file::Files;
pub use folder::SystemFolder;
pub use listener::{Listener, UNNAMED, while_taken};
pub use listener_control::{ListenerControl, ListenerIdInUse};
pub use look::Look;
pub use tree::SystemTree;
pub use turns::Turns;
pub use wakeup::{Sleeper, Wakeup};
