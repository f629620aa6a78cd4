//! Another portal takes the place of a connection's own: what is served changes while hosts are connected.
//!
//! Whoever is not connected yet finds what is served now. A discovery controller reports that its log page has changed. The queues of a subsystem that is
//! the very same see nothing at all; where it has changed, the admin queue reports each namespace that is otherwise (NVMe Base §5.1.12.1.5), and commands to a
//! namespace that is gone end; for a while its identifier names nothing. No host can be asked to leave a controller: when the subsystem is gone, or not open
//! to the host any more, the admin queue shows no namespace from then on, so that a host with another path goes over to that, and [`WITHDRAW_TIME`](crate::limits::WITHDRAW_TIME) later the
//! queues end. A host that connects again is refused for good. `portal_change.table` has every case.

use alloc::sync::Arc;

use super::subsystem::Subsystem;
use crate::subsystem::ConnectError;

/// How far a connection is, as far as another portal matters to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not said what it wants.
    Unconnected,
    /// It belongs to a discovery controller, or is about to.
    Discovery,
    /// Its group decides about a controller or queue of a subsystem.
    Connecting,
    /// It is a queue of a subsystem.
    Connected,
    /// It ends, now or soon.
    Ending,
}

/// What has become of a connection's subsystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It is the very same.
    Unchanged,
    /// It is served otherwise.
    Altered,
    /// It is not served any more.
    Gone,
    /// The host may not use it any more.
    Closed,
}

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Nothing.
    Keep,
    /// It shows the discovery log page of the new portal.
    ShowLog,
    /// It shows the subsystem of the new portal.
    Replace,
    /// It refuses the Connect.
    Refuse(ConnectError),
    /// It withdraws the subsystem, for this reason.
    Withdraw(&'static str),
}

/// What a connection does about another portal.
pub(super) const fn reaction(stage: Stage, change: Change) -> Reaction {
    match (stage, change) {
        (Stage::Discovery, _) => Reaction::ShowLog,
        (Stage::Unconnected | Stage::Ending, _)
        | (Stage::Connecting | Stage::Connected, Change::Unchanged) => Reaction::Keep,
        (Stage::Connecting | Stage::Connected, Change::Altered) => Reaction::Replace,
        (Stage::Connecting, Change::Gone) => Reaction::Refuse(ConnectError::NO_SUBSYSTEM),
        (Stage::Connecting, Change::Closed) => Reaction::Refuse(ConnectError::HOST_NOT_ALLOWED),
        (Stage::Connected, Change::Gone) => Reaction::Withdraw("the subsystem is not served any more"),
        (Stage::Connected, Change::Closed) => {
            Reaction::Withdraw("this host may not use the subsystem any more")
        }
    }
}

impl Change {
    /// What has become of a host's subsystem.
    pub(super) fn between(
        before: Option<&Arc<Subsystem>>,
        after: Option<&Arc<Subsystem>>,
        hostnqn: &str,
    ) -> Self {
        match (before, after) {
            (_, None) => Self::Gone,
            (Some(before), Some(after)) if Arc::ptr_eq(before, after) => Self::Unchanged,
            (_, Some(after)) if after.allows(hostnqn) => Self::Altered,
            _ => Self::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write as _;

    use super::*;

    #[test]
    fn table_of_all_reactions() {
        use Change::{Altered, Closed, Gone, Unchanged};
        use Stage::{Connected, Connecting, Discovery, Ending, Unconnected};
        let mut table = String::new();
        for stage in [Unconnected, Discovery, Connecting, Connected, Ending] {
            for change in [Unchanged, Altered, Gone, Closed] {
                let done = match reaction(stage, change) {
                    Reaction::Refuse(error) => alloc::format!("Refuse: {}", error.describe()),
                    Reaction::Withdraw(reason) => alloc::format!("Withdraw: {reason}"),
                    other => alloc::format!("{other:?}"),
                };
                writeln!(table, "{stage:?} --{change:?}--> {done}").unwrap();
            }
        }
        assert_eq!(table, include_str!("portal_change.table"));
    }
}
