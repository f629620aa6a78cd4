//! How much state a volume may have.

/// Bytes of the longest record: what a map of a large volume needs, and little enough to read whole when a process begins.
pub(super) const RECORD: usize = 1 << 20;
/// Letters of the longest name of a volume or a record: what fits into a file's name with an ending of ours.
pub(super) const NAME: usize = 128;
