//! Controllers as groups of connections (NVMe Base §3.1, §6.3): identifiers, and which queue belongs to whom.
//!
//! An admin connection asks for a controller identifier; I/O connections, on any core, ask to join it. When
//! the controller is disabled or its admin connection goes, all of its I/O connections are told to close.
//! While a controller is disabled or shut down the group waits until its I/O connections have no request at a volume any more, and
//! tells the admin connection, which shows it in CSTS. The group also carries an Abort (NVMe Base §5.1.1) to the queue that it names, and the outcome back.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::{Group, GroupMessage, Instant};

use crate::fabrics::{HostIdentity, field};
use crate::lifetime::Lifetime;
use crate::limits::CONTROLLERS;
use crate::status::Status;

/// From a connection to the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// An admin queue was connected: a controller is wanted.
    Admin {
        /// Of which subsystem.
        subnqn: Arc<str>,
        /// For whom.
        host: HostIdentity,
        /// The most I/O queues.
        max_queues: u16,
        /// Until when the controller lives; the asker says it.
        lifetime: Lifetime,
    },
    /// An I/O queue was connected: it wants to join its controller.
    Io {
        /// Of which subsystem.
        subnqn: Arc<str>,
        /// For whom.
        host: HostIdentity,
        /// The controller.
        cntlid: u16,
        /// The queue.
        qid: u16,
    },
    /// The admin connection's controller was enabled, or disabled or shut down.
    Ready(ControllerState),
    /// None of the I/O connection's requests is with a volume any more, as it was told to close.
    Quiesced,
    /// The admin connection agreed to this many I/O queues.
    Queues(u16),
    /// The admin connection wants a command of an I/O queue aborted.
    Abort {
        /// The queue.
        qid: u16,
        /// The command.
        cid: u16,
        /// The asker's own mark, which comes back with the outcome.
        tag: u16,
    },
    /// An I/O connection has done what it could about an abort.
    Aborted {
        /// The asker's mark.
        tag: u16,
        /// True when the command ended because of it.
        aborted: bool,
    },
}

/// Whether a controller takes I/O queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControllerState {
    /// It is enabled.
    Enabled,
    /// It is disabled or shut down: its I/O queues end.
    Disabled,
}

/// Why a Connect was refused: the status, and for invalid parameters the field that is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectError {
    /// The status.
    pub status: Status,
    /// Dword 0: IPO and IATTR.
    pub result: u32,
}

impl ConnectError {
    /// No subsystem has the name that the host asked for.
    pub const NO_SUBSYSTEM: Self = Self::data(field::SUBNQN);
    /// The host may not use the subsystem.
    pub const HOST_NOT_ALLOWED: Self = Self::plain(Status::CONNECT_HOST);

    /// A status that points to no field.
    pub const fn plain(status: Status) -> Self {
        Self { status: status.dnr(), result: 0 }
    }

    /// Invalid parameters: the field at `offset` of the command.
    pub const fn command(offset: u16) -> Self {
        Self { status: Status::CONNECT_INVALID.dnr(), result: offset as u32 }
    }

    /// Invalid parameters: the field at `offset` of the data.
    pub const fn data(offset: u16) -> Self {
        Self { status: Status::CONNECT_INVALID.dnr(), result: 1 << 16 | offset as u32 }
    }
}

impl ConnectError {
    /// The refusal in words, for logs.
    pub const fn describe(self) -> &'static str {
        const fn named(result: u32, offset: u16) -> bool {
            result == ConnectError::data(offset).result
        }
        let (code, result) = (self.status.code(), self.result);
        if code == Status::CONNECT_HOST.code() {
            "this host may not use the subsystem"
        } else if code == Status::CONNECT_BUSY.code() {
            "no controller is left"
        } else if code == Status::CONNECT_FORMAT.code() {
            "a Connect command of an unknown format"
        } else if code == Status::COMMAND_SEQUENCE.code() {
            "the controller is not ready, or has this queue already"
        } else if code != Status::CONNECT_INVALID.code() {
            "a Connect command was refused"
        } else if named(result, field::SUBNQN) {
            "there is no such subsystem"
        } else if named(result, field::HOSTNQN) {
            "the host's name is malformed or not that of the controller"
        } else if named(result, field::HOSTID) {
            "the host's identifier is not that of the controller"
        } else if named(result, field::CNTLID) {
            "there is no such controller"
        } else if result == ConnectError::command(field::QID).result {
            "there is no such queue"
        } else if result == ConnectError::command(field::SQSIZE).result {
            "a queue of an impossible size"
        } else {
            "a Connect command with invalid parameters"
        }
    }
}

