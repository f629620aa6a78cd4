//! Sessions: who is logged in where, and what happens when somebody logs in again (RFC 7143 §6.3.5, §7.1, §11.12.6).
//!
//! One group serves the whole process, on one core. A connection asks to join at the end of its login and waits for the
//! answer before it says so to the initiator. A login that reinstates a session displaces the old connection first, and is
//! admitted once that one has drained: no request of the old session can take effect after the new one has begun.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;

use protocol::{Group, GroupMessage, Instant};

use crate::limits::{REINSTATEMENT_TIME, SESSIONS};
use crate::pdu::Status;

/// What makes a session the same (RFC 7143 §4.4.2: the I_T nexus).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nexus {
    /// InitiatorName.
    pub initiator: String,
    /// The initiator's part of the session's name.
    pub isid: [u8; 6],
    /// TargetName; empty for a discovery session.
    pub target: String,
    /// The target portal group.
    pub portal_group: u16,
}

/// From a connection to the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// May this connection join?
    Join {
        /// The session.
        nexus: Nexus,
        /// The handle that the initiator gave; zero for a new session.
        tsih: u16,
        /// The connection's number.
        cid: u16,
    },
    /// Every other session of the target is to end (TARGET COLD RESET).
    EndTarget {
        /// The target's name.
        target: String,
    },
}

/// From the group to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// It may; this is the session's handle.
    Joined {
        /// The handle.
        tsih: u16,
    },
    /// It may not, for this reason.
    Refused(Status),
    /// Another login has taken the session over, or the target was reset: end at once.
    Displaced,
}

#[derive(Debug)]
struct Session<M> {
    nexus: Nexus,
    cid: u16,
    member: M,
}

/// A login that reinstates a session, and waits for the old connection to leave (RFC 7143 §6.3.5).
#[derive(Debug)]
struct PendingReinstatement<M> {
    member: M,
    cid: u16,
    /// Until when it waits.
    due: Instant,
}

/// What a connection asks for at the end of its login.
#[derive(Debug)]
struct Join {
    nexus: Nexus,
    tsih: u16,
    cid: u16,
}

/// All sessions of a process.
#[derive(Debug)]
pub struct Sessions<M> {
    by_handle: BTreeMap<u16, Session<M>>,
    /// By the handle of the session they wait for; next to always empty, so that deadlines cost nothing.
    reinstatements: BTreeMap<u16, PendingReinstatement<M>>,
    messages: VecDeque<(M, Reply)>,
    last: u16,
}

impl<M: Copy + PartialEq> Sessions<M> {
    /// No sessions.
    pub fn new() -> Self {
        Self {
            by_handle: BTreeMap::new(),
            reinstatements: BTreeMap::new(),
            messages: VecDeque::new(),
            last: 0,
        }
    }

    fn join(&mut self, now: Instant, from: M, join: Join) {
        let Join { nexus, tsih, cid } = join;
        // Discovery sessions share nothing, so nothing is reinstated.
        let known =
            self.by_handle.iter().find(|(_, session)| session.nexus == nexus && !nexus.target.is_empty());
        let refusal = match (known, tsih) {
            (None, 0) => return self.open(from, nexus, cid),
            (None, _) => Status::NO_SESSION,
            (Some((handle, _)), wanted) if wanted != 0 && wanted != *handle => Status::NO_SESSION,
            (Some((_, session)), wanted) if wanted != 0 && session.cid != cid => Status::TOO_MANY_CONNECTIONS,
            (Some((handle, session)), _) => {
                let reinstatement = PendingReinstatement { member: from, cid, due: now + REINSTATEMENT_TIME };
                let earlier =
                    self.reinstatements.insert(*handle, reinstatement).map(|earlier| earlier.member);
                self.messages.push_back((earlier.unwrap_or(session.member), Reply::Displaced));
                return;
            }
        };
        self.messages.push_back((from, Reply::Refused(refusal)));
    }

    fn open(&mut self, member: M, nexus: Nexus, cid: u16) {
        if self.by_handle.len() >= SESSIONS {
            self.messages.push_back((member, Reply::Refused(Status::OUT_OF_RESOURCES)));
            return;
        }
        let tsih = self.free_handle();
        self.by_handle.insert(tsih, Session { nexus, cid, member });
        self.messages.push_back((member, Reply::Joined { tsih }));
    }

    /// The next handle that is free and not zero; handles are not reused soon.
    fn free_handle(&mut self) -> u16 {
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if !self.by_handle.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.by_handle.len()
    }

    /// True when nobody is logged in.
    pub fn is_empty(&self) -> bool {
        self.by_handle.is_empty()
    }
}

impl<M: Copy + PartialEq> Default for Sessions<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Copy + PartialEq> Group for Sessions<M> {
    type Member = M;
    type Request = Request;
    type Reply = Reply;

    fn handle_message(&mut self, now: Instant, from: M, message: Request) {
        match message {
            Request::Join { nexus, tsih, cid } => self.join(now, from, Join { nexus, tsih, cid }),
            Request::EndTarget { target } => {
                for session in self.by_handle.values() {
                    if session.nexus.target == target && session.member != from {
                        self.messages.push_back((session.member, Reply::Displaced));
                    }
                }
            }
        }
    }

