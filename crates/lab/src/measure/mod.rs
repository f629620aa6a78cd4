//! Measuring what a run costs: processor time and memory by side, the link, what limits, the environment.
//!
//! The publications counted the host's processors and did not say how. Here each side of an arm (`host`, `adapter`,
//! `target`) is a [`Side`] with a control group of its own, a [`Window`] counts what all of them and the machine
//! spent in the measured window, and what belongs to none of them is *foreign* and flagged. Everything is read from
//! `/proc`, `/sys` and control groups, so nothing of a target or a load tool needs to be trusted or changed.

pub mod cgroup;
pub mod cpu;
pub mod limits;
pub mod network;
pub mod process;
pub mod side;
pub mod threads;
pub mod throttle;
pub mod tree;
pub mod window;

pub use side::{Role, Side, Sides};
pub use window::{Counted, Window};

/// A count as a floating-point number, for rates and shares.
#[expect(
    clippy::cast_precision_loss,
    reason = "a share of counts above 2^53 loses nothing that anybody could see"
)]
pub(crate) const fn float(count: u64) -> f64 {
    count as f64
}
