//! The way of a SCSI command between the wire and the volume.
//!
//! A command's write data goes to one buffer, taken once the device server has found nothing wrong with the command (`memory` says when).

use buf::{Buf, BufList, LARGEST};
use protocol::NoticeKind;
use scsi::{DataDirection, Reply, Sense, Status, Step};
use volume::reservation::Refused;
use volume::{Completion, Request, Tag};

use super::connection::{Action, Connection};
use super::tasks::{State, Task, Wanted};
use crate::datamover::tcp::data_out::Announced;
use crate::datamover::{FinalStatus, GetData, PutData, ReceivedPdu, TaskHandle};
use crate::keys::Parameters;
use crate::limits::{IMMEDIATE_DEPTH, LONGEST_CDB};
use crate::pdu::{BasicHeaderSegment, Bhs, DataOut, Residual, ScsiCommand, extended_cdb};
use crate::sequence::Delivery;
use crate::violation::Violation;

impl Connection {
    /// Handles a SCSI command. False when there is no memory for its immediate data: the command was carried out as far as that, but its
    /// PDU stays where it is.
    pub(super) fn handle_command(&mut self, pdu: ReceivedPdu<'_>) -> bool {
        let ReceivedPdu { header, data: staged, .. } = pdu;
        let slot = match self.unread.take() {
            Some(slot) => self.tasks.peek(slot).is_some_and(Task::is_unread).then_some(slot),
            None => match self.take_number(header) {
                Some(delivery) if self.state.takes_commands() => {
                    let begun = self.begin_command(pdu, delivery);
                    begun.and_then(|(slot, step)| self.begin_step(slot, step))
                }
                _ => None,
            },
        };
        if let Some(slot) = slot {
            return self.receive_data(slot, header, staged);
        }
        if staged.is_none() {
            self.receiver.begin(*header, None);
        }
        true
    }

    /// Does what the device server wants first, unless that is data: then the task is to get it.
    fn begin_step(&mut self, slot: u16, step: Step) -> Option<u16> {
        match step {
            Step::ReceiveData { length } if length as usize <= LARGEST => {
                let task = self.tasks.get(slot)?;
                task.get_data.need(length);
                (task.needed, task.heard) = (length, self.now);
                Some(slot)
            }
            step => {
                self.run(slot, step);
                None
            }
        }
    }

    /// Takes what comes with a write, or waits until it may ask for the data. False when what comes must stay in the stream.
    fn receive_data(&mut self, slot: u16, header: &Bhs, staged: Option<&[u8]>) -> bool {
        let command = ScsiCommand::from_bytes(header);
        let large = staged.is_none();
        let Some(task) = self.tasks.get(slot) else { return true };
        if command.data_length() == 0 && command.is_final() {
            task.state = State::AwaitBuffer(Wanted::Data);
            self.request_buffer(slot);
            return true;
        }
        let unsolicited = self.parameters.unsolicited().min(task.expected);
        let length = task.needed.max(unsolicited) as usize;
        let Some(mut buf) = self.account.take(length.min(LARGEST)) else {
            task.state = State::Unread;
            return self.wait_for_memory(slot, header, large);
        };
        self.waiting_since = None;
        if let Some((data, room)) = staged.and_then(|data| Some((data, buf.get_mut(..data.len())?))) {
            room.copy_from_slice(data);
        }
        if large {
            self.receiver.begin(*header, Some((buf, 0)));
            task.state = State::Collecting(None);
            self.begin_watch();
        } else {
            task.state = State::Collecting(Some(buf));
            self.collect(slot);
        }
        true
    }

    /// No buffer for data that comes unsolicited. It stays in the stream for a while, unless buffers wait for what comes behind it: then the command
    /// is answered BUSY, and its data is thrown away.
    fn wait_for_memory(&mut self, slot: u16, header: &Bhs, large: bool) -> bool {
        if self.may_wait() {
            self.waits_for_memory = Some(self.account.returns());
            self.unread = Some(slot);
            return false;
        }
        let nothing = (Sense::NONE, BufList::new());
        self.answer(slot, Reply { status: Status::Busy, sense: nothing.0, data: nothing.1, full_length: 0 });
        if large {
            self.receiver.begin(*header, None);
        }
        true
    }

