//! What cores share pages through: the standard library's locks, or shuttle's, which try out the orders in which cores can come.

#[cfg(not(shuttle))]
pub(super) use std::sync::{
    RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, Ordering},
};

#[cfg(shuttle)]
pub(super) use shuttle::sync::{
    RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, Ordering},
};
