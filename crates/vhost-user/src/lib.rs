//! A vhost-user block device as a volume: its user's side (the front end, in vhost-user's words).
//!
//! The device is another process: Linerate's software adapter (`linerate attach --as vhost-user`), QEMU's storage daemon, SPDK. A request is a few descriptors in memory that both
//! processes have, and its data is where the application has it, if that is memory of [`SharedMemory`]; other memory is copied, and counted.
//!
//! | module | what |
//! |---|---|
//! | [`opener`] | `vhost-user:SOCKET` |
//! | `channel`, `message` | what both sides say to each other over the socket |
//! | `session` | what they agree on |
//! | `orders`, `control` | a thread that speaks with the device: memory that comes and goes, a device that is lost and comes back |
//! | `queue`, `slots` | a core's requests |
//! | `vring`, `doorbell` | the memory that its ring lies in, and the descriptors by which either side is notified |
//! | `regions` | which memory the device has |
//! | `shared`, `volume` | what all cores share, and the volume itself |
//! | [`sys`] | memory that is shared |
#![deny(unsafe_code)]

mod channel;
mod control;
mod doorbell;
pub mod limits;
mod message;
pub mod opener;
mod orders;
mod queue;
mod regions;
mod session;
mod shared;
mod slots;
pub mod sys;
mod volume;
mod vring;

pub use opener::VhostUserOpener;
pub use sys::{SharedArea, SharedMemory};
