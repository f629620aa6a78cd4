//! The protocol of versions 4.1 and 4.2: its types, its operations and its attributes.

pub mod attributes;
pub mod bitmap;
pub mod compound;
pub mod failure;
pub mod operation;
pub mod status;
pub mod types;

pub use bitmap::Bitmap;
pub use status::Status;
pub use types::{ClientId, Modes, Principal, SessionId, Share, Stateid, StateidOther, Verifier};
