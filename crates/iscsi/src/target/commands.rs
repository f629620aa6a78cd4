//! The SCSI commands of a connection, from the wire to the volume and back: their tasks, the nexus that carries them out, and the memory that they wait for.
//!
//! A task's state (`tasks`) says where its command is. A command gets its memory when it needs it: a read before it goes to the volume, a write once the device server has
//! found nothing wrong with it. Until then it waits with nothing (`buffer_queue`), and receiving goes on. Only data that comes unsolicited stays where it is until
//! there is memory for it, and what is behind it too (`withheld_receive`). A command whose data does not come ends with INITIATOR RESPONSE TIMEOUT, the code of other
//! transports for a transfer that nobody serves (`data_watch`).

use alloc::vec::Vec;

use buf::{Account, Buf, BufList, LARGEST};
use protocol::{Instant, NoticeKind};
use scsi::{DataDirection, DeviceServer, NexusEvent, Reply, Sense, Status, Step, UnitEvent};
use volume::reservation::CommandError;
use volume::{Completion, Epoch, Operation, Request, Submission, Tag, VolumeId};

use super::action::Action;
use super::buffer_need::BufferNeed;
use super::buffer_queue::{BufferQueue, Granted};
use super::context::Context;
use super::data_watch::DataWatch;
use super::get_data::{Announced, GetDataProgress};
use super::long_cdb::LongCdb;
use super::nexus::Nexus;
use super::send_watch::Memory;
use super::tasks::{AbortedBy, State, Task, Tasks, Wanted};
use super::window_width::WindowWidth;
use super::withheld_receive::WithheldReceive;
use crate::datamover::{
    DataArrival, Disposition, GetData, PutData, ReceivedPdu, TargetDatamover, TaskHandle, WriteResources,
};
use crate::keys::Parameters;
use crate::limits::IMMEDIATE_DEPTH;
use crate::pdu::{Residual, ScsiCommand, extended_cdb};
use crate::sequence::Delivery;
use crate::violation::Violation;

/// A command that violates the protocol, and how much of it was done.
#[derive(Debug, Clone, Copy)]
pub(super) enum RefusedCommand {
    /// Nothing: its PDU is at fault.
    NotBegun(Violation),
    /// It has a task.
    Begun(Violation),
}

/// The initiator has stopped in the middle of a PDU: its buffer cannot be taken back, and the connection is of no use any more.
#[derive(Debug)]
pub(super) struct StoppedInPdu;

/// What a moved epoch tells a connection.
#[derive(Debug)]
pub(super) struct Fence {
    /// Whose epoch has moved.
    pub(super) volume: VolumeId,
    /// It is this from now on.
    pub(super) epoch: Epoch,
    /// What has happened, if it concerns this nexus.
    pub(super) event: Option<NexusEvent>,
}

/// The commands of one connection.
#[derive(Debug)]
pub(super) struct Commands {
    nexus: Nexus,
    tasks: Tasks,
    /// Tasks that wait for a buffer.
    buffers: BufferQueue,
    withheld: WithheldReceive,
    data_watch: DataWatch,
    window: WindowWidth,
}

impl Commands {
    /// Of a connection that logs in.
    pub(super) fn new(account: &Account, window: WindowWidth, now: Instant) -> Self {
        Self {
            nexus: Nexus::awaited(),
            tasks: Tasks::new(0),
            buffers: BufferQueue::new(account),
            withheld: WithheldReceive::new(),
            data_watch: DataWatch::new(now),
            window,
        }
    }

    /// The session begins, with this view of its logical units.
    pub(super) fn open(&mut self, server: DeviceServer) {
        self.nexus.open(server);
        self.tasks = Tasks::new(self.window.tasks());
    }

    /// No session with commands begins any more.
    pub(super) fn give_up(&mut self) {
        self.nexus.give_up();
    }

    /// The I_T nexus.
    pub(super) fn nexus(&self) -> &Nexus {
        &self.nexus
    }

