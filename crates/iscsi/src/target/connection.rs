//! The life of a target's connection, and what its datamover and its driver see of it.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use buf::{Account, Outside, Pool};
use protocol::{CloseReason, Ended, Entropy, Instant, Notice, NoticeKind, Notices, Parties};
use scsi::{DeviceServer, NexusEvent};
use volume::reservation::{Command, CommandError, Registrant};
use volume::{Completion, Epoch, Request, Submission, Tag, VolumeId};

use super::access::ProvenInitiator;
use super::keep_alive::{KeepAlive, Silence};
use super::login::{Failure, Login, Outcome};
use super::pending_response::PendingResponse;
use super::portal::{Node, Portal};
use super::tasks::{State as TaskState, Task, Tasks};
use super::text_exchange::TextExchange;
use crate::chap;
use crate::connection::{Event, State};
use crate::datamover::{
    Carrier, ControlPdu, DataArrival, Disposition, ReceivedPdu, TargetDatamover, TargetLayer, TaskHandle,
    UpperLayer,
};
use crate::keys::Parameters;
use crate::limits::{
    DISCOVERY_SESSION_TIME, FIRST_DEPTH, IMMEDIATE_DEPTH, LOGIN_TIME, LOGOUT_TIME, SCARCE_SEND_TIME,
};
use crate::pdu::{
    AsyncMessage, BasicHeaderSegment, Bhs, LoginRequest, LoginResponse, NopIn, Opcode, Reject, Status,
};
use crate::sequence::{CommandWindow, Delivery, TargetNumbers};
use crate::session;
use crate::violation::{Answer, Violation};

/// What a connection asks of the inside.
#[derive(Debug)]
pub enum Action {
    /// Submit a request, whose tag is below 2^16 and unique until its completion. If the volume's epoch is another one by then it comes back as
    /// [`Input::StaleEpoch`].
    Submit(Submission),
    /// Ask that a request end soon.
    Cancel {
        /// On which volume.
        volume: VolumeId,
        /// Which.
        tag: Tag,
    },
    /// Tell every other connection that shows this volume.
    Event {
        /// Which volume.
        volume: VolumeId,
        /// What happened.
        event: NexusEvent,
    },
    /// Hand a command to the owner of a volume's reservations; [`Input::Reserved`] follows.
    Reserve {
        /// Comes back with the answer.
        tag: u32,
        /// Which volume.
        volume: VolumeId,
        /// In whose name.
        registrant: Registrant,
        /// What.
        command: Command,
    },
    /// End the tasks of all other nexuses on these volumes, and tell them; [`Input::Reset`] follows when all that is older has ended.
    Reset {
        /// Comes back with the answer.
        tag: u32,
        /// Which volumes.
        volumes: Vec<VolumeId>,
        /// What the others are told.
        event: NexusEvent,
    },
    /// A message to the group of sessions.
    Group(session::Request),
}

/// What the inside tells a connection.
#[derive(Debug)]
pub enum Input {
    /// A request has ended.
    Completion(Completion),
    /// A request was judged by an older state of its volume than holds now. Nothing has happened to it.
    StaleEpoch(Box<Request>),
    /// A volume's epoch has moved.
    Fence {
        /// Which volume.
        volume: VolumeId,
        /// Its epoch from now on.
        epoch: Epoch,
        /// What has happened, if it concerns this nexus.
        event: Option<NexusEvent>,
    },
    /// Something happened on a volume.
    Event {
        /// Which volume.
        volume: VolumeId,
        /// What.
        event: NexusEvent,
    },
    /// The owner of the reservations answers.
    Reserved {
        /// The action's tag.
        tag: u32,
        /// Done, or why nothing changed. The new state has come before.
        result: Result<(), CommandError>,
    },
    /// A reset is over.
    Reset {
        /// The action's tag.
        tag: u32,
        /// False when it was refused.
        done: bool,
    },
    /// The group of sessions speaks.
    Group(session::Reply),
    /// The portal serves something else from now on. What a new connection is told of epochs and reservations follows for the volumes that it has and the
    /// portal of before had not, as [`Input::Fence`].
    PortalChanged(Arc<Portal>),
    /// The process is about to stop.
    Shutdown,
}

/// What a connection is made of besides its portal.
pub struct Resources {
    /// The core's buffers.
    pub pool: Pool,
    /// Randomness for challenges.
    pub entropy: Box<dyn Entropy>,
    /// The address that the initiator came to.
    pub local: SocketAddr,
    /// The initiator's address.
    pub peer: SocketAddr,
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources")
            .field("local", &self.local)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// A send whose end is awaited.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendWatch {
    pub(super) since: Instant,
    /// When it is looked at.
    pub(super) due: Instant,
}

