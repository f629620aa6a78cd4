//! Who hears which arenas a pool has.

use crate::arena::ArenaSpan;

/// Hears of a pool's arenas, on the pool's thread: a device that registers each of them once.
///
/// It must not use the pool while it hears of one.
pub trait ArenaObserver {
    /// The pool has this arena from now on. No buffer of it has been given out, unless the pool had it before it was watched.
    fn added(&self, arena: ArenaSpan);

    /// The pool has this arena no longer, and none of its buffers is out. Its memory goes back to its source when this has returned.
    fn removed(&self, arena: ArenaSpan);
}
