//! The four reservation commands (NVMe Base §7.4 to §7.7) in the words of [`volume::reservation`]: for the controller, which reads
//! commands and writes reports, and for the host, which does the opposite.
//!
//! Host identifiers have 128 bits here, so that reports always have the extended data structure.

use alloc::sync::Arc;
use alloc::vec::Vec;

use volume::reservation::{Command, CommandError, Registrant, Registration, ReservationType, View};
use wire::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use crate::opcode::nvm;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;

/// Dword 10 of Reservation Register, Acquire and Release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Control {
    /// The action (bits 2:0), and IEKEY (bit 3).
    action: u8,
    /// RTYPE.
    kind: u8,
    reserved: u8,
    /// CPTPL (bits 7:6).
    persistence: u8,
}

const _: () = assert!(size_of::<Control>() == 4);

/// CPTPL: what is to become of Persist Through Power Loss State.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Persistence {
    Unchanged,
    Cleared,
    Set,
    Reserved,
}

impl Control {
    const ACTION: u8 = 0x7;
    const IGNORE_KEY: u8 = 1 << 3;
    const CLEAR_PERSISTENCE: u8 = 0b10 << 6;
    const SET_PERSISTENCE: u8 = 0b11 << 6;

    /// The fields of a command.
    fn of(entry: &SubmissionQueueEntry) -> Self {
        transmute!(U32::new(entry.dword(10)))
    }

    /// The fields of an action, with nothing else.
    const fn new(action: u8) -> Self {
        Self { action, kind: 0, reserved: 0, persistence: 0 }
    }

    /// The same for a reservation of this type.
    const fn typed(self, kind: ReservationType) -> Self {
        Self { kind: type_to_wire(kind), ..self }
    }

    fn dword(self) -> u32 {
        let dword: U32 = transmute!(self);
        dword.get()
    }

    const fn action(self) -> u8 {
        self.action & Self::ACTION
    }

    /// IEKEY: the registrant's key so far is not looked at.
    const fn ignores_key(self) -> bool {
        self.action & Self::IGNORE_KEY != 0
    }

    const fn persistence(self) -> Persistence {
        match self.persistence & Self::SET_PERSISTENCE {
            0 => Persistence::Unchanged,
            Self::CLEAR_PERSISTENCE => Persistence::Cleared,
            Self::SET_PERSISTENCE => Persistence::Set,
            _ => Persistence::Reserved,
        }
    }
}

/// EDS of Reservation Report: host identifiers of 128 bits.
const EXTENDED: u32 = 1 << 0;

/// Reservation Register's actions (RREGA).
mod register {
    pub(super) const REGISTER: u8 = 0;
    pub(super) const UNREGISTER: u8 = 1;
    pub(super) const REPLACE: u8 = 2;
}

/// Reservation Acquire's actions (RACQA).
mod acquire {
    pub(super) const ACQUIRE: u8 = 0;
    pub(super) const PREEMPT: u8 = 1;
    pub(super) const PREEMPT_AND_ABORT: u8 = 2;
}

/// Reservation Release's actions (RRELA).
mod release {
    pub(super) const RELEASE: u8 = 0;
    pub(super) const CLEAR: u8 = 1;
}

/// The data of Reservation Register and Acquire: CRKEY, and NRKEY or PRKEY. Release has only the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Keys {
    /// The registrant's key so far.
    pub current: U64,
    /// Its new key, or the key to preempt.
    pub other: U64,
}

const _: () = assert!(size_of::<Keys>() == 16);

/// True for the commands that change reservations.
pub const fn changes(opcode: u8) -> bool {
    matches!(opcode, nvm::RESERVATION_REGISTER | nvm::RESERVATION_ACQUIRE | nvm::RESERVATION_RELEASE)
}

/// Bytes of data that a command which changes reservations brings.
pub const fn data_length(opcode: u8) -> usize {
    match opcode {
        nvm::RESERVATION_RELEASE => size_of::<U64>(),
        _ => size_of::<Keys>(),
    }
}

fn type_from_wire(kind: u8) -> Option<ReservationType> {
    Some(match kind {
        1 => ReservationType::WriteExclusive,
        2 => ReservationType::ExclusiveAccess,
        3 => ReservationType::WriteExclusiveRegistrants,
        4 => ReservationType::ExclusiveAccessRegistrants,
        5 => ReservationType::WriteExclusiveAll,
        6 => ReservationType::ExclusiveAccessAll,
        _ => return None,
    })
}

