//! The engine's own limits; `docs/limits.md` lists all.

/// How many connections a process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The most connections at a time, over all protocols, on each core.
    pub per_core: usize,
}

impl Default for ConnectionLimits {
    /// 1,024 on each core: below the usual descriptor limit, which the daemon takes into account.
    fn default() -> Self {
        Self { per_core: 1024 }
    }
}

/// Completions taken from a queue at a time, as a first guess of the scratch list's size.
pub(crate) const COMPLETIONS_GUESS: usize = 256;

/// Requests that a connection may have parked because a volume's queue was full. Connections are bounded by their own
/// command windows, so this only sizes the list.
pub(crate) const PARKED_GUESS: usize = 64;

/// Buffers of one initiator connection, for what it receives outside a request's own memory, in bytes.
pub(crate) const CLIENT_POOL: usize = 16 << 20;
