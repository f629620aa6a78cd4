//! RDMA adapters by libibverbs and librdmacm: the [verbs contract](verbs) in hardware, or in the kernel's own software (siw, `rdma_rxe`).
//!
//! Neither library is linked: both are loaded when an adapter is first asked for ([`SystemAdapters`]), and a machine without them says which package has them. A
//! port ([`host::AdapterPort`]) is what an event loop watches: one descriptor that stands for the events of connection management and for the completions of all of the
//! port's queue pairs. Nothing waits: addresses and routes are looked up by the kernel, and an event tells of the end.
//!
//! `pair` is the state machine, `hardware` its half at the device, `work` the requests in their order, `port` and `inbox` bring what has happened, and `sys` has all
//! that is unsafe.
//!
//! What a peer can reach: of each region exactly the bytes that the consumer registered, for as long as it is registered, and over the consumer's own connection alone,
//! because every queue pair has a protection domain of its own (docs/decisions/0030-adapters.md). Bounce buffers have no rights for a peer.
//!
//! Architecture invariant: nothing here knows iSCSI, NVMe or an event loop; `unsafe` stands in `sys`.

mod hardware;
mod inbox;
mod limits;
mod pair;
mod port;
mod sys;
mod system;
mod words;
mod work;

pub use system::{BoundPort, SystemAdapters};
