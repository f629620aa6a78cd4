//! The only `unsafe` code of the adapter: commands whose memory the kernel reads or writes by address, and memory that it shares.
//!
//! A [`Control`] command names the caller's buffer, and returns only when the kernel is done with it. [`Commands`] name no memory at all.
//! [`Descriptors`] are a mapping that lives as long as they do.
#![expect(unsafe_code, reason = "addresses given to the kernel; see the module's documentation")]

mod commands;
mod control;
mod descriptors;

pub(crate) use commands::{Commands, Event};
pub(crate) use control::Control;
pub(crate) use descriptors::Descriptors;
