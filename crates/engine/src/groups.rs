//! The groups that connections share: iSCSI sessions and NVMe subsystems. They live on core 0.

use host::CoreIndex;
use protocol::{Group, GroupMessage, Instant};

use crate::message::{Answer, Member};

/// All groups of the process.
#[derive(Debug)]
pub(crate) struct Groups {
    sessions: iscsi::session::Sessions<Member>,
    subsystems: nvme::subsystem::Subsystems<Member>,
}

impl Groups {
    pub(crate) fn new() -> Self {
        Self { sessions: iscsi::session::Sessions::new(), subsystems: nvme::subsystem::Subsystems::new() }
    }

    /// A connection speaks to its session's group.
    pub(crate) fn handle_session(&mut self, now: Instant, from: Member, request: iscsi::session::Request) {
        self.sessions.handle_message(now, from, request);
    }

    /// A connection speaks to its subsystem's group.
    pub(crate) fn handle_subsystem(&mut self, now: Instant, from: Member, request: nvme::subsystem::Request) {
        self.subsystems.handle_message(now, from, request);
    }

    /// A connection is gone.
    pub(crate) fn handle_leave(&mut self, now: Instant, member: Member) {
        self.sessions.handle_leave(now, member);
        self.subsystems.handle_leave(now, member);
    }

    /// What groups have to say to their members.
    pub(crate) fn poll(&mut self) -> Option<(Member, Answer)> {
        if let Some(GroupMessage { to, message }) = self.sessions.poll_message() {
            return Some((to, Answer::Session(message)));
        }
        self.subsystems.poll_message().map(|GroupMessage { to, message }| (to, Answer::Subsystem(message)))
    }

    /// Lets groups do what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.sessions.handle_timeout(now);
        self.subsystems.handle_timeout(now);
    }

    /// The groups' next deadline.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        [self.sessions.poll_timeout(), self.subsystems.poll_timeout()].into_iter().flatten().min()
    }

    /// The core that groups live on.
    pub(crate) const CORE: CoreIndex = 0;
}