/// From the group to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The connection belongs to this controller now.
    Joined {
        /// The controller.
        cntlid: u16,
        /// The host's identifier, as its admin queue gave it: the controller's, and so that of all of its queues.
        hostid: [u8; 16],
        /// Until when that lives.
        lifetime: Lifetime,
    },
    /// It does not.
    Refused(ConnectError),
    /// The controller is gone or disabled: close.
    Close,
    /// To the admin connection, once for each [`ControllerState::Disabled`]: no I/O queue has a request at a volume any more.
    Quiesced,
    /// To an I/O connection: abort a command, and tell of the outcome once it has completed.
    Abort {
        /// The command.
        cid: u16,
        /// The asker's mark.
        tag: u16,
    },
    /// To the admin connection: the outcome of an abort.
    Aborted {
        /// Its mark.
        tag: u16,
        /// True when the command ended because of it.
        aborted: bool,
    },
}

#[derive(Debug)]
struct Controller<M> {
    cntlid: u16,
    subnqn: Arc<str>,
    host: HostIdentity,
    lifetime: Lifetime,
    admin: M,
    state: ControllerState,
    max_queues: u16,
    queues: Vec<(u16, M)>,
    /// Queues that were told to close and may still have requests at a volume.
    closing: Vec<M>,
    /// How often the admin connection is to be told that there are none.
    unquiesced: usize,
    /// Aborts under way: the queue that was told, and the asker's mark.
    aborts: Vec<(M, u16)>,
}

/// A controller that an admin connection asks for.
#[derive(Debug)]
struct NewController {
    subnqn: Arc<str>,
    host: HostIdentity,
    max_queues: u16,
    lifetime: Lifetime,
}

/// A queue that an I/O connection asks for.
#[derive(Debug)]
struct NewQueue {
    subnqn: Arc<str>,
    host: HostIdentity,
    cntlid: u16,
    qid: u16,
}

/// A command as Abort names it.
#[derive(Debug)]
struct NamedCommand {
    qid: u16,
    cid: u16,
}

/// All controllers of the process.
#[derive(Debug)]
pub struct Subsystems<M> {
    controllers: Vec<Controller<M>>,
    messages: VecDeque<(M, Reply)>,
    last: u16,
}

impl<M: Copy + Eq> Subsystems<M> {
    /// No controllers.
    pub fn new() -> Self {
        Self { controllers: Vec::new(), messages: VecDeque::new(), last: 0 }
    }

    /// Controllers that exist.
    pub fn controllers(&self) -> usize {
        self.controllers.len()
    }

    /// An identifier that is not in use; old ones are not given out again soon.
    fn allocate(&mut self) -> Option<u16> {
        for _ in 0..CONTROLLERS {
            self.last = if self.last >= CONTROLLERS { 1 } else { self.last.saturating_add(1) };
            if self.controllers.iter().all(|controller| controller.cntlid != self.last) {
                return Some(self.last);
            }
        }
        None
    }

    fn join_admin(&mut self, admin: M, wanted: NewController) -> Result<Reply, ConnectError> {
        let NewController { subnqn, host, max_queues, lifetime } = wanted;
        let cntlid = self.allocate().ok_or(ConnectError::plain(Status::CONNECT_BUSY))?;
        let (queues, closing, aborts) = (Vec::new(), Vec::new(), Vec::new());
        let joined = Reply::Joined { cntlid, hostid: host.identifier, lifetime: lifetime.clone() };
        let state = ControllerState::Disabled;
        self.controllers.push(Controller {
            cntlid,
            subnqn,
            host,
            lifetime,
            admin,
            state,
            max_queues,
            queues,
            closing,
            unquiesced: 0,
            aborts,
        });
        Ok(joined)
    }

