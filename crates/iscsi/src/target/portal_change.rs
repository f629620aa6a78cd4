//! What a connection does when its portal serves something else from now on.
//!
//! A connection works on what its portal was when it began. What a change of the portal means to it depends on how far it is, and on what has become of the
//! target that it uses: [`decide`] has the table. A session whose target is gone, or no longer open to it, is asked to log out (RFC 7143 §11.9.1), and keeps
//! its logical units until it has, or the time for it is over: its initiator can flush first. Of a target that stays, a logical unit that is taken away goes at
//! once, as nobody can be asked to leave it.

use alloc::sync::Arc;

use protocol::{CloseReason, Instant};

use super::access::ProvenInitiator;
use super::connection::Target;
use super::portal::{Node, Portal};
use super::tasks::AbortedBy;
use crate::connection::State;
use crate::datamover::TargetDatamover;
use crate::pdu::Status;

/// What has become of the target that a connection uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetChange {
    /// It uses none: it has not named one yet, or looks for some.
    NotChosen,
    /// It is what it was.
    Unchanged,
    /// It is another, and open to the initiator.
    Changed,
    /// It is there, and not open to the initiator with what that has proved.
    NotOpen,
    /// It is not there.
    Gone,
}

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// Nothing: it is about to end.
    Nothing,
    /// It takes the portal, whose targets it may ask for.
    TakePortal,
    /// The login goes on, to what the target is now.
    TakeTarget,
    /// The session shows the logical units that the target has now.
    ReplaceUnits,
    /// The login fails.
    FailLogin(Status),
    /// The session is asked to end, for this reason.
    RequestLogout(&'static str),
}

/// The table of what a connection does.
fn decide(state: State, change: TargetChange) -> Decision {
    use TargetChange::{Changed, Gone, NotChosen, NotOpen, Unchanged};
    match (state, change) {
        (State::InLogin | State::LoggedIn, NotChosen | Unchanged) => Decision::TakePortal,
        (State::InLogin, Changed) => Decision::TakeTarget,
        (State::InLogin, NotOpen) => Decision::FailLogin(Status::AUTHORIZATION_FAILURE),
        (State::InLogin, Gone) => Decision::FailLogin(Status::NOT_FOUND),
        (State::LoggedIn, Changed) => Decision::ReplaceUnits,
        (State::LoggedIn, NotOpen) => {
            Decision::RequestLogout("the initiator may not use the target any more")
        }
        (State::LoggedIn, Gone) => Decision::RequestLogout("the target is not served any more"),
        (State::LogoutRequested | State::InLogout | State::Closing | State::Free, _) => Decision::Nothing,
    }
}

impl<D: TargetDatamover> Target<D> {
    /// True when the initiator was asked to log out because of what is served, and has not.
    pub fn is_withdrawn(&self) -> bool {
        matches!(self.life.logout_reason(), Some(CloseReason::Withdrawn(_)))
    }

    /// True when the initiator hears over this connection what has changed, and may ask for it elsewhere at once.
    pub fn reports_changes(&self) -> bool {
        self.life.state() == State::LoggedIn
    }

    /// The portal serves this from now on.
    pub(super) fn handle_portal_changed(&mut self, now: Instant, portal: Arc<Portal>) {
        match decide(self.life.state(), self.target_change(&portal)) {
            Decision::Nothing => {}
            Decision::TakePortal => self.take_portal(portal),
            Decision::TakeTarget => {
                self.take_target(&portal);
                self.take_portal(portal);
            }
            Decision::ReplaceUnits => {
                self.take_target(&portal);
                self.take_portal(portal);
                self.replace_units();
            }
            Decision::FailLogin(status) => self.refuse_login(status),
            Decision::RequestLogout(text) => self.request_logout(now, CloseReason::Withdrawn(text)),
        }
    }

    fn target_change(&self, portal: &Portal) -> TargetChange {
        let Some(login) = &self.login else { return TargetChange::NotChosen };
        let Some(node) = &login.node else {
            let is_open = !login.discovery || login.may_discover(portal);
            return if is_open { TargetChange::NotChosen } else { TargetChange::NotOpen };
        };
        match successor(node, portal) {
            None => TargetChange::Gone,
            Some(next) if Arc::ptr_eq(node, next) => TargetChange::Unchanged,
            Some(next) if login.may_use(next) && !self.would_lose_all_units(next) => TargetChange::Changed,
            Some(_) => TargetChange::NotOpen,
        }
    }

    /// True when a session that has logical units would have none of the target's.
    fn would_lose_all_units(&self, next: &Node) -> bool {
        let has_units =
            self.commands.nexus().server().is_some_and(|server| !server.device().units.is_empty());
        has_units && self.shown(next).is_some_and(|device| device.units.is_empty())
    }

    /// A target's device, as this initiator may see it.
    fn shown(&self, node: &Node) -> Option<Arc<scsi::TargetDevice>> {
        let login = self.login.as_ref()?;
        let proven = ProvenInitiator { initiator: login.initiator.as_ref()?, account: login.proven.as_ref() };
        Some(node.access.mask(&node.device, proven))
    }

    fn take_portal(&mut self, portal: Arc<Portal>) {
        if let Some(login) = &mut self.login {
            login.take_portal(&portal);
        }
        self.commands.window().set_most(portal.queue_depth);
        self.portal = portal;
    }

    fn take_target(&mut self, portal: &Portal) {
        if let Some(login) = &mut self.login
            && let Some(next) = login.node.as_ref().and_then(|node| successor(node, portal))
        {
            login.node = Some(Arc::clone(next));
        }
    }

    /// Shows the logical units that the target has now. Tasks of those that are gone end with TASK ABORTED.
    fn replace_units(&mut self) {
        let device = self.node().and_then(|node| self.shown(node));
        let Some((server, device)) = self.commands.server_mut().zip(device) else { return };
        let removed = server.replace(device);
        if !removed.is_empty() {
            self.commands.abort_where(&mut self.context, AbortedBy::Others, |task| {
                removed.contains(&task.command.place())
            });
        }
    }

    /// The login fails: at once if the initiator waits for an answer, or else with its next request (RFC 7143 §11.13).
    fn refuse_login(&mut self, status: Status) {
        let Some(login) = &mut self.login else { return };
        match login.waiting() {
            Some(request) => self.fail_login(&request, status.into()),
            None => login.refuse(status),
        }
    }
}

/// What a target is in another state of its portal. In another portal group it is another port, where this initiator has no session.
fn successor<'a>(node: &Node, portal: &'a Portal) -> Option<&'a Arc<Node>> {
    portal.find(&node.name).filter(|next| next.portal_group == node.portal_group)
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write as _;

    use super::*;

    #[test]
    fn table_of_all_decisions() {
        use State::{Closing, Free, InLogin, InLogout, LoggedIn, LogoutRequested};
        use TargetChange::{Changed, Gone, NotChosen, NotOpen, Unchanged};
        let mut table = String::new();
        for state in [InLogin, LoggedIn, LogoutRequested, InLogout, Closing, Free] {
            for change in [NotChosen, Unchanged, Changed, NotOpen, Gone] {
                writeln!(table, "{state:?}, {change:?}: {:?}", decide(state, change)).unwrap();
            }
        }
        assert_eq!(table, include_str!("portal_change.table"));
    }
}
