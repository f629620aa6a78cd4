//! Folders as file systems, on the reactor's real folders.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bench;
mod content;
mod contract;
mod escapes;
