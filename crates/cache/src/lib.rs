//! `cache=[FAST,CAPACITY]`: a fast volume as a block cache before a capacity volume; both are any volumes.
//!
//! With `mode=through` a write is acknowledged when the capacity volume has it: a fast volume that dies loses nothing. With `mode=back` it is acknowledged when the fast
//! volume has it, and written back later. Either way nothing is lost that was acknowledged and flushed, and no block has one content after a crash and
//! another one later: the module `state` has the rules, docs/decisions/0033-cache.md the reasons.
//!
//! Memory: 77 bytes for each line that the fast volume has room for, which is 1.2 MiB for 1 GiB of it with lines of 64 KiB; beside that up to 16 MiB in each queue, taken only
//! while requests that lie in several places need them.
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
mod numbers;
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
mod streams;
mod superblock;
mod volume;

pub use admission::Admission;
pub use opener::CacheOpener;
pub use options::Options;
pub use volume::Cache;