/// One connection of an initiator to a portal, over whatever carries it.
#[derive(Debug)]
pub struct Target<D> {
    pub(super) mover: D,
    pub(super) portal: Arc<Portal>,
    pub(super) resources: Resources,
    pub(super) state: State,
    pub(super) login: Option<Box<Login>>,
    pub(super) parameters: Parameters,
    pub(super) numbers: TargetNumbers,
    /// How wide the command window is.
    pub(super) width: u16,
    /// The I_T nexus's view of its target; `None` in a discovery session.
    pub(super) server: Option<Box<DeviceServer>>,
    /// The newest reservations of each volume, from before there was a nexus.
    pub(super) early_events: Vec<(VolumeId, NexusEvent)>,
    /// The epochs that had moved by then.
    pub(super) early_epochs: Vec<(VolumeId, Epoch)>,
    pub(super) tasks: Tasks,
    /// Tasks that wait for a buffer, the oldest first.
    pub(super) awaiting_buffer: VecDeque<u16>,
    /// The pool's count of returns when they were last tried.
    pub(super) retried_at: u64,
    /// The pool's count of returns when what came last found no buffer for its data.
    pub(super) waits_for_memory: Option<u64>,
    /// The task of a command that was carried out, but stays where it is until there is memory for its data.
    pub(super) unread: Option<u16>,
    /// What this connection holds of the pool; what of that is counted for text and answers, and for tables; and what its tables were allowed before they grew.
    pub(super) account: Account,
    pub(super) counted: Outside,
    pub(super) table_allowance: usize,
    /// When commands that wait for data are looked at.
    pub(super) watch_at: Option<Instant>,
    /// When any data came last.
    pub(super) data_heard: Instant,
    /// The send that is under way.
    pub(super) sending: Option<SendWatch>,
    /// The time as it was told last.
    pub(super) now: Instant,
    /// Since when a command whose data came unsolicited has been waiting for memory.
    pub(super) waiting_since: Option<Instant>,
    pub(super) pending: VecDeque<PendingResponse>,
    pub(super) exchange: Option<TextExchange>,
    pub(super) serial: u32,
    pub(super) actions: VecDeque<Action>,
    keep_alive: KeepAlive,
    /// What the operator is to know.
    pub(super) notices: Notices,
    /// When a login, logout or drain is overdue.
    pub(super) due: Option<Instant>,
    /// Why the connection ends if the logout that was asked for does not come.
    pub(super) logout_reason: CloseReason,
    close: Option<CloseReason>,
}

impl<D: TargetDatamover> Target<D> {
    /// A connection that was just accepted, and that this datamover carries.
    pub fn new(now: Instant, portal: Arc<Portal>, resources: Resources, mut mover: D) -> Self {
        let login = Box::new(Login::new(Arc::clone(&portal), D::CARRIER));
        let account = Account::new(&resources.pool);
        let width = portal.queue_depth.min(FIRST_DEPTH);
        mover.allocate_connection_resources(width.saturating_add(IMMEDIATE_DEPTH));
        Self {
            mover,
            numbers: TargetNumbers::new(CommandWindow::new(0, width)),
            width,
            portal,
            resources,
            state: State::InLogin,
            login: Some(login),
            parameters: Parameters::default(),
            server: None,
            early_events: Vec::new(),
            early_epochs: Vec::new(),
            tasks: Tasks::new(0),
            awaiting_buffer: VecDeque::new(),
            retried_at: account.returns(),
            waits_for_memory: None,
            unread: None,
            account,
            counted: Outside::default(),
            table_allowance: 0,
            watch_at: None,
            data_heard: now,
            sending: None,
            now,
            waiting_since: None,
            pending: VecDeque::new(),
            exchange: None,
            serial: 0,
            actions: VecDeque::new(),
            keep_alive: KeepAlive::Heard { at: now },
            notices: Notices::default(),
            due: Some(now + LOGIN_TIME),
            logout_reason: CloseReason::ShuttingDown,
            close: None,
        }
    }

    /// Where the connection is in its life.
    pub fn state(&self) -> State {
        self.state
    }

