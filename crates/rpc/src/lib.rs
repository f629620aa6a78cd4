//! ONC remote procedure calls, version 2, and their external data representation: what NFS stands on.
//!
//! Which part of which standard is where:
//!
//! | standard | module |
//! |---|---|
//! | RFC 4506 (XDR) | [`xdr`] |
//!
//! Architecture invariant: no socket, clock, thread or random source; nothing here knows a program that is called.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]
extern crate alloc;

pub mod xdr;
