//! Local volumes over files in memory.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod file;
mod losses;
mod memory;
mod open;
