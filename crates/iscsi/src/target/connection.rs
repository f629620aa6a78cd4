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
use volume::reservation::{CommandError, Registrant};
use volume::{Completion, Epoch, Request, VolumeId};

use super::access::ProvenInitiator;
use super::action::Action;
use super::commands::{Commands, Fence, StoppedInPdu};
use super::context::Context;
use super::keep_alive::{KeepAlive, Silence};
use super::life::{Life, Overdue};
use super::login::{Failure, Login, Outcome};
use super::outside_memory::OutsideMemory;
use super::portal::{Node, Portal};
use super::send_targets::SendTargets;
use super::send_watch::{Memory, Progress, SendWatch};
use super::task_management::{ResetResult, TaskManagement};
use super::text_exchange::{Asked, TextNegotiation, TextReply};
use super::text_keys::TextKeys;
use super::window_width::WindowWidth;
use crate::chap;
use crate::connection::State;
use crate::datamover::{
    ControlPdu, DataArrival, Disposition, Pending, ReceivedPdu, Sender, TargetDatamover, TargetLayer,
    TaskHandle, UpperLayer,
};
use crate::keys::Parameters;
use crate::limits::{DISCOVERY_SESSION_TIME, LOGIN_TIME, LOGOUT_TIME, OVERDRAFT};
use crate::pdu::{
    AsyncMessage, BasicHeaderSegment, Bhs, LoginRequest, LoginResponse, NopIn, Opcode, Reject, Status,
    TextRequest,
};
use crate::sequence::{CommandWindow, TargetNumbers, TransferTags};
use crate::session;
use crate::violation::{Answer, Violation};

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
        /// Whether it has happened.
        result: ResetResult,
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

/// One connection of an initiator to a portal, over whatever carries it.
#[derive(Debug)]
pub struct Target<D> {
    pub(super) context: Context<D>,
    pub(super) portal: Arc<Portal>,
    resources: Resources,
    pub(super) life: Life,
    pub(super) login: Option<Box<Login>>,
    /// Without a nexus in a discovery session.
    pub(super) commands: Commands,
    pub(super) management: TaskManagement,
    text: TextNegotiation,
    send_watch: SendWatch,
    keep_alive: KeepAlive,
}

impl<D: TargetDatamover> Target<D> {
    /// A connection that was just accepted, and that this datamover carries.
    pub fn new(now: Instant, portal: Arc<Portal>, resources: Resources, mut mover: D) -> Self {
        let login = Box::new(Login::over::<D>(Arc::clone(&portal)));
        let account = Account::new(&resources.pool);
        let window = WindowWidth::new(portal.queue_depth);
        let numbers = TargetNumbers::new(CommandWindow::new(0, window.get()));
        mover.allocate_connection_resources(window.tasks());
        Self {
            commands: Commands::new(&account, window, now),
            context: Context {
                mover,
                parameters: Parameters::default(),
                numbers,
                tags: TransferTags::default(),
                account,
                outside: OutsideMemory::default(),
                actions: VecDeque::new(),
                notices: Notices::default(),
                now,
            },
            portal,
            resources,
            life: Life::new(now + LOGIN_TIME),
            login: Some(login),
            management: TaskManagement::default(),
            text: TextNegotiation::default(),
            send_watch: SendWatch::Idle,
            keep_alive: KeepAlive::Heard { at: now },
        }
    }

    /// Where the connection is in its life.
    pub fn state(&self) -> State {
        self.life.state()
    }

