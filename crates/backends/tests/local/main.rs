//! Local volumes over files in memory.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod file;
mod memory;
mod open;