    fn begin_command(&mut self, pdu: ReceivedPdu<'_>, delivery: Delivery) -> Option<(u16, Step)> {
        let ReceivedPdu { header, ahs, .. } = pdu;
        let command = ScsiCommand::from_bytes(header);
        if let Err(violation) = self.check_command(&command, delivery) {
            self.window.finish(delivery);
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

    fn check_command(&self, command: &ScsiCommand, delivery: Delivery) -> Result<(), Violation> {
        if self.server.is_none() {
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

    fn start(&mut self, slot: u16, command: &ScsiCommand, ahs: &[u8]) -> Option<Step> {
        let (server, task) = (self.server.as_mut()?, self.tasks.get(slot)?);
        let data = match (command.reads(), command.writes()) {
            (true, _) => DataDirection::In(command.expected_length()),
            (_, true) => DataDirection::Out(command.expected_length()),
            _ => DataDirection::None,
        };
        let mut long = [0; LONGEST_CDB];
        let cdb = match extended_cdb(ahs) {
            Some(rest) => {
                let mut writer = wire::Writer::new(&mut long);
                let rest = rest.get(..LONGEST_CDB.saturating_sub(command.cdb.len()).min(rest.len()));
                let written = writer.put(&command.cdb).and_then(|()| writer.put(rest.unwrap_or_default()));
                let length = if written.is_ok() { writer.written() } else { 0 };
                long.get(..length).unwrap_or_default()
            }
            None => command.cdb.as_slice(),
        };
        let command = scsi::Command { lun: command.lun, cdb, data, attribute: command.attribute() };
        let started = server.start(&command, &mut task.command);
        self.spread_events();
        Some(started)
    }

    /// Gives other nexuses what the device server has for them.
    pub(super) fn spread_events(&mut self) {
        let Some(server) = &mut self.server else { return };
        while let Some((volume, event)) = server.poll_event() {
            self.actions.push_back(Action::Event { volume, event });
        }
    }

    /// Asks for the data that is missing, or goes on with the command when all is there.
    pub(super) fn collect(&mut self, slot: u16) {
        let Some(task) = self.tasks.get(slot) else { return };
        if task.get_data.is_complete(&task.data_out) {
            let needed = task.needed as usize;
            let State::Collecting(Some(buf)) = core::mem::replace(&mut task.state, State::Answering) else {
                return;
            };
            let data = buf.freeze();
            let data = if needed == data.len() { data } else { data.slice(..needed.min(data.len())) };
            let Some(server) = &mut self.server else { return };
            let step = server.data_received(&mut task.command, data);
            self.spread_events();
            return self.run(slot, step);
        }
        loop {
            let transfer_tag = self.transfer_tag();
            self.begin_watch();
            let Some(task) = self.tasks.get(slot) else { return };
            let Some(range) = task.get_data.next(&task.data_out, &self.parameters) else { return };
            let get = GetData { task_tag: task.tag, lun: task.lun, range };
            let r2t = task.data_out.get_data(&get, transfer_tag);
            self.out.send_unnumbered(r2t.to_bytes());
        }
    }

    /// Handles a Data-Out; what belongs to no task any more is thrown away.
    pub(super) fn handle_data_out(&mut self, header: &Bhs, staged: Option<&[u8]>) {
        let data = DataOut::from_bytes(header);
        let task = self.tasks.find(data.task_tag()).and_then(|slot| self.tasks.get(slot));
        let collecting = task.and_then(|task| match &mut task.state {
            State::Collecting(buf) => Some((buf, &task.data_out)),
            _ => None,
        });
        let Some((buf, sequences)) = collecting else {
            if staged.is_none() {
                self.receiver.begin(*header, None);
            }
            return;
        };
        if let Err(violation) = sequences.check(&data) {
            return self.violate(violation, Some(header));
        }
        let start = data.buffer_offset() as usize;
        match staged {
            None => {
                let target = buf.take().map(|buf| (buf, start));
                self.receiver.begin(*header, target);
            }
            Some(bytes) => {
                if let Some(room) = buf.as_mut().and_then(|buf| buf.get_mut(start..start + bytes.len())) {
                    room.copy_from_slice(bytes);
                }
                self.data_arrived(&data);
            }
        }
    }

    /// A large Data-Out is complete: the buffer goes back to its task, if that still wants it.
    pub(super) fn data_out_arrived(&mut self, header: &Bhs, buf: Buf) {
        if self.give_back(header, buf) {
            self.data_arrived(&DataOut::from_bytes(header));
        }
    }

    /// Large immediate data is complete.
    pub(super) fn immediate_arrived(&mut self, header: &Bhs, buf: Buf) {
        let tag = BasicHeaderSegment::from_bytes(header).task_tag();
        if self.give_back(header, buf)
            && let Some(slot) = self.tasks.find(tag)
        {
            self.collect(slot);
        }
    }

    fn give_back(&mut self, header: &Bhs, buf: Buf) -> bool {
        let tag = BasicHeaderSegment::from_bytes(header).task_tag();
        let task = self.tasks.find(tag).and_then(|slot| self.tasks.get(slot));
        let Some(State::Collecting(place)) = task.map(|task| &mut task.state) else { return false };
        *place = Some(buf);
        true
    }

    fn data_arrived(&mut self, data: &DataOut) {
        let Some(slot) = self.tasks.find(data.task_tag()) else { return };
        if let Some(task) = self.tasks.get(slot) {
            if let Some(end) = task.data_out.take(data) {
                task.get_data.unsolicited_ended(end);
            }
            (task.heard, self.data_heard) = (self.now, self.now);
            if data.is_final() {
                self.collect(slot);
            }
        }
    }

    /// Does what the device server wants next for a task.
    pub(super) fn run(&mut self, slot: u16, step: Step) {
        let Some(task) = self.tasks.get(slot) else { return };
        let tag = Tag(slot.into());
        match step {
            Step::Read { volume, epoch, extent, length } => {
                task.needed = length;
                task.state = State::AwaitBuffer(Wanted::Read { volume, epoch, extent });
                self.request_buffer(slot);
            }
            Step::Submit { volume, epoch, operation } => {
                task.state = State::AtVolume(volume);
                let request = Request { tag, operation };
                self.actions.push_back(Action::Submit { volume, epoch, request });
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
        let residual = Residual::between(task.expected, reply.full_length);
        let status = FinalStatus { status: reply.status as u8, sense: reply.sense, residual };
        let put = PutData { task: TaskHandle(slot), task_tag: task.tag, data, status };
        self.out.put_data(put, task.data_out.r2ts());
    }

    /// A volume's request has ended.
    pub(super) fn handle_completion(&mut self, completion: Completion) {
        let Ok(slot) = u16::try_from(completion.tag.0) else { return };
        let Some(task) = self.tasks.get(slot) else { return };
        if let Some(by) = task.aborted {
            return self.end_aborted(slot, by);
        }
        let Some(server) = &mut self.server else { return };
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
        let Some(server) = &self.server else { return };
        let step = server.refused(&mut task.command, request.operation);
        self.run(slot, step);
    }

    /// The owner of the reservations has answered.
    pub(super) fn handle_reserved(&mut self, tag: u32, result: Result<(), Refused>) {
        let Ok(slot) = u16::try_from(tag) else { return };
        let Some(task) = self.tasks.get(slot) else { return };
        if let Some(by) = task.aborted {
            return self.end_aborted(slot, by);
        }
        let Some(server) = &mut self.server else { return };
        let step = server.reserved(&mut task.command, result);
        self.spread_events();
        self.run(slot, step);
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
        task.get_data.begin(immediate);
        return task.data_out.begin(Announced { expected: task.expected, immediate, more }, parameters);
    }
    task.get_data.begin(0);
    task.data_out.clear();
    if command.data_length() > 0 { Err(Violation::UnexpectedData) } else { Ok(()) }
}
