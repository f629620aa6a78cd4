//! The device server of one I_T nexus (SAM-5 §4.6.3): commands in, steps out.
//!
//! It keeps what belongs to the nexus: in `unit_inventory` which units it sees, with their pending unit attentions, the reservations as they
//! are known here, and the mode parameters. What a command does is in `commands`; how its requests follow each other is in `work`.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use buf::{BufList, SharedBuf};
use volume::reservation::{Access, CommandError, Notice, Registrant};
use volume::{Epoch, Features, Operation, Outcome, VolumeErrorKind, VolumeId};

use crate::cdb::Cdb;
use crate::command::Command;
use crate::commands::{self, Begun};
use crate::device::{LogicalUnit, TargetDevice};
use crate::error::{Failure, MediumAccess, failure};
use crate::inquiry;
use crate::mode::ModeState;
use crate::nexus_event::NexusEvent;
use crate::opcode::{self, Lookup, Needs, Run};
use crate::reply::{Reply, Sense, Status};
use crate::reserve;
use crate::sense::{Additional, Check, SenseFormat, SenseKey};
use crate::task::{State, Task};
use crate::transport_step::Step;
use crate::unit_inventory::{Shown, UnitInventory, UnitPlace, UnitState};
use crate::volume_requests::{Io, Work};

/// Something that has happened on a logical unit.
#[derive(Debug, Clone)]
pub struct UnitEvent {
    /// The unit's volume.
    pub volume: VolumeId,
    /// What.
    pub event: NexusEvent,
}

/// One I_T nexus's view of a target device.
#[derive(Debug)]
pub struct DeviceServer {
    nexus: Registrant,
    units: UnitInventory,
    events: VecDeque<UnitEvent>,
}

impl DeviceServer {
    /// A new nexus, which finds a unit attention for its power-on on every logical unit (SAM-5 §6.2).
    pub fn new(device: Arc<TargetDevice>, nexus: Registrant) -> Self {
        Self { nexus, units: UnitInventory::new(device), events: VecDeque::new() }
    }

    /// The device that is served.
    pub fn device(&self) -> &TargetDevice {
        self.units.device()
    }

    /// Shows this state of the device from now on. Units that have the number and volume of before keep all that the nexus knows of them; the others
    /// answer LOGICAL UNIT NOT SUPPORTED. If any has come or gone, every unit that is there reports that the inventory has changed.
    ///
    /// Gives the places of those that are gone: their tasks ([`Task::place`]) are to be aborted. The epochs and reservations of those that are new are to
    /// be told as they are to a new nexus.
    pub fn replace(&mut self, device: Arc<TargetDevice>) -> Vec<UnitPlace> {
        self.units.replace(device)
    }

    /// True while a logical unit is on this volume.
    pub fn uses(&self, volume: VolumeId) -> bool {
        self.units.states().any(|state| state.volume == volume)
    }

    /// True when an event ends this nexus's tasks on the unit (SAM-5 §5.6): they end with TASK ABORTED, as TAS is one.
    pub fn ends_tasks(&self, event: &NexusEvent) -> bool {
        match event {
            NexusEvent::LogicalUnitReset | NexusEvent::TaskSetCleared => true,
            NexusEvent::Reservations { aborted, .. } => aborted.contains(&self.nexus),
            NexusEvent::CapacityChanged(_) | NexusEvent::ModeParametersChanged(_) => false,
        }
    }

    /// True when both LUNs name the same logical unit, in whatever form (SAM-5 §4.7).
    pub fn same_unit(&self, lun: [u8; 8], other: [u8; 8]) -> bool {
        self.units.find(lun).is_some_and(|place| self.units.find(other) == Some(place))
    }

    /// The volume of the logical unit that a LUN names, if there is one.
    pub fn volume(&self, lun: [u8; 8]) -> Option<VolumeId> {
        self.units.state(self.units.find(lun)?).map(|state| state.volume)
    }

    /// Begins a command. `task` keeps its state from now on, and forgets what it was before.
    pub fn start(&mut self, command: &Command<'_>, task: &mut Task) -> Step {
        task.reset();
        match self.begin(command, task) {
            Ok(begun) => self.take_up(task, begun),
            Err(check) => self.fail(task, Failure::Check(check)),
        }
    }

