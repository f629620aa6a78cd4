//! iSER connections, both roles: messages and remote accesses of a peer that are framed for it, so that the fuzzer gets past iWARP.

use std::sync::Arc;

use ::iscsi::datamover::iser::{self, Invalidation, IserHeader, initiator_needs, private_data, target_needs};
use ::iscsi::pdu::{LoginIdentity, LoginRequest, LoginResponse, Stage, Status};
use ::iscsi::session::Sessions;
use ::iscsi::text::Text;
use ::iwarp::mpa::{Offer, Revision, RtrKinds};
use ::iwarp::{Config, Connection, Role};
use buf::{Account, Buf, BufList, Pool, SharedBuf};
use protocol::pair::Half;
use protocol::{Connection as _, Ended, Instant, SeededEntropy};
use verbs::{QueueLimits, QueuePair, RegionMemory, RemoteRegion, STag, SetupAnswer, WorkId, WorkRequest};
use wire::Reader;

use super::iscsi::{INITIATOR, TARGET, config, portal, resources, serve};

/// The most that a peer does.
const STEPS: usize = 64;
/// Bytes of a region of the peer's.
const MEMORY: usize = 8192;

fn queue_pair(role: Role, queues: QueueLimits) -> Connection {
    let offer =
        Offer { revision: Revision::Two, markers: false, crc: false, rtr: RtrKinds::ALL, ird: 8, ord: 8 };
    let config = Config { role, offer, queues, mss: 1448, solicited: false };
    Connection::new(Instant::ZERO, config, Account::new(&Pool::new(1 << 20)))
}

/// The peer: a queue pair that nobody reads.
fn peer(role: Role) -> Half<Connection> {
    let mut half = Half::new(queue_pair(role, initiator_needs()));
    for _ in 0..STEPS {
        post(&mut half, WorkRequest::Receive { into: Buf::zeroed(MEMORY + 128) });
    }
    half
}

/// What the queue pair does not take does not happen.
fn post(half: &mut Half<Connection>, request: WorkRequest) {
    let _ = half.connection.post(WorkId(0), request);
}

fn list(bytes: &[u8]) -> BufList {
    BufList::from(SharedBuf::from(bytes.to_vec()))
}

/// A message: this header, and text behind it.
fn message(mut header: [u8; 48], text: &Text) -> Vec<u8> {
    let length = u32::try_from(text.bytes().len()).unwrap_or_default().to_be_bytes();
    for (field, byte) in header.iter_mut().skip(5).zip(length.iter().skip(1)) {
        *field = *byte;
    }
    [&IserHeader::new().to_bytes(), &header[..], text.bytes()].concat()
}

/// The next thing that the peer does: a message, with or without invalidation, a region, its end, or an access.
fn step(half: &mut Half<Connection>, reader: &mut Reader<'_>) -> Option<()> {
    let kind = reader.u8().ok()?;
    let stag = STag(u32::from(reader.u16_be().ok()?));
    let region = RemoteRegion { stag, offset: 0, length: 512 };
    let request = match kind % 8 {
        0..=2 => {
            let length = usize::from(reader.u16_be().ok()?);
            let data = list(reader.take(length).ok()?);
            WorkRequest::Send { data, invalidate: (kind % 8 == 2).then_some(stag) }
        }
        3 => WorkRequest::Register { memory: RegionMemory::Sink(Buf::zeroed(MEMORY)) },
        4 => WorkRequest::Register { memory: RegionMemory::Source(list(&[7; MEMORY])) },
        5 => WorkRequest::Invalidate { stag },
        6 => WorkRequest::Write { data: list(&[9; 512]), to: region },
        _ => WorkRequest::Read { into: Buf::zeroed(512), from: region },
    };
    post(half, request);
    Some(())
}

/// Lets both ends say what they have to say.
fn cross<C: protocol::Connection>(peer: &mut Half<Connection>, half: &mut Half<C>) {
    for _ in 0..4 {
        half.receive(Instant::ZERO, &peer.transmit(Instant::ZERO));
        peer.receive(Instant::ZERO, &half.transmit(Instant::ZERO));
        while peer.connection.poll_action().is_some() {
            let answer = SetupAnswer::Accept(private_data(Invalidation::Used));
            peer.connection.handle_input(Instant::ZERO, answer);
        }
        peer.connection.poll(Instant::ZERO, &mut Vec::new());
    }
}

