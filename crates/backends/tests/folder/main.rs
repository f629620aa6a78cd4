//! Folders as file systems, on the reactor's real folders.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bench;
mod contract;
