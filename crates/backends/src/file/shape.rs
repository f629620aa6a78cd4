//! What every queue of a file volume knows.

use host::BlockInfo;
use volume::{Features, Geometry, Limits};

/// The fixed properties of a file volume. The geometry's number of blocks is that of the beginning: [`Size`](super::size::Size) has today's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) info: BlockInfo,
    pub(super) geometry: Geometry,
    pub(super) limits: Limits,
    pub(super) features: Features,
}
