//! Another portal takes the place of a connection's own: what is served changes while hosts are connected.
//!
//! Whoever is not connected yet finds what is served now. A discovery controller reports that its log page has changed. The queues of a subsystem that is
//! the very same see nothing at all; where it has changed, the admin queue reports each namespace that is otherwise (NVMe Base §5.1.12.1.5), and commands to a
//! namespace that is gone end; for a while its identifier names nothing. No host can be asked to leave a controller: when the subsystem is gone, or not open
//! to the host any more, the admin queue shows no namespace from then on, so that a host with another path goes over to that, and [`WITHDRAW_TIME`] later the
//! queues end. A host that connects again is refused for good. `portal_change.table` has every case.

use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::Instant;
use volume::VolumeId;

use super::connect::{HOST_NOT_ALLOWED, NO_SUBSYSTEM};
use super::{ControllerQueue, Joining, State};
use crate::controller::Portal;
use crate::controller::abort_table::Ending;
use crate::controller::admin::Event;
use crate::controller::fabric_transport::FabricTransport;
use crate::controller::io::Namespaces;
use crate::controller::service::Service;
use crate::controller::slots::{Slots, Step};
use crate::controller::subsystem::{NamespaceKey, Subsystem};
use crate::limits::{REPORT_TIME, REUSE_TIME, WITHDRAW_TIME};
use crate::opcode::nvm;
use crate::sqe::ALL_NAMESPACES;
use crate::subsystem::ConnectError;

/// How far a connection is, as far as another portal matters to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
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
enum Change {
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
enum Reaction {
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
const fn reaction(stage: Stage, change: Change) -> Reaction {
    match (stage, change) {
        (Stage::Discovery, _) => Reaction::ShowLog,
        (Stage::Unconnected | Stage::Ending, _)
        | (Stage::Connecting | Stage::Connected, Change::Unchanged) => Reaction::Keep,
        (Stage::Connecting | Stage::Connected, Change::Altered) => Reaction::Replace,
        (Stage::Connecting, Change::Gone) => Reaction::Refuse(NO_SUBSYSTEM),
        (Stage::Connecting, Change::Closed) => Reaction::Refuse(HOST_NOT_ALLOWED),
        (Stage::Connected, Change::Gone) => Reaction::Withdraw("the subsystem is not served any more"),
        (Stage::Connected, Change::Closed) => {
            Reaction::Withdraw("this host may not use the subsystem any more")
        }
    }
}

/// What has become of the host's subsystem.
fn change(before: Option<&Arc<Subsystem>>, now: Option<&Arc<Subsystem>>, hostnqn: &str) -> Change {
    match (before, now) {
        (_, None) => Change::Gone,
        (Some(before), Some(now)) if Arc::ptr_eq(before, now) => Change::Unchanged,
        (_, Some(now)) if now.allows(hostnqn) => Change::Altered,
        _ => Change::Closed,
    }
}

impl<T: FabricTransport> ControllerQueue<T> {
    /// True while a namespace that it shows, or a request that it has made, is on the volume. Looks at everything: not to be asked often.
    pub fn uses(&self, volume: VolumeId) -> bool {
        let shows = match &self.state {
            // Nothing is begun any more.
            _ if self.close.is_some() => false,
            State::Io(namespaces) => namespaces.uses(volume),
            State::Admin(admin) => admin.service.subsystem().is_some_and(|shown| shown.uses(volume)),
            State::Connecting(_, joining) => match &**joining {
                Joining::Admin(admin) => admin.service.subsystem().is_some_and(|shown| shown.uses(volume)),
                Joining::Io(subsystem) => subsystem.uses(volume),
            },
            State::ExpectConnect => false,
        };
        shows || self.slots.submitted().any(|(submitted, _)| submitted == volume)
    }

    /// True when its subsystem is withdrawn from the host: the queue ends soon.
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn.reason().is_some()
    }

    /// True when the host hears over this connection what has changed, and may ask for it over another at once.
    pub fn reports_changes(&self) -> bool {
        matches!(self.state, State::Admin(_))
    }

    /// What is served is this from now on.
    pub(super) fn handle_portal_change(&mut self, now: Instant, portal: Arc<Portal>) {
        let before = core::mem::replace(&mut self.portal, portal);
        let (nqn, hostnqn) = (self.asked.as_deref(), self.host.as_ref().map(|host| &*host.nqn));
        let [before, after] = [&before, &self.portal].map(|portal| nqn.and_then(|nqn| portal.find(nqn)));
        let change = change(before, after, hostnqn.unwrap_or_default());
        match reaction(self.stage(), change) {
            Reaction::Keep => {}
            Reaction::ShowLog => self.show_log(),
            Reaction::Replace => self.replace_subsystem(now),
            Reaction::Refuse(error) => {
                if let State::Connecting(slot, _) = self.state {
                    // The group may still agree: there is nobody any more to hear of that.
                    self.state = State::ExpectConnect;
                    self.refuse_connect(slot, error);
                }
            }
            Reaction::Withdraw(reason) => self.withdraw_subsystem(now, reason),
        }
    }

