//! How a volume can be reached, in the words of Asymmetric Namespace Access (NVMe Base §2.4.1) and ALUA (SPC-5 §5.18).

use core::fmt;

/// The state of the way to what a volume stands for. A volume of this machine is always reached as well as it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathState {
    /// As well as it can be.
    #[default]
    Optimized,
    /// With detours: everything works, and something faster exists.
    NonOptimized,
    /// Everything works, and so many of the parts that the volume is made of are missing: connections of its queues, or members of a mirror.
    Degraded {
        /// How many.
        missing: u16,
    },
    /// Not at all: requests wait, or fail. [`Volume::last_error`](crate::Volume::last_error) says why.
    Inaccessible,
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Optimized => f.write_str("optimized"),
            Self::NonOptimized => f.write_str("non-optimized"),
            Self::Degraded { missing } => write!(f, "degraded ({missing} missing)"),
            Self::Inaccessible => f.write_str("inaccessible"),
        }
    }
}
