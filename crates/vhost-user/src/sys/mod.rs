//! Memory that is shared with other processes: the only unsafe code of this crate.
//!
//! [`SharedArea`] is memory that another process may change at any time; it is reached through atomics alone, and never as a slice. [`SharedMemory`] gives pools arenas that other
//! processes can map, whose buffers this process lends them one by one.
#![expect(unsafe_code, reason = "mappings")]

mod area;
mod copy;
mod cut;
mod mapping;
mod shared_memory;

pub use area::{Created, SharedArea};
pub use shared_memory::{MemoryListener, SharedMemory, Span};
