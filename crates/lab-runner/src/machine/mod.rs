//! What the lab does on a machine: processes, network namespaces and devices, and the ledger of all that it made there.

pub mod attachment;
pub mod clock;
pub mod device;
pub mod identity;
pub mod ledger;
pub mod limits;
pub mod process;
pub mod program;
pub mod shape;
pub mod topology;
