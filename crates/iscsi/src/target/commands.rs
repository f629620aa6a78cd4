//! A SCSI command from the wire to the volume, and back.
//!
//! A command's write data goes to one buffer, taken once the device server has found nothing wrong with the command (`memory` says when).

use buf::{Buf, BufList, LARGEST};
use protocol::NoticeKind;
use scsi::{DataDirection, Reply, Sense, Status, Step, UnitEvent};
use volume::reservation::CommandError;
use volume::{Completion, Request, Submission, Tag};

use super::buffer_need::BufferNeed;
use super::connection::{Action, Target};
use super::get_data::{Announced, GetDataProgress};
use super::tasks::{State, Task, Wanted};
use crate::datamover::{
    DataArrival, Disposition, GetData, PutData, ReceivedPdu, TargetDatamover, TaskHandle, WriteResources,
};
use crate::keys::Parameters;
use crate::limits::{IMMEDIATE_DEPTH, LONGEST_CDB};
use crate::pdu::{Residual, ScsiCommand, extended_cdb};
use crate::sequence::Delivery;
use crate::violation::Violation;

impl<D: TargetDatamover> Target<D> {
    /// Handles a SCSI command. If it is withheld, for want of memory for its data, it was carried out as far as that.
    #[inline]
    pub(super) fn handle_command(&mut self, pdu: ReceivedPdu<'_>) -> Disposition {
        let slot = match self.withheld.take_command() {
            Some(slot) => self.tasks.peek(slot).is_some_and(Task::is_unread).then_some(slot),
            None => match self.take_number(pdu.header) {
                Some(delivery) if self.life.state().takes_commands() => {
                    let begun = self.begin_command(pdu, delivery);
                    begun.and_then(|(slot, step)| self.begin_step(slot, step))
                }
                _ => None,
            },
        };
        match slot {
            Some(slot) => self.receive_data(slot, pdu),
            None => Disposition::Taken,
        }
    }

    /// Does what the device server wants first, unless that is data: then the task is to get it.
    #[inline]
    fn begin_step(&mut self, slot: u16, step: Step) -> Option<u16> {
        match step {
            Step::ReceiveData { length } if length as usize <= LARGEST => {
                let task = self.tasks.get(slot)?;
                task.get_data.need(length);
                (task.buffer, task.heard) = (BufferNeed::one(length), self.now);
                Some(slot)
            }
            step => {
                self.run(slot, step);
                None
            }
        }
    }

    /// Takes what comes with a write, or waits until it may ask for the data.
    #[inline]
    fn receive_data(&mut self, slot: u16, pdu: ReceivedPdu<'_>) -> Disposition {
        let command = ScsiCommand::from_bytes(pdu.header);
        let Some(task) = self.tasks.get(slot) else { return Disposition::Taken };
        if command.data_length() == 0 && command.is_final() {
            task.state = State::AwaitBuffer(Wanted::Data);
            self.request_buffer(slot);
            return Disposition::Taken;
        }
        let unsolicited = self.parameters.unsolicited().min(task.expected);
        let length = task.buffer.length.max(unsolicited) as usize;
        let Some(buf) = self.account.take(length.min(LARGEST)) else {
            task.state = State::Unread;
            return self.wait_for_memory(slot);
        };
        self.withheld.satisfied();
        lend_buffer(&mut self.mover, slot, task, buf);
        if pdu.data.is_none() {
            self.data_watch.begin(self.now);
        }
        Disposition::Immediate(TaskHandle(slot))
    }

    /// No buffer for data that comes unsolicited. It stays where it is for a while, unless buffers wait for what comes behind it: then the command
    /// is answered BUSY, and its data is thrown away.
    fn wait_for_memory(&mut self, slot: u16) -> Disposition {
        if self.may_wait() {
            self.withheld.withhold_command(slot, self.account.returns());
            return Disposition::Withheld;
        }
        self.answer(slot, without_data(Status::Busy));
        Disposition::Taken
    }

