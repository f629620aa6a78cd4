//! iSCSI ends whose peer is mostly well behaved, so that the fuzzer gets past what it cannot guess.
//!
//! A CRC32C over every header keeps a fuzzer out of everything behind it, and a chain of questions keeps it out of the
//! answers' parsers. Here digests are computed for it, and it only says what the answers hold.

use std::sync::Arc;

use buf::{LARGEST, Pool};
use iscsi::datamover::tcp;
use iscsi::initiator::{Action, Config, RemoteUnit};
use iscsi::keys;
use iscsi::limits::{BHS, MOST_TEXT};
use iscsi::pdu::{
    BasicHeaderSegment, Bhs, DataIn, DataRange, LoginIdentity, LoginRequest, LoginResponse, Opcode, Residual,
    ScsiCommand, ScsiResponse, Stage, Status, TextRequest, TextResponse, padding,
};
use iscsi::session::Sessions;
use iscsi::text::Text;
use protocol::pair::Half;
use protocol::{Connection, Ended, Instant, SeededEntropy};
use volume::Features;
use wire::{Reader, crc32c};

use super::iscsi::{INITIATOR, TARGET, config, portal, resources, serve};

/// Answers after which a target has said enough.
const MOST_ANSWERS: usize = 256;
/// The initiator's part of the session's name.
const ISID: [u8; 6] = [0x80, 0, 0, 0, 0, 1];

/// One PDU cut from a stream without digests: its header with additional segments, and its data.
fn cut<'a>(reader: &mut Reader<'a>) -> Option<(Bhs, &'a [u8], &'a [u8])> {
    let header: Bhs = *reader.rest().first_chunk()?;
    let view = BasicHeaderSegment::from_bytes(&header);
    let head = reader.take((BHS + view.ahs_length()).min(reader.remaining())).ok()?;
    let length = usize::try_from(view.data_length()).unwrap_or(usize::MAX).min(reader.remaining());
    let data = reader.take(length).ok()?;
    let _ = reader.skip(padding(length).min(reader.remaining()));
    Some((header, head, data))
}

/// The same PDU with both digests, and with as much data as there is.
fn with_digests(head: &[u8], data: &[u8]) -> Vec<u8> {
    let mut pdu = head.to_vec();
    let length = u32::try_from(data.len()).unwrap_or(0).to_be_bytes();
    if let Some(field) = pdu.get_mut(5..8) {
        field.copy_from_slice(&length[1..]);
    }
    pdu.extend(crc32c(&pdu).to_le_bytes());
    if !data.is_empty() {
        let mut covered = data.to_vec();
        covered.resize(data.len() + padding(data.len()), 0);
        let sum = crc32c(&covered);
        pdu.extend(covered);
        pdu.extend(sum.to_le_bytes());
    }
    pdu
}

fn login(cmd_sn: u32) -> Vec<u8> {
    let mut text = Text::new();
    for (key, value) in [
        ("InitiatorName", INITIATOR),
        ("SessionType", "Normal"),
        ("TargetName", TARGET),
        ("HeaderDigest", "CRC32C"),
        ("DataDigest", "CRC32C"),
    ] {
        text.put(key, value);
    }
    let request = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, cmd_sn)
        .transit(Stage::FullFeature);
    pdu(request.to_bytes(), text.bytes())
}

/// A PDU without digests: the header, its length field set, and the data with its padding.
fn pdu(header: Bhs, data: &[u8]) -> Vec<u8> {
    let mut pdu = header.to_vec();
    let length = u32::try_from(data.len()).unwrap_or(0).to_be_bytes();
    if let Some(field) = pdu.get_mut(5..8) {
        field.copy_from_slice(&length[1..]);
    }
    pdu.extend_from_slice(data);
    pdu.resize(pdu.len() + padding(data.len()), 0);
    pdu
}

/// A logged-in initiator with digests: PDUs without digests, to which the right ones are added. Logins are left out.
pub fn target_with_digests(bytes: &[u8]) {
    let Some(portal) = portal() else { return };
    let pool = Pool::new(8 << 20);
    let connection = tcp::TargetConnection::new(Instant::ZERO, Arc::new(portal), resources(&pool));
    let (mut half, mut sessions) = (Half::new(connection), Sessions::new());
    let mut reader = Reader::new(bytes);
    let mut begun = false;
    while let Some((header, head, data)) = cut(&mut reader) {
        let view = BasicHeaderSegment::from_bytes(&header);
        if view.opcode() == Opcode::LOGIN_REQUEST {
            continue;
        }
        if !std::mem::replace(&mut begun, true) {
            half.receive(Instant::ZERO, &login(view.cmd_sn()));
            serve(&mut half, &mut sessions);
            half.transmit(Instant::ZERO);
        }
        half.receive(Instant::ZERO, &with_digests(head, data));
        serve(&mut half, &mut sessions);
        half.transmit(Instant::ZERO);
    }
    half.end(Instant::ZERO, Ended::ByPeer);
    serve(&mut half, &mut sessions);
}

