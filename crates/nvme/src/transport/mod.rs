//! The transports of NVMe over Fabrics: how capsules and data travel between a host's queue and a controller's. TCP is the one so far; RDMA will
//! stand beside it. A queue knows its transport by the traits [`controller::FabricTransport`](crate::controller::FabricTransport) and
//! [`host::FabricTransport`](crate::host::FabricTransport).

pub(crate) mod tcp;