const fn type_to_wire(kind: ReservationType) -> u8 {
    match kind {
        ReservationType::WriteExclusive => 1,
        ReservationType::ExclusiveAccess => 2,
        ReservationType::WriteExclusiveRegistrants => 3,
        ReservationType::ExclusiveAccessRegistrants => 4,
        ReservationType::WriteExclusiveAll => 5,
        ReservationType::ExclusiveAccessAll => 6,
    }
}

/// Looks at the queue entry of a command that changes reservations, before its data has come.
pub fn check(entry: &SubmissionQueueEntry) -> Result<(), Status> {
    decode(entry, &[0; size_of::<Keys>()], |_| ()).map(drop)
}

/// The change that a command asks for, with its data.
pub fn command(entry: &SubmissionQueueEntry, data: &[u8]) -> Result<Command, Status> {
    // A key of zero is no key: nobody can register it (NVMe Base §7.6).
    let valid = |command: &Command| match command {
        Command::Register { new_key, .. } => {
            *new_key != 0 || Control::of(entry).action() == register::UNREGISTER
        }
        _ => true,
    };
    let mut whole = [0; size_of::<Keys>()];
    for (place, byte) in whole.iter_mut().zip(data) {
        *place = *byte;
    }
    let command = decode(entry, &whole, |command| command)?;
    if valid(&command) { Ok(command) } else { Err(Status::INVALID_FIELD.dnr()) }
}

fn decode<T>(
    entry: &SubmissionQueueEntry,
    data: &[u8; size_of::<Keys>()],
    then: impl FnOnce(Command) -> T,
) -> Result<T, Status> {
    let invalid = Status::INVALID_FIELD.dnr();
    let keys = Keys::read_from_bytes(data).map_err(|_| invalid)?;
    let control = Control::of(entry);
    let (key, other) = (keys.current.get(), keys.other.get());
    let kind = || type_from_wire(control.kind).ok_or(invalid);
    Ok(then(match (entry.opcode, control.action()) {
        (nvm::RESERVATION_REGISTER, _) => register_command(control, &keys)?,
        // Only registering may ignore the key (NVMe Base §7.4, §7.5).
        _ if control.ignores_key() => return Err(invalid),
        (nvm::RESERVATION_ACQUIRE, acquire::ACQUIRE) => Command::Reserve { key, kind: kind()? },
        (nvm::RESERVATION_ACQUIRE, action @ (acquire::PREEMPT | acquire::PREEMPT_AND_ABORT)) => {
            let abort = action == acquire::PREEMPT_AND_ABORT;
            Command::Preempt { key, victim: other, kind: kind()?, abort }
        }
        (nvm::RESERVATION_RELEASE, release::RELEASE) => Command::Release { key, kind: kind()? },
        (nvm::RESERVATION_RELEASE, release::CLEAR) => Command::Clear { key },
        _ => return Err(invalid),
    }))
}

/// The registration that a command and its keys ask for.
fn register_command(control: Control, keys: &Keys) -> Result<Command, Status> {
    let persist = match control.persistence() {
        Persistence::Unchanged => None,
        Persistence::Cleared => Some(false),
        // Nothing here survives a loss of power, as RESCAP says.
        Persistence::Set | Persistence::Reserved => return Err(Status::INVALID_FIELD.dnr()),
    };
    let new_key = keys.other.get();
    let known = (!control.ignores_key()).then_some(keys.current.get());
    match control.action() {
        // The current key of whoever has none is not looked at.
        register::REGISTER => Ok(Command::Register { key: Some(0), new_key, persist }),
        register::UNREGISTER => Ok(Command::Register { key: known, new_key: 0, persist }),
        register::REPLACE => Ok(Command::Register { key: known, new_key, persist }),
        _ => Err(Status::INVALID_FIELD.dnr()),
    }
}

/// The status of a refusal.
pub const fn refusal(refused: CommandError) -> Status {
    match refused {
        CommandError::Conflict | CommandError::Full => Status::RESERVATION_CONFLICT.dnr(),
        CommandError::WrongType | CommandError::Invalid => Status::INVALID_FIELD.dnr(),
    }
}

