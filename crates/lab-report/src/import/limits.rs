//! How much of somebody else's file is read: a wrong file is refused before it fills the memory.

/// The longest file that is imported, in bytes: hours of Perfmon samples fit; longer logs are split by the tool that wrote them
/// (`relog -b -e`, `sadf -s -e`).
pub const LONGEST_FILE: u64 = 64 << 20;
/// The most points of one import: a run directory holds a folder for each.
pub const MOST_POINTS: usize = 10_000;
/// The most samples kept of one point, one for each second or so: a day and a little more.
pub const MOST_INTERVALS: usize = 100_000;
/// The most further figures kept of one point: Perfmon logs name a counter for every instance of every object.
pub const MOST_EXTRA: usize = 1_000;
/// The most columns of a table: Perfmon logs of whole clusters have tens of thousands.
pub const MOST_COLUMNS: usize = 65_536;
