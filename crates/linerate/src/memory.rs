//! Where the memory of a job comes from: where its volumes reach it without a copy, if there is such a place.

use std::sync::Arc;

use buf::{MemorySource, Pool};
use volume::Volume;

/// A pool of `room` bytes for what goes to these volumes.
pub(crate) fn pool_for<'a>(mut volumes: impl Iterator<Item = &'a dyn Volume>, room: usize) -> Pool {
    pool_of(volumes.find_map(Volume::memory), room)
}

/// A pool of `room` bytes from there, or from anywhere.
pub(crate) fn pool_of(source: Option<Arc<dyn MemorySource>>, room: usize) -> Pool {
    source.map_or_else(|| Pool::new(room), |source| Pool::with_source(room, source))
}