    /// The view of the logical units, if there is a nexus.
    pub(super) fn server_mut(&mut self) -> Option<&mut DeviceServer> {
        self.nexus.server_mut()
    }

    /// How wide the command window is.
    pub(super) fn window(&mut self) -> &mut WindowWidth {
        &mut self.window
    }

    /// How many have not been answered.
    pub(super) fn outstanding(&self) -> usize {
        self.tasks.iter().count()
    }

    /// True while one has a request at this volume.
    pub(super) fn are_at(&self, volume: VolumeId) -> bool {
        self.tasks.iter().any(|task| matches!(task.state, State::AtVolume(at) if at == volume))
    }

    /// The task with this tag.
    #[inline]
    pub(super) fn find(&self, task_tag: u32) -> Option<u16> {
        self.tasks.find(task_tag)
    }

    /// The task in a slot, to look at.
    pub(super) fn peek(&self, slot: u16) -> Option<&Task> {
        self.tasks.peek(slot)
    }

    /// True while one that was aborted is still at a volume, or at the owner of the reservations.
    pub(super) fn are_aborting(&self) -> bool {
        self.tasks.are_aborting()
    }

    /// True while one holds a buffer for data that is still to be received.
    pub(super) fn are_collecting(&self) -> bool {
        self.tasks.are_collecting()
    }

    /// Handles a command that was delivered so. If it is withheld, for want of memory for its data, it was carried out as far as that.
    ///
    /// # Errors
    /// What it violates.
    #[inline(never)]
    pub(super) fn handle_command<D: TargetDatamover>(
        &mut self,
        context: &mut Context<D>,
        pdu: ReceivedPdu<'_>,
        delivery: Delivery,
    ) -> Result<Disposition, RefusedCommand> {
        let command = ScsiCommand::from_bytes(pdu.header);
        if let Err(violation) = self.check(&command, delivery) {
            context.numbers.window.finish(delivery);
            return Err(RefusedCommand::NotBegun(violation));
        }
        let Some(slot) = self.tasks.insert(command.task_tag()) else { return Ok(Disposition::Taken) };
        let Some(task) = self.tasks.get(slot) else { return Ok(Disposition::Taken) };
        (task.lun, task.expected) = (command.lun, command.expected_length());
        (task.reads, task.delivery) = (command.reads(), delivery);
        if let Err(violation) = begin_collection(task, &command, &context.parameters) {
            self.remove(context, slot);
            return Err(RefusedCommand::NotBegun(violation));
        }
        match self.start(context, slot, &command, pdu.ahs) {
            Some(Step::ReceiveData { length }) if length as usize <= LARGEST => {
                let Some(task) = self.tasks.get(slot) else { return Ok(Disposition::Taken) };
                task.get_data.need(length);
                (task.buffer, task.heard) = (BufferNeed::one(length), context.now);
                Ok(self.receive_data(context, slot, pdu))
            }
            // Without announced data, or with more than a buffer holds.
            Some(Step::ReceiveData { .. }) => Err(RefusedCommand::Begun(Violation::DataOverrun)),
            Some(step) => {
                self.run(context, slot, step);
                Ok(Disposition::Taken)
            }
            None => Ok(Disposition::Taken),
        }
    }

    #[inline]
    fn check(&self, command: &ScsiCommand, delivery: Delivery) -> Result<(), Violation> {
        if !self.nexus.is_open() {
            return Err(Violation::CommandInDiscovery);
        }
        if command.reads() && command.writes() {
            return Err(Violation::Bidirectional);
        }
        if self.tasks.find(command.task_tag()).is_some() {
            return Err(Violation::DuplicateTask);
        }
        let immediate = || self.tasks.iter().filter(|task| task.delivery == Delivery::Immediate).count();
        if delivery == Delivery::Immediate && immediate() >= usize::from(IMMEDIATE_DEPTH)
            || !self.tasks.has_room()
        {
            return Err(Violation::TooManyImmediate);
        }
        Ok(())
    }

