//! RPC over a byte stream (RFC 5531 §11): records in, records out, payloads straight into the memory that an upper layer names for them.

mod connection;
mod send_watch;

pub use connection::TcpConnection;