/// A target whose answers the input holds: behind a byte that chooses between a disk and a discovery, one after another, each
/// behind two bytes: how it ends, and how long it is.
///
/// # Panics
/// When a unit is taken that is no disk: that is what the fuzzer looks for.
pub fn unit(bytes: &[u8]) {
    let (Some((&kind, script)), Some(config)) = (bytes.split_first(), config()) else { return };
    let config = if kind % 4 == 0 { Config { target: None, ..config } } else { config };
    let tuning = keys::Tuning::default();
    let entropy = Box::new(SeededEntropy::new(1));
    let config = Config { tuning, ..config };
    let connection = tcp::InitiatorConnection::new(Instant::ZERO, config, Pool::new(8 << 20), entropy);
    let mut half = Half::new(connection);
    let mut script = Reader::new(script);
    for _ in 0..MOST_ANSWERS {
        let said = half.transmit(Instant::ZERO);
        let answers = answers(&said, &mut script);
        half.receive(Instant::ZERO, &answers);
        while let Some(action) = half.connection.poll_action() {
            check(&action);
        }
        if answers.is_empty() {
            break;
        }
    }
    half.end(Instant::ZERO, Ended::ByPeer);
}

/// Answers to everything that the initiator said.
fn answers(said: &[u8], script: &mut Reader<'_>) -> Vec<u8> {
    let mut reader = Reader::new(said);
    let mut answers = Vec::new();
    while let Some((header, ..)) = cut(&mut reader) {
        let Some((header, data)) = answer(&header, script) else { continue };
        answers.extend(pdu(header, data));
    }
    answers
}

/// The answer to one PDU, with data from the script.
fn answer<'a>(header: &Bhs, script: &mut Reader<'a>) -> Option<(Bhs, &'a [u8])> {
    let view = BasicHeaderSegment::from_bytes(header);
    let (answer, data) = match view.opcode() {
        Opcode::LOGIN_REQUEST => {
            let request = LoginRequest::from_bytes(header);
            let next = request.next().filter(|_| request.wants_transit());
            let response = LoginResponse::new(&request, Status::SUCCESS);
            let response = next.map_or(response, |next| response.transit(next)).with_tsih(1);
            (response.to_bytes(), &[][..])
        }
        Opcode::SCSI_COMMAND => {
            let [how, length] = script.array().ok()?;
            let data = script.take(usize::from(length).min(script.remaining())).ok()?;
            scsi(&ScsiCommand::from_bytes(header), how, data)
        }
        Opcode::TEXT_REQUEST => {
            let [how, length] = script.array().ok()?;
            let data = script.take(usize::from(length).min(script.remaining())).ok()?;
            let tag = TextRequest::from_bytes(header).task_tag();
            let more = how & 1 != 0;
            let response =
                if more { TextResponse::partial(tag, 7).continuing() } else { TextResponse::last(tag) };
            (response.to_bytes(), data)
        }
        _ => return None,
    };
    Some((numbered(answer, view.cmd_sn()), data))
}

fn scsi<'a>(command: &ScsiCommand, how: u8, data: &'a [u8]) -> (Bhs, &'a [u8]) {
    let tag = command.task_tag();
    let expected = command.expected_length();
    let data = data.get(..data.len().min(usize::try_from(expected).unwrap_or(0))).unwrap_or_default();
    let length = u32::try_from(data.len()).unwrap_or(0);
    if how.is_multiple_of(2) && command.reads() && !data.is_empty() {
        let residual = Residual::between(expected, length.into());
        return (
            DataIn::new(tag, 0, DataRange { offset: 0, length }).with_status(how & 0x02, residual).to_bytes(),
            data,
        );
    }
    (ScsiResponse::new(tag, how & 0x1a, Residual::between(expected, 0), 0).to_bytes(), data)
}

/// The numbers of a target that always has room for more commands.
fn numbered(mut header: Bhs, cmd_sn: u32) -> Bhs {
    for (at, number) in [(28, cmd_sn.wrapping_add(1)), (32, cmd_sn.wrapping_add(64))] {
        if let Some(field) = header.get_mut(at..at + 4) {
            field.copy_from_slice(&u32::to_be_bytes(number));
        }
    }
    header
}

fn check(action: &Action) {
    match action {
        Action::Ready(unit) => check_unit(unit),
        Action::Discovered(found) => {
            let bytes: usize = found.iter().map(|target| target.name.len()).sum();
            assert!(bytes <= MOST_TEXT, "{} targets", found.len());
        }
        _ => {}
    }
}

fn check_unit(unit: &RemoteUnit) {
    let block = unit.geometry.block_size;
    assert!(matches!(block, 512 | 4096), "{unit:?}");
    assert!(unit.geometry.physical_block_size.is_multiple_of(block), "{unit:?}");
    assert!(unit.limits.max_transfer >= block && unit.limits.max_transfer.is_multiple_of(block), "{unit:?}");
    assert!(usize::try_from(unit.limits.max_transfer).is_ok_and(|most| most <= LARGEST), "{unit:?}");
    assert!(unit.limits.discard_granularity > 0 && unit.limits.depth > 0, "{unit:?}");
    let discards = unit.features.contains(Features::DISCARD);
    assert!(!discards || unit.limits.max_discard > 0, "{unit:?}");
    assert!(unit.naa.len() <= 255, "{unit:?}");
}