/// Whatever an initiator may do to a target that it has logged in to.
///
/// # Panics
/// When the target still holds memory in the end.
pub fn target(bytes: &[u8]) {
    let Some(portal) = portal() else { return };
    let (pool, queue_depth) = (Pool::new(8 << 20), portal.queue_depth);
    let responder = queue_pair(Role::Responder, target_needs(queue_depth));
    let connection =
        iser::TargetConnection::new(Instant::ZERO, Arc::new(portal), resources(&pool), responder);
    let (mut half, mut sessions) = (Half::new(connection), Sessions::new());
    let mut peer = peer(Role::Initiator(private_data(Invalidation::Used)));
    let mut text = Text::new();
    for (key, value) in [("InitiatorName", INITIATOR), ("TargetName", TARGET), ("RDMAExtensions", "Yes")] {
        text.put(key, value);
    }
    let login =
        LoginRequest::new(Stage::Operational, LoginIdentity::new_session([0x80, 0, 0, 0, 0, 1]), 0, 1);
    let login = message(login.transit(Stage::FullFeature).to_bytes(), &text);
    post(&mut peer, WorkRequest::Send { data: list(&login), invalidate: None });
    let mut reader = Reader::new(bytes);
    for _ in 0..STEPS {
        cross(&mut peer, &mut half);
        serve(&mut half, &mut sessions);
        if step(&mut peer, &mut reader).is_none() {
            break;
        }
    }
    cross(&mut peer, &mut half);
    half.end(Instant::ZERO, Ended::ByPeer);
    serve(&mut half, &mut sessions);
    drop(half);
    assert_eq!(pool.used(), 0, "all memory comes back");
}

/// Whatever a target may do to an initiator that has logged in to it.
pub fn initiator(bytes: &[u8]) {
    let Some(config) = config() else { return };
    let requester = queue_pair(Role::Initiator(private_data(Invalidation::Used)), initiator_needs());
    let (pool, entropy) = (Pool::new(8 << 20), Box::new(SeededEntropy::new(1)));
    let connection = iser::InitiatorConnection::new(Instant::ZERO, config, pool, entropy, requester);
    let mut half = Half::new(connection);
    let mut peer = peer(Role::Responder);
    for (stage, next) in [(Stage::Security, Stage::Operational), (Stage::Operational, Stage::FullFeature)] {
        let request = LoginRequest::new(stage, LoginIdentity::new_session([0x80, 0, 0, 0, 0, 1]), 0, 1);
        let mut text = Text::new();
        text.put("AuthMethod", "None");
        text.put("RDMAExtensions", "Yes");
        let response = LoginResponse::new(&request, Status::SUCCESS).transit(next).with_tsih(1);
        let mut header = response.to_bytes();
        // MaxCmdSN: the window is wide open.
        header[35] = 64;
        cross(&mut peer, &mut half);
        post(&mut peer, WorkRequest::Send { data: list(&message(header, &text)), invalidate: None });
    }
    let mut reader = Reader::new(bytes);
    for _ in 0..STEPS {
        cross(&mut peer, &mut half);
        while half.connection.poll_action().is_some() {}
        if step(&mut peer, &mut reader).is_none() {
            break;
        }
    }
    half.end(Instant::ZERO, Ended::ByPeer);
}

/// What a peer does that sends each of these headers, in the form that [`target`] and [`initiator`] read.
pub fn steps(headers: &[[u8; 48]]) -> Vec<u8> {
    let mut steps = vec![3, 0, 0, 4, 0, 0];
    for header in headers {
        let iser = IserHeader::new();
        // The first tags that a table of regions gives out.
        let [to, from] = [0x001, 0x101].map(|stag| RemoteRegion { stag: STag(stag), offset: 0, length: 0 });
        let bytes = message(*header, &Text::new());
        let iser = iser.reading(to.into()).writing(from.into()).to_bytes();
        let bytes = [&iser[..], bytes.get(iser.len()..).unwrap_or_default()].concat();
        steps.extend([0, 0, 0]);
        steps.extend(u16::try_from(bytes.len()).unwrap_or_default().to_be_bytes());
        steps.extend(bytes);
    }
    steps
}
