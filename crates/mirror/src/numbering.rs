//! What people call a leg: by its place in the brackets, from 1, as `prefer=` counts.

use std::fmt;

/// The leg at this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbered(pub(crate) usize);

impl fmt::Display for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leg {}", self.0.saturating_add(1))
    }
}
