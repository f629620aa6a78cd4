//! `cache=[FAST,CAPACITY]`: a fast volume as a block cache before a capacity volume; both are any volumes.
//!
//! With `mode=through` a write is acknowledged when the capacity volume has it: a fast volume that dies loses nothing. With `mode=back` it is acknowledged when the fast
//! volume has it, and written back later. Either way nothing is lost that was acknowledged and flushed, and no block has one content after a crash and
//! another one later: [`state`] has the rules, docs/decisions/0033-cache.md the reasons.
//!
//! Memory, beside what requests in several places need: 93 bytes for each slot, which is 1.5 MiB for 1 GiB of lines of 64 KiB.
//!
//! Architecture invariant: no system call, clock, thread or random source; what a cache knows of the world is two volumes.
#![forbid(unsafe_code)]

mod admission;
mod child;
mod commit;
mod directory;
mod job;
mod layout;
mod limits;
mod map_block;
mod opener;
mod opening;
mod options;
mod page_set;
mod plan;
#[cfg(test)]
mod planted;
mod queue;
mod range_locks;
mod shared;
#[cfg(test)]
mod simulation;
mod state;
mod status;
mod streams;
mod superblock;
mod volume;

pub use admission::Admission;
pub use opener::CacheOpener;
pub use options::{Mode, Options};
pub use status::{CacheState, Status};
pub use volume::Cache;
