//! Measuring what a run costs: processor time and memory by side, the link, what limits, the environment.
//!
//! The publications counted the host's processors and did not say how. Here each side of an arm (`host`, `adapter`,
//! `target`) is a [`Side`] with a control group of its own, a [`Window`] counts what all of them and the machine
//! spent in the measured window, and what belongs to none of them is *foreign* and flagged. Everything is read from
//! `/proc`, `/sys` and control groups, so nothing of a target or a load tool needs to be trusted or changed.

pub mod cgroup;
pub mod cpu;
pub mod device;
pub mod environment;
pub mod hardware;
mod kernel;
pub mod limiter;
pub mod limits;
pub mod network;
pub mod pressure;
pub mod process;
pub mod side;
pub mod steady;
pub mod threads;
pub mod throttle;
pub mod tree;
pub mod versions;
pub mod window;

pub use environment::Environment;
pub use side::{Role, Side, Sides};
pub use window::{Counted, Watched, Window};
