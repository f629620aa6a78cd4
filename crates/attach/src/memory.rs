//! Memory for data on its way to a volume, on threads that are no cores.

use std::cell::OnceCell;

use buf::{Buf, Pool};

use crate::limits::THREAD_MEMORY;

/// Memory from a pool of the calling thread's own; beyond the pool's limit, or a length that no pool has, from the system.
pub(crate) fn memory(len: usize) -> Buf {
    thread_local!(static POOL: OnceCell<Pool> = const { OnceCell::new() });
    let take = |pool: &OnceCell<Pool>| pool.get_or_init(|| Pool::new(THREAD_MEMORY)).take(len);
    let pooled = (len <= buf::LARGEST).then(|| POOL.with(take)).flatten();
    pooled.unwrap_or_else(|| Buf::zeroed(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_buffer_is_as_long_as_asked_for() {
        assert_eq!(memory(4096).len(), 4096);
        assert_eq!(memory(buf::LARGEST + 1).len(), buf::LARGEST + 1);
        let kept: Vec<buf::SharedBuf> = (0..40).map(|_| memory(1 << 20).freeze()).collect();
        assert!(kept.iter().all(|piece| piece.len() == 1 << 20));
    }
}