    fn join_io(&mut self, member: M, wanted: &NewQueue) -> Result<Reply, ConnectError> {
        let &NewQueue { ref subnqn, ref host, cntlid, qid } = wanted;
        let found =
            self.controllers.iter_mut().find(|known| known.cntlid == cntlid && known.subnqn == *subnqn);
        let controller = found.ok_or(ConnectError::data(field::CNTLID))?;
        if controller.host.nqn != host.nqn {
            return Err(ConnectError::data(field::HOSTNQN));
        }
        // A host that has a name is known by it; other targets do not look at the identifier of an I/O queue, and there are
        // hosts that make a new one for each.
        if host.nqn.is_empty() && controller.host.identifier != host.identifier {
            return Err(ConnectError::data(field::HOSTID));
        }
        if controller.state == ControllerState::Disabled {
            return Err(ConnectError::plain(Status::COMMAND_SEQUENCE));
        }
        if qid == 0 || qid > controller.max_queues {
            return Err(ConnectError::command(field::QID));
        }
        if controller.queues.iter().any(|(used, _)| *used == qid) {
            return Err(ConnectError::plain(Status::COMMAND_SEQUENCE));
        }
        controller.queues.push((qid, member));
        let (hostid, lifetime) = (controller.host.identifier, controller.lifetime.clone());
        Ok(Reply::Joined { cntlid, hostid, lifetime })
    }

    fn of_admin(&mut self, admin: M) -> Option<&mut Controller<M>> {
        self.controllers.iter_mut().find(|controller| controller.admin == admin)
    }

    /// The admin connection enabled its controller, or disabled it.
    fn set_state(&mut self, admin: M, state: ControllerState) {
        let Some(controller) = self.of_admin(admin) else { return };
        controller.state = state;
        if state == ControllerState::Disabled {
            let members = core::mem::take(&mut controller.queues);
            let aborts = core::mem::take(&mut controller.aborts);
            controller.closing.extend(members.iter().map(|(_, member)| *member));
            controller.unquiesced = controller.unquiesced.saturating_add(1);
            self.messages.extend(members.into_iter().map(|(_, member)| (member, Reply::Close)));
            self.messages.extend(aborts.into_iter().map(|(_, tag)| (admin, not_aborted(tag))));
            self.tell_quiesced();
        }
    }

    /// An I/O connection has no request at a volume any more.
    fn handle_quiesced(&mut self, member: M) {
        for controller in &mut self.controllers {
            controller.closing.retain(|closing| *closing != member);
        }
        self.tell_quiesced();
    }

    fn tell_quiesced(&mut self) {
        let quiet = self.controllers.iter_mut().filter(|controller| controller.closing.is_empty());
        for controller in quiet {
            for _ in 0..core::mem::take(&mut controller.unquiesced) {
                self.messages.push_back((controller.admin, Reply::Quiesced));
            }
        }
    }

    /// Passes an abort on to its queue; a queue that does not exist has no such command.
    fn pass_abort(&mut self, admin: M, named: &NamedCommand, tag: u16) {
        let &NamedCommand { qid, cid } = named;
        let told = self.of_admin(admin).and_then(|controller| {
            let (_, queue) = *controller.queues.iter().find(|(used, _)| *used == qid)?;
            controller.aborts.push((queue, tag));
            Some(queue)
        });
        self.messages.push_back(match told {
            Some(queue) => (queue, Reply::Abort { cid, tag }),
            None => (admin, not_aborted(tag)),
        });
    }

    /// Passes the outcome of an abort back.
    fn pass_outcome(&mut self, queue: M, tag: u16, aborted: bool) {
        for controller in &mut self.controllers {
            if let Some(at) = controller.aborts.iter().position(|known| *known == (queue, tag)) {
                controller.aborts.remove(at);
                self.messages.push_back((controller.admin, Reply::Aborted { tag, aborted }));
                return;
            }
        }
    }
}

const fn not_aborted(tag: u16) -> Reply {
    Reply::Aborted { tag, aborted: false }
}

impl<M: Copy + Eq> Default for Subsystems<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Copy + Eq> Group for Subsystems<M> {
    type Member = M;
    type Request = Request;
    type Reply = Reply;

