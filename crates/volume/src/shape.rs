//! The checks that every local volume makes of a request before it does anything.

use crate::{Extent, Features, Geometry, Limits, Operation, VolumeErrorKind};

/// Says whether `operation` fits a volume of this shape: its extent, the length of its memory, the limits, and what the
/// volume can do. A volume that checks this first never sees a request that makes no sense.
pub fn check(
    operation: &Operation,
    geometry: Geometry,
    limits: &Limits,
    features: Features,
) -> Result<(), VolumeErrorKind> {
    let Some(extent) = operation.extent() else {
        let unknown = operation.is_about_reservations();
        return if unknown { Err(VolumeErrorKind::Unsupported) } else { Ok(()) };
    };
    let bytes = geometry.check(extent).ok_or(VolumeErrorKind::OutOfRange)?;
    if operation.writes() && features.contains(Features::READ_ONLY) {
        return Err(VolumeErrorKind::ReadOnly);
    }
    let fits = |len: usize| u64::try_from(len) == Ok(bytes);
    let whole = match operation {
        Operation::Read { into, .. } => fits(into.len()),
        Operation::Write { data, .. } | Operation::Compare { data, .. } => fits(data.len()),
        Operation::CompareAndWrite { data, .. } => fits(data.compare.len()) && fits(data.write.len()),
        _ => true,
    };
    let compares = matches!(operation, Operation::Compare { .. } | Operation::CompareAndWrite { .. });
    if compares && !features.contains(Features::COMPARE) {
        return Err(VolumeErrorKind::Unsupported);
    }
    if whole && !too_long(operation, extent, bytes, limits) {
        return Ok(());
    }
    Err(VolumeErrorKind::Misaligned)
}

fn too_long(operation: &Operation, extent: Extent, bytes: u64, limits: &Limits) -> bool {
    match operation {
        Operation::Discard { .. } | Operation::WriteZeroes { .. } => extent.blocks > limits.max_discard,
        Operation::QueryAllocation { .. } | Operation::Flush => false,
        _ => bytes > u64::from(limits.max_transfer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservation::Command;

    #[test]
    fn a_local_volume_has_no_reservations_of_its_own() {
        let geometry = Geometry { blocks: 8, block_size: 512, physical_block_size: 512 };
        for operation in [Operation::ReadReservations, Operation::Reserve(Command::Clear { key: 1 })] {
            let refused = check(&operation, geometry, &Limits::default(), Features::empty());
            assert_eq!(refused, Err(VolumeErrorKind::Unsupported));
        }
        assert_eq!(check(&Operation::Flush, geometry, &Limits::default(), Features::empty()), Ok(()));
    }
}
