//! Mistakes that tests plant, to see that they are found. A program has none of them.

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A write is acknowledged though a leg that should have it does not.
    EarlyAcknowledgement,
    /// A write does not wait for its dirty bits.
    SkippedBit,
    /// A leg that is out serves reads.
    StaleLeg,
    /// A preemption leaves the commands of the preempted owner under way.
    PreemptionWithoutAbort,
    /// A reservation lets all who are registered write, though an NVMe host is one registrant with all of its queues.
    SharedAccess,
    /// The legs' reservations are given back while writes are under way.
    EarlyRelease,
    /// A leg that has lost what it had acknowledged is taken for what it was.
    TrustedLiar,
}

#[cfg(test)]
pub(crate) use switch::{plant, planted};

/// No: this is no test.
#[cfg(not(test))]
pub(crate) const fn planted(_fault: Fault) -> bool {
    false
}

#[cfg(test)]
mod switch {
    use std::cell::Cell;

    use super::Fault;

    thread_local!(static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) });

    /// True if the mistake is to be made on this thread.
    pub(crate) fn planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Plants a mistake on this thread, or takes it out.
    pub(crate) fn plant(fault: Option<Fault>) {
        PLANTED.set(fault);
    }
}
