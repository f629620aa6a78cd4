//! MPA: the set-up of a connection, and FPDUs, which make records of a byte stream (RFC 5044, RFC 6581).

mod frame;
mod marker;
mod mulpdu;
mod negotiation;
mod receiver;
mod setup;
mod writer;

pub use frame::{Enhanced, Frame, FrameError, FrameKind, Rtr, RtrKinds};
pub use marker::Markers;
pub use mulpdu::mulpdu;
pub use negotiation::{Offer, Refusal, Revision, Terms};
pub(crate) use receiver::{Fpdu, Receiver};
pub(crate) use setup::Setup;
pub(crate) use writer::{FpduWriter, Payload};