/// A host's command for a change of a namespace's reservations.
#[derive(Debug)]
pub struct ReservationCommand {
    /// The submission queue entry.
    pub entry: SubmissionQueueEntry,
    /// Its data.
    pub data: Vec<u8>,
}

/// Encodes a host's command for a change of a namespace's reservations.
pub fn encode(nsid: u32, change: &Command) -> ReservationCommand {
    let typed = |action, kind| Control::new(action).typed(kind);
    let (opcode, control, current, other) = match *change {
        Command::Register { key, new_key, persist } => {
            let action = match (key, new_key) {
                (_, 0) => register::UNREGISTER,
                (Some(0), _) => register::REGISTER,
                _ => register::REPLACE,
            };
            let mut control = Control::new(action);
            control.action |= u8::from(key.is_none()) * Control::IGNORE_KEY;
            control.persistence = match persist {
                None => 0,
                Some(false) => Control::CLEAR_PERSISTENCE,
                Some(true) => Control::SET_PERSISTENCE,
            };
            let current = key.unwrap_or(0);
            (nvm::RESERVATION_REGISTER, control, current, new_key)
        }
        Command::Reserve { key, kind } => (nvm::RESERVATION_ACQUIRE, typed(acquire::ACQUIRE, kind), key, 0),
        Command::Preempt { key, victim, kind, abort } => {
            let action = if abort { acquire::PREEMPT_AND_ABORT } else { acquire::PREEMPT };
            (nvm::RESERVATION_ACQUIRE, typed(action, kind), key, victim)
        }
        Command::Release { key, kind } => (nvm::RESERVATION_RELEASE, typed(release::RELEASE, kind), key, 0),
        Command::Clear { key } => (nvm::RESERVATION_RELEASE, Control::new(release::CLEAR), key, 0),
    };
    let keys = Keys { current: U64::new(current), other: U64::new(other) };
    let mut data = keys.as_bytes().to_vec();
    data.truncate(data_length(opcode));
    ReservationCommand { entry: SubmissionQueueEntry::new(opcode, nsid).with(10, control.dword()), data }
}

/// A host's Reservation Report into `length` bytes, a multiple of four above zero.
pub fn encode_report(nsid: u32, length: u32) -> SubmissionQueueEntry {
    let dwords = (length / 4).saturating_sub(1);
    SubmissionQueueEntry::new(nvm::RESERVATION_REPORT, nsid).with(10, dwords).with(11, EXTENDED)
}

/// Bytes that a Reservation Report asks for, if its host identifier's format is the one that is used here.
pub fn report_length(entry: &SubmissionQueueEntry) -> Result<u64, Status> {
    if entry.dword(11) & EXTENDED == 0 {
        return Err(Status::HOST_ID_INCONSISTENT.dnr());
    }
    Ok(u64::from(entry.dword(10)).saturating_add(1).saturating_mul(4))
}

/// The front of a report, extended (NVMe Base §7.7.1).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StatusHeader {
    generation: U32,
    kind: u8,
    registrants: U16,
    reserved7: [u8; 2],
    persist: u8,
    reserved10: [u8; 54],
}

/// One registrant of a report, extended.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Registered {
    cntlid: U16,
    status: u8,
    reserved3: [u8; 5],
    key: U64,
    hostid: [u8; 16],
    reserved32: [u8; 32],
}

const _: () = assert!(size_of::<StatusHeader>() == 64 && size_of::<Registered>() == 64);

/// CNTLID where controllers are made as hosts connect.
const DYNAMIC: u16 = 0xffff;
/// RCSTS: the registrant holds the reservation.
const HOLDS: u8 = 1 << 0;

/// A report of the reservations.
pub fn report(view: &View) -> Vec<u8> {
    let mut header = StatusHeader::new_zeroed();
    header.generation.set(view.generation);
    header.kind = view.reservation.as_ref().map_or(0, |(kind, _)| type_to_wire(*kind));
    header.registrants.set(wire::bounded::<u16>(view.registrations.len()));
    header.persist = u8::from(view.persist);
    let mut data = header.as_bytes().to_vec();
    for registration in &view.registrations {
        let mut entry = Registered::new_zeroed();
        entry.cntlid.set(DYNAMIC);
        entry.status = if view.holds(&registration.registrant) { HOLDS } else { 0 };
        entry.key.set(registration.key);
        entry.hostid = identifier(&registration.registrant);
        data.extend_from_slice(entry.as_bytes());
    }
    data
}