    #[inline]
    fn start<D>(
        &mut self,
        context: &mut Context<D>,
        slot: u16,
        command: &ScsiCommand,
        ahs: &[u8],
    ) -> Option<Step> {
        let (server, task) = (self.nexus.server_mut()?, self.tasks.get(slot)?);
        let data = match (command.reads(), command.writes()) {
            (true, _) => DataDirection::In(command.expected_length()),
            (_, true) => DataDirection::Out(command.expected_length()),
            _ => DataDirection::None,
        };
        let long;
        let cdb = match extended_cdb(ahs) {
            Some(rest) => {
                long = LongCdb::new(&command.cdb, rest);
                long.bytes()
            }
            None => command.cdb.as_slice(),
        };
        let command = scsi::Command { lun: command.lun, cdb, data, attribute: command.attribute() };
        let step = server.start(&command, &mut task.command);
        self.spread_events(context);
        Some(step)
    }

    /// A PDU has come: the one that was withheld, if one was.
    #[inline]
    pub(super) fn pdu_received(&mut self) {
        self.withheld.received();
    }

    /// The command whose PDU was withheld and comes again, if that is so.
    #[inline]
    pub(super) fn take_withheld(&mut self) -> Option<u16> {
        self.withheld.take_command()
    }

    /// Goes on with that command, unless it has ended.
    pub(super) fn resume<D: TargetDatamover>(
        &mut self,
        context: &mut Context<D>,
        slot: u16,
        pdu: ReceivedPdu<'_>,
    ) -> Disposition {
        match self.tasks.peek(slot) {
            Some(task) if task.is_unread() => self.receive_data(context, slot, pdu),
            _ => Disposition::Taken,
        }
    }

    /// Takes what comes with a write, or waits until it may ask for the data.
    #[inline]
    fn receive_data<D: TargetDatamover>(
        &mut self,
        context: &mut Context<D>,
        slot: u16,
        pdu: ReceivedPdu<'_>,
    ) -> Disposition {
        let command = ScsiCommand::from_bytes(pdu.header);
        let Some(task) = self.tasks.get(slot) else { return Disposition::Taken };
        if command.data_length() == 0 && command.is_final() {
            task.state = State::AwaitBuffer(Wanted::Data);
            self.request_buffer(context, slot);
            return Disposition::Taken;
        }
        let unsolicited = context.parameters.unsolicited().min(task.expected);
        let length = task.buffer.length.max(unsolicited) as usize;
        let Some(buf) = context.account.take(length.min(LARGEST)) else {
            task.state = State::Unread;
            return self.wait_for_memory(context, slot);
        };
        self.withheld.satisfied();
        lend_buffer(&mut context.mover, slot, task, buf);
        if pdu.data.is_none() {
            self.data_watch.begin(context.now);
        }
        Disposition::Immediate(TaskHandle(slot))
    }

    /// No buffer for data that comes unsolicited. It stays where it is for a while, unless buffers wait for what comes behind it: then the command
    /// is answered BUSY, and its data is thrown away.
    fn wait_for_memory<D: TargetDatamover>(&mut self, context: &mut Context<D>, slot: u16) -> Disposition {
        let is_patient = self.withheld.may_wait(context.now);
        if is_patient && !self.tasks.are_collecting() {
            self.withheld.withhold_command(slot, context.account.returns());
            return Disposition::Withheld;
        }
        self.answer(context, slot, without_data(Status::Busy));
        Disposition::Taken
    }

    /// Withholds a request for want of memory, until some has come back to the pool.
    pub(super) fn withhold_request<D>(&mut self, context: &Context<D>) {
        self.withheld.withhold_request(context.account.returns());
    }

    /// True while something is withheld for want of memory, and none has come back.
    #[inline]
    pub(super) fn is_receiving_withheld<D>(&self, context: &Context<D>) -> bool {
        self.withheld.is_waiting() && self.withheld.is_withheld(context.account.returns())
    }

    /// True while tasks wait for a buffer.
    #[inline]
    pub(super) fn await_buffers(&self) -> bool {
        !self.buffers.is_empty()
    }

