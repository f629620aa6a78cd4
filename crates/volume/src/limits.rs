//! Every number of this crate, with its unit and its reason.

/// Bytes of a volume that one range lock covers: what small requests of file systems are aligned to.
pub(crate) const LOCK_UNIT: u64 = 4096;
/// Slots that all lock blocks of a volume share: 32 KiB, so that a slot is rarely wanted for two blocks at a time.
pub(crate) const LOCK_SLOTS: usize = 8192;
/// Failed attempts after which a queue reserves the locks: no other queue gets one until it has its own.
pub(crate) const LOCK_ATTEMPTS: u32 = 64;
