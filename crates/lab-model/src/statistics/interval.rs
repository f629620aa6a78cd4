//! What an estimate lies between.

/// The ends of an interval, in the unit of the values that it is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end, at least `low`.
    pub high: f64,
}
