//! Version 3: carries out one procedure (RFC 1813 §3.3), with the exports, credentials, memory and anonymous access that version 4 has, too.
//!
//! | what | module |
//! |---|---|
//! | what a procedure asks for | `begin` |
//! | what it answers | `resume` |
//! | READDIR, READDIRPLUS | `listing`, and what is known meanwhile: `listed` |
//! | MOUNT | `mounting` |

mod begin;
mod env;
mod listed;
mod listing;
mod mounting;
mod resume;
mod running;

pub(crate) use mounting::Mounting;
pub(crate) use running::Running;
