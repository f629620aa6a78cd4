//! Which operations a COMPOUND has, so that its answer can be held against them.

use super::limits::OPERATIONS;
use crate::v4::operation::OpNumber;

const MOST: usize = OPERATIONS as usize;

/// Operations in order: at most [`OPERATIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Plan {
    /// Every number is below 256: the last of version 4.2 is 71.
    numbers: [u8; MOST],
    len: u8,
}

impl Plan {
    /// Adds one.
    pub(super) fn push(&mut self, operation: OpNumber) {
        debug_assert!(usize::from(self.len) < MOST, "a COMPOUND of more operations than any is made of");
        if let Some(place) = self.numbers.get_mut(usize::from(self.len)) {
            *place = wire::bounded(operation.0);
            self.len = self.len.saturating_add(1);
        }
    }

    /// How many there are.
    pub(super) fn len(self) -> u32 {
        self.len.into()
    }

    /// The one at a place.
    pub(super) fn at(self, index: u32) -> Option<OpNumber> {
        let known = self.numbers.get(..usize::from(self.len))?;
        known.get(wire::index(index.into())).map(|number| OpNumber(u32::from(*number)))
    }
}
