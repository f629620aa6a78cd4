//! A fence across cores: who is fenced does nothing more, and who fences is told only once nothing older can take effect.

mod common;

use common::{DELAY, Server, WRITE, command};
use nvme::reservation::encode;
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use volume::reservation::{Command, ReservationType};

const KIND: ReservationType = ReservationType::WriteExclusive;
/// The I/O queues: the victim's on core 1, the other's on core 0.
const VICTIM: usize = 1;
const OTHER: usize = 3;

/// The victim, which holds the reservation, and another host, which is registered.
fn two() -> Server {
    let mut server = Server::new(16 << 20);
    assert_eq!(server.join(0, 6), OTHER - 1);
    let register = |new_key| Command::Register { key: Some(0), new_key, persist: None };
    for (stream, change) in
        [(VICTIM, register(1)), (OTHER, register(2)), (VICTIM, Command::Reserve { key: 1, kind: KIND })]
    {
        reserve(&mut server, stream, &change);
        assert_eq!(server.completions(stream), [(9, Status::SUCCESS, 0)], "{change:?}");
    }
    server
}

fn reserve(server: &mut Server, stream: usize, change: &Command) {
    let (entry, keys) = encode(1, change);
    server.send_with(stream, command(entry, 9), &keys);
}

fn write(server: &mut Server, stream: usize, cid: u16) {
    server.send_with(stream, command(SubmissionQueueEntry::new(WRITE, 1), cid), &[0x5a; 512]);
}

#[test]
fn a_preemption_waits_for_what_is_under_way_and_lets_nothing_follow() {
    let mut server = two();
    write(&mut server, VICTIM, 70);
    reserve(&mut server, OTHER, &Command::Preempt { key: 2, victim: 1, kind: KIND, abort: false });
    assert_eq!(server.completions(OTHER), [], "the older write can still land");
    write(&mut server, VICTIM, 71);
    assert_eq!(server.completions(VICTIM), [(71, Status::RESERVATION_CONFLICT.dnr(), 0)], "already fenced");
    server.wait(DELAY);
    assert_eq!(server.completions(VICTIM), [(70, Status::SUCCESS, 0)]);
    assert_eq!(server.completions(OTHER), [(9, Status::SUCCESS, 0)]);
    write(&mut server, OTHER, 72);
    server.wait(DELAY);
    assert_eq!(server.completions(OTHER), [(72, Status::SUCCESS, 0)]);
}

#[test]
fn a_preemption_that_aborts_need_not_wait() {
    let mut server = two();
    write(&mut server, VICTIM, 70);
    reserve(&mut server, OTHER, &Command::Preempt { key: 2, victim: 1, kind: KIND, abort: true });
    assert_eq!(server.completions(VICTIM), [(70, Status::ABORT_REQUESTED, 0)]);
    assert_eq!(server.completions(OTHER), [(9, Status::SUCCESS, 0)], "on a clock that stands");
    server.wait(DELAY);
    assert_eq!(server.completions(VICTIM), []);
}

#[test]
fn the_victim_hears_of_it_on_its_admin_queue() {
    let mut server = two();
    server.send(0, command(SubmissionQueueEntry::new(0x0c, 0), 20));
    assert_eq!(server.completions(0), []);
    reserve(&mut server, OTHER, &Command::Preempt { key: 2, victim: 1, kind: KIND, abort: false });
    assert_eq!(server.completions(0), [(20, Status::SUCCESS, 0x0080_0006)], "reservation log page available");
    assert_eq!(server.completions(OTHER - 1), []);
}
