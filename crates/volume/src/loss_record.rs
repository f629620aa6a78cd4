//! Where a volume keeps that acknowledged writes are lost, so that whoever opens it next knows. It is apart from [`crate::Losses`], as every
//! volume names it.

use alloc::boxed::Box;
use core::fmt;

/// Keeps what a volume says of lost writes for whoever opens it next.
pub trait LossRecord: Send + Sync + fmt::Debug {
    /// Keeps `what`, which is for people, and tells the operator. Returns at once; `kept` is called, on any thread, when it is on
    /// stable media, or cannot be.
    fn keep(&self, what: &str, kept: Box<dyn FnOnce() + Send>);
}
