//! Folders as file systems, on the reactor's real folders.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bench;
mod bridge;
mod content;
mod contract;
mod cores;
mod escapes;
mod listings;
mod losses;
mod poor_tree;
