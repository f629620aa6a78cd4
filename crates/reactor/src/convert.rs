//! Conversions between integer widths, in one place: what is lost, if anything, stands here.

pub(crate) use wire::index;

/// A position in one of the core's lists, as 32 bits: no list has as many entries as that can count.
pub(crate) fn position(index: usize) -> u32 {
    wire::bounded(index)
}

/// The length of one system call, of whose rest the next one is asked: 4 GiB at most.
pub(crate) fn call_length(bytes: usize) -> u32 {
    wire::saturate(bytes)
}

/// A constant of the C library that names bits: its sign means nothing.
pub(crate) const fn bits(constant: i32) -> u32 {
    constant.cast_unsigned()
}
