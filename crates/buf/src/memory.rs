//! The sizes of a pool's blocks: powers of two, aligned as direct I/O wants them.

/// The smallest size class, in bytes.
const SMALLEST: usize = 512;
/// Size classes: powers of two from [`SMALLEST`] to [`LARGEST`].
pub(crate) const CLASSES: usize = 15;
/// The largest buffer that a pool gives out: 8 MiB.
pub const LARGEST: usize = SMALLEST << (CLASSES - 1);
/// Memory of this size and above is aligned to it, in bytes, as direct I/O wants; smaller to its size.
pub(crate) const ALIGNMENT: usize = 4096;

/// The size class that holds `len` bytes.
pub(crate) const fn class_of(len: usize) -> usize {
    // The highest bit of the last byte's number says more quickly than `next_power_of_two` which power of two holds it.
    let last = len.saturating_sub(1) | (SMALLEST - 1);
    (last.ilog2() + 1 - SMALLEST.ilog2()) as usize
}

/// Bytes of a class's memory.
pub(crate) const fn size_of(class: usize) -> usize {
    SMALLEST << class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_has_the_smallest_class_that_holds_it() {
        for (len, size) in [(0, 512), (512, 512), (513, 1024), (4096, 4096), (LARGEST - 1, LARGEST)] {
            assert_eq!(size_of(class_of(len)), size, "{len}");
        }
        assert_eq!(size_of(CLASSES - 1), LARGEST);
    }
}