/// What stands for a registrant in HOSTID. A SCSI nexus has no such identifier: it gets one that its names always lead to, in the
/// shape of a UUID of our own making (RFC 9562 §5.8), which cannot be mistaken for a random one.
fn identifier(registrant: &Registrant) -> [u8; 16] {
    /// FNV-1a with 128 bits: its offset and its prime.
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let (initiator, target) = match registrant {
        Registrant::Host { identifier, .. } => return *identifier,
        Registrant::Nexus { initiator_port, target_port, .. } => (initiator_port, target_port),
    };
    let bytes = initiator.bytes().chain([0]).chain(target.bytes());
    let sum = bytes.fold(OFFSET, |sum, byte| (sum ^ u128::from(byte)).wrapping_mul(PRIME));
    let mut identifier = sum.to_be_bytes();
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut identifier;
    *version = *version & 0x0f | 0x80;
    *variant = *variant & 0x3f | 0x80;
    identifier
}

/// What a report says, as far as its bytes reach; `None` if they are no report. Hosts have no names in it, and with several
/// registrants that hold a reservation all of them do.
pub fn read_report(data: &[u8]) -> Option<View> {
    let (header, rest) = StatusHeader::read_from_prefix(data).ok()?;
    let kind = match header.kind {
        0 => None,
        kind => Some(type_from_wire(kind)?),
    };
    let mut view =
        View { generation: header.generation.get(), persist: header.persist != 0, ..View::default() };
    let mut holder = None;
    let (pieces, _) = rest.as_chunks::<64>();
    for piece in pieces.iter().take(usize::from(header.registrants.get())) {
        let entry = Registered::read_from_bytes(piece).ok()?;
        let registrant = Registrant::Host { identifier: entry.hostid, nqn: Arc::from("") };
        if entry.status & HOLDS != 0 {
            holder = Some(registrant.clone());
        }
        view.registrations.push(Registration { registrant, key: entry.key.get() });
    }
    // A holder whose entry did not come is somebody all the same.
    let unknown = Registrant::Host { identifier: [0; 16], nqn: Arc::from("") };
    view.reservation = kind.map(|kind| (kind, (!kind.is_all()).then(|| holder.unwrap_or(unknown))));
    Some(view)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn commands_go_round() {
        let mut all = vec![
            Command::Register { key: Some(0), new_key: 7, persist: None },
            Command::Register { key: Some(7), new_key: 8, persist: Some(false) },
            Command::Register { key: None, new_key: 8, persist: None },
            Command::Register { key: Some(7), new_key: 0, persist: None },
            Command::Register { key: None, new_key: 0, persist: None },
            Command::Clear { key: 9 },
        ];
        for kind in ReservationType::ALL {
            all.push(Command::Reserve { key: 1, kind });
            all.push(Command::Release { key: u64::MAX, kind });
            all.push(Command::Preempt { key: 1, victim: 2, kind, abort: false });
            all.push(Command::Preempt { key: 1, victim: 2, kind, abort: true });
        }
        for wanted in all {
            let ReservationCommand { entry, data } = encode(1, &wanted);
            assert_eq!(data.len(), data_length(entry.opcode));
            assert!(changes(entry.opcode) && check(&entry).is_ok(), "{wanted:?}");
            assert_eq!(command(&entry, &data), Ok(wanted));
        }
    }

    #[test]
    fn golden_vectors() {
        let preempt = Command::Preempt {
            key: 0x0102,
            victim: 3,
            kind: ReservationType::WriteExclusiveAll,
            abort: true,
        };
        let ReservationCommand { entry, data } = encode(5, &preempt);
        assert_eq!((entry.opcode, entry.dword(10)), (0x11, 0x0502));
        assert_eq!(data, [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        let ReservationCommand { entry, data } =
            encode(5, &Command::Register { key: None, new_key: 1, persist: Some(true) });
        assert_eq!((entry.opcode, entry.dword(10), data.len()), (0x0d, 0xc000_000a, 16));
        let report = encode_report(5, 4096);
        assert_eq!((report.opcode, report.dword(10), report.dword(11)), (0x0e, 0x3ff, 1));
        assert_eq!(report_length(&report), Ok(4096));
    }

    #[test]
    fn what_no_field_means_is_refused() {
        let refused = |opcode, control: u32, keys: [u64; 2]| {
            let entry = SubmissionQueueEntry::new(opcode, 1).with(10, control);
            let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
            command(&entry, &data) == Err(Status::INVALID_FIELD.dnr())
        };
        for action in 3..8 {
            assert!(refused(nvm::RESERVATION_REGISTER, action, [1, 2]), "register {action}");
            assert!(refused(nvm::RESERVATION_ACQUIRE, 0x100 | action, [1, 2]), "acquire {action}");
        }
        assert!(refused(nvm::RESERVATION_REGISTER, 0xc000_0000, [0, 2]), "nothing survives a loss of power");
        assert!(refused(nvm::RESERVATION_REGISTER, 0x4000_0000, [0, 2]), "a reserved change");
        for action in
            [register::REGISTER, register::REPLACE, register::REPLACE | Control::IGNORE_KEY].map(u32::from)
        {
            assert!(refused(nvm::RESERVATION_REGISTER, action, [1, 0]), "zero is no key: {action}");
        }
        for kind in (0..=255_u32).filter(|kind| !(1..=6).contains(kind)) {
            assert!(refused(nvm::RESERVATION_ACQUIRE, kind << 8, [1, 2]), "type {kind}");
            assert!(refused(nvm::RESERVATION_RELEASE, kind << 8, [1, 2]), "type {kind}");
        }
        for opcode in [nvm::RESERVATION_ACQUIRE, nvm::RESERVATION_RELEASE] {
            assert!(refused(opcode, 0x108, [1, 2]), "the key cannot be ignored");
        }
        for action in 2..8 {
            assert!(refused(nvm::RESERVATION_RELEASE, 0x100 | action, [1, 2]), "release {action}");
        }
        assert_eq!(
            report_length(&SubmissionQueueEntry::new(nvm::RESERVATION_REPORT, 1)),
            Err(Status::HOST_ID_INCONSISTENT.dnr())
        );
    }

    #[test]
    fn reports_go_round_as_far_as_they_tell() {
        let host = |number: u8| Registrant::Host { identifier: [number; 16], nqn: Arc::from("") };
        let nexus = Registrant::Nexus {
            initiator_port: Arc::from("iqn.2026-11.org.example:one,i,0x1"),
            target_port: Arc::from("iqn.2026-11.org.linerate:disk,t,0x0001"),
            relative_port: 1,
        };
        let mut view = View {
            generation: 0x0102_0304,
            registrations: vec![
                Registration { registrant: host(1), key: 0xaa },
                Registration { registrant: host(2), key: 0xbb },
            ],
            reservation: Some((ReservationType::ExclusiveAccess, Some(host(2)))),
            persist: false,
        };
        let data = report(&view);
        assert_eq!(data[..12], [4, 3, 2, 1, 2, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(data[64..76], [0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xaa, 0, 0, 0]);
        assert_eq!((data[128 + 2], &data[128 + 16..128 + 32], data.len()), (1, [2; 16].as_slice(), 192));
        assert_eq!(read_report(&data), Some(view.clone()));
        view.reservation = Some((ReservationType::WriteExclusiveAll, None));
        assert_eq!(read_report(&report(&view)), Some(view.clone()));
        view.registrations.push(Registration { registrant: nexus.clone(), key: 3 });
        view.reservation = Some((ReservationType::WriteExclusive, Some(nexus)));
        let read = read_report(&report(&view)).unwrap();
        let Some((_, Some(Registrant::Host { identifier, .. }))) = &read.reservation else {
            panic!("{read:?}")
        };
        assert_eq!((identifier[6] >> 4, identifier[8] >> 6), (8, 2), "a UUID of our own making");
        assert_eq!(read_report(&data[..63]), None);
        assert_eq!(
            read_report(&data[..64]).unwrap().registrations.len(),
            0,
            "what was cut off is not made up"
        );
    }
}
