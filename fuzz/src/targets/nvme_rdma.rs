//! NVMe/RDMA ends whose peer has a queue pair that obeys iWARP, so that the fuzzer says what is in private data and capsules, and which memory is touched.

use std::sync::Arc;

use buf::{Account, Buf, BufList, Pool, SharedBuf};
use iwarp::mpa::{Offer, Revision, RtrKinds};
use iwarp::{Connection, Role};
use nvme::cqe::CompletionQueueEntry;
use nvme::fabrics::{Connect, ConnectData, HostIdentity};
use nvme::rdma::{AcceptReply, ConnectRequest, ControllerConnection, HostConnection};
use nvme::sgl::{KeyedBlock, SglDescriptor};
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use protocol::pair::Pair;
use protocol::{Connection as _, Ended, Instant};
use verbs::{
    PrivateData, QueueLimits, QueuePair as _, RegionMemory, RemoteRegion, STag, SetupAnswer, WorkCompletion,
    WorkDone, WorkId, WorkMemory, WorkRequest,
};
use wire::Reader;
use zerocopy::{FromBytes, IntoBytes};

use super::nvme::{NQN, config, portal, serve_queue};

/// Bytes of each region of a host's.
const MEMORY: usize = 1 << 16;
/// What is registered for reading holds nothing else.
const SOURCE: u8 = 0xa5;
/// Steps after which a peer has said enough.
const MOST_STEPS: usize = 128;

fn pair(role: Role, queues: QueueLimits, pool: &Pool) -> Connection {
    let offer =
        Offer { revision: Revision::Two, markers: false, crc: false, rtr: RtrKinds::ALL, ird: 4, ord: 4 };
    let config = iwarp::Config { role, offer, queues, mss: 1448, solicited: false };
    Connection::new(Instant::ZERO, config, Account::new(pool))
}

/// A queue pair with receives of this size.
fn peer(role: Role, receive: usize, pool: &Pool) -> Connection {
    let needs = QueueLimits { sends: 512, receives: 256, regions: 8, longest: 1 << 20 };
    let mut pair = pair(role, needs, pool);
    for _ in 0..256 {
        post(&mut pair, WorkRequest::Receive { into: Buf::zeroed(receive) });
    }
    pair
}

/// Posts a request; a queue pair that has ended takes none.
fn post(pair: &mut Connection, request: WorkRequest) {
    let _ = pair.post(WorkId(0), request);
}

fn list(bytes: &[u8]) -> BufList {
    SharedBuf::from(bytes.to_vec()).into()
}

/// The region of that memory.
fn register(pair: &mut Connection, memory: RegionMemory) -> Option<RemoteRegion> {
    post(pair, WorkRequest::Register { memory });
    let mut done = Vec::new();
    pair.poll(Instant::ZERO, &mut done);
    done.into_iter().find_map(|done| match done.result {
        Ok(WorkDone::Registered(region)) => Some(region),
        _ => None,
    })
}

/// A step that a peer takes: which, and its bytes.
fn step<'a>(reader: &mut Reader<'a>) -> Option<(u8, &'a [u8])> {
    let kind = reader.u8().ok()?;
    let length = usize::from(reader.u16_le().ok()?).min(reader.remaining());
    Some((kind, reader.take(length).ok()?))
}

/// A host's private data, or ours if it is empty, and commands with memory that they may name.
///
/// # Panics
/// When memory does not come back.
pub fn controller(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let own = ConnectRequest::new(1, 1, 32).encode();
    let said = step(&mut reader)
        .and_then(|(_, said)| PrivateData::new(said))
        .filter(|said| !said.bytes().is_empty());
    let pool = Pool::new(8 << 20);
    let portal = Arc::new(portal());
    let needs = ControllerConnection::<Connection>::needs(&portal);
    let far =
        ControllerConnection::new(pair(Role::Responder, needs, &pool), portal, pool.clone(), Instant::ZERO);
    let near = peer(Role::Initiator(said.unwrap_or(own)), 16, &Pool::new(1 << 20));
    let mut joined = Pair::new(near, far);
    joined.exchange();
    let near = &mut joined.near.connection;
    let source = register(near, RegionMemory::Source(list(&vec![SOURCE; MEMORY])));
    let sink = register(near, RegionMemory::Sink(Buf::zeroed(MEMORY)));
    connect(near);
    for _ in 0..MOST_STEPS {
        joined.exchange();
        serve_queue(&mut joined.far);
        let Some((kind, said)) = step(&mut reader) else { break };
        let near = &mut joined.near.connection;
        while near.poll_action().is_some() {}
        let region = if kind & 1 == 0 { source } else { sink };
        match kind >> 1 {
            0 => post(near, WorkRequest::Send { data: list(said), invalidate: None }),
            _ => command(near, region, kind, said),
        }
    }
    joined.exchange();
    serve_queue(&mut joined.far);
    joined.far.end(Instant::ZERO, Ended::ByPeer);
    serve_queue(&mut joined.far);
    drop(joined);
    assert_eq!(pool.used(), 0, "everything comes back");
}

