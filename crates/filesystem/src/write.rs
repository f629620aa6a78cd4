//! How durable a write is.

/// What of a write is on stable media when it completes: stable_how (RFC 1813 §3.3.7), stable_how4 (RFC 8881 §18.32). Each promises more than those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stability {
    /// Nothing: a commit makes it durable.
    Unstable,
    /// The data, and what is needed to read it.
    DataSync,
    /// The data and all attributes.
    FileSync,
}

/// Tells whether unstable writes may be lost: writeverf3, verifier4. While it stays the same, none is; when it has moved, whoever has unstable writes that
/// no commit has covered writes them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteVerifier(pub [u8; 8]);
