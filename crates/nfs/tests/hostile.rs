//! Peers that ask for too much, and for what makes no sense: bounded in bytes, and answered as the standard says.

mod common;

use common::{Bench, Caller, Client, CompoundCall, op};
use nfs::limits::{CONNECTION_REPLIES, OPERATIONS};
use nfs::v4::operation::OpNumber;
use nfs::v4::{Stateid, Status};

#[test]
fn a_compound_has_no_more_operations_than_were_agreed() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let many = |count: u32| (1..count).map(|_| op::putrootfh()).collect::<Vec<_>>();
    assert_eq!(client.status(&mut bench, &many(OPERATIONS)), Status::OK);
    let mut results = client.call(&mut bench, &many(OPERATIONS + 1));
    assert_eq!(
        (results.status, results.next(OpNumber::SEQUENCE)),
        (Status::TOO_MANY_OPS, Status::TOO_MANY_OPS)
    );
    client.sequence -= 1;
    let mut call = client.compound(&[op::putrootfh()]);
    call.count = u32::MAX;
    assert_eq!(bench.call(client.peer, &call, client.caller).status, Status::TOO_MANY_OPS);
}

#[test]
fn a_reply_is_no_longer_than_was_agreed() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let (stateid, handle) = client.open(&mut bench, "file", 3, 0).unwrap();
    let data = vec![1; 1 << 20];
    assert_eq!(client.status(&mut bench, &[op::putfh(&handle), op::write(stateid, 0, &data)]), Status::OK);
    let reads: Vec<_> =
        [op::putfh(&handle)].into_iter().chain((0..3).map(|_| op::read(stateid, 0, 1 << 20))).collect();
    assert_eq!(client.status(&mut bench, &reads), Status::REP_TOO_BIG);
    client.cache = true;
    let root = client.handle(&mut bench, &["data"]);
    let listing = (0..40).map(|_| op::getattr(&[1, 3, 4, 19, 20, 33, 36, 37, 47, 52, 53]));
    // What is small is done, and what would not fit is not begun.
    let operations: Vec<_> =
        [op::putfh(&root)].into_iter().chain(listing).chain([op::create(2, "never")]).collect();
    let results = client.call(&mut bench, &operations);
    assert_eq!(results.status, Status::REP_TOO_BIG_TO_CACHE);
    assert!(!bench.requests.contains_key("make"));
}

#[test]
fn arguments_that_cannot_be_decoded_fail_their_operation_only() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let mut results = client.call(&mut bench, &[op::putrootfh(), op::raw(OpNumber::LOOKUP.0, &[u32::MAX])]);
    assert_eq!((results.status, results.count), (Status::BADXDR, 3));
    results.sequence().ok(OpNumber::PUTROOTFH);
    assert_eq!(results.next(OpNumber::LOOKUP), Status::BADXDR);
    // The record ends within the arguments.
    let mut results = client.call(&mut bench, &[op::putrootfh(), op::raw(OpNumber::GETATTR.0, &[3, 1])]);
    results.sequence().ok(OpNumber::PUTROOTFH);
    assert_eq!(results.next(OpNumber::GETATTR), Status::BADXDR);
    let mut results = client.call(&mut bench, &[op::raw(72, &[]), op::putrootfh()]);
    results.sequence();
    assert_eq!((results.status, results.next(OpNumber::ILLEGAL)), (Status::OP_ILLEGAL, Status::OP_ILLEGAL));
    client.minor = 1;
    let mut results = client.call(&mut bench, &[op::seek(Stateid::ANONYMOUS, 0, 0)]);
    results.sequence();
    assert_eq!(results.next(OpNumber::ILLEGAL), Status::OP_ILLEGAL);
}

/// A WRITE that says how much it brings, and brings less: none, a part, and all but what fills it up. Nothing of it is written.
#[test]
fn a_write_without_all_of_its_data_is_not_carried_out() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let (stateid, handle) = client.open(&mut bench, "file", 3, 0).unwrap();
    for missing in [8, 7, 4, 3, 1] {
        let mut call = client.compound(&[op::putfh(&handle), op::write(stateid, 0, b"12345")]);
        call.operations.truncate(call.operations.len() - missing);
        let mut results = bench.call(client.peer, &call, client.caller);
        assert_eq!((results.status, results.count), (Status::BADXDR, 3), "{missing} bytes less");
        results.sequence().ok(OpNumber::PUTFH);
        assert_eq!(results.next(OpNumber::WRITE), Status::BADXDR);
    }
    assert!(!bench.requests.contains_key("write"));
}

/// Cached replies of many sessions over one connection are bounded.
#[test]
fn cached_replies_are_bounded() {
    let mut bench = Bench::new();
    let peer = bench.connect();
    let mut refused = false;
    'clients: for number in 0..80 {
        let mut client = Client::on(&mut bench, peer, &format!("client {number}"));
        client.cache = true;
        for slot in 0..8 {
            (client.slot, client.sequence) = (slot, u32::from(slot == 0));
            let attributes = || op::getattr(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 19, 20, 33, 36, 37, 52, 53]);
            let operations: Vec<_> =
                [op::putrootfh()].into_iter().chain((0..18).map(|_| attributes())).collect();
            match client.status(&mut bench, &operations) {
                Status::OK => {}
                status => {
                    assert_eq!(status, Status::DELAY);
                    refused = true;
                    break 'clients;
                }
            }
        }
        assert!(bench.upper(peer).held() < CONNECTION_REPLIES + 4096);
    }
    assert!(refused, "{} bytes", bench.upper(peer).held());
}

#[test]
fn whoever_comes_without_a_session_is_told_so() {
    let mut bench = Bench::new();
    let peer = bench.connect();
    let client = Client::new(&mut bench, "one");
    let status = |bench: &mut Bench, operations: &[common::Op]| {
        bench.call(peer, &CompoundCall::of(operations), Caller::User(1)).status
    };
    assert_eq!(status(&mut bench, &[op::putrootfh()]), Status::OP_NOT_IN_SESSION);
    assert_eq!(status(&mut bench, &[op::exchange_id(b"x", 1, 0), op::putrootfh()]), Status::NOT_ONLY_OP);
    assert_eq!(status(&mut bench, &[op::exchange_id(b"x", 1, 0x8000_0000)]), Status::INVAL);
    let sequence = || op::sequence(client.session, 1, 1, 1, false);
    assert_eq!(status(&mut bench, &[sequence(), op::putrootfh(), sequence()]), Status::SEQUENCE_POS);
    assert_eq!(status(&mut bench, &[op::sequence(client.session, 1, 99, 99, false)]), Status::BADSLOT);
    assert_eq!(status(&mut bench, &[op::sequence(client.session, 2, 1, 99, false)]), Status::BAD_HIGH_SLOT);
    let bind = [op::sequence(client.session, 2, 1, 1, false), op::bind(client.session, 1)];
    assert_eq!(status(&mut bench, &bind), Status::NOT_ONLY_OP);
}