    fn begin(&mut self, command: &Command<'_>, task: &mut Task) -> Result<Begun, Check> {
        let cdb = Cdb(command.cdb);
        let Some((place, shown)) = self.units.find_shown(command.lun) else {
            return self.begin_without_unit(cdb);
        };
        let Shown { device, unit, state } = shown;
        task.unit = place;
        let entry = match opcode::find(cdb, unit) {
            Lookup::Found(entry) => entry,
            Lookup::NoAction => return Err(Check::cdb_field(1)),
            Lookup::NoOpcode => return Err(Check::illegal(Additional::INVALID_OPCODE)),
        };
        if !matches!(entry.run, Run::Inquiry | Run::ReportLuns | Run::RequestSense)
            && let Some(attention) = state.take_attention()
        {
            return Err(Check::attention(attention));
        }
        if cdb.naca() {
            return Err(Check::cdb_field(
                u16::try_from(Cdb::fixed_length(cdb.u8(0)).saturating_sub(1)).unwrap_or(0),
            ));
        }
        task.needs = entry.needs(cdb);
        if !allowed(task.needs, state.access) {
            return Ok(Begun::Status(Status::ReservationConflict));
        }
        if entry.writes() && protected(entry.run, unit, state.mode) {
            return Err(Check::new(SenseKey::DataProtect, Additional::WRITE_PROTECTED));
        }
        let sense = match entry.run {
            Run::ReportLuns => return self.report_luns(cdb),
            Run::RequestSense => state.take_attention(),
            _ => None,
        };
        // What this gives is large, and is not moved if nothing follows.
        let view = &state.view;
        let around = commands::Around { device, unit, mode: state.mode, view, data: command.data, sense };
        commands::begin(entry.run, cdb, around)
    }

    /// REPORT LUNS: whoever has been told all units knows the inventory (SPC-4 §6.33).
    #[cold]
    fn report_luns(&mut self, cdb: Cdb<'_>) -> Result<Begun, Check> {
        let begun = commands::report_luns(cdb, self.units.device())?;
        if commands::reports_all_luns(cdb) {
            self.units.was_reported();
        }
        Ok(begun)
    }

    /// SPC-4 §6.6.1 and §6.33: INQUIRY, REPORT LUNS and REQUEST SENSE are answered by every LUN.
    fn begin_without_unit(&mut self, cdb: Cdb<'_>) -> Result<Begun, Check> {
        const INQUIRY: u8 = 0x12;
        const REPORT_LUNS: u8 = 0xa0;
        const REQUEST_SENSE: u8 = 0x03;
        let missing = Check::illegal(Additional::UNIT_NOT_SUPPORTED);
        match cdb.u8(0) {
            INQUIRY if !cdb.bit(1, 0) => Ok(Begun::data(inquiry::standard(None), usize::from(cdb.u16(3)))),
            REPORT_LUNS => self.report_luns(cdb),
            REQUEST_SENSE => {
                let sense = missing.sense(SenseFormat::selected(cdb.bit(1, 0)));
                Ok(Begun::data(sense.bytes().to_vec(), usize::from(cdb.u8(4))))
            }
            _ => Err(missing),
        }
    }

    /// Data that a [`Step::ReceiveData`] asked for has arrived.
    pub fn data_received(&mut self, task: &mut Task, data: SharedBuf) -> Step {
        let State::Data(purpose) = core::mem::replace(&mut task.state, State::Finished) else {
            return self.fail(
                task,
                Failure::Check(Check::new(SenseKey::HardwareError, Additional::INTERNAL_FAILURE)),
            );
        };
        let Some(Shown { unit, state, .. }) = self.units.get(task.unit) else {
            return self.fail(task, Failure::Check(Check::illegal(Additional::UNIT_NOT_SUPPORTED)));
        };
        // A reservation may have changed while the data was on its way.
        if !allowed(task.needs, state.access) {
            return self.fail(task, Failure::Conflict);
        }
        let begun = match commands::with_data(purpose, data, unit, state.mode) {
            Ok(begun) => begun,
            Err(check) => return self.fail(task, Failure::Check(check)),
        };
        if let Begun::Mode(mode) = begun
            && core::mem::replace(&mut state.mode, mode) != mode
        {
            let event = NexusEvent::ModeParametersChanged(mode);
            self.events.push_back(UnitEvent { volume: unit.volume, event });
        }
        self.take_up(task, begun)
    }

    /// Data that a [`Step::ReceiveData`] asked for did not arrive in time.
    pub fn data_timed_out(&mut self, task: &mut Task) -> Step {
        self.fail(task, Failure::Check(Check::new(SenseKey::AbortedCommand, Additional::INITIATOR_TIMEOUT)))
    }

