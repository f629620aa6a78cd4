//! Conversions between integer widths that lose nothing, in one place.

/// An index or a length in memory. Nothing is lost: addresses have 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, as the assertion says")]
pub(crate) const fn index(number: u64) -> usize {
    const { assert!(usize::BITS == u64::BITS, "memory is addressed with 64 bits") };
    number as usize
}
