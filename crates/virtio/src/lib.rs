//! Virtqueues and the block device of VIRTIO 1.2, both roles: the driver, which has requests, and the device, which serves them.
//!
//! Both share memory, and each can change all of it at any time: nothing that was read from it is taken for true a second time, and nothing that one side needs to know of
//! itself is read from there at all.
//!
//! | standard | module |
//! |---|---|
//! | the memory that both sides share | [`area`] |
//! | VIRTIO §2.7: split virtqueues | [`split`] |
//! | VIRTIO §2.8: packed virtqueues | [`packed`] |
//! | a queue from each side | [`queue`] |
//! | a queue of either layout | [`either`] |
//! | §2.7.4, §2.8.4: buffers in pieces | [`chain`] |
//! | §2.7.10, §2.8.10: when the other side wants to be notified | [`event`] |
//! | vhost-user, *Inflight I/O tracking*: what survives a device | [`inflight`] |
//! | §5.2: the block device | [`block`] |
//! | what the other side may do wrong | [`violation`] |
//!
//! Architecture invariant: no memory mapping, descriptor, clock or thread; nothing here knows who notifies whom, and how.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod area;
pub mod block;
pub mod chain;
pub mod either;
pub mod event;
pub mod inflight;
pub mod limits;
pub mod packed;
pub mod queue;
pub mod split;
pub mod violation;

pub use area::{AddressSpace, Area, LocalArea};
pub use chain::{Chain, Segment};
pub use either::{AnyDevice, AnyDriver, Layout};
pub use queue::{DeviceQueue, DriverQueue, Used};
pub use violation::Violation;