    /// What the operator is to know, the oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.context.notices.pop()
    }

    /// The initiator, and the target that it asked for, as far as they are known.
    pub fn parties(&self) -> Parties {
        let Some(login) = &self.login else { return Parties::default() };
        let target = self.node().map(|node| node.name.to_string()).or_else(|| login.target_name.clone());
        Parties { initiator: login.initiator.as_ref().map(ToString::to_string), target }
    }

    /// True while the session may use a logical unit on this volume, or has a request there.
    pub fn uses(&self, volume: VolumeId) -> bool {
        let is_shown = || self.commands.nexus().server().is_some_and(|server| server.uses(volume));
        self.life.state().takes_commands() && is_shown() || self.commands.are_at(volume)
    }

    /// Commands that have not been answered yet.
    pub fn outstanding(&self) -> usize {
        self.commands.outstanding()
    }

    /// The target that the initiator has logged in to.
    pub(super) fn node(&self) -> Option<&Node> {
        self.login.as_ref()?.node.as_deref()
    }

    /// The transport has ended.
    fn end(&mut self) {
        self.life.end();
        self.send_watch.end();
        self.commands.end_receiving();
        self.text.end();
        self.abandon();
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
        self.context.numbers.window = CommandWindow::new(request.cmd_sn(), self.commands.window().get());
        match login.handle(request, data, &mut *self.resources.entropy) {
            Ok(Outcome::Respond(response, text)) => {
                self.context.notify(response.to_bytes(), text.into_bytes());
            }
            Ok(Outcome::Join(join)) => {
                let agreed = D::parameters(login.parameters);
                if self.commands.window().grant_receives(&mut self.context, &agreed) {
                    self.context.actions.push_back(Action::Group(join));
                } else {
                    self.fail_login(request, Status::OUT_OF_RESOURCES.into());
                }
            }
            Err(failure) => self.fail_login(request, failure),
        }
    }

    pub(super) fn fail_login(&mut self, request: &LoginRequest, failure: Failure) {
        let response = LoginResponse::new(request, failure.status);
        self.context.notify(response.to_bytes(), Vec::new());
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
                self.context.mover.connection_terminate();
                self.close(CloseReason::Finished);
            }
        }
    }

    fn finish_login(&mut self, now: Instant, tsih: u16) {
        // The login may have failed while the group was asked.
        let Some(login) = self.login.as_mut().filter(|_| self.life.state() == State::InLogin) else { return };
        let Some((response, text, request)) = login.finish(tsih) else { return };
        let told = if login.discovery { "logged in for discovery" } else { "logged in" };
        self.context.parameters = D::parameters(login.parameters);
        let longest_segment = login.tuning.segment;
        self.context.notify(response.to_bytes(), text.into_bytes());
        self.context.mover.notice_key_values(&self.context.parameters);
        self.context.mover.enable_datamover(longest_segment);
        let is_discovery = self.login.as_ref().is_some_and(|login| login.discovery);
        self.life.log_in(is_discovery.then(|| now + DISCOVERY_SESSION_TIME));
        self.keep_alive = KeepAlive::Heard { at: now };
        self.context.notices.push(NoticeKind::Login, told);
        self.open_nexus(request.isid);
    }

    /// Makes the nexus's view of its logical units, and room for its tasks.
    fn open_nexus(&mut self, isid: [u8; 6]) {
        let login = self.login.as_deref();
        let parts = login.and_then(|login| Some((login, login.node.as_deref()?, login.initiator.as_ref()?)));
        let Some((login, node, initiator)) = parts else { return self.commands.give_up() };
        let proven = ProvenInitiator { initiator, account: login.proven.as_ref() };
        let device = node.access.mask(&node.device, proven);
        // The ports' names are those of RFC 7143 §4.4.4.
        let registrant = Registrant::Nexus {
            initiator_port: format!("{initiator},i,{}", chap::encode(&isid)).into(),
            target_port: format!("{},t,0x{:04x}", node.name, node.portal_group).into(),
            relative_port: node.device.relative_port,
        };
        self.commands.open(DeviceServer::new(device, registrant));
    }

    /// Ends the connection once what is queued has gone out; its tasks are aborted.
    pub(super) fn close(&mut self, reason: CloseReason) {
        self.life.close(reason);
        self.abandon();
    }

    /// The connection ends: what is at a volume is cancelled, everything else is dropped.
    fn abandon(&mut self) {
        self.commands.abandon(&mut self.context);
        self.management.clear();
    }

    /// Does what the standard prescribes for a violation.
    pub(super) fn violate(&mut self, violation: Violation, header: Option<&Bhs>) {
        let answer = if self.life.state() == State::InLogin { Answer::Close } else { violation.answer() };
        let reason = match answer {
            Answer::Reject(reason) | Answer::RejectAndClose(reason) => Some(reason),
            Answer::Close => None,
        };
        if matches!(answer, Answer::Reject(_)) {
            self.context.notices.push(NoticeKind::Reject, violation.text());
        }
        if let Some((reason, header)) = reason.zip(header) {
            self.context.notify(Reject::new(reason).to_bytes(), header.to_vec());
        }
        if !matches!(answer, Answer::Reject(_)) {
            self.close(CloseReason::Violation(violation.text()));
        }
    }

    /// Goes on with the text negotiation.
    pub(super) fn negotiate(&mut self, request: &TextRequest, data: &[u8]) -> Result<TextReply, Violation> {
        let mut exchange = match self.text.take(request, data, &mut self.context.tags)? {
            Asked::Part(response) => return Ok(TextReply { response, text: Vec::new() }),
            Asked::Whole(exchange) => exchange,
        };
        if let Some(question) = exchange.unanswered() {
            let login = self.login.as_deref();
            let targets = SendTargets {
                portal: &self.portal,
                own: login.and_then(|login| login.node.as_deref()),
                initiator: login.and_then(|login| login.initiator.as_ref()),
                came_to: self.resources.local,
            };
            let mut keys = TextKeys { context: &mut self.context, tuning: &self.portal.tuning, targets };
            let answer = keys.answer(question)?;
            exchange.answer(answer);
        }
        Ok(self.text.reply(exchange, request, self.context.parameters.peer_segment as usize))
    }

    /// Asks the initiator to log out. The connection ends for this reason if it does not do so in time, or has not logged in.
    pub(super) fn request_logout(&mut self, now: Instant, reason: CloseReason) {
        match self.life.state() {
            State::InLogin => self.close(reason),
            State::LoggedIn => {
                let seconds = wire::bounded::<u16>(LOGOUT_TIME.as_secs());
                self.context.notify(AsyncMessage::logout_requested(seconds).to_bytes(), Vec::new());
                self.life.request_logout(reason, now + LOGOUT_TIME);
            }
            State::LogoutRequested | State::InLogout | State::Closing | State::Free => {}
        }
    }

    fn handle_overdue(&mut self, now: Instant, overdue: Overdue) {
        match overdue {
            Overdue::Login => self.close(CloseReason::TimedOut("the login took too long")),
            Overdue::Discovery => {
                self.request_logout(now, CloseReason::TimedOut("the discovery session lasted too long"));
            }
            Overdue::RequestedLogout(reason) => self.close(reason),
            Overdue::Drain => self.finish_all_pending(),
            Overdue::Nothing => {}
        }
    }

    fn check_silence(&mut self, now: Instant) {
        if self.life.state() != State::LoggedIn {
            return;
        }
        match self.keep_alive.handle_timeout(now) {
            Silence::Bearable => {}
            Silence::Ping => {
                let ping = NopIn::ping(self.context.tags.next()).to_bytes();
                self.context.mover.send_control(ControlPdu::unnumbered(ping, Vec::new()));
            }
            Silence::Unanswered => {
                self.close(CloseReason::TimedOut("the initiator does not answer pings"));
            }
        }
    }

    fn memory(&self) -> Memory {
        if self.context.account.is_wanted() { Memory::Wanted } else { Memory::Free }
    }

    /// Closes the connection when nothing of what is sent to it is read.
    fn watch_sending(&mut self, now: Instant) {
        if self.send_watch.handle_timeout(now, self.memory()) == Progress::Stalled {
            self.context.mover.connection_terminate();
            self.close(CloseReason::TimedOut("the initiator does not read what is sent to it"));
        }
    }

    /// Ends commands whose data makes no progress, and a connection whose PDU has stopped half-way.
    fn watch_data(&mut self) {
        let memory = self.memory();
        if let Err(StoppedInPdu) = self.commands.watch_data(&mut self.context, memory) {
            self.close(CloseReason::TimedOut("the initiator stopped in the middle of a PDU"));
        }
        if self.life.state().is_over() {
            self.commands.end_watch();
        }
    }

    /// Counts what is held outside of buffers; nothing that grows with what a peer does is left out.
    #[inline]
    fn settle_account(&mut self) {
        let talk = self.text.size();
        let in_login = self.life.state() == State::InLogin;
        let login = if in_login { self.login.as_deref().map_or(0, Login::size) } else { 0 };
        let context = &mut self.context;
        let Pending { data, queue } = context.mover.pending();
        let text = talk.saturating_add(login);
        let tables = queue.saturating_add(self.commands.table_bytes::<D>());
        if context.outside.settle(&mut context.account, Outside { data: data.saturating_add(text), tables }) {
            self.check_text(text);
        }
        if !self.commands.await_memory() {
            self.context.account.stop_waiting();
        }
    }

    /// Text for which there is no memory ends the connection.
    #[cold]
    fn check_text(&mut self, text: usize) {
        if text > 0 && self.context.account.overdrawn() > OVERDRAFT && !self.life.state().is_over() {
            self.close(CloseReason::Limit("there is no memory for the text of a login or discovery"));
        }
    }

    /// True while this side has reasons of its own to receive nothing more.
    #[inline]
    fn is_receiving_withheld(&self) -> bool {
        let Context { account, mover, .. } = &self.context;
        let joining = self.life.state() == State::InLogin
            && self.login.as_ref().is_some_and(|login| login.waiting().is_some());
        let overdrawn = account.overdrawn() > OVERDRAFT;
        self.commands.is_receiving_withheld(&self.context)
            || joining
            || (mover.pending().data > 0 && (overdrawn || account.is_over()))
    }
}