    /// True while a task, or what is received, waits for memory.
    #[inline]
    pub(super) fn await_memory(&self) -> bool {
        self.await_buffers() || self.withheld.is_waiting()
    }

    /// Bytes of its tables.
    #[inline]
    pub(super) fn table_bytes<D: TargetDatamover>(&self) -> usize {
        self.tasks.used().saturating_mul(size_of::<Task>().saturating_add(D::TASK_SIZE))
    }

    /// Gets a task the buffer that it waits for, or a place behind those that wait already.
    #[inline]
    fn request_buffer<D: TargetDatamover>(&mut self, context: &mut Context<D>, slot: u16) {
        let Some(need) = self.tasks.awaited_buffer(slot) else { return };
        if let Some(buf) = self.buffers.request(slot, need, &mut context.account) {
            self.give_buffer(context, Granted { slot, buf });
        }
    }

    /// Tries again to find buffers for the tasks that wait for one.
    pub(super) fn retry_buffers<D: TargetDatamover>(&mut self, context: &mut Context<D>) {
        let Some(mut pass) = self.buffers.begin_pass(&context.account) else { return };
        while let Some(granted) = self.buffers.next_granted(&mut pass, &mut self.tasks, &mut context.account)
        {
            self.give_buffer(context, granted);
        }
    }

    /// Goes on with a task that waited for a buffer.
    #[inline]
    fn give_buffer<D: TargetDatamover>(&mut self, context: &mut Context<D>, granted: Granted) {
        let Granted { slot, buf } = granted;
        let Some(task) = self.tasks.get(slot) else { return };
        let State::AwaitBuffer(wanted) = task.state else { return };
        match wanted {
            Wanted::Read { volume, epoch, extent } => {
                task.state = State::AtVolume(volume);
                let operation = Operation::Read { extent, into: buf };
                let request = Request { tag: Tag(slot.into()), operation };
                context.actions.push_back(Action::Submit(Submission { volume, epoch, request }));
            }
            Wanted::Data => {
                task.heard = context.now;
                lend_buffer(&mut context.mover, slot, task, buf);
                self.collect(context, slot);
            }
        }
    }

    /// The command window is used up: it becomes wider if it may.
    #[cold]
    pub(super) fn widen<D: TargetDatamover>(&mut self, context: &mut Context<D>) {
        if self.nexus.is_open() {
            self.window.widen(context, &mut self.tasks);
        }
    }

    /// Removes a task, and what was kept for it. Says how its command was delivered.
    #[inline]
    pub(super) fn remove<D>(&mut self, context: &mut Context<D>, slot: u16) -> Option<Delivery> {
        if let Some(task) = self.tasks.get(slot) {
            task.buffer.release(&mut context.account);
        }
        self.tasks.remove(slot)
    }

    /// Gives other nexuses what the device server has for them.
    #[inline]
    fn spread_events<D>(&mut self, context: &mut Context<D>) {
        let Some(server) = self.nexus.server_mut() else { return };
        while let Some(UnitEvent { volume, event }) = server.poll_event() {
            context.actions.push_back(Action::Event { volume, event });
        }
    }

    /// Asks for the data that is missing, or goes on with the command when all is there.
    #[inline]
    fn collect<D: TargetDatamover>(&mut self, context: &mut Context<D>, slot: u16) {
        let Some(task) = self.tasks.get(slot) else { return };
        if task.get_data.is_complete() {
            let needed = task.buffer.length as usize;
            task.state = State::Answering;
            let Some(buf) = context.mover.deallocate_task_resources(TaskHandle(slot)) else { return };
            let data = buf.freeze();
            let data = if needed == data.len() { data } else { data.slice(..needed.min(data.len())) };
            let Some(server) = self.nexus.server_mut() else { return };
            let step = server.data_received(&mut task.command, data);
            self.spread_events(context);
            return self.run(context, slot, step);
        }
        self.data_watch.begin(context.now);
        while let Some(range) = task.get_data.next(&context.parameters) {
            let (task_tag, lun) = (task.tag, task.lun);
            context.mover.get_data(GetData { task: TaskHandle(slot), task_tag, lun, range });
        }
    }