/// Connects the queue.
fn connect(near: &mut Connection) {
    let host = HostIdentity { identifier: [5; 16], nqn: "nqn.2014-08.org.nvmexpress:uuid:fuzz".into() };
    let data = ConnectData::new(&host, 1, NQN);
    let capsule = [Connect::entry(1, 31, 0).as_bytes(), data.as_bytes()].concat();
    post(near, WorkRequest::Send { data: list(&capsule), invalidate: None });
}

/// Sends a command whose descriptor names a region, with its length where the bytes do not say another one.
fn command(near: &mut Connection, region: Option<RemoteRegion>, kind: u8, said: &[u8]) {
    let mut whole = said.to_vec();
    whole.resize(said.len().max(64), 0);
    let Ok((entry, data)) = SubmissionQueueEntry::mut_from_prefix(&mut whole) else { return };
    let Some(region) = region else { return };
    let block = KeyedBlock {
        address: if kind & 2 == 0 { 0 } else { entry.dptr.address.get() },
        key: region.stag.0 ^ u32::from(kind & 4),
        length: usize::from(kind >> 3) * 512,
        invalidate: kind & 2 == 0,
    };
    entry.dptr = SglDescriptor::keyed(block).unwrap_or(entry.dptr);
    let capsule = [entry.as_bytes(), data].concat();
    post(near, WorkRequest::Send { data: list(&capsule), invalidate: None });
}

/// A controller's private data, or ours if it is empty, its responses, and what it does to the memory of commands.
///
/// # Panics
/// When the host fails twice, or goes on without a connection.
pub fn host(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let said = step(&mut reader)
        .and_then(|(_, said)| PrivateData::new(said))
        .filter(|said| !said.bytes().is_empty());
    let (config, pool) = (config(), Pool::new(1 << 20));
    let role = Role::Initiator(HostConnection::<Connection>::private_data(&config));
    let needs = HostConnection::<Connection>::needs(&config);
    let near = HostConnection::new(pair(role, needs, &pool), config, Instant::ZERO);
    let mut joined = Pair::new(near, peer(Role::Responder, 8192, &pool));
    joined.exchange();
    while joined.far.connection.poll_action().is_some() {}
    let answer = SetupAnswer::Accept(said.unwrap_or_else(|| AcceptReply::new(32).encode()));
    joined.far.connection.handle_input(Instant::ZERO, answer);
    let (mut open, mut done) = (Vec::new(), Vec::new());
    for _ in 0..MOST_STEPS {
        joined.exchange();
        while joined.near.connection.poll_action().is_some() {}
        let far = &mut joined.far.connection;
        far.poll(Instant::ZERO, &mut done);
        open.extend(done.drain(..).filter_map(received));
        let Some((kind, said)) = step(&mut reader) else { break };
        act(far, &mut open, kind, said);
    }
    joined.exchange();
    joined.near.end(Instant::ZERO, Ended::ByPeer);
    let actions: Vec<_> = std::iter::from_fn(|| joined.near.connection.poll_action()).collect();
    let failures = actions.iter().filter(|action| matches!(action, nvme::host::Action::Failed(_))).count();
    assert!(failures <= 1, "a connection fails once");
    assert!(joined.near.connection.poll_close().is_some());
}

/// The command in a message.
fn received(completion: WorkCompletion) -> Option<SubmissionQueueEntry> {
    let (Ok(WorkDone::Received { length, .. }), WorkMemory::Buf(buf)) =
        (completion.result, completion.memory)
    else {
        return None;
    };
    SubmissionQueueEntry::read_from_prefix(buf.get(..length)?).ok().map(|(entry, _)| entry)
}

/// Does something about the oldest command.
fn act(far: &mut Connection, open: &mut Vec<SubmissionQueueEntry>, kind: u8, said: &[u8]) {
    let oldest = open.first().copied();
    let block =
        oldest.and_then(|entry| entry.dptr.data_pointer()?.keyed_block()).filter(|block| block.length != 0);
    let region = |length: usize| {
        block.map(|block| RemoteRegion {
            stag: STag(block.key ^ u32::from(kind & 8)),
            offset: block.address + u64::from(kind >> 4),
            length: u32::try_from(length).unwrap_or(0),
        })
    };
    match (kind & 3, oldest) {
        (0, _) => post(far, WorkRequest::Send { data: list(said), invalidate: None }),
        (1, Some(entry)) => {
            let status = if kind & 8 == 0 { Status::SUCCESS } else { Status::INVALID_FIELD };
            let result = said.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let response = CompletionQueueEntry::new(entry.cid.get(), 0, status).with_result(result);
            let invalidate = block.filter(|_| kind & 4 != 0).map(|block| STag(block.key));
            post(far, WorkRequest::Send { data: list(response.as_bytes()), invalidate });
            // Now and then it is answered again.
            if kind & 16 == 0 {
                open.remove(0);
            }
        }
        (2, Some(_)) => {
            if let Some(to) = region(said.len()) {
                post(far, WorkRequest::Write { data: list(said), to });
            }
        }
        _ => {
            if let Some(from) = region(64) {
                post(far, WorkRequest::Read { into: Buf::zeroed(64), from });
            }
        }
    }
}
