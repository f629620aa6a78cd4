//! The software adapter: makes a volume appear to other programs of the machine.
//!
//! The work of the storage protocol is done here, on cores of its own, as an offload card would do it; the application sees
//! an ordinary device of its own kind.

mod convert;
mod cores;
mod early;
pub mod fuse;
mod gate;
mod limits;
mod listen_address;
mod memory;
pub mod nbd;
mod openings;
mod ready_file;
mod sys;
pub mod ublk;
pub mod vhost;

pub use cores::{Cores, CpuList};
pub use listen_address::{ListenAddress, SocketFile};
pub use reactor::{Congestion, Driver};