    /// What the operator is to know, the oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop()
    }

    /// The initiator, and the target that it asked for, as far as they are known.
    pub fn parties(&self) -> Parties {
        let Some(login) = &self.login else { return Parties::default() };
        let target = self.node().map(|node| node.name.to_string()).or_else(|| login.target_name.clone());
        Parties { initiator: login.initiator.as_ref().map(ToString::to_string), target }
    }

    /// True while the session may use a logical unit on this volume, or has a request there.
    pub fn uses(&self, volume: VolumeId) -> bool {
        let is_shown = || self.server.as_ref().is_some_and(|server| server.uses(volume));
        let is_at_volume = |task: &Task| matches!(task.state, TaskState::AtVolume(at) if at == volume);
        self.state.takes_commands() && is_shown() || self.tasks.iter().any(is_at_volume)
    }

    /// Commands that have not been answered yet.
    pub fn outstanding(&self) -> usize {
        self.tasks.iter().count()
    }

    /// The target that the initiator has logged in to.
    pub(super) fn node(&self) -> Option<&Node> {
        self.login.as_ref()?.node.as_deref()
    }

    /// Sends a response to a request that was delivered so.
    pub(super) fn respond(&mut self, header: Bhs, data: Vec<u8>, delivery: Delivery) {
        self.mover.send_control(ControlPdu::response(header, data, delivery));
    }

    /// Sends a PDU that takes a StatSN and ends no numbered request: a Login Response, as Login Requests are immediate, a Reject or an
    /// Asynchronous Message.
    pub(super) fn notify(&mut self, header: Bhs, data: Vec<u8>) {
        self.respond(header, data, Delivery::Immediate);
    }

    fn handle_login_pdu(&mut self, pdu: ReceivedPdu<'_>) {
        match pdu.data {
            Some(data) if BasicHeaderSegment::from_bytes(pdu.header).opcode() == Opcode::LOGIN_REQUEST => {
                self.handle_login(&LoginRequest::from_bytes(pdu.header), data);
            }
            _ => self.violate(Violation::NotLogin, None),
        }
    }

    fn handle_login(&mut self, request: &LoginRequest, data: &[u8]) {
        let Some(login) = &mut self.login else { return };
        self.numbers.window = CommandWindow::new(request.cmd_sn(), self.width);
        match login.handle(request, data, &mut *self.resources.entropy) {
            Ok(Outcome::Respond(response, text)) => {
                self.notify(response.to_bytes(), text.into_bytes());
            }
            Ok(Outcome::Join(join)) => self.actions.push_back(Action::Group(join)),
            Err(failure) => self.fail_login(request, failure),
        }
    }

    pub(super) fn fail_login(&mut self, request: &LoginRequest, failure: Failure) {
        let response = LoginResponse::new(request, failure.status);
        self.notify(response.to_bytes(), Vec::new());
        let reason = match failure.status {
            Status::AUTHENTICATION_FAILURE | Status::AUTHORIZATION_FAILURE | Status::NOT_FOUND => {
                CloseReason::Refused(failure.text)
            }
            Status::OUT_OF_RESOURCES | Status::SERVICE_UNAVAILABLE => CloseReason::Limit(failure.text),
            _ => CloseReason::Violation(failure.text),
        };
        self.close(reason);
    }

    fn handle_group(&mut self, now: Instant, reply: session::Reply) {
        match reply {
            session::Reply::Joined { tsih } => self.finish_login(now, tsih),
            session::Reply::Refused(status) => {
                if let Some(request) = self.login.as_ref().and_then(|login| login.waiting()) {
                    self.fail_login(&request, status.into());
                }
            }
            session::Reply::Displaced => {
                self.mover.connection_terminate();
                self.close(CloseReason::Finished);
            }
        }
    }

    fn finish_login(&mut self, now: Instant, tsih: u16) {
        // The login may have failed while the group was asked.
        let Some(login) = self.login.as_mut().filter(|_| self.state == State::InLogin) else { return };
        let Some((response, text, request)) = login.finish(tsih) else { return };
        let told = if login.discovery { "logged in for discovery" } else { "logged in" };
        self.parameters = match D::CARRIER {
            Carrier::Stream => login.parameters,
            Carrier::Rdma => login.parameters.over_rdma(login.parameters.rdma.initiator_segment),
        };
        let longest_segment = login.tuning.segment;
        self.notify(response.to_bytes(), text.into_bytes());
        self.mover.notice_key_values(&self.parameters);
        self.mover.enable_datamover(longest_segment);
        self.enter(Event::LoginDone);
        self.due = None;
        self.keep_alive = KeepAlive::Heard { at: now };
        if self.login.as_ref().is_some_and(|login| login.discovery) {
            self.due = Some(now + DISCOVERY_SESSION_TIME);
        }
        self.notices.push(NoticeKind::Login, told);
        self.open_nexus(request.isid);
    }

    /// Makes the nexus's view of its logical units, and room for its tasks.
    fn open_nexus(&mut self, isid: [u8; 6]) {
        let Some(node) = self.node() else { return };
        let Some(login) = &self.login else { return };
        let Some(initiator) = &login.initiator else { return };
        let proven = ProvenInitiator { initiator, account: login.proven.as_ref() };
        let device = node.access.mask(&node.device, proven);
        // The ports' names are those of RFC 7143 §4.4.4.
        let registrant = Registrant::Nexus {
            initiator_port: format!("{initiator},i,{}", chap::encode(&isid)).into(),
            target_port: format!("{},t,0x{:04x}", node.name, node.portal_group).into(),
            relative_port: node.device.relative_port,
        };
        let mut server = DeviceServer::new(device, registrant);
        for (volume, event) in self.early_events.drain(..) {
            server.handle_event(volume, event);
        }
        for (volume, epoch) in self.early_epochs.drain(..) {
            server.set_epoch(volume, epoch);
        }
        self.server = Some(Box::new(server));
        self.tasks = Tasks::new(self.width.saturating_add(IMMEDIATE_DEPTH));
    }

    pub(super) fn enter(&mut self, event: Event) {
        if let Some(next) = self.state.after(event) {
            self.state = next;
        }
    }

    /// Ends the connection once what is queued has gone out; its tasks are aborted.
    pub(super) fn close(&mut self, reason: CloseReason) {
        self.enter(Event::Close);
        self.close.get_or_insert(reason);
        self.due = None;
        self.abandon();
    }

    /// Does what the standard prescribes for a violation.
    pub(super) fn violate(&mut self, violation: Violation, header: Option<&Bhs>) {
        let answer = if self.state == State::InLogin { Answer::Close } else { violation.answer() };
        let reason = match answer {
            Answer::Reject(reason) | Answer::RejectAndClose(reason) => Some(reason),
            Answer::Close => None,
        };
        if matches!(answer, Answer::Reject(_)) {
            self.notices.push(NoticeKind::Reject, violation.text());
        }
        if let Some((reason, header)) = reason.zip(header) {
            self.notify(Reject::new(reason).to_bytes(), header.to_vec());
        }
        if !matches!(answer, Answer::Reject(_)) {
            self.close(CloseReason::Violation(violation.text()));
        }
    }

    /// Asks the initiator to log out. The connection ends for this reason if it does not do so in time, or has not logged in.
    pub(super) fn request_logout(&mut self, now: Instant, reason: CloseReason) {
        if self.state == State::LoggedIn {
            let seconds = wire::bounded::<u16>(LOGOUT_TIME.as_secs());
            self.notify(AsyncMessage::logout_requested(seconds).to_bytes(), Vec::new());
            self.enter(Event::LogoutAsked);
            (self.due, self.logout_reason) = (Some(now + LOGOUT_TIME), reason);
        } else if self.state == State::InLogin {
            self.close(reason);
        }
    }

    fn deadline_passed(&mut self, now: Instant) {
        match self.state {
            State::InLogin => self.close(CloseReason::TimedOut("the login took too long")),
            State::LoggedIn => {
                self.request_logout(now, CloseReason::TimedOut("the discovery session lasted too long"));
            }
            State::LogoutRequested => self.close(self.logout_reason),
            State::InLogout => self.finish_all_pending(),
            _ => {}
        }
        self.due = self.due.filter(|due| *due > now);
    }

    fn check_silence(&mut self, now: Instant) {
        if self.state != State::LoggedIn {
            return;
        }
        match self.keep_alive.handle_timeout(now) {
            Silence::Bearable => {}
            Silence::Ping => {
                let transfer_tag = self.transfer_tag();
                let ping = NopIn::ping(transfer_tag).to_bytes();
                self.mover.send_control(ControlPdu::unnumbered(ping, Vec::new()));
            }
            Silence::Unanswered => {
                self.close(CloseReason::TimedOut("the initiator does not answer pings"));
            }
        }
    }

    /// A Target Transfer Tag that was not used for a long time and is not the reserved one.
    pub(super) fn transfer_tag(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1) & 0x7fff_ffff;
        self.serial
    }
}

