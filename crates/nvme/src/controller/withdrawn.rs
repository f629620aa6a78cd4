//! What a connection's host may not use any more: namespaces, or the whole subsystem.
//!
//! The identifier of a namespace that is gone names nothing for a while. Commands to it may still be on their way, and would reach the volume that has the
//! identifier next: writes meant for one disk would land on another, without anything that a host could notice.

use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::{CloseReason, Instant};

use super::subsystem::{NamespaceKey, Subsystem};

/// A namespace that is gone.
#[derive(Debug)]
struct WithdrawnNamespace {
    nsid: u32,
    /// Until when the identifier names nothing.
    until: Instant,
}

/// A subsystem that is gone.
#[derive(Debug)]
struct WithdrawnSubsystem {
    /// When the queue ends.
    due: Instant,
    reason: &'static str,
}

/// What was withdrawn from one connection.
#[derive(Debug, Default)]
pub(super) struct Withdrawn {
    namespaces: Vec<WithdrawnNamespace>,
    subsystem: Option<WithdrawnSubsystem>,
}

impl Withdrawn {
    /// These namespaces are gone; their identifiers name nothing until then.
    pub(super) fn add(&mut self, gone: &[NamespaceKey], until: Instant) {
        self.namespaces.retain(|known| gone.iter().all(|key| key.nsid != known.nsid));
        self.namespaces.extend(gone.iter().map(|key| WithdrawnNamespace { nsid: key.nsid, until }));
    }

    /// The subsystem is gone, and the queue ends then.
    pub(super) fn add_subsystem(&mut self, due: Instant, reason: &'static str) {
        self.namespaces.clear();
        self.subsystem = Some(WithdrawnSubsystem { due, reason });
    }

    /// The subsystem without the namespaces whose identifiers still name nothing.
    pub(super) fn hide_from(&self, subsystem: Arc<Subsystem>) -> Arc<Subsystem> {
        let hidden = |nsid| self.namespaces.iter().any(|namespace| namespace.nsid == nsid);
        if !subsystem.namespaces.iter().any(|namespace| hidden(namespace.nsid)) {
            return subsystem;
        }
        let shown = subsystem.namespaces.iter().filter(|namespace| !hidden(namespace.nsid));
        Arc::new(subsystem.with_namespaces(shown.cloned().collect()))
    }

    /// Forgets the namespaces whose time is over; false if there is none.
    pub(super) fn release(&mut self, now: Instant) -> bool {
        let before = self.namespaces.len();
        self.namespaces.retain(|namespace| namespace.until > now);
        self.namespaces.len() < before
    }

    /// How the connection ends, once the subsystem is gone.
    pub(super) fn reason(&self) -> Option<CloseReason> {
        self.subsystem.as_ref().map(|subsystem| CloseReason::Withdrawn(subsystem.reason))
    }

    /// When there is something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        let namespaces = self.namespaces.iter().map(|namespace| namespace.until);
        namespaces.chain(self.subsystem.as_ref().map(|subsystem| subsystem.due)).min()
    }
}

#[cfg(test)]
mod tests {
    use volume::VolumeId;

    use super::*;

    #[test]
    fn an_identifier_names_nothing_until_its_time_is_over() {
        let at = Instant::from_nanos;
        let gone = |nsid| NamespaceKey { nsid, volume: VolumeId::new(0, 0) };
        let mut withdrawn = Withdrawn::default();
        assert_eq!((withdrawn.due(), withdrawn.release(at(100))), (None, false));
        withdrawn.add(&[gone(1), gone(2)], at(5));
        withdrawn.add(&[gone(2)], at(9));
        assert_eq!((withdrawn.due(), withdrawn.release(at(4))), (Some(at(5)), false));
        assert_eq!((withdrawn.release(at(5)), withdrawn.due()), (true, Some(at(9))));
        withdrawn.add_subsystem(at(20), "gone");
        assert_eq!(withdrawn.due(), Some(at(20)));
        assert_eq!(withdrawn.reason(), Some(CloseReason::Withdrawn("gone")));
    }
}
