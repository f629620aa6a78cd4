//! The states of a connection, for both roles (RFC 7143 §8.1, as far as ErrorRecoveryLevel 0 goes).

/// Where a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// IN_LOGIN: from the transport's start to the login's end (S3, S4).
    InLogin,
    /// LOGGED_IN: the full feature phase (S5).
    LoggedIn,
    /// LOGOUT_REQUESTED: the target has asked for a logout (S7).
    LogoutRequested,
    /// IN_LOGOUT: the logout is under way, requests drain (S6).
    InLogout,
    /// What is queued goes out, then the transport is closed.
    Closing,
    /// The transport is gone; requests drain (S8 without recovery).
    Free,
}

/// What happens to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The login succeeded.
    LoginDone,
    /// The target asks for a logout (this side is about to stop).
    LogoutAsked,
    /// The initiator logs out.
    Logout,
    /// The logout is answered, the peer misbehaved, or a deadline has passed.
    Close,
    /// The transport is gone.
    Ended,
}

impl State {
    /// The next state; `None` when the event means nothing here.
    #[must_use]
    pub fn after(self, event: Event) -> Option<Self> {
        match (self, event) {
            (Self::Free, _) => None,
            (_, Event::Ended) => Some(Self::Free),
            (Self::Closing, _) => None,
            (_, Event::Close) => Some(Self::Closing),
            (Self::InLogin, Event::LoginDone) => Some(Self::LoggedIn),
            (Self::LoggedIn, Event::LogoutAsked) => Some(Self::LogoutRequested),
            (Self::LoggedIn | Self::LogoutRequested, Event::Logout) => Some(Self::InLogout),
            _ => None,
        }
    }

    /// True while SCSI commands are taken.
    pub fn takes_commands(self) -> bool {
        matches!(self, Self::LoggedIn | Self::LogoutRequested)
    }

    /// True once received bytes no longer matter.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Closing | Self::Free)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write as _;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        use Event::{Close, Ended, LoginDone, Logout, LogoutAsked};
        let mut table = String::new();
        for state in [
            State::InLogin,
            State::LoggedIn,
            State::LogoutRequested,
            State::InLogout,
            State::Closing,
            State::Free,
        ] {
            for event in [LoginDone, LogoutAsked, Logout, Close, Ended] {
                if let Some(next) = state.after(event) {
                    writeln!(table, "{state:?} --{event:?}--> {next:?}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("connection.table"));
    }
}
