//! NVMe/RDMA (NVMe RDMA Transport 1.0): capsules as messages, and data in memory that keys open, under the queues of both roles.
//!
//! Each connection stands on a queue pair that is a connection of its own ([`verbs::ConnectedQueuePair`]), and is a [`protocol::Connection`] itself: whoever
//! drives one over TCP drives one over software iWARP in the same way. The controller moves all data: it reads the host's memory for a write, and writes to
//! it for a read, by the keys that the host's commands name. `docs/protocols/nvme-rdma.md` has the details.
//!
//! | section | module |
//! |---|---|
//! | §3.1 (set-up, private data), figure 11 (its errors) | `private_data` |
//! | §3.3 (capsules, data), §3.6.1 (keys) | `controller`, `host` |

mod capsules;
mod controller;
mod controller_transport;
mod host;
mod host_transport;
mod private_data;
mod work;

pub use controller::ControllerConnection;
pub use host::HostConnection;
pub use private_data::{AcceptReply, ConnectRequest, RejectReply, RejectStatus};
