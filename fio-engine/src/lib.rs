//! fio's external engine: `fio --ioengine=external:PATH/liblinerate-fio.so --uri=nvme+tcp://…`.
//!
//! The thread (or process) of a fio job is the event loop: [`Session`] keeps one inline, so that between a completion
//! and the next request no other thread has to wake up. Requests are only stored until fio asks for completions, which
//! it does before it waits for anything; what has gathered by then goes out together.
//!
//! | file | what |
//! |---|---|
//! | `session` | one job: volumes, requests, completions, in words that are not fio's |
//! | `memory` | fio's buffers, lent for the time of a request |
//! | `shim` | the C interface of this side |
//! | `shim.c` | fio's side: the only file that sees fio's structures |
//!
//! fio's structures differ from release to release, so one build fits one release, and the engine refuses any other
//! before it has touched anything of fio's. `shim` and `shim.c` are compiled only with the feature `shim`.
#![expect(unsafe_code, reason = "memory and functions of a C program: confined to `memory` and `shim`")]

mod memory;
mod session;
#[cfg(feature = "shim")]
pub mod shim;

pub use memory::Memory;
pub use session::{Ask, Kind, Session};
