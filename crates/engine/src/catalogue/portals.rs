//! What is behind each listener, as it was proposed.
//!
//! A core brings the sizes in its copy of a portal up to date, so that a copy does not tell whether a portal has changed. What was proposed does: who composes
//! a catalogue takes over the portals that stay as they are, and connections that came to such a listener hear nothing.

use host::ListenerId;

use super::{Catalogue, ListenerRole, Listening};

/// The listeners of a catalogue.
#[derive(Debug, Clone)]
pub(crate) struct Portals(Vec<Listening>);

impl Portals {
    pub(crate) fn of(catalogue: &Catalogue) -> Self {
        Self(catalogue.listeners.clone())
    }

    fn role(&self, id: ListenerId) -> Option<&ListenerRole> {
        self.0.iter().find(|listening| listening.id == id).map(|listening| &listening.role)
    }

    /// True when another catalogue has the very same behind a listener.
    pub(crate) fn keeps(&self, id: ListenerId, next: &Self) -> bool {
        self.role(id).zip(next.role(id)).is_some_and(|(one, two)| one.is(two))
    }

    /// The listeners that another catalogue does not have, with nothing behind them.
    pub(crate) fn gone<'a>(&'a self, next: &'a Self) -> impl Iterator<Item = Listening> + 'a {
        let gone = self.0.iter().filter(|listening| next.role(listening.id).is_none());
        gone.map(|listening| Listening { role: listening.role.emptied(), ..listening.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Transport;
    use super::*;

    fn portals(roles: &[(u32, &ListenerRole)]) -> Portals {
        Portals(
            roles
                .iter()
                .map(|(id, role)| Listening {
                    id: ListenerId(*id),
                    transport: Transport::Tcp,
                    role: (*role).clone(),
                })
                .collect(),
        )
    }

    fn role() -> ListenerRole {
        ListenerRole::Iscsi(Arc::new(iscsi::target::Portal::new(Vec::<Arc<iscsi::target::Node>>::new())))
    }

    #[test]
    fn what_was_proposed_again_stays_and_an_equal_one_does_not() {
        let (kept, other) = (role(), role());
        let old = portals(&[(1, &kept), (2, &kept), (3, &kept)]);
        let next = portals(&[(1, &kept), (2, &other)]);
        assert!(old.keeps(ListenerId(1), &next));
        assert!(!old.keeps(ListenerId(2), &next));
        assert!(!old.keeps(ListenerId(3), &next));
        assert!(!old.keeps(ListenerId(4), &next));
        let gone: Vec<_> = old.gone(&next).map(|listening| listening.id).collect();
        assert_eq!(gone, [ListenerId(3)]);
    }
}
