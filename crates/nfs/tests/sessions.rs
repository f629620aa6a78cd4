//! Sessions in bytes: exactly-once, on one connection and on several; clients that end, and servers that start again (RFC 8881 §2.10.6, §8.4).

mod common;

use std::time::Duration;

use common::{Bench, Caller, Client, CompoundCall, export_of, op, open_grant};
use nfs::limits::{LEASE, RENEWAL};
use nfs::v4::operation::OpNumber;
use nfs::v4::{ClientId, SessionId, Stateid, Status};

const BOTH: u32 = 3;

/// A retry has the same answer, and nothing is done twice.
#[test]
fn a_retry_is_replayed() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let root = client.handle(&mut bench, &["data"]);
    client.cache = true;
    let operations = [op::putfh(&root), op::create(2, "dir")];
    let call = client.compound(&operations);
    let first = bench.call(client.peer, &call, client.caller);
    assert_eq!(first.status, Status::OK);
    let made = bench.requests["make"];
    let second = bench.call(client.peer, &call, client.caller);
    assert_eq!(first.raw()[4..], second.raw()[4..]);
    assert_eq!(bench.requests["make"], made);
    // The same sequence ID with another request.
    let other = client.compound_again(&[op::putfh(&root), op::create(2, "other")]);
    assert_eq!(bench.call(client.peer, &other, client.caller).status, Status::SEQ_FALSE_RETRY);
    assert_eq!(bench.call(client.peer, &call, Caller::User(7)).status, Status::SEQ_FALSE_RETRY);
    client.sequence += 1;
    let skipped = client.compound(&[op::putrootfh()]);
    assert_eq!(bench.call(client.peer, &skipped, client.caller).status, Status::SEQ_MISORDERED);
}

#[test]
fn what_was_not_to_be_cached_is_not_done_again_either() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let root = client.handle(&mut bench, &["data"]);
    let call = client.compound(&[op::putfh(&root), op::create(2, "dir")]);
    assert_eq!(bench.call(client.peer, &call, client.caller).status, Status::OK);
    assert_eq!(bench.call(client.peer, &call, client.caller).status, Status::RETRY_UNCACHED_REP);
    assert_eq!(bench.requests["make"], 1);
}

/// The retry comes on another connection, while the first is being carried out and afterwards.
#[test]
fn a_retry_on_another_connection_is_replayed_too() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let root = client.handle(&mut bench, &["data"]);
    client.cache = true;
    let second = bench.connect();
    bench.holds = true;
    let call = client.compound(&[op::putfh(&root), op::create(2, "dir")]);
    let xid = bench.send(client.peer, &call, client.caller);
    assert_eq!(bench.call(second, &call, client.caller).status, Status::DELAY);
    bench.end(client.peer);
    bench.let_go();
    assert!(!bench.replies(client.peer).contains_key(&xid));
    let replayed = bench.call(second, &call, client.caller);
    assert_eq!((replayed.status, bench.requests["make"]), (Status::OK, 1));
    client.peer = second;
    assert_eq!(client.status(&mut bench, &[op::putfh(&root), op::lookup("dir")]), Status::OK);
}

/// Slots and stateids follow their client from connection to connection.
#[test]
fn two_connections_share_a_session() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let peers = [client.peer, bench.connect()];
    let (stateid, handle) = client.open(&mut bench, "file", BOTH, 0).unwrap();
    for number in 0..20_u8 {
        client.peer = peers[usize::from(number % 2)];
        client.slot = 0;
        let operations =
            [op::putfh(&handle), op::write(stateid, number.into(), &[number]), op::read(stateid, 0, 100)];
        assert_eq!(client.status(&mut bench, &operations), Status::OK, "{number}");
    }
    client.peer = peers[1];
    assert_eq!(client.status(&mut bench, &[op::putfh(&handle), op::close(stateid)]), Status::OK);
    client.peer = peers[0];
    assert_eq!(
        client.status(&mut bench, &[op::putfh(&handle), op::read(stateid, 0, 1)]),
        Status::BAD_STATEID
    );
}

