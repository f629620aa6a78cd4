//! An Abort on one core ends a command whose queue lives on another.

mod common;

use common::{DELAY, LARGE, READ, Server, WRITE, transfer};
use nvme::pdu::{CapsuleResp, PduType, R2t};
use nvme::status::Status;
use zerocopy::FromBytes;

#[test]
fn a_command_on_another_core_ends_before_its_time() {
    let mut server = Server::new(16 << 20);
    server.send(1, transfer(READ, 70));
    server.send(1, transfer(READ, 71));
    server.abort(5, 70);
    assert_eq!(server.completions(1), [(70, Status::ABORT_REQUESTED, 0)]);
    assert_eq!(server.completions(0), [(5, Status::SUCCESS, 0)]);
    server.wait(DELAY);
    let read = server.received(1);
    assert_eq!((read.len(), read[0]), (24 + LARGE as usize, 7), "the other command's data");
    server.wait(DELAY);
    assert_eq!(server.received(1), [], "nothing more comes of the aborted one");
}

#[test]
fn a_command_that_is_over_or_unknown_is_not_aborted() {
    let mut server = Server::new(16 << 20);
    server.send(1, transfer(READ, 70));
    server.abort(5, 71);
    assert_eq!(server.completions(0), [(5, Status::SUCCESS, 1)], "unknown");
    assert_eq!(server.received(1), []);
    server.wait(DELAY);
    assert_eq!(server.received(1).len(), 24 + LARGE as usize);
    server.abort(6, 70);
    assert_eq!(server.completions(0), [(6, Status::SUCCESS, 1)], "over");
}

#[test]
fn the_memory_of_aborted_commands_serves_the_next() {
    // One large buffer, beside the little that Connect needs.
    let mut server = Server::new(LARGE as usize + 2048);
    for round in 0..3 {
        server.send(1, transfer(READ, 70));
        server.send(1, transfer(WRITE, 71));
        assert_eq!(server.received(1), [], "the read has the buffer");
        server.abort(5, 70);
        let bytes = server.received(1);
        // In either order: the buffer is free once the volume has given it back.
        let (first, second) = bytes.split_at(24);
        let (ended, asked) = if first[0] == PduType::R2T.0 { (second, first) } else { (first, second) };
        let ended = CapsuleResp::read_from_bytes(ended).unwrap().entry;
        assert_eq!((ended.cid.get(), ended.status()), (70, Status::ABORT_REQUESTED), "round {round}");
        let asked = R2t::read_from_bytes(asked).unwrap();
        assert_eq!((asked.cccid.get(), asked.r2tl.get()), (71, LARGE), "the write has the buffer");
        server.abort(6, 71);
        assert_eq!(server.completions(1), [(71, Status::ABORT_REQUESTED, 0)]);
        assert_eq!(server.completions(0), [(5, Status::SUCCESS, 0), (6, Status::SUCCESS, 0)]);
    }
}
