//! What a connection tells people while it goes on; how it ends is told by its [`CloseReason`](crate::CloseReason).

use alloc::collections::VecDeque;

/// The most notices that wait: further ones are dropped, since a peer may cause any number of them.
const WAITING: usize = 8;

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeKind {
    /// The peer is in.
    Login,
    /// The peer has connected one more queue of what it is in already.
    Queue,
    /// A PDU or a command was rejected for a violation, and the connection goes on.
    Reject,
    /// Task management, an abort or a reset.
    Management,
    /// A reservation forbade a command.
    Conflict,
}

/// Something worth telling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// What it is about.
    pub kind: NoticeKind,
    /// What happened, or why.
    pub text: &'static str,
}

/// Notices that wait for whoever writes them down.
#[derive(Debug, Default)]
pub struct Notices(VecDeque<Notice>);

impl Notices {
    /// Adds one, unless too many wait.
    pub fn push(&mut self, kind: NoticeKind, text: &'static str) {
        if self.0.len() < WAITING {
            self.0.push_back(Notice { kind, text });
        }
    }

    /// The oldest.
    pub fn pop(&mut self) -> Option<Notice> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_peer_makes_more_notices_wait_than_the_limit() {
        let mut notices = Notices::default();
        for _ in 0..1000 {
            notices.push(NoticeKind::Reject, "a violation");
        }
        assert_eq!(core::iter::from_fn(|| notices.pop()).count(), WAITING);
    }
}
