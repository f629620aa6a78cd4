//! Lengths and positions between the fields of PDUs and commands and memory. A value that does not fit saturates, in this file only: it is
//! above every limit in `limits`, so that the check of the limit refuses it.

const _: () = assert!(usize::BITS >= u32::BITS, "every 32-bit field fits");

/// A length or position of a 32-bit field, in memory.
#[inline]
pub(crate) const fn from_field(field: u32) -> usize {
    field as usize
}

/// A length or position of a 64-bit field, in memory.
#[inline]
pub(crate) fn from_wide(field: u64) -> usize {
    wire::index(field)
}

/// A length or position in memory, for a 32-bit field.
#[inline]
pub(crate) fn to_field(length: usize) -> u32 {
    wire::saturate::<u32>(length)
}
