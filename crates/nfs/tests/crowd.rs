//! Clients without end, and clients that take without end: what they make the server hold is bounded in bytes, as the allocator counts them, and whoever behaves is
//! served beside them or told to wait.

#[path = "../../simulator/tests/common/counting_allocator.rs"]
mod counting_allocator;

mod common;

use std::time::Duration;

use common::{Bench, Caller, Client, CompoundCall, op};
use counting_allocator::heap;
use nfs::limits::{CLIENT_BYTES, CLIENTS, STATE_BYTES};
use nfs::v4::operation::OpNumber;
use nfs::v4::{ClientId, SessionId, Status};

const READ: u32 = 1;
const BOTH: u32 = 3;
/// Connections that the crowd shares.
const CONNECTIONS: usize = 8;
/// Past every lease.
const LATER: Duration = Duration::from_secs(200);
const COURTESY: Duration = Duration::from_hours(25);

/// A client with a session of as many slots as there are, or the status that it got instead.
fn try_client(bench: &mut Bench, peer: usize, name: &str) -> Result<Client, Status> {
    let caller = Caller::User(1000);
    let call = CompoundCall::of(&[op::exchange_id(name.as_bytes(), 1, 0)]);
    let mut results = bench.call(peer, &call, caller);
    if results.status != Status::OK {
        return Err(results.status);
    }
    results.ok(OpNumber::EXCHANGE_ID);
    let (id, sequence) = (ClientId(results.get::<u64>()), results.get::<u32>());
    let mut results = bench.call(peer, &CompoundCall::of(&[op::create_session(id, sequence, 64)]), caller);
    if results.status != Status::OK {
        return Err(results.status);
    }
    results.ok(OpNumber::CREATE_SESSION);
    let session = SessionId(results.get());
    let mut client = Client { id, session, slot: 0, sequence: 0, cache: true, caller, peer, minor: 2 };
    // The highest slot that may be named is the session's own.
    match client.status(bench, &[op::reclaim_complete(false)]) {
        Status::OK => Ok(client),
        status => Err(status),
    }
}

/// Ten thousand clients, each with a session of 64 slots, a cached reply and an open file.
#[test]
fn ten_thousand_clients_are_bounded_in_bytes() {
    let mut bench = Bench::new();
    let mut honest = Client::new(&mut bench, "honest");
    let (stateid, handle) = honest.open(&mut bench, "file", BOTH, 0).unwrap();
    let peers: Vec<usize> = (0..CONNECTIONS).map(|_| bench.connect()).collect();
    let before = heap();
    let mut refused = 0;
    for number in 0..10_000 {
        let peer = peers[number % CONNECTIONS];
        let client = try_client(&mut bench, peer, &format!("client {number}"));
        match client {
            Ok(mut client) => {
                let open = op::open(b"owner", READ, 0, op::How::NoCreate, op::Claim::Fh);
                let status = client.status(&mut bench, &[op::putfh(&handle), open]);
                assert!(matches!(status, Status::OK | Status::DELAY), "client {number}: {status}");
            }
            Err(status) => {
                assert_eq!(status, Status::DELAY, "client {number}");
                refused += 1;
            }
        }
        assert!(bench.group.bytes() <= STATE_BYTES + CLIENT_BYTES);
    }
    let grown = heap() - before;
    eprintln!("{grown} bytes of heap, {} counted, {refused} refused", bench.group.bytes());
    assert!(grown < STATE_BYTES, "{grown} bytes");
    // What is counted is not less than half of what there is.
    assert!(grown / 2 < bench.group.bytes(), "{grown} bytes of heap, {} counted", bench.group.bytes());
    // Whoever was there goes on, and whoever comes gets in.
    let operations = [op::putfh(&handle), op::write(stateid, 0, b"data"), op::read(stateid, 0, 4)];
    assert_eq!(honest.status(&mut bench, &operations), Status::OK);
    if refused == 0 {
        let mut late = Client::new(&mut bench, "late");
        assert!(late.open(&mut bench, "other", BOTH, 0).is_ok());
    }
    for peer in peers {
        bench.end(peer);
    }
    bench.pass(LATER);
    bench.pass(COURTESY);
    assert_eq!((bench.group.clients(), bench.group.bytes(), bench.stable.len()), (0, 0, 0));
}

/// A full table: newcomers are told to wait, those who are in it are served, and leases that end make room.
#[test]
fn a_full_table_of_clients_tells_newcomers_to_wait() {
    let mut bench = Bench::new();
    let mut honest = Client::new(&mut bench, "honest");
    let peer = bench.connect();
    for number in 1..CLIENTS {
        let call = CompoundCall::of(&[op::exchange_id(format!("client {number}").as_bytes(), 1, 0)]);
        let mut results = bench.call(peer, &call, honest.caller);
        results.ok(OpNumber::EXCHANGE_ID);
        let (id, sequence) = (ClientId(results.get::<u64>()), results.get::<u32>());
        let call = CompoundCall::of(&[op::create_session(id, sequence, 1)]);
        assert_eq!(bench.call(peer, &call, honest.caller).status, Status::OK, "client {number}");
    }
    assert_eq!(bench.group.clients(), CLIENTS);
    let newcomer = bench.connect();
    assert_eq!(try_client(&mut bench, newcomer, "late").map(drop), Err(Status::DELAY));
    let (stateid, handle) = honest.open(&mut bench, "file", BOTH, 0).unwrap();
    let operations = [op::putfh(&handle), op::write(stateid, 0, b"data")];
    for _ in 0..10 {
        bench.pass(Duration::from_secs(30));
        assert_eq!(honest.status(&mut bench, &operations), Status::OK);
    }
    assert!(try_client(&mut bench, newcomer, "late").is_ok());
}

/// One client's locks, each of another owner: DELAY when it has as much as it may have, and nobody else minds.
#[test]
fn locks_of_one_client_are_bounded_in_bytes() {
    let mut bench = Bench::new();
    let (mut greedy, mut other) = (Client::new(&mut bench, "greedy"), Client::new(&mut bench, "other"));
    let (stateid, handle) = greedy.open(&mut bench, "file", BOTH, 0).unwrap();
    let before = heap();
    let mut locks = 0_u64;
    let status = loop {
        let owner = [b"a long name of an owner ".as_slice(), &locks.to_be_bytes()].concat();
        let lock = op::lock_new(1, locks * 2, 1, stateid, &owner);
        match greedy.status(&mut bench, &[op::putfh(&handle), lock]) {
            Status::OK => locks += 1,
            status => break status,
        }
    };
    let grown = heap() - before;
    eprintln!("{locks} locks in {grown} bytes");
    assert_eq!(status, Status::DELAY);
    assert!(locks > 4096 && grown < 2 * CLIENT_BYTES, "{locks} locks in {grown} bytes");
    let (stateid, handle) = other.open(&mut bench, "file", BOTH, 0).unwrap();
    let lock = op::lock_new(1, 0, u64::MAX, stateid, b"owner");
    assert_eq!(other.status(&mut bench, &[op::putfh(&handle), lock]), Status::OK);
}
