//! The machine's own clock: what results and tools note their times in.

use std::time::{SystemTime, UNIX_EPOCH};

/// Two moments of a clock, in seconds since 1970, and what lies between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Period {
    /// The earlier one.
    pub from: f64,
    /// The later one.
    pub to: f64,
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
