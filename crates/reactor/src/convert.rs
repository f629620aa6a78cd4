//! Conversions between integer widths, in one place: what is lost, if anything, stands here.

/// An index or a length in memory. Nothing is lost: addresses have 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, as the assertion says")]
pub(crate) const fn index(number: u64) -> usize {
    const { assert!(usize::BITS == u64::BITS, "memory is addressed with 64 bits") };
    number as usize
}

/// A position in one of the core's lists, as 32 bits: no list has as many entries as that can count.
pub(crate) fn position(index: usize) -> u32 {
    debug_assert!(u32::try_from(index).is_ok(), "{index} entries in a list of slots");
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The length of one system call, of whose rest the next one is asked: 4 GiB at most.
pub(crate) fn call_length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A constant of the C library that names bits: its sign means nothing.
pub(crate) const fn bits(constant: i32) -> u32 {
    constant.cast_unsigned()
}
