//! `mirror=[URL,URL,…]`: copies of a volume on several others, of this machine and of others. RAID 1 on the host, with a single owner.
//!
//! * A write is acknowledged when every leg that is in sync has it. Reads go to the first local leg.
//! * A leg that fails is out from that moment; before anything is acknowledged without it, the legs that remain have a record of that (`superblock.rs`).
//! * Which regions may differ is known before they do (`dirty_log.rs`): a leg that comes back, and legs after a crash, get those regions copied (`copier.rs`).
//! * One host at a time writes, by a persistent reservation on every leg that has them (`fencer.rs`). There is no consensus between hosts.
//!
//! The crate makes no system call and reads no clock: it knows volumes by their contract alone. docs/decisions/0032-mirror.md says why it is as it is.
#![forbid(unsafe_code)]

mod area;
mod assembly;
mod bitmap;
mod bits;
mod cleaner;
mod compare;
mod copier;
mod dirty_log;
mod fencer;
mod leaver;
pub mod limits;
mod log_writer;
mod members;
mod numbering;
mod opener;
mod opening;
mod options;
mod placement;
mod planted;
mod ports;
mod prober;
mod queue;
mod range_locks;
mod recorder;
mod releaser;
mod shared;
mod slab;
mod slots;
mod spread;
mod status;
mod superblock;
mod tasks;
#[cfg(test)]
mod tests;
mod volume;

pub use self::volume::Mirror;
pub use members::LegState;
pub use opener::{Background, MirrorOpener};
pub use opening::EntropySource;
pub use status::{LegStatus, Status};
