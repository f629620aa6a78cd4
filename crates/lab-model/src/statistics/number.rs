//! Counts as numbers of other types: the one place where the lab says that it knows what is lost.

/// A count as a number to compute with.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53: more I/Os or bytes than a window can hold")]
pub const fn real(count: u64) -> f64 {
    count as f64
}

/// A length as a number to compute with.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, which no list in memory reaches")]
pub const fn real_length(length: usize) -> f64 {
    length as f64
}

/// A length as a count; lists in memory stay far below the most that it can say.
pub fn count(length: usize) -> u32 {
    wire::saturate(length)
}
