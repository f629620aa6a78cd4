//! What endpoints and listening sockets are called.

/// Names an endpoint on its core, for as long as it lives and a while after; never reused soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(pub u64);

/// Names a listening socket: given by whoever opens it, and never to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);