    #[inline]
    fn begin_command(&mut self, pdu: ReceivedPdu<'_>, delivery: Delivery) -> Option<(u16, Step)> {
        let ReceivedPdu { header, ahs, .. } = pdu;
        let command = ScsiCommand::from_bytes(header);
        if let Err(violation) = self.check_command(&command, delivery) {
            self.numbers.window.finish(delivery);
            self.violate(violation, Some(header));
            return None;
        }
        let slot = self.tasks.insert(command.task_tag())?;
        let task = self.tasks.get(slot)?;
        (task.lun, task.expected) = (command.lun, command.expected_length());
        (task.reads, task.delivery) = (command.reads(), delivery);
        if let Err(violation) = begin_collection(task, &command, &self.parameters) {
            self.remove_task(slot);
            self.violate(violation, Some(header));
            return None;
        }
        Some((slot, self.start(slot, &command, ahs)?))
    }

    #[inline]
    fn check_command(&self, command: &ScsiCommand, delivery: Delivery) -> Result<(), Violation> {
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
    fn start(&mut self, slot: u16, command: &ScsiCommand, ahs: &[u8]) -> Option<Step> {
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
        let started = server.start(&command, &mut task.command);
        self.spread_events();
        Some(started)
    }

    /// Gives other nexuses what the device server has for them.
    #[inline]
    pub(super) fn spread_events(&mut self) {
        let Some(server) = self.nexus.server_mut() else { return };
        while let Some(UnitEvent { volume, event }) = server.poll_event() {
            self.actions.push_back(Action::Event { volume, event });
        }
    }

    /// Asks for the data that is missing, or goes on with the command when all is there.
    #[inline]
    pub(super) fn collect(&mut self, slot: u16) {
        let Some(task) = self.tasks.get(slot) else { return };
        if task.get_data.is_complete() {
            let needed = task.buffer.length as usize;
            task.state = State::Answering;
            let Some(buf) = self.mover.deallocate_task_resources(TaskHandle(slot)) else { return };
            let data = buf.freeze();
            let data = if needed == data.len() { data } else { data.slice(..needed.min(data.len())) };
            let Some(server) = self.nexus.server_mut() else { return };
            let step = server.data_received(&mut task.command, data);
            self.spread_events();
            return self.run(slot, step);
        }
        self.data_watch.begin(self.now);
        while let Some(range) = task.get_data.next(&self.parameters) {
            let (task_tag, lun) = (task.tag, task.lun);
            self.mover.get_data(GetData { task: TaskHandle(slot), task_tag, lun, range });
        }
    }

    /// Write data has arrived for a task.
    #[inline]
    pub(super) fn handle_data(&mut self, slot: u16, arrival: DataArrival) {
        let Some(task) = self.tasks.get(slot).filter(|task| matches!(task.state, State::Collecting)) else {
            return;
        };
        if arrival != DataArrival::Immediate {
            task.heard = self.now;
            self.data_watch.hear(self.now);
        }
        match arrival {
            DataArrival::Part => return,
            DataArrival::Immediate => {}
            DataArrival::Unsolicited { end } => task.get_data.unsolicited_ended(end),
            DataArrival::GetData => task.get_data.completed(),
        }
        self.collect(slot);
    }

    /// Does what the device server wants next for a task.
    pub(super) fn run(&mut self, slot: u16, step: Step) {
        let Some(task) = self.tasks.get(slot) else { return };
        let tag = Tag(slot.into());
        match step {
            Step::Read { volume, epoch, extent, length } => {
                let whole = if task.reads { task.command.full_length() } else { length.into() };
                task.buffer.piece(length, whole);
                task.state = State::AwaitBuffer(Wanted::Read { volume, epoch, extent });
                self.request_buffer(slot);
            }
            Step::Submit { volume, epoch, operation } => {
                task.state = State::AtVolume(volume);
                let request = Request { tag, operation };
                self.actions.push_back(Action::Submit(Submission { volume, epoch, request }));
            }
            Step::Reserve { volume, registrant, command } => {
                task.state = State::AtReservations;
                self.actions.push_back(Action::Reserve { tag: slot.into(), volume, registrant, command });
            }
            Step::Complete(reply) => self.answer(slot, reply),
            // Only a command without announced data, or with more than a buffer holds, comes here.
            Step::ReceiveData { .. } => self.violate(Violation::DataOverrun, None),
        }
    }

    pub(super) fn answer(&mut self, slot: u16, reply: Reply) {
        let Some(task) = self.tasks.get(slot) else { return };
        task.state = State::Answering;
        if reply.status == Status::ReservationConflict {
            self.notices.push(NoticeKind::Conflict, "RESERVATION CONFLICT");
        }
        let room = if task.reads { task.expected as usize } else { 0 };
        let data = if reply.data.len() > room { reply.data.part(0, room) } else { reply.data };
        self.mover.put_data(PutData {
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
    pub(super) fn handle_completion(&mut self, completion: Completion) {
        let Ok(slot) = u16::try_from(completion.tag.0) else { return };
        let Some(task) = self.tasks.get(slot) else { return };
        if let Some(by) = task.aborted {
            return self.end_aborted(slot, by);
        }
        let Some(server) = self.nexus.server_mut() else { return };
        let step = server.completed(&mut task.command, completion.result);
        self.spread_events();
        self.run(slot, step);
    }

    /// A request was judged by what no longer holds, and has not begun.
    pub(super) fn handle_refused(&mut self, request: Request) {
        let Ok(slot) = u16::try_from(request.tag.0) else { return };
        let Some(task) = self.tasks.get(slot) else { return };
        if let Some(by) = task.aborted {
            return self.end_aborted(slot, by);
        }
        let Some(server) = self.nexus.server() else { return };
        let step = server.refused(&mut task.command, request.operation);
        self.run(slot, step);
    }

    /// The owner of the reservations has answered.
    pub(super) fn handle_reserved(&mut self, tag: u32, result: Result<(), CommandError>) {
        let Ok(slot) = u16::try_from(tag) else { return };
        let Some(task) = self.tasks.get(slot) else { return };
        if let Some(by) = task.aborted {
            return self.end_aborted(slot, by);
        }
        let Some(server) = self.nexus.server_mut() else { return };
        let step = server.reserved(&mut task.command, result);
        self.spread_events();
        self.run(slot, step);
    }
}

/// Lends the datamover the buffer for a task's write data.
#[inline]
pub(super) fn lend_buffer<D: TargetDatamover>(mover: &mut D, slot: u16, task: &mut Task, buf: Buf) {
    task.state = State::Collecting;
    let resources = WriteResources { task_tag: task.tag, buf, unsolicited: task.get_data.unsolicited() };
    mover.allocate_task_resources(TaskHandle(slot), resources);
}

/// The end of a command that has only a status.
pub(super) fn without_data(status: Status) -> Reply {
    Reply { status, sense: Sense::NONE, data: BufList::new(), full_length: 0 }
}

/// A CDB that goes on in an additional header segment (RFC 7143 §11.2.2.3).
struct LongCdb {
    bytes: [u8; LONGEST_CDB],
    length: usize,
}

impl LongCdb {
    #[cold]
    fn new(first: &[u8], rest: &[u8]) -> Self {
        let mut bytes = [0; LONGEST_CDB];
        let mut writer = wire::Writer::new(&mut bytes);
        let rest = rest.get(..LONGEST_CDB.saturating_sub(first.len()).min(rest.len()));
        let written = writer.put(first).and_then(|()| writer.put(rest.unwrap_or_default()));
        let length = if written.is_ok() { writer.written() } else { 0 };
        Self { bytes, length }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
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