    /// A request that a step asked for has ended.
    pub fn completed(&mut self, task: &mut Task, result: Result<Outcome, volume::Failure>) -> Step {
        let State::Io(work) = &mut task.state else {
            return self.fail(
                task,
                Failure::Check(Check::new(SenseKey::HardwareError, Additional::INTERNAL_FAILURE)),
            );
        };
        match result {
            Ok(outcome) => {
                work.absorb(outcome);
                self.go_on(task)
            }
            Err(volume::Failure { kind: VolumeErrorKind::Miscompare { offset }, .. }) => {
                match work.compares_again() {
                    Some(true) => self.go_on(task),
                    Some(false) => self.fail(task, Failure::Busy),
                    None => {
                        let before = wire::saturate::<u32>(work.compared_before());
                        let offset = offset.saturating_add(before);
                        self.fail(
                            task,
                            failure(VolumeErrorKind::Miscompare { offset }, MediumAccess::Reading),
                        )
                    }
                }
            }
            Err(failed) => {
                let access = if work.writes() { MediumAccess::Writing } else { MediumAccess::Reading };
                self.fail(task, failure(failed.kind, access))
            }
        }
    }

    /// A request that a step asked for was not begun, as the volume's epoch has moved since it was judged. It is judged again.
    pub fn refused(&self, task: &mut Task, operation: Operation) -> Step {
        match self.judge(task) {
            Ok((volume, epoch)) => Step::Submit { volume, epoch, operation },
            Err(failure) => self.fail(task, failure),
        }
    }

    /// Whether the next request of a task may begin, and what says so: reservations may have changed while its data was on its way or
    /// another request under way, and whoever waited for the fence was promised that nothing follows it.
    fn judge(&self, task: &Task) -> Result<(VolumeId, Epoch), Failure> {
        let Some(state) = self.units.state(task.unit) else {
            return Err(Failure::Check(Check::illegal(Additional::UNIT_NOT_SUPPORTED)));
        };
        if allowed(task.needs, state.access) {
            Ok((state.volume, state.epoch))
        } else {
            Err(Failure::Conflict)
        }
    }

    /// The owner of the reservations has answered a [`Step::Reserve`]. What has changed came before, as an event: a newer change may
    /// have come since, so that the answer must not carry the state.
    pub fn reserved(&self, task: &mut Task, result: Result<(), CommandError>) -> Step {
        task.state = State::Finished;
        match result {
            Ok(()) => Self::finish(task, Status::Good, BufList::new()),
            Err(refused) => match reserve::refusal(refused) {
                Some(check) => self.fail(task, Failure::Check(check)),
                None => self.fail(task, Failure::Conflict),
            },
        }
    }

    /// The volume's epoch has moved: requests that were judged before are refused. What moved it follows as an event at once.
    pub fn set_epoch(&mut self, volume: VolumeId, epoch: Epoch) {
        for state in self.units.states_mut().filter(|state| state.volume == volume) {
            state.epoch = epoch;
        }
    }

    /// Something happened on a volume, through another nexus or by itself.
    #[expect(clippy::needless_pass_by_value, reason = "an event is told once; its teller keeps nothing")]
    pub fn handle_event(&mut self, volume: VolumeId, event: NexusEvent) {
        if let NexusEvent::CapacityChanged(geometry) = event {
            self.units.resize(volume, geometry);
        }
        for state in self.units.states_mut().filter(|state| state.volume == volume) {
            handle_unit_event(state, &event, &self.nexus);
        }
    }

    /// This nexus resets a logical unit, and hears of it as all others do (SAM-5 §6.3.3). Gives the volume, whose other nexuses are to be
    /// told, and their tasks to be ended, before the reset is answered.
    pub fn reset_unit(&mut self, lun: [u8; 8]) -> Option<VolumeId> {
        let place = self.units.find(lun)?;
        let state = self.units.get(place)?.state;
        reset(state);
        Some(state.volume)
    }

    /// What other nexuses must be told.
    pub fn poll_event(&mut self) -> Option<UnitEvent> {
        self.events.pop_front()
    }

