//! The protocol of version 3 (RFC 1813): its statuses, its attributes and the arguments of its procedures.

pub mod attributes;
pub mod call;
pub mod procedure;
pub mod status;

pub use status::Status;
