//! NVMe/TCP (NVMe TCP Transport): PDUs, digests, R2Ts and termination, under the queues of both roles.

mod controller;
mod controller_transport;
mod framing;
mod host;
mod host_transport;
mod receiver;

pub use controller::ControllerConnection;
pub use host::HostConnection;
