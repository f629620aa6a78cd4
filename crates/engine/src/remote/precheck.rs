//! What need not be asked of the far end: requests that make no sense for the volume, and those that do nothing.
//!
//! The far end's own answers to these differ from one peer to another; the volume contract (docs/volume-contract.md) has one.

use ::volume::{Allocation, Extent, Features, Operation, Outcome, VolumeErrorKind, shape};
use buf::BufList;

use super::far_end::Shape;

/// The answer to a request to a volume of this shape; `None` when it is for the far end to say.
pub(crate) fn precheck(operation: &Operation, of: &Shape) -> Option<Result<Outcome, VolumeErrorKind>> {
    // Only the far end knows.
    if operation.is_about_reservations() {
        return None;
    }
    if let Err(kind) = shape::check(operation, of.geometry, &of.limits, of.features) {
        return Some(Err(kind));
    }
    let extent = operation.extent()?;
    match operation {
        Operation::QueryAllocation { .. } | Operation::Discard { .. } => {}
        _ if extent.blocks != 0 => return None,
        _ => {}
    }
    nothing_to_ask(operation, extent, of).map(Ok)
}

/// The answer to what does nothing, or is done here as far as that is nothing.
#[cold]
fn nothing_to_ask(operation: &Operation, extent: Extent, of: &Shape) -> Option<Outcome> {
    match operation {
        Operation::Read { .. } if extent.blocks == 0 => Some(Outcome::Data(BufList::new())),
        Operation::QueryAllocation { .. }
            if extent.blocks == 0 || !of.features.contains(Features::ALLOCATION) =>
        {
            // Where holes cannot be told from data, all is data.
            Some(Outcome::Allocation(Allocation { extent, mapped: true }))
        }
        // A discard is only advice.
        Operation::Discard { .. } if !of.discards => Some(Outcome::Done),
        _ => (extent.blocks == 0).then_some(Outcome::Done),
    }
}

#[cfg(test)]
mod tests {
    use ::volume::{Geometry, Limits};
    use buf::Buf;

    use super::*;

    fn shape(features: Features) -> Shape {
        let geometry = Geometry { blocks: 100, block_size: 512, physical_block_size: 4096 };
        let discards = features.contains(Features::DISCARD);
        Shape { geometry, limits: Limits::default(), features, discards }
    }

    fn answer(operation: &Operation, features: Features) -> Option<Result<Outcome, VolumeErrorKind>> {
        precheck(operation, &shape(features))
    }

    #[test]
    fn what_makes_no_sense_or_does_nothing_is_answered_here() {
        let (inside, empty, beyond) = (Extent::new(0, 1), Extent::new(100, 0), Extent::new(99, 2));
        let plain = Features::empty();
        let read = |extent, bytes| Operation::Read { extent, into: Buf::zeroed(bytes) };
        assert!(answer(&read(inside, 512), plain).is_none());
        assert!(matches!(answer(&read(inside, 511), plain), Some(Err(VolumeErrorKind::Misaligned))));
        assert!(matches!(answer(&read(beyond, 1024), plain), Some(Err(VolumeErrorKind::OutOfRange))));
        assert!(matches!(answer(&read(empty, 0), plain), Some(Ok(Outcome::Data(data))) if data.is_empty()));
        assert!(answer(&Operation::Flush, plain).is_none());
        assert!(matches!(answer(&Operation::Verify { extent: empty }, plain), Some(Ok(Outcome::Done))));
    }

    #[test]
    fn what_the_far_end_cannot_do_is_done_as_far_as_that_is_nothing() {
        let extent = Extent::new(3, 4);
        let query = || Operation::QueryAllocation { extent };
        let whole = Allocation { extent, mapped: true };
        let told = answer(&query(), Features::empty());
        assert!(matches!(told, Some(Ok(Outcome::Allocation(run))) if run == whole));
        assert!(answer(&query(), Features::ALLOCATION).is_none());
        assert!(matches!(answer(&Operation::Discard { extent }, Features::empty()), Some(Ok(Outcome::Done))));
        assert!(answer(&Operation::Discard { extent }, Features::DISCARD).is_none());
    }
}