impl<D: TargetDatamover> UpperLayer for Target<D> {
    type Mover = D;
    type Numbers = TargetNumbers;
    type Input = Input;
    type Action = Action;

    #[inline]
    fn mover(&mut self) -> &mut D {
        &mut self.mover
    }

    #[inline]
    fn mover_ref(&self) -> &D {
        &self.mover
    }

    #[inline]
    fn mover_and_numbers(&mut self) -> (&mut D, &mut TargetNumbers) {
        (&mut self.mover, &mut self.numbers)
    }

    #[inline]
    fn begin_turn(&mut self, now: Instant) {
        self.now = now;
    }

    #[inline]
    fn end_turn(&mut self) {
        self.settle_account();
    }

    #[inline]
    fn hear(&mut self) {
        self.keep_alive = KeepAlive::Heard { at: self.now };
    }

    #[inline]
    fn control_notify(&mut self, pdu: ReceivedPdu<'_>) -> Disposition {
        self.waits_for_memory = None;
        if self.state != State::InLogin {
            return self.handle_request(pdu);
        }
        self.handle_login_pdu(pdu);
        Disposition::Taken
    }

    fn violation_notify(&mut self, violation: Violation, header: Option<&Bhs>) {
        self.violate(violation, header);
    }

    #[inline]
    fn find_task(&self, task_tag: u32) -> Option<TaskHandle> {
        self.tasks.find(task_tag).map(TaskHandle)
    }