/// A CLOSE on one connection waits for a WRITE on the other.
#[test]
fn a_close_waits_for_a_write_of_another_connection() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let (first, second) = (client.peer, bench.connect());
    let (stateid, handle) = client.open(&mut bench, "file", BOTH, 3).unwrap();
    let mut writer = Client { slot: 1, sequence: 0, peer: second, ..client.clone() };
    bench.holds = true;
    let write = writer.compound(&[op::putfh(&handle), op::write(stateid, 0, b"late")]);
    let written = bench.send(second, &write, writer.caller);
    let close = client.compound(&[op::putfh(&handle), op::close(stateid)]);
    let closed = bench.send(first, &close, client.caller);
    assert!(bench.replies(first).is_empty() && bench.replies(second).is_empty());
    bench.let_go();
    assert!(bench.replies(second).contains_key(&written) && bench.replies(first).contains_key(&closed));
}

#[test]
fn a_write_of_an_expired_client_lands_before_another_gets_the_file() {
    let mut bench = Bench::new();
    let (mut one, mut two) = (Client::new(&mut bench, "one"), Client::new(&mut bench, "two"));
    let (stateid, handle) = one.open(&mut bench, "file", BOTH, 3).unwrap();
    let (other, _) = two.open(&mut bench, "other", BOTH, 0).unwrap();
    bench.holds = true;
    let write = one.compound(&[op::putfh(&handle), op::write(stateid, 0, b"late")]);
    bench.send(one.peer, &write, one.caller);
    // Time passes; only the second renews.
    for _ in 0..8 {
        bench.pass(Duration::from_secs(30));
        let renew = two.compound(&[]);
        assert_eq!(bench.call(two.peer, &renew, two.caller).status, Status::OK);
    }
    bench.holds = false;
    let root = two.handle(&mut bench, &["data"]);
    let open = two
        .compound(&[op::putfh(&root), op::open(b"o", BOTH, 3, op::How::NoCreate, op::Claim::Null("file"))]);
    let xid = bench.send(two.peer, &open, two.caller);
    assert!(bench.replies(two.peer).is_empty());
    bench.let_go();
    let reply = bench.replies(two.peer).remove(&xid).unwrap();
    assert_eq!(common::Results::new(reply).status, Status::OK);
    assert_eq!(one.status(&mut bench, &[op::putrootfh()]), Status::BADSESSION);
    assert_eq!(two.status(&mut bench, &[op::putfh(&handle), op::read(other, 0, 1)]), Status::BAD_STATEID);
}

/// A connection answers SEQUENCE by itself only as long as the group knows of its client: after a lease in which nothing was told, the group may be about to give
/// away what the client has.
#[test]
fn the_group_is_asked_about_a_client_that_was_away_for_a_lease() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    bench.pass(RENEWAL);
    assert_eq!(client.status(&mut bench, &[op::putrootfh()]), Status::OK);
    let mut told = |bench: &mut Bench| {
        let before = bench.messages;
        assert_eq!(client.status(bench, &[op::putrootfh()]), Status::OK);
        bench.messages - before
    };
    bench.pass(LEASE.saturating_sub(Duration::from_secs(1)));
    // That the client was there.
    assert_eq!(told(&mut bench), 1);
    bench.pass(LEASE);
    // The slot goes back, is asked for, and comes.
    assert_eq!(told(&mut bench), 3);
    assert_eq!(told(&mut bench), 0);
}