    fn handle_message(&mut self, _now: Instant, from: M, message: Request) {
        let joined = match message {
            Request::Admin { subnqn, host, max_queues, lifetime } => {
                self.join_admin(from, NewController { subnqn, host, max_queues, lifetime })
            }
            Request::Io { subnqn, host, cntlid, qid } => {
                self.join_io(from, &NewQueue { subnqn, host, cntlid, qid })
            }
            Request::Queues(count) => {
                if let Some(controller) = self.of_admin(from) {
                    controller.max_queues = controller.max_queues.min(count);
                }
                return;
            }
            Request::Ready(state) => return self.set_state(from, state),
            Request::Quiesced => return self.handle_quiesced(from),
            Request::Abort { qid, cid, tag } => {
                return self.pass_abort(from, &NamedCommand { qid, cid }, tag);
            }
            Request::Aborted { tag, aborted } => return self.pass_outcome(from, tag, aborted),
        };
        self.messages.push_back((from, joined.unwrap_or_else(Reply::Refused)));
    }

    fn handle_leave(&mut self, _now: Instant, member: M) {
        if let Some(index) = self.controllers.iter().position(|controller| controller.admin == member) {
            let gone = self.controllers.swap_remove(index);
            self.messages.extend(gone.queues.into_iter().map(|(_, queue)| (queue, Reply::Close)));
            return;
        }
        for controller in &mut self.controllers {
            controller.queues.retain(|(_, queue)| *queue != member);
            let lost = controller.aborts.extract_if(.., |(queue, _)| *queue == member);
            self.messages.extend(lost.map(|(_, tag)| (controller.admin, not_aborted(tag))));
        }
        self.handle_quiesced(member);
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_message(&mut self) -> Option<GroupMessage<M, Reply>> {
        let (to, message) = self.messages.pop_front()?;
        Some(GroupMessage { to, message })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(identifier: u8, nqn: &str) -> HostIdentity {
        HostIdentity { identifier: [identifier; 16], nqn: nqn.into() }
    }

    fn told(to: u32, message: Reply) -> GroupMessage<u32, Reply> {
        GroupMessage { to, message }
    }

    fn ask(group: &mut Subsystems<u32>, from: u32, request: Request) -> Option<Reply> {
        group.handle_message(Instant::ZERO, from, request);
        group.poll_message().map(|told| {
            assert_eq!(told.to, from);
            told.message
        })
    }

    fn admin(group: &mut Subsystems<u32>, from: u32, host: HostIdentity) -> Option<Reply> {
        let lifetime = Lifetime::new();
        ask(group, from, Request::Admin { subnqn: "nqn.s".into(), host, max_queues: 2, lifetime })
    }

    /// The controller that a queue has joined.
    fn joined(reply: Option<&Reply>) -> Option<u16> {
        match reply {
            Some(Reply::Joined { cntlid, .. }) => Some(*cntlid),
            _ => None,
        }
    }

    fn io(
        group: &mut Subsystems<u32>,
        from: u32,
        (host, cntlid, qid): (HostIdentity, u16, u16),
    ) -> Option<Reply> {
        ask(group, from, Request::Io { subnqn: "nqn.s".into(), host, cntlid, qid })
    }

    /// NVMe over Fabrics keeps FFF0h and above for itself (NVMe Base §3.1.3.4).
    #[test]
    fn identifiers_of_controllers_begin_again_below_the_reserved_ones() {
        let mut group = Subsystems::new();
        assert_eq!(joined(admin(&mut group, 0, host(1, "a")).as_ref()), Some(1));
        group.last = CONTROLLERS - 1;
        assert_eq!(joined(admin(&mut group, 1, host(1, "a")).as_ref()), Some(CONTROLLERS));
        assert_eq!(joined(admin(&mut group, 2, host(1, "a")).as_ref()), Some(2), "1 is still in use");
    }

    #[test]
    fn a_queue_joins_the_controller_of_its_host_only_once_and_only_while_enabled() {
        let mut group = Subsystems::new();
        assert_eq!(joined(admin(&mut group, 0, host(1, "a")).as_ref()), Some(1));
        let refused = |error| Some(Reply::Refused(error));
        let early = refused(ConnectError::plain(Status::COMMAND_SEQUENCE));
        assert_eq!(io(&mut group, 1, (host(1, "a"), 1, 1)), early);
        assert_eq!(ask(&mut group, 0, Request::Ready(ControllerState::Enabled)), None);
        assert_eq!(joined(io(&mut group, 1, (host(1, "a"), 1, 1)).as_ref()), Some(1));
        assert_eq!(io(&mut group, 2, (host(1, "a"), 1, 1)), early);
        assert_eq!(io(&mut group, 2, (host(1, "b"), 1, 2)), refused(ConnectError::data(512)));
        assert_eq!(io(&mut group, 2, (host(1, "a"), 9, 2)), refused(ConnectError::data(16)));
        assert_eq!(io(&mut group, 2, (host(1, "a"), 1, 3)), refused(ConnectError::command(42)));
        assert_eq!(joined(io(&mut group, 2, (host(1, "a"), 1, 2)).as_ref()), Some(1));
        group.handle_leave(Instant::ZERO, 2);
        assert_eq!(joined(io(&mut group, 3, (host(1, "a"), 1, 2)).as_ref()), Some(1));
        group.handle_leave(Instant::ZERO, 0);
        assert_eq!(group.poll_message(), Some(told(1, Reply::Close)));
        assert_eq!(group.poll_message(), Some(told(3, Reply::Close)));
        assert_eq!(group.controllers(), 0);
    }

    #[test]
    fn all_queues_of_a_controller_share_its_lifetime() {
        let mut group = Subsystems::new();
        let lifetime = |reply| match reply {
            Some(Reply::Joined { lifetime, .. }) => lifetime,
            other => panic!("{other:?}"),
        };
        let one = lifetime(admin(&mut group, 0, host(1, "a")));
        let other = lifetime(admin(&mut group, 1, host(1, "a")));
        ask(&mut group, 0, Request::Ready(ControllerState::Enabled));
        let queue = lifetime(io(&mut group, 2, (host(1, "a"), 1, 1)));
        assert!(queue == one && queue != other);
        one.set_end(Some(Instant::from_nanos(5)));
        assert!(!queue.is_over(Instant::from_nanos(4)) && queue.is_over(Instant::from_nanos(5)));
    }

    #[test]
    fn every_abort_has_exactly_one_outcome() {
        let mut group = Subsystems::new();
        admin(&mut group, 0, host(1, "a"));
        ask(&mut group, 0, Request::Ready(ControllerState::Enabled));
        io(&mut group, 1, (host(1, "a"), 1, 1));
        io(&mut group, 2, (host(1, "a"), 1, 2));
        let lost = |tag| Some(told(0, Reply::Aborted { tag, aborted: false }));
        let abort = |group: &mut Subsystems<u32>, qid, tag| {
            group.handle_message(Instant::ZERO, 0, Request::Abort { qid, cid: 70, tag });
            group.poll_message()
        };
        assert_eq!(abort(&mut group, 9, 5), lost(5), "no such queue");
        assert_eq!(abort(&mut group, 2, 6), Some(told(2, Reply::Abort { cid: 70, tag: 6 })));
        assert_eq!(ask(&mut group, 1, Request::Aborted { tag: 6, aborted: true }), None, "it was not asked");
        group.handle_message(Instant::ZERO, 2, Request::Aborted { tag: 6, aborted: true });
        assert_eq!(group.poll_message(), Some(told(0, Reply::Aborted { tag: 6, aborted: true })));
        assert_eq!(ask(&mut group, 2, Request::Aborted { tag: 6, aborted: true }), None, "it was answered");
        assert!(abort(&mut group, 2, 7).is_some());
        group.handle_leave(Instant::ZERO, 2);
        assert_eq!(group.poll_message(), lost(7), "its queue went");
        assert!(abort(&mut group, 1, 8).is_some());
        group.handle_message(Instant::ZERO, 0, Request::Ready(ControllerState::Disabled));
        assert_eq!(group.poll_message(), Some(told(1, Reply::Close)));
        assert_eq!(group.poll_message(), lost(8), "its controller was disabled");
        assert_eq!(ask(&mut group, 1, Request::Aborted { tag: 8, aborted: true }), None);
    }

    #[test]
    fn identifiers_are_not_reused_at_once() {
        let mut group = Subsystems::new();
        assert_eq!(joined(admin(&mut group, 0, host(1, "a")).as_ref()), Some(1));
        assert_eq!(joined(admin(&mut group, 1, host(1, "a")).as_ref()), Some(2));
        group.handle_leave(Instant::ZERO, 0);
        assert_eq!(joined(admin(&mut group, 2, host(2, "b")).as_ref()), Some(3));
        assert_eq!(group.controllers(), 2);
    }
}