    /// Write data has arrived for a task.
    #[inline]
    pub(super) fn handle_data<D: TargetDatamover>(
        &mut self,
        context: &mut Context<D>,
        slot: u16,
        arrival: DataArrival,
    ) {
        let Some(task) = self.tasks.get(slot).filter(|task| matches!(task.state, State::Collecting)) else {
            return;
        };
        if arrival != DataArrival::Immediate {
            task.heard = context.now;
            self.data_watch.hear(context.now);
        }
        match arrival {
            DataArrival::Part => return,
            DataArrival::Immediate => {}
            DataArrival::Unsolicited { end } => task.get_data.unsolicited_ended(end),
            DataArrival::GetData => task.get_data.completed(),
        }
        self.collect(context, slot);
    }

    /// Does what the device server wants next for a task.
    fn run<D: TargetDatamover>(&mut self, context: &mut Context<D>, slot: u16, step: Step) {
        let Some(task) = self.tasks.get(slot) else { return };
        let tag = Tag(slot.into());
        match step {
            Step::Read { volume, epoch, extent, length } => {
                let whole = if task.reads { task.command.full_length() } else { length.into() };
                task.buffer.piece(length, whole);
                task.state = State::AwaitBuffer(Wanted::Read { volume, epoch, extent });
                self.request_buffer(context, slot);
            }
            Step::Submit { volume, epoch, operation } => {
                task.state = State::AtVolume(volume);
                let request = Request { tag, operation };
                context.actions.push_back(Action::Submit(Submission { volume, epoch, request }));
            }
            Step::Reserve { volume, registrant, command } => {
                task.state = State::AtReservations;
                context.actions.push_back(Action::Reserve { tag: slot.into(), volume, registrant, command });
            }
            Step::Complete(reply) => self.answer(context, slot, reply),
            // Data is asked for once, before anything else (`handle_command`).
            Step::ReceiveData { .. } => self.answer(context, slot, without_data(Status::Busy)),
        }
    }

    fn answer<D: TargetDatamover>(&mut self, context: &mut Context<D>, slot: u16, reply: Reply) {
        let Some(task) = self.tasks.get(slot) else { return };
        task.state = State::Answering;
        if reply.status == Status::ReservationConflict {
            context.notices.push(NoticeKind::Conflict, "RESERVATION CONFLICT");
        }
        let room = if task.reads { task.expected as usize } else { 0 };
        let data = if reply.data.len() > room { reply.data.part(0, room) } else { reply.data };
        context.mover.put_data(PutData {
            task: TaskHandle(slot),
            task_tag: task.tag,
            data,
            status: reply.status as u8,
            sense: reply.sense,
            residual: Residual::between(task.expected, reply.full_length),
            delivery: task.delivery,
        });
    }

    /// A volume's request has ended.
    #[inline]
    pub(super) fn handle_completion<D: TargetDatamover>(
        &mut self,
        context: &mut Context<D>,
        completion: Completion,
    ) {
        let Ok(slot) = u16::try_from(completion.tag.0) else { return };
        let Some(task) = self.tasks.get(slot) else { return };
        if let Some(by) = task.aborted {
            return self.end_aborted(context, slot, by);
        }
        let Some(server) = self.nexus.server_mut() else { return };
        let step = server.completed(&mut task.command, completion.result);
        self.spread_events(context);
        self.run(context, slot, step);
    }

    /// A request was judged by what no longer holds, and has not begun.
    pub(super) fn handle_refused<D: TargetDatamover>(&mut self, context: &mut Context<D>, request: Request) {
        let Ok(slot) = u16::try_from(request.tag.0) else { return };
        let Some(task) = self.tasks.get(slot) else { return };
        if let Some(by) = task.aborted {
            return self.end_aborted(context, slot, by);
        }
        let Some(server) = self.nexus.server() else { return };
        let step = server.refused(&mut task.command, request.operation);
        self.run(context, slot, step);
    }