#[test]
fn sessions_and_clients_are_destroyed() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let (stateid, handle) = client.open(&mut bench, "file", BOTH, 0).unwrap();
    let destroy = |client: &Client| CompoundCall::of(&[op::destroy_client(client.id)]);
    assert_eq!(bench.call(client.peer, &destroy(&client), client.caller).status, Status::CLIENTID_BUSY);
    assert_eq!(
        client.status(&mut bench, &[op::destroy_session(client.session), op::putrootfh()]),
        Status::NOT_ONLY_OP
    );
    assert_eq!(client.status(&mut bench, &[op::putfh(&handle), op::close(stateid)]), Status::OK);
    assert_eq!(client.status(&mut bench, &[op::destroy_session(client.session)]), Status::OK);
    assert_eq!(client.status(&mut bench, &[op::putrootfh()]), Status::BADSESSION);
    assert_eq!(bench.call(client.peer, &destroy(&client), client.caller).status, Status::OK);
    assert_eq!(bench.call(client.peer, &destroy(&client), client.caller).status, Status::STALE_CLIENTID);
    assert_eq!((bench.group.bytes(), bench.stable.len()), (0, 0));
}

#[test]
fn connections_are_bound_to_sessions_that_are_there() {
    let mut bench = Bench::new();
    let client = Client::new(&mut bench, "one");
    let bind = |session, direction| CompoundCall::of(&[op::bind(session, direction)]);
    let mut results = bench.call(client.peer, &bind(client.session, 3), client.caller);
    results.ok(OpNumber::BIND_CONN_TO_SESSION);
    assert_eq!((SessionId(results.get()), results.get::<u32>()), (client.session, 1));
    assert_eq!(bench.call(client.peer, &bind(client.session, 2), client.caller).status, Status::INVAL);
    assert_eq!(
        bench.call(client.peer, &bind(SessionId([9; 16]), 1), client.caller).status,
        Status::BADSESSION
    );
}

/// A client finds its file again after the server has started again, and nobody else gets it meanwhile.
#[test]
fn opens_are_reclaimed_after_a_restart() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let (_, handle) = client.open(&mut bench, "file", BOTH, 3).unwrap();
    let records: Vec<_> = bench.stable.values().cloned().collect();
    let export = export_of(&bench.memory, 1, &["data"], open_grant());
    let mut bench = Bench::with(bench.memory, vec![export], &records, 2);
    let peer = bench.connect();
    let call = client.compound(&[op::putrootfh()]);
    assert_eq!(bench.call(peer, &call, client.caller).status, Status::BADSESSION);
    let mut one = Client::establish(&mut bench, peer, "one", 1);
    let other = bench.connect();
    let mut two = Client::establish(&mut bench, other, "two", 1);
    let root = two.handle(&mut bench, &["data"]);
    let open = |claim| op::open(b"o", BOTH, 3, op::How::NoCreate, claim);
    assert_eq!(two.status(&mut bench, &[op::putfh(&root), open(op::Claim::Null("file"))]), Status::GRACE);
    assert_eq!(two.status(&mut bench, &[op::putfh(&handle), open(op::Claim::Previous)]), Status::NO_GRACE);
    assert_eq!(
        two.status(&mut bench, &[op::putfh(&handle), op::read(Stateid::ANONYMOUS, 0, 1)]),
        Status::GRACE
    );
    assert_eq!(one.status(&mut bench, &[op::putfh(&handle), open(op::Claim::Previous)]), Status::OK);
    for client in [&mut one, &mut two] {
        assert_eq!(client.status(&mut bench, &[op::reclaim_complete(false)]), Status::OK);
        assert_eq!(client.status(&mut bench, &[op::reclaim_complete(false)]), Status::COMPLETE_ALREADY);
    }
    assert_eq!(
        two.status(&mut bench, &[op::putfh(&root), open(op::Claim::Null("file"))]),
        Status::SHARE_DENIED
    );
    assert_eq!(one.status(&mut bench, &[op::putfh(&handle), open(op::Claim::Previous)]), Status::NO_GRACE);
}

#[test]
fn a_session_is_not_made_for_an_unknown_client() {
    let mut bench = Bench::new();
    let peer = bench.connect();
    let call = CompoundCall::of(&[op::create_session(ClientId(7), 1, 1)]);
    assert_eq!(bench.call(peer, &call, Caller::User(1)).status, Status::STALE_CLIENTID);
}
