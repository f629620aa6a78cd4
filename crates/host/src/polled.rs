//! Memory that somebody else writes: a core looks at it while it is awake, and asks for a notification before it sleeps.

/// What a core looks at by itself. It is the core's own, and is forgotten once its owner has dropped it.
pub trait Polled {
    /// Whether something has come. It is asked again and again while the core looks for work: it costs little, and wakes whoever is to take what has come.
    fn has_news(&self) -> bool;

    /// The core is about to sleep: whatever comes from now on has to notify it, through a descriptor that it watches. True if something has come already; the core then stays awake.
    fn begin_sleep(&self) -> bool;

    /// The core is awake, and looks for itself.
    fn end_sleep(&self);
}