    /// The owner of the reservations has answered.
    pub(super) fn handle_reserved<D: TargetDatamover>(
        &mut self,
        context: &mut Context<D>,
        tag: u32,
        result: Result<(), CommandError>,
    ) {
        let Ok(slot) = u16::try_from(tag) else { return };
        let Some(task) = self.tasks.get(slot) else { return };
        if let Some(by) = task.aborted {
            return self.end_aborted(context, slot, by);
        }
        let Some(server) = self.nexus.server_mut() else { return };
        let step = server.reserved(&mut task.command, result);
        self.spread_events(context);
        self.run(context, slot, step);
    }

    /// A volume's epoch has moved.
    pub(super) fn handle_fence<D: TargetDatamover>(&mut self, context: &mut Context<D>, fence: Fence) {
        let Fence { volume, epoch, event } = fence;
        self.nexus.set_epoch(volume, epoch);
        if let Some(event) = event {
            self.handle_event(context, volume, event);
        }
    }

    /// Something happened on a volume through another nexus. Tasks that it ends are answered with TASK ABORTED (TAS is one), so
    /// that their initiator can send them again at once.
    pub(super) fn handle_event<D: TargetDatamover>(
        &mut self,
        context: &mut Context<D>,
        volume: VolumeId,
        event: NexusEvent,
    ) {
        if let Some(server) = self.nexus.server().filter(|server| server.ends_tasks(&event)) {
            for slot in self.slots_where(|task| server.volume(task.lun) == Some(volume)) {
                self.abort(context, slot, AbortedBy::Others);
            }
        }
        self.nexus.handle_event(volume, event);
    }

    /// Aborts the tasks that `affected` names.
    pub(super) fn abort_where<D: TargetDatamover>(
        &mut self,
        context: &mut Context<D>,
        by: AbortedBy,
        affected: impl Fn(&Task) -> bool,
    ) {
        for slot in self.slots_where(affected) {
            self.abort(context, slot, by);
        }
    }

    /// Aborts the nexus's own tasks of the logical unit that these bytes name.
    pub(super) fn abort_unit<D: TargetDatamover>(&mut self, context: &mut Context<D>, lun: [u8; 8]) {
        let affected = self.slots_where(|task| self.is_on_unit(task, lun));
        for slot in affected {
            self.abort(context, slot, AbortedBy::Itself);
        }
    }

    /// True when the task is one of the logical unit that these bytes name.
    pub(super) fn is_on_unit(&self, task: &Task, lun: [u8; 8]) -> bool {
        self.nexus.server().is_some_and(|server| server.same_unit(task.lun, lun))
    }

    fn slots_where(&self, affected: impl Fn(&Task) -> bool) -> Vec<u16> {
        self.tasks.slots().filter(|slot| self.tasks.peek(*slot).is_some_and(&affected)).collect()
    }

    /// Aborts a task. It ends at once, or with its request.
    pub(super) fn abort<D: TargetDatamover>(&mut self, context: &mut Context<D>, slot: u16, by: AbortedBy) {
        let Some(task) = self.tasks.get(slot) else { return };
        match task.state {
            State::Free | State::Answering => {}
            State::Collecting => {
                context.mover.deallocate_task_resources(TaskHandle(slot));
                self.end_aborted(context, slot, by);
            }
            State::Unread => {
                // Receiving goes on: the data behind the command is passed over.
                self.withheld.release();
                self.end_aborted(context, slot, by);
            }
            State::AwaitBuffer(_) => {
                self.buffers.remove(slot);
                self.end_aborted(context, slot, by);
            }
            State::AtReservations => task.abort(by),
            State::AtVolume(volume) => {
                let first = task.aborted.is_none();
                task.abort(by);
                if first {
                    context.actions.push_back(Action::Cancel { volume, tag: Tag(slot.into()) });
                }
            }
        }
    }

