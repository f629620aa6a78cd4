//! A fence across cores: who is fenced does nothing more, and who fences is told only once nothing older can take effect.

mod common;

use common::{DELAY, READ, Server, WRITE, command, transfer};
use nvme::reservation::{ReservationCommand, encode};
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
    let ReservationCommand { entry, data: keys } = encode(1, change);
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

#[test]
fn what_was_judged_before_the_fence_and_not_begun_is_judged_again() {
    let mut server = two();
    server.parse(VICTIM, command(SubmissionQueueEntry::new(WRITE, 1), 70), &[0x5a; 512]);
    server.parse(VICTIM, transfer(READ, 71), &[]);
    reserve(&mut server, OTHER, &Command::Preempt { key: 2, victim: 1, kind: KIND, abort: false });
    assert_eq!(server.completions(OTHER), [(9, Status::SUCCESS, 0)], "nothing had begun");
    let conflict = [(70, Status::RESERVATION_CONFLICT.dnr(), 0)];
    assert_eq!(server.completions(VICTIM), conflict, "NVMe Base §8.1.22: the write is a preempted host's");
    server.wait(DELAY);
    assert_eq!(server.received(VICTIM)[0], 7, "the read is allowed, and is carried out");
}

#[test]
fn the_answer_of_an_older_change_undoes_no_newer_one() {
    let mut server = two();
    write(&mut server, VICTIM, 70);
    // The victim's release waits for the write, and is overtaken by the preemption.
    reserve(&mut server, VICTIM, &Command::Reserve { key: 1, kind: KIND });
    reserve(&mut server, OTHER, &Command::Preempt { key: 2, victim: 1, kind: KIND, abort: false });
    assert_eq!(server.completions(VICTIM), []);
    server.wait(DELAY);
    assert_eq!(server.completions(VICTIM).len(), 2, "the write and the change");
    assert_eq!(server.completions(OTHER), [(9, Status::SUCCESS, 0)]);
    write(&mut server, VICTIM, 71);
    assert_eq!(server.completions(VICTIM), [(71, Status::RESERVATION_CONFLICT.dnr(), 0)]);
}

#[test]
fn fences_in_a_row_each_wait_for_what_was_begun_before_them() {
    let mut server = two();
    write(&mut server, VICTIM, 70);
    reserve(&mut server, OTHER, &Command::Register { key: None, new_key: 3, persist: None });
    write(&mut server, VICTIM, 71);
    reserve(&mut server, VICTIM, &Command::Release { key: 1, kind: KIND });
    assert_eq!((server.completions(OTHER), server.completions(VICTIM)), (vec![], vec![]));
    server.wait(DELAY);
    assert_eq!(server.completions(OTHER), [(9, Status::SUCCESS, 0)]);
    assert_eq!(server.completions(VICTIM).len(), 3);
}

#[test]
fn a_queue_that_comes_while_a_fence_is_under_way_is_bound_by_it() {
    let mut server = two();
    write(&mut server, VICTIM, 70);
    reserve(&mut server, OTHER, &Command::Preempt { key: 2, victim: 1, kind: KIND, abort: false });
    assert_eq!(server.completions(OTHER), [], "under way");
    let late = server.join(1, 5) + 1;
    write(&mut server, late, 71);
    assert_eq!(server.completions(late), [(71, Status::RESERVATION_CONFLICT.dnr(), 0)]);
    server.send(late, transfer(READ, 72));
    server.wait(DELAY);
    assert_eq!(server.received(late)[0], 7, "what it may do is judged by the newest state, and taken");
}
