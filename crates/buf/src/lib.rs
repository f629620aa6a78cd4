//! Data buffers: ownership is the permission.
//!
//! * [`Buf`] is unique and writable. It comes from a per-core [`Pool`] (aligned for direct I/O) or from
//!   foreign memory with its owner ([`Buf::foreign`]: fio, C callers, virtual machines).
//! * [`Buf::freeze`] turns it into a [`SharedBuf`]: read-only, counted, sliceable. Nobody can write memory
//!   that somebody else may be reading, so nothing is ever borrowed across an I/O.
//! * [`BufList`] is a sequence of shared pieces, which becomes one vectored transfer.
//!
//! Running out of buffers is a *state*, never an allocation: [`Pool::take`] answers `None` at the pool's
//! limit, and whoever asked waits until [`Pool::returns`] has moved. That is the memory limit and the
//! back-pressure of the whole system.
//!
//! An [`Account`] is one connection's part of a pool: what it holds, in buffers and elsewhere, and whether it may have more while others want some.
//!
//! A pool's buffers lie in *arenas*, large stretches of the memory of its [`MemorySource`]. A device registers each of them once ([`Pool::watch_arenas`]), and finds a
//! buffer in them by [`Buf::location`] and [`SharedBuf::location`].
//!
//! This is one of the few crates with `unsafe` code (ARCHITECTURE.md): `block` holds the raw memory and the
//! counts of holders, `store` the lists of idle blocks, `arena` and `source` the memory that they lie in; everything else builds on their checked interfaces.
//!
//! Without its feature `std` the crate needs an allocator and nothing else. Nobody can say then which thread calls, so that a [`Pool`] and its
//! [`Account`]s stay on the thread that made them; buffers travel as ever.
#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![expect(unsafe_code, reason = "counted, pooled and foreign memory: what this crate is for")]

extern crate alloc;

mod account;
mod arena;
mod arenas;
mod block;
mod foreign;
mod gaps;
mod ledger;
mod limits;
mod list;
mod loans;
mod memory;
mod observer;
mod owned;
mod pool;
mod shared;
mod source;
mod store;
mod sync;

pub use account::{Account, Outside};
pub use arena::{ArenaId, ArenaOffset, ArenaSpan};
pub use foreign::Foreign;
pub use ledger::Standing;
pub use limits::ARENA_SLACK;
pub use list::BufList;
pub use loans::Loans;
pub use memory::LARGEST;
pub use observer::ArenaObserver;
pub use owned::Buf;
pub use pool::{ArenaWatch, Pool, PoolUse};
pub use shared::SharedBuf;
pub use source::{Heap, MemorySource};