    /// Ends an aborted task whose request, if it had one, is over.
    #[cold]
    fn end_aborted<D: TargetDatamover>(&mut self, context: &mut Context<D>, slot: u16, by: AbortedBy) {
        match by {
            // It ends without an answer.
            AbortedBy::Itself => {
                context.mover.deallocate_task_resources(TaskHandle(slot));
                if let Some(delivery) = self.remove(context, slot) {
                    context.numbers.window.finish(delivery);
                }
            }
            AbortedBy::Others => {
                if let Some(task) = self.tasks.get(slot) {
                    task.aborted = None;
                }
                self.answer(context, slot, without_data(Status::TaskAborted));
            }
        }
    }

    /// The connection ends: what is at a volume is cancelled, everything else is dropped.
    pub(super) fn abandon<D: TargetDatamover>(&mut self, context: &mut Context<D>) {
        self.abort_where(context, AbortedBy::Itself, |_| true);
        self.nexus.give_up();
        self.buffers.clear();
    }

    /// The transport has ended: nothing is received any more.
    pub(super) fn end_receiving(&mut self) {
        self.data_watch.end();
        self.withheld.end();
    }

    /// No data is waited for any more.
    pub(super) fn end_watch(&mut self) {
        self.data_watch.end();
    }

    /// When there is something to do although nothing comes.
    #[inline]
    pub(super) fn due(&self) -> Option<Instant> {
        self.data_watch.due().into_iter().chain(self.withheld.due()).min()
    }

    /// Ends commands whose data makes no progress, as write data is to come within a time that is shorter while others want `memory`.
    ///
    /// # Errors
    /// One of them has stopped in the middle of a PDU.
    pub(super) fn watch_data<D: TargetDatamover>(
        &mut self,
        context: &mut Context<D>,
        memory: Memory,
    ) -> Result<(), StoppedInPdu> {
        let now = context.now;
        let Some(limit) = self.data_watch.handle_timeout(now, memory) else { return Ok(()) };
        for slot in self.tasks.slots() {
            let Some(task) = self.tasks.peek(slot) else { continue };
            if !matches!(task.state, State::Collecting) {
                continue;
            }
            if task.heard + limit > now {
                self.data_watch.begin(now);
            } else if context.mover.deallocate_task_resources(TaskHandle(slot)).is_some() {
                self.end_collection(context, slot);
            } else {
                return Err(StoppedInPdu);
            }
        }
        Ok(())
    }

    /// A write's data did not come in time.
    fn end_collection<D: TargetDatamover>(&mut self, context: &mut Context<D>, slot: u16) {
        let (Some(server), Some(task)) = (self.nexus.server_mut(), self.tasks.get(slot)) else { return };
        let step = server.data_timed_out(&mut task.command);
        self.run(context, slot, step);
    }

    /// What is withheld for want of memory may have waited long enough.
    pub(super) fn handle_withheld_timeout(&mut self, now: Instant) {
        self.withheld.handle_timeout(now);
    }
}

/// Lends the datamover the buffer for a task's write data.
#[inline]
fn lend_buffer<D: TargetDatamover>(mover: &mut D, slot: u16, task: &mut Task, buf: Buf) {
    task.state = State::Collecting;
    let resources = WriteResources { task_tag: task.tag, buf, unsolicited: task.get_data.unsolicited() };
    mover.allocate_task_resources(TaskHandle(slot), resources);
}

/// The end of a command that has only a status.
fn without_data(status: Status) -> Reply {
    Reply { status, sense: Sense::NONE, data: BufList::new(), full_length: 0 }
}

/// Says what data a command may come with, and begins to count it.
fn begin_collection(
    task: &mut Task,
    command: &ScsiCommand,
    parameters: &Parameters,
) -> Result<(), Violation> {
    if command.writes() {
        let (immediate, more) = (command.data_length(), !command.is_final());
        return task.get_data.begin(Announced { expected: task.expected, immediate, more }, parameters);
    }
    task.get_data = GetDataProgress::default();
    if command.data_length() > 0 { Err(Violation::UnexpectedData) } else { Ok(()) }
}
