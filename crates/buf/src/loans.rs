//! How much of a volume's memory is lent.
//!
//! A block keeps its clone of the count until it is idle, so that the count needs neither the block nor the buffers.

use alloc::sync::Arc;

/// How many buffers stand for memory that was lent with this count ([`Buf::lend`](crate::Buf::lend)). Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Loans(Arc<()>);

impl Loans {
    /// Those whose last holder has not let go yet.
    pub fn out(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}
