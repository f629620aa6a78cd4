//! Thresholds and bounds of measuring, with unit and reason.

use std::time::Duration;

/// Per cent of the machine's processors that may be foreign in a window before it is flagged as contended: identical runs then still agree within a few per cent.
pub const FOREIGN_PERCENT: f64 = 5.0;
/// Seconds of each processor that may be foreign in any window, however short: two clock ticks, as the machine's counters are off by one at either end.
pub const FOREIGN_SECONDS: f64 = 0.02;
/// Per cent of a resource's capacity above which it is said to limit: queues grow without bound from there on.
pub const LIMITING_PERCENT: f64 = 90.0;
/// Share of a processor's work that must be for the sides bound to it, or it is said to be shared: interrupts of the arm's own packets take up to a quarter.
pub const OWN_SHARE: f64 = 0.75;
/// Time between two samples of sides and processors: the most by which the interpolated edge of a window lies between them. Reading control groups ten times a second takes less than 0.1 % of a processor.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Time between two samples where sides are process trees: the whole of `/proc` is read for each, which takes milliseconds.
pub const SAMPLE_TREES_EVERY: Duration = Duration::from_millis(500);
/// Time between two looks at memory and threads, for each of which files of every process are read.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time between two looks at the kernel's threads while a window lasts, beside those at its ends: the whole of `/proc` is read for each.
pub const LOOK_AT_KERNEL_EVERY: Duration = Duration::from_secs(2);
/// Sources of interrupts that a result names, the busiest: machines with hundreds of queues have thousands.
pub const INTERRUPT_SOURCES: usize = 64;
/// Samples that a window keeps: seven minutes at first. At the limit every second one is let go and the time between them doubles, so that memory stays bounded on machines with hundreds of processors.
pub const SAMPLES: usize = 4096;
/// Seconds by which a window may reach beyond what was sampled, for the rounding of a tool's own times.
pub const EDGE_SECONDS: f64 = 0.25;
/// Seconds of an interval of the series in a result.
pub const INTERVAL_SECONDS: f64 = 1.0;
/// Shortest last interval that counts by itself, in seconds: at less, the kernel's clock ticks (10 ms) would be whole per cents.
pub const SHORTEST_INTERVAL: f64 = 0.5;
/// Attempts to remove a control group whose last process has just ended: the kernel lets go of it a little later.
pub const REMOVE_ATTEMPTS: u32 = 100;
/// Time between two such attempts.
pub const REMOVE_PAUSE: Duration = Duration::from_millis(5);
/// Share of its base frequency below which a busy processor is said to be slowed: governors settle within a few per cent of it under load.
pub const SLOWED_SHARE: f64 = 0.8;
/// Busy per cent from which a processor's frequency says anything: governors lower the clock of an idle one on purpose.
pub const SLOWED_BUSY_PERCENT: f64 = 50.0;
/// Per cent of the machine's processors that may be busy before a run starts: the same as may be foreign while it lasts.
pub const QUIET_BUSY_PERCENT: f64 = FOREIGN_PERCENT;
/// Per cent of the time in which some process may have waited for a processor before a run starts (PSI, `some`): short waits are part of any wake-up.
pub const QUIET_PRESSURE_PERCENT: f64 = 10.0;
/// Time over which it is decided whether the machine is quiet: a hundred clock ticks, so that one tick is one per cent of a processor.
pub const QUIET_LOOK: Duration = Duration::from_secs(1);
/// Processes that are named as disturbing: more would hide the one that matters.
pub const DISTURBERS: usize = 5;
/// Least per cent of one processor at which a process is named as disturbing.
pub const DISTURBER_PERCENT: f64 = 2.0;
/// Time that a program may take to say its version; one that takes longer is listed without.
pub const VERSION_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes of what a program says of its version that are kept: a line, not a licence.
pub const VERSION_BYTES: usize = 120;
/// Intervals below which nothing is said about a steady state: the five rounds of SNIA's performance test specification.
pub const STEADY_INTERVALS: usize = 5;
/// Most drift of the fitted line across the window, as a share of the mean rate (SNIA PTS: 10 %).
pub const STEADY_DRIFT: f64 = 0.10;
/// Share of the median rate below which an interval is a stall: no scheduling noise takes nine tenths of a second.
pub const STALL_SHARE: f64 = 0.10;
