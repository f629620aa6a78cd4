//! How long a connection lives: its state, the deadline of what it does in that state, and why it ends.

use protocol::{CloseReason, Instant};

use crate::connection::{Event, State};

/// What has taken too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The login.
    Login,
    /// The discovery session.
    Discovery,
    /// The logout that the initiator was asked for, for this reason.
    RequestedLogout(CloseReason),
    /// The end of the tasks before a logout.
    Drain,
    /// Nothing that matters any more.
    Nothing,
}

/// The life of a connection.
#[derive(Debug)]
pub(super) struct Life {
    state: State,
    /// When what it does in this state is overdue.
    due: Option<Instant>,
    /// Why it ends if the logout that was asked for does not come.
    logout_reason: CloseReason,
    close: Option<CloseReason>,
}

impl Life {
    /// A connection that begins to log in, which is overdue then.
    pub(super) fn new(due: Instant) -> Self {
        Self { state: State::InLogin, due: Some(due), logout_reason: CloseReason::ShuttingDown, close: None }
    }

    /// Where it is.
    #[inline]
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Why it is to be closed.
    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        self.close
    }

    /// Why the initiator was asked to log out, while it has not.
    pub(super) fn logout_reason(&self) -> Option<CloseReason> {
        (self.state == State::LogoutRequested).then_some(self.logout_reason)
    }

    /// When something is overdue.
    #[inline]
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    fn enter(&mut self, event: Event, due: Option<Instant>) {
        self.state = self.state.after(event).unwrap_or(self.state);
        self.due = due;
    }

    /// The login has succeeded. A discovery session is overdue then.
    pub(super) fn log_in(&mut self, due: Option<Instant>) {
        self.enter(Event::LoginDone, due);
    }

    /// The initiator is asked to log out for this reason, until then.
    pub(super) fn request_logout(&mut self, reason: CloseReason, due: Instant) {
        self.enter(Event::LogoutAsked, Some(due));
        self.logout_reason = reason;
    }

    /// The initiator logs out: its tasks end until then.
    pub(super) fn log_out(&mut self, due: Instant) {
        self.enter(Event::Logout, Some(due));
    }

    /// The connection is to be closed; the first reason counts.
    pub(super) fn close(&mut self, reason: CloseReason) {
        self.enter(Event::Close, None);
        self.close.get_or_insert(reason);
    }

    /// The transport is gone.
    pub(super) fn end(&mut self) {
        self.enter(Event::Ended, None);
    }

    /// What is overdue, which is told once.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Overdue> {
        self.due.take_if(|due| *due <= now)?;
        Some(match self.state {
            State::InLogin => Overdue::Login,
            State::LoggedIn => Overdue::Discovery,
            State::LogoutRequested => Overdue::RequestedLogout(self.logout_reason),
            State::InLogout => Overdue::Drain,
            State::Closing | State::Free => Overdue::Nothing,
        })
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const START: Instant = Instant::ZERO;

    fn later(seconds: u64) -> Instant {
        START + Duration::from_secs(seconds)
    }

    #[test]
    fn each_state_has_its_deadline() {
        let mut life = Life::new(later(1));
        assert_eq!(life.handle_timeout(START), None, "called early");
        assert_eq!((life.handle_timeout(later(1)), life.due()), (Some(Overdue::Login), None));
        life.log_in(Some(later(2)));
        assert_eq!(life.handle_timeout(later(2)), Some(Overdue::Discovery));
        assert_eq!(life.logout_reason(), None);
        life.request_logout(CloseReason::ShuttingDown, later(3));
        assert_eq!(life.logout_reason(), Some(CloseReason::ShuttingDown));
        assert_eq!(life.handle_timeout(later(3)), Some(Overdue::RequestedLogout(CloseReason::ShuttingDown)));
        life.log_out(later(4));
        assert_eq!((life.state(), life.due()), (State::InLogout, Some(later(4))));
        assert_eq!(life.handle_timeout(later(4)), Some(Overdue::Drain));
        life.close(CloseReason::Finished);
        life.close(CloseReason::ShuttingDown);
        assert_eq!((life.close_reason(), life.due()), (Some(CloseReason::Finished), None));
        life.end();
        assert_eq!((life.state(), life.handle_timeout(later(9))), (State::Free, None));
    }
}