    fn stage(&self) -> Stage {
        let of = |service: &Service, stage| match service {
            Service::Subsystem(_) => stage,
            Service::Discovery(_) => Stage::Discovery,
        };
        match &self.state {
            _ if self.close.is_some() || self.withdrawn.reason().is_some() => Stage::Ending,
            State::ExpectConnect => Stage::Unconnected,
            State::Connecting(_, joining) => match &**joining {
                Joining::Admin(admin) => of(&admin.service, Stage::Connecting),
                Joining::Io(_) => Stage::Connecting,
            },
            State::Admin(admin) => of(&admin.service, Stage::Connected),
            State::Io(_) => Stage::Connected,
        }
    }

    /// Shows the discovery log page of the new portal, and reports that it has changed if the host sees a difference.
    fn show_log(&mut self) {
        let joining = match &mut self.state {
            State::Admin(admin) => Some(admin),
            State::Connecting(_, joining) => match &mut **joining {
                Joining::Admin(admin) => Some(admin),
                Joining::Io(_) => None,
            },
            _ => None,
        };
        let Some(admin) = joining else { return };
        let hostnqn = Arc::clone(&admin.host.nqn);
        if let Service::Discovery(discovery) = &mut admin.service
            && discovery.replace(&self.portal, &hostnqn)
        {
            admin.notify(Event::Discovery);
        }
        self.after_admin();
    }

    /// Shows the subsystem of the portal, without what was withdrawn just now.
    fn replace_subsystem(&mut self, now: Instant) {
        let (Some(nqn), Some(host)) = (&self.asked, &self.host) else { return };
        let Some(subsystem) = self.portal.find(nqn).map(|found| found.masked(&host.nqn)) else { return };
        let (gone, until) = match &self.state {
            State::Admin(admin) => (admin.gone_from(&subsystem), now + REPORT_TIME),
            State::Io(namespaces) => (namespaces.gone_from(&subsystem), now + REUSE_TIME),
            _ => (Vec::new(), now),
        };
        self.withdrawn.add(&gone, until);
        let subsystem = self.withdrawn.hide_from(subsystem);
        match &mut self.state {
            State::Connecting(_, joining) => match &mut **joining {
                Joining::Admin(admin) => admin.service = Service::Subsystem(subsystem),
                Joining::Io(joined) => *joined = subsystem,
            },
            State::Admin(admin) => admin.replace(subsystem),
            State::Io(namespaces) => {
                namespaces.replace(&subsystem);
                renumber(&mut self.slots, namespaces);
                self.apply_reservations();
            }
            State::ExpectConnect => {}
        }
        self.end_withdrawn(now, &gone);
        self.after_admin();
        self.renew_deadline();
    }

    /// Shows what has the identifiers of namespaces that have been gone for long enough.
    pub(super) fn show_again(&mut self, now: Instant) {
        if self.withdrawn.release(now) {
            self.replace_subsystem(now);
        } else {
            self.renew_deadline();
        }
    }

    /// The subsystem is no longer for this host: the queue ends soon.
    fn withdraw_subsystem(&mut self, now: Instant, reason: &'static str) {
        self.withdrawn.add_subsystem(now + WITHDRAW_TIME, reason);
        if let State::Admin(admin) = &mut self.state {
            admin.hide();
            self.after_admin();
        }
        self.renew_deadline();
    }

    /// A connected queue is looked at when something that was withdrawn asks for it; an admin queue also when its controller is not kept alive.
    fn renew_deadline(&mut self) {
        let end = match &self.state {
            State::Admin(_) => self.lifetime.end(),
            State::Io(_) => None,
            _ => return,
        };
        self.deadline = end.into_iter().chain(self.withdrawn.due()).min();
    }

    /// Lets the commands to namespaces that are gone end. A flush of all namespaces that is just at one of them ends too, and may be tried again.
    fn end_withdrawn(&mut self, now: Instant, gone: &[NamespaceKey]) {
        let mut concerned = Vec::new();
        for index in self.slots.under_way() {
            let Some(slot) = self.slots.get(index) else { continue };
            let (nsid, volume) = (slot.entry.nsid.get(), slot.step.volume());
            let ending = if gone.iter().any(|key| key.nsid == nsid) {
                Ending::Withdrawn
            } else if nsid == ALL_NAMESPACES && gone.iter().any(|key| Some(key.volume) == volume) {
                Ending::Dropped
            } else {
                continue;
            };
            // What waits in line leaves it before any memory comes free: it would begin on the namespace that has the identifier now.
            if self.leave_line(index) {
                self.aborts.add(index, ending);
                self.finish_aborted(index);
            } else {
                concerned.push((index, ending));
            }
        }
        for (index, ending) in concerned {
            self.end_command(now, index, ending);
        }
    }
}

/// What commands know by a namespace's position they know by its new one.
fn renumber(slots: &mut Slots, namespaces: &Namespaces) {
    for index in slots.indices() {
        let Some(slot) = slots.get(index) else { continue };
        let nsid = slot.entry.nsid.get();
        match &mut slot.step {
            Step::Data { transfer: Some(transfer), .. } => transfer.namespace = namespaces.position(nsid),
            Step::Submitted { volume, position, .. }
                if slot.entry.opcode == nvm::FLUSH && nsid == ALL_NAMESPACES =>
            {
                position.next = namespaces.flushed_with(*volume);
            }
            _ => {}
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
