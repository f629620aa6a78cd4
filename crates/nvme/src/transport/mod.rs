//! The transports of NVMe over Fabrics: how capsules and data travel between a host's queue and a controller's. TCP and RDMA. A queue knows its transport by the traits [`controller::FabricTransport`](crate::controller::FabricTransport) and
//! [`host::FabricTransport`](crate::host::FabricTransport).

pub mod rdma;
mod send_watch;
pub(crate) mod tcp;
