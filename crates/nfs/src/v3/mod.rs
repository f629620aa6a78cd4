//! The protocol of version 3 (RFC 1813): its statuses, its attributes, and the arguments of its procedures as a server reads them and a client writes them.

pub mod arguments;
pub mod attributes;
pub mod call;
pub mod procedure;
pub mod results;
pub mod status;

pub use status::Status;
