//! Conversions between integer widths that lose nothing, in one place.

pub(crate) use wire::index;

/// A length that a protocol's limits keep below 4 GiB, as 32 bits.
pub(crate) fn short(length: usize) -> u32 {
    wire::bounded(length)
}