    #[inline]
    fn is_withheld(&self) -> bool {
        self.is_receiving_withheld()
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.state.is_over()
    }

    #[inline]
    fn send_begun_notify(&mut self) {
        self.sending = Some(SendWatch { since: self.now, due: self.now + SCARCE_SEND_TIME });
    }

    #[inline]
    fn send_done_notify(&mut self) {
        self.sending = None;
    }

    #[inline]
    fn handle_input(&mut self, input: Input) {
        let now = self.now;
        match input {
            Input::Completion(completion) => self.handle_completion(completion),
            Input::StaleEpoch(request) => self.handle_refused(*request),
            Input::Fence { volume, epoch, event } => self.handle_fence(volume, epoch, event),
            Input::Event { volume, event } => self.handle_event(volume, event),
            Input::Reserved { tag, result } => self.handle_reserved(tag, result),
            Input::Reset { tag, done } => self.handle_reset(tag, done),
            Input::Group(reply) => self.handle_group(now, reply),
            Input::PortalChanged(portal) => self.handle_portal_changed(now, portal),
            Input::Shutdown => self.request_logout(now, CloseReason::ShuttingDown),
        }
    }

    #[inline]
    fn handle_timeout(&mut self) {
        let now = self.now;
        self.watch_sending(now);
        self.watch_data(now);
        self.watch_receiving(now);
        if self.due.is_some_and(|due| due <= now) {
            self.deadline_passed(now);
        }
        self.give_up_pending(now);
        self.check_silence(now);
    }

    fn handle_ended(&mut self, _how: Ended) {
        self.enter(Event::Ended);
        (self.due, self.watch_at, self.sending, self.waits_for_memory) = (None, None, None, None);
        (self.exchange, self.unread) = (None, None);
        self.abandon();
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        if self.actions.is_empty() && !self.awaiting_buffer.is_empty() {
            self.retry_awaiting_buffer();
        }
        self.actions.pop_front()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        let silence = (self.state == State::LoggedIn).then(|| self.keep_alive.due());
        let sending = self.sending.map(|watch| watch.due);
        let receiving = self.receiving_due();
        [self.due, silence, self.watch_at, sending, receiving, self.pending_due()].into_iter().flatten().min()
    }

    fn is_established(&self) -> bool {
        self.server.is_some()
    }

    fn awaits_memory(&self) -> bool {
        !self.awaiting_buffer.is_empty()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.close
    }
}

impl<D: TargetDatamover> TargetLayer for Target<D> {
    #[inline]
    fn data_completion_notify(&mut self, task: TaskHandle, arrival: DataArrival) {
        self.handle_data(task.0, arrival);
    }

    #[inline]
    fn status_sent_notify(&mut self, task: TaskHandle) {
        self.remove_task(task.0);
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use protocol::SeededEntropy;

    use super::*;
    use crate::datamover::tcp::TcpTarget;
    use crate::violation::tests::ALL;

    /// Every violation, before and after the login, is reported: as the reason of the end, or as a notice.
    #[test]
    fn no_violation_passes_in_silence() {
        for &violation in ALL {
            for state in [State::InLogin, State::LoggedIn] {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
                let entropy = Box::new(SeededEntropy::new(1));
                let resources =
                    Resources { pool: Pool::new(1 << 20), entropy, local: address, peer: address };
                let portal = Arc::new(Portal::new(Vec::<Node>::new()));
                let mut connection = Target::new(Instant::ZERO, portal, resources, TcpTarget::new());
                connection.state = state;
                connection.violate(violation, Some(&[0; 48]));
                let notice = connection.poll_notice().map(|notice| notice.text);
                let closed = connection.poll_close();
                let told = closed == Some(CloseReason::Violation(violation.text()))
                    || notice == Some(violation.text());
                assert!(told, "{violation:?} in {state:?}: {closed:?} {notice:?}");
            }
        }
    }
}
