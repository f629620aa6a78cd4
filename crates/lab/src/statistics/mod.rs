//! What may be said of noisy pairs: ratios with intervals, corrected over many points, as verdicts in words.

pub mod bootstrap;
pub mod histogram;
pub mod metric;
pub(crate) mod number;
pub mod random;
pub mod student;