    fn handle_leave(&mut self, _now: Instant, member: M) {
        self.reinstatements.retain(|_, reinstatement| reinstatement.member != member);
        let left = self.by_handle.iter().find(|(_, session)| session.member == member).map(|(tsih, _)| *tsih);
        let Some((tsih, session)) = left.and_then(|tsih| self.by_handle.remove_entry(&tsih)) else { return };
        if let Some(reinstatement) = self.reinstatements.remove(&tsih) {
            self.open(reinstatement.member, session.nexus, reinstatement.cid);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.reinstatements.retain(|_, reinstatement| {
            let waits = now < reinstatement.due;
            if !waits {
                self.messages.push_back((reinstatement.member, Reply::Refused(Status::SERVICE_UNAVAILABLE)));
            }
            waits
        });
    }

    fn poll_message(&mut self) -> Option<GroupMessage<M, Reply>> {
        let (to, message) = self.messages.pop_front()?;
        Some(GroupMessage { to, message })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.reinstatements.values().map(|reinstatement| reinstatement.due).min()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn join(target: &str, tsih: u16, cid: u16) -> Request {
        let nexus = Nexus { initiator: "iqn.i".into(), isid: [1; 6], target: target.into(), portal_group: 1 };
        Request::Join { nexus, tsih, cid }
    }

    fn drain(group: &mut Sessions<u8>) -> Vec<(u8, Reply)> {
        core::iter::from_fn(|| group.poll_message()).map(|told| (told.to, told.message)).collect()
    }

    fn joined(tsih: u16) -> Reply {
        Reply::Joined { tsih }
    }

    #[test]
    fn a_second_login_waits_until_the_first_has_left() {
        let mut group = Sessions::new();
        group.handle_message(Instant::ZERO, 1, join("t", 0, 0));
        assert_eq!(drain(&mut group), [(1, joined(1))]);
        group.handle_message(Instant::ZERO, 2, join("t", 0, 0));
        assert_eq!(drain(&mut group), [(1, Reply::Displaced)]);
        group.handle_leave(Instant::ZERO, 1);
        assert_eq!(drain(&mut group), [(2, joined(2))]);
        assert_eq!(group.len(), 1);
    }

    #[test]
    fn a_reinstatement_that_waits_too_long_is_refused() {
        let mut group = Sessions::new();
        group.handle_message(Instant::ZERO, 1, join("t", 0, 0));
        group.handle_message(Instant::ZERO, 2, join("t", 0, 0));
        drain(&mut group);
        let due = Instant::ZERO + REINSTATEMENT_TIME;
        assert_eq!(group.poll_timeout(), Some(due));
        group.handle_timeout(due);
        assert_eq!(drain(&mut group), [(2, Reply::Refused(Status::SERVICE_UNAVAILABLE))]);
        assert_eq!(group.poll_timeout(), None);
    }

    #[test]
    fn handles_decide_what_a_login_means() {
        let mut group = Sessions::new();
        group.handle_message(Instant::ZERO, 1, join("t", 0, 7));
        group.handle_message(Instant::ZERO, 2, join("t", 9, 7));
        group.handle_message(Instant::ZERO, 3, join("u", 1, 7));
        group.handle_message(Instant::ZERO, 4, join("t", 1, 8));
        assert_eq!(
            drain(&mut group),
            [
                (1, joined(1)),
                (2, Reply::Refused(Status::NO_SESSION)),
                (3, Reply::Refused(Status::NO_SESSION)),
                (4, Reply::Refused(Status::TOO_MANY_CONNECTIONS)),
            ]
        );
        group.handle_message(Instant::ZERO, 5, join("t", 1, 7));
        assert_eq!(drain(&mut group), [(1, Reply::Displaced)], "the same connection again: reinstatement");
    }

    #[test]
    fn discovery_sessions_do_not_displace_each_other() {
        let mut group = Sessions::new();
        group.handle_message(Instant::ZERO, 1, join("", 0, 0));
        group.handle_message(Instant::ZERO, 2, join("", 0, 0));
        assert_eq!(drain(&mut group), [(1, joined(1)), (2, joined(2))]);
    }

    #[test]
    fn a_cold_reset_ends_the_other_sessions_of_the_target() {
        let mut group = Sessions::new();
        group.handle_message(Instant::ZERO, 1, join("t", 0, 0));
        let other = Nexus { initiator: "iqn.j".into(), isid: [1; 6], target: "t".into(), portal_group: 1 };
        group.handle_message(Instant::ZERO, 2, Request::Join { nexus: other, tsih: 0, cid: 0 });
        drain(&mut group);
        group.handle_message(Instant::ZERO, 1, Request::EndTarget { target: "t".into() });
        assert_eq!(drain(&mut group), [(2, Reply::Displaced)]);
    }

    #[test]
    fn sessions_are_limited() {
        let mut group = Sessions::new();
        for member in 0..=u32::try_from(SESSIONS).unwrap() {
            group.handle_message(Instant::ZERO, member, join("", 0, 0));
        }
        let last = core::iter::from_fn(|| group.poll_message()).last();
        assert_eq!(last.unwrap().message, Reply::Refused(Status::OUT_OF_RESOURCES));
    }
}