impl<D: TargetDatamover> UpperLayer for Target<D> {
    type Mover = D;
    type Numbers = TargetNumbers;
    type Input = Input;
    type Action = Action;

    #[inline]
    fn mover(&mut self) -> &mut D {
        &mut self.context.mover
    }

    #[inline]
    fn mover_ref(&self) -> &D {
        &self.context.mover
    }

    #[inline]
    fn sender(&mut self) -> Sender<'_, D, TargetNumbers> {
        Sender { mover: &mut self.context.mover, numbers: &mut self.context.numbers }
    }

    #[inline]
    fn begin_turn(&mut self, now: Instant) {
        self.context.now = now;
    }

    #[inline]
    fn end_turn(&mut self) {
        self.settle_account();
    }

    #[inline]
    fn hear(&mut self) {
        self.keep_alive = KeepAlive::Heard { at: self.context.now };
    }

    #[inline]
    fn control_notify(&mut self, pdu: ReceivedPdu<'_>) -> Disposition {
        self.commands.pdu_received();
        if self.life.state() != State::InLogin {
            return self.handle_request(pdu);
        }
        self.handle_login_pdu(pdu);
        Disposition::Taken
    }

    fn violation_notify(&mut self, violation: Violation, header: Option<&Bhs>) {
        self.violate(violation, header);
    }

    fn terminate_notify(&mut self, _why: &'static str) {
        self.end();
    }

    #[inline]
    fn find_task(&self, task_tag: u32) -> Option<TaskHandle> {
        self.commands.find(task_tag).map(TaskHandle)
    }

    #[inline]
    fn is_withheld(&self) -> bool {
        self.is_receiving_withheld()
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.life.state().is_over()
    }

    #[inline]
    fn send_begun_notify(&mut self) {
        self.send_watch.begin(self.context.now);
    }

    #[inline]
    fn send_done_notify(&mut self) {
        self.send_watch.end();
    }

    #[inline]
    fn handle_input(&mut self, input: Input) {
        let context = &mut self.context;
        let now = context.now;
        match input {
            Input::Completion(completion) => self.commands.handle_completion(context, completion),
            Input::StaleEpoch(request) => self.commands.handle_refused(context, *request),
            Input::Fence { volume, epoch, event } => {
                self.commands.handle_fence(context, Fence { volume, epoch, event });
            }
            Input::Event { volume, event } => self.commands.handle_event(context, volume, event),
            Input::Reserved { tag, result } => self.commands.handle_reserved(context, tag, result),
            Input::Reset { tag, result } => self.management.handle_reset(tag, result),
            Input::Group(reply) => self.handle_group(now, reply),
            Input::PortalChanged(portal) => self.handle_portal_changed(now, portal),
            Input::Shutdown => self.request_logout(now, CloseReason::ShuttingDown),
        }
        self.finish_pending();
    }

    #[inline]
    fn handle_timeout(&mut self) {
        let now = self.context.now;
        self.watch_sending(now);
        self.watch_data();
        self.commands.handle_withheld_timeout(now);
        if let Some(overdue) = self.life.handle_timeout(now) {
            self.handle_overdue(now, overdue);
        }
        self.reject_overdue(now);
        self.check_silence(now);
    }

    fn handle_memory(&mut self) {
        self.commands.retry_buffers(&mut self.context);
    }

    fn handle_ended(&mut self, _how: Ended) {
        self.end();
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.context.actions.pop_front()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        let silence = (self.life.state() == State::LoggedIn).then(|| self.keep_alive.due());
        let (commands, sending) = (self.commands.due(), self.send_watch.due());
        [self.life.due(), silence, commands, sending, self.management.due()].into_iter().flatten().min()
    }

    fn is_established(&self) -> bool {
        self.commands.nexus().is_open()
    }

    fn awaits_memory(&self) -> bool {
        self.commands.await_buffers()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.life.close_reason()
    }
}

impl<D: TargetDatamover> TargetLayer for Target<D> {
    #[inline]
    fn data_completion_notify(&mut self, task: TaskHandle, arrival: DataArrival) {
        self.commands.handle_data(&mut self.context, task.0, arrival);
    }

    #[inline]
    fn status_sent_notify(&mut self, task: TaskHandle) {
        self.commands.remove(&mut self.context, task.0);
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
                if state == State::LoggedIn {
                    connection.life.log_in(None);
                }
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
