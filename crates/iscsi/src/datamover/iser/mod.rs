//! iSCSI over RDMA: iSER, the Datamover of RFC 7145, for both roles, over any [`verbs::ManagedQueuePair`].
//!
//! `header` has the header before each PDU, `message` what has come, `channel` the queue pair with its receives and buffers; `target` and `initiator` are the roles'
//! datamovers, `key_values` what they need of a login's keys, `connection` drives an upper layer over one of them, and `roles` is where all of that meets. docs/protocols/iser.md says what of the RFC there is, and
//! where Linux' practice wins.

mod channel;
mod connection;
mod header;
mod initiator;
mod key_values;
mod message;
mod needs;
mod roles;
mod target;

pub use header::{Invalidation, IserHeader, TaggedBase, private_data};
pub use initiator::IserInitiator;
pub use needs::{initiator_needs, target_needs};
pub use roles::{InitiatorConnection, TargetConnection};
pub use target::IserTarget;