    fn take_up(&mut self, task: &mut Task, begun: Begun) -> Step {
        match begun {
            // Mode parameters were taken by `data_received`.
            Begun::Nothing | Begun::Mode(_) => Self::finish(task, Status::Good, BufList::new()),
            Begun::Status(status) => Self::finish(task, status, BufList::new()),
            Begun::Data { data, allocation } => {
                let whole = data.len().min(allocation);
                task.full_length = whole as u64;
                let data = SharedBuf::from(data);
                Self::finish(task, Status::Good, BufList::from(data.slice(..whole)))
            }
            Begun::Receive { purpose, length, full } => {
                task.full_length = full;
                if length == 0 {
                    return Self::finish(task, Status::Good, BufList::new());
                }
                task.state = State::Data(purpose);
                Step::ReceiveData { length }
            }
            Begun::Io(work) => {
                task.full_length = work.read_length().unwrap_or(task.full_length);
                task.state = State::Io(work);
                self.go_on(task)
            }
            Begun::Reserve(command) => {
                let Some(state) = self.units.state(task.unit) else {
                    return self.fail(task, Failure::Check(Check::illegal(Additional::UNIT_NOT_SUPPORTED)));
                };
                task.state = State::Reserving;
                Step::Reserve { volume: state.volume, registrant: self.nexus.clone(), command }
            }
        }
    }

    fn go_on(&mut self, task: &mut Task) -> Step {
        let State::Io(work) = &mut task.state else {
            return Self::finish(task, Status::Good, BufList::new());
        };
        if let Some(next) = work.next() {
            let (volume, epoch) = match self.judge(task) {
                Ok(judged) => judged,
                Err(failure) => return self.fail(task, failure),
            };
            return match next {
                Io::Read(extent, length) => Step::Read { volume, epoch, extent, length },
                Io::Other(operation) => Step::Submit { volume, epoch, operation },
            };
        }
        let data = work.take_data();
        if let Work::Allocations { .. } = work {
            task.full_length = data.len() as u64;
        }
        Self::finish(task, Status::Good, data)
    }

    fn finish(task: &mut Task, status: Status, data: BufList) -> Step {
        task.state = State::Finished;
        Step::Complete(Reply { status, sense: Sense::NONE, data, full_length: task.full_length })
    }

    fn fail(&self, task: &mut Task, failure: Failure) -> Step {
        let status = match failure {
            Failure::Check(check) => {
                let state = self.units.state(task.unit);
                let format = SenseFormat::selected(state.is_some_and(|state| state.mode.descriptor_sense));
                task.state = State::Finished;
                return Step::Complete(Reply { full_length: 0, ..check.reply(format) });
            }
            Failure::Conflict => Status::ReservationConflict,
            Failure::Aborted => Status::TaskAborted,
            Failure::Busy => Status::Busy,
        };
        task.full_length = 0;
        Self::finish(task, status, BufList::new())
    }
}

/// What something that happened on a volume means for a unit on it.
fn handle_unit_event(state: &mut UnitState, event: &NexusEvent, nexus: &Registrant) {
    match event {
        NexusEvent::LogicalUnitReset => reset(state),
        // As TAS is one, TASK ABORTED tells those whose commands were cleared, and there is nothing to tell others.
        NexusEvent::TaskSetCleared => {}
        NexusEvent::CapacityChanged(_) => state.attention(Additional::CAPACITY_CHANGED),
        NexusEvent::ModeParametersChanged(mode) => {
            state.mode = *mode;
            state.attention(Additional::MODE_CHANGED);
        }
        NexusEvent::Reservations { view, notices, .. } => {
            state.access = view.access(nexus);
            state.view = Arc::clone(view);
            for (_, notice) in notices.iter().filter(|(registrant, _)| registrant == nexus) {
                state.attention(notice_code(*notice));
            }
        }
    }
}

/// What a reset does to every nexus alike: mode parameters are the default ones again, and it is told.
fn reset(state: &mut UnitState) {
    state.mode = ModeState::default();
    state.attention(Additional::DEVICE_RESET);
}

fn allowed(needs: Needs, access: Access) -> bool {
    match needs {
        Needs::Nothing => true,
        Needs::Read => access.read,
        Needs::Write => access.write,
    }
}

/// Whether write protection forbids a command that writes to the medium.
fn protected(run: Run, unit: &LogicalUnit, mode: ModeState) -> bool {
    let medium = !matches!(run, Run::ModeSelect | Run::SynchronizeCache);
    medium && (mode.software_write_protect || unit.features.contains(Features::READ_ONLY))
}

fn notice_code(notice: Notice) -> Additional {
    match notice {
        Notice::Released => Additional::RESERVATIONS_RELEASED,
        Notice::Preempted => Additional::REGISTRATIONS_PREEMPTED,
        Notice::Cleared => Additional::RESERVATIONS_PREEMPTED,
    }
}
