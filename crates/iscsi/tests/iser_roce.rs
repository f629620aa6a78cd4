//! iSER, both roles, over queue pairs of software RoCEv2: what they do over a stream, where datagrams are lost and only acknowledgements tell what has come.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::time::Duration;

use buf::{Buf, BufList, Pool, SharedBuf};
use common::iser_raw::{RDMA, message};
use common::roce::{Far, OverRoce, RawNear, RoceBench, bench, far, near, raw_near};
use common::{BLOCK, Bench, INITIATOR, ISID, TARGET, blocks, config, portal};
use iscsi::connection::State;
use iscsi::datamover::iser::IserHeader;
use iscsi::initiator;
use iscsi::limits::{IDLE_TIME, PING_TIME, SEND_TIME};
use iscsi::pdu::{
    LoginIdentity, LoginRequest, LoginResponse, NopOut, Opcode, RESERVED_TAG, ScsiCommand, Stage,
};
use iscsi::text::Text;
use iscsi::violation::Violation;
use protocol::pair::aperiodic;
use protocol::{CloseReason, Connection as _};
use scsi::builder;
use verbs::{EndReason, QueuePair as _, QueuePairState};
use volume::{Durability, Extent, Operation, Outcome, VolumeErrorKind};

const BLOCKS: usize = 4096;

fn ready(pool: &Pool) -> RoceBench {
    let mut bench = bench(config(), portal(BLOCKS), pool);
    bench.log_in();
    bench
}

fn write_of(start: u64, bytes: &[u8]) -> Operation {
    let data = BufList::from(SharedBuf::from(bytes.to_vec()));
    let extent = Extent::new(start, (bytes.len() / BLOCK) as u64);
    Operation::Write { extent, data, durability: Durability::Cached }
}

fn read_of(start: u64, blocks: usize) -> Operation {
    Operation::Read { extent: Extent::new(start, blocks as u64), into: Buf::zeroed(blocks * BLOCK) }
}

#[test]
fn data_of_all_sizes_arrives() {
    let mut bench = ready(&Pool::new(256 << 20));
    assert_eq!(bench.unit.as_ref().unwrap().geometry.blocks, BLOCKS as u64);
    bench.check_integrity("no loss");
    assert_eq!(bench.pair.far.connection.consumer().outstanding(), 0);
}

/// Every request ends well and once, and all data is what was written, whatever the network loses: of the set-up and the login, too.
#[test]
fn nothing_is_wrong_where_datagrams_are_lost() {
    const SIZES: [usize; 8] = [1, 3, 8, 16, 17, 64, 128, 256];
    let mut lost = 0;
    for (seed, thousandths) in [(1, 10), (2, 10), (3, 50), (4, 50), (5, 100), (6, 100)] {
        let mut bench = bench(config(), portal(BLOCKS), &Pool::new(256 << 20));
        bench.lose(thousandths, seed);
        bench.run_until(|bench| bench.unit.is_some());
        let place = |index: usize| index as u64 * 256;
        let bytes = |index: usize| aperiodic(SIZES[index] * BLOCK, seed * 100 + index as u64);
        for index in 0..SIZES.len() {
            bench.submit(index as u64, write_of(place(index), &bytes(index)));
        }
        bench.run_until(|bench| bench.done.len() == SIZES.len());
        assert!(bench.done.drain(..).all(|done| done.result.is_ok()), "seed {seed}");
        for (index, blocks) in SIZES.into_iter().enumerate() {
            bench.submit(index as u64, read_of(place(index), blocks));
        }
        bench.run_until(|bench| bench.done.len() == SIZES.len());
        for done in bench.done.drain(..) {
            let index = usize::try_from(done.tag.0).unwrap();
            let Ok(Outcome::Data(data)) = done.result else { panic!("seed {seed}: {done:?}") };
            assert!(data.into_one()[..] == bytes(index), "seed {seed}: read {index}");
        }
        lost += bench.pair.near.connection.lost + bench.pair.far.connection.lost;
        assert_eq!(bench.failed, None);
    }
    assert!(lost > 100, "{lost}");
}

/// A session that logs out: both queue pairs end, and say so; all memory comes back.
#[test]
fn a_session_that_logs_out_leaves_nothing() {
    for loss in [0, 50] {
        let pool = Pool::new(256 << 20);
        let mut bench = ready(&pool);
        bench.write(0, vec![1; 64 * BLOCK]).unwrap();
        assert!(pool.used() > 0);
        bench.lose(loss, 3);
        bench.pair.near.connection.handle_input(bench.pair.now, initiator::Input::Logout);
        bench.run_until(|bench| {
            bench.pair.near.connection.is_finished() && bench.pair.far.connection.is_finished()
        });
        assert_eq!(bench.pair.far.connection.poll_close(), Some(CloseReason::Finished));
        assert_eq!(bench.pair.far.connection.consumer().state(), State::Free);
        drop(bench);
        assert_eq!(pool.used(), 0, "loss {loss}");
    }
}

/// The network is cut: each side finds out by itself, and what was under way comes back.
#[test]
fn a_peer_that_is_gone_is_given_up() {
    let pool = Pool::new(256 << 20);
    let mut bench = ready(&pool);
    bench.lose(1000, 1);
    bench.submit(1, write_of(0, &aperiodic(64 * BLOCK, 1)));
    bench.submit(2, read_of(0, 64));
    let from = bench.pair.now;
    bench.run_until(|bench| bench.failed.is_some() && bench.done.len() == 2);
    assert!(bench.pair.now < from + Duration::from_secs(15), "{:?}", bench.pair.now);
    assert!(bench.failed.as_ref().unwrap().contains("was lost"), "{:?}", bench.failed);
    for done in bench.done.drain(..) {
        let failure = done.result.unwrap_err();
        assert_eq!(failure.kind, VolumeErrorKind::Unreachable);
        assert_eq!(failure.memory.is_some(), done.tag.0 == 2, "a read has its buffer back");
    }
    bench.run_until(|bench| bench.pair.far.connection.consumer().state() == State::Free);
    assert!(bench.pair.now < from + IDLE_TIME + PING_TIME + Duration::from_secs(10));
    bench.run_until(|bench| {
        bench.pair.near.connection.is_finished() && bench.pair.far.connection.is_finished()
    });
    drop(bench);
    assert_eq!(pool.used(), 0);
}

#[test]
fn who_is_refused_is_told_why() {
    let pool = Pool::new(64 << 20);
    let mut bench: RoceBench = Bench::of(near(config(), &pool), OverRoce::refusing(&pool), 64);
    bench.run();
    let why = bench.failed.take().unwrap();
    assert!(why.contains("no iSER target listens there"), "{why}");
    bench.run_until(|bench| bench.pair.near.connection.is_finished());
}

/// An idle session is kept alive by pings.
#[test]
fn an_idle_session_lives_on() {
    let mut bench = ready(&Pool::new(256 << 20));
    let end = bench.pair.now + Duration::from_mins(10);
    bench.run_until(|bench| bench.pair.now >= end);
    assert_eq!((bench.failed.as_deref(), bench.pair.far.connection.poll_close()), (None, None));
    bench.write(0, vec![1; BLOCK]).unwrap();
}

/// A target, and an initiator that says what it likes.
struct AgainstTarget {
    bench: RoceBench<RawNear, Far>,
}

impl AgainstTarget {
    fn ready(pool: &Pool) -> Self {
        let portal = portal(2048);
        let blocks = blocks(&portal);
        let mut peer = Self { bench: Bench::of(raw_near(pool), far(portal, pool), blocks) };
        let mut text = Text::new();
        let names = [("InitiatorName", INITIATOR), ("TargetName", TARGET), ("SessionType", "Normal")];
        for (key, value) in names.into_iter().chain(RDMA) {
            text.put(key, value);
        }
        let request = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1)
            .transit(Stage::FullFeature);
        let answers = peer.send(&message(IserHeader::new(), request.to_bytes(), text.bytes()));
        assert_eq!(LoginResponse::from_bytes(&answers[0].header).status().0, 0);
        peer
    }

    fn say(&mut self, bytes: &[u8]) {
        self.bench.pair.near.connection.consumer().send(bytes, None);
        self.bench.run();
    }

    /// What the target answers to a message.
    fn send(&mut self, bytes: &[u8]) -> Vec<common::iser_raw::Message> {
        self.say(bytes);
        let near = self.bench.pair.near.connection.consumer();
        near.collect();
        std::mem::take(&mut near.messages)
    }

    fn close(&self) -> Option<CloseReason> {
        self.bench.pair.far.connection.poll_close()
    }

    /// Until both queue pairs have ended; the initiator hears of it.
    fn run_to_the_end(&mut self) {
        self.bench.run_until(|bench| {
            bench.pair.near.connection.is_finished() && bench.pair.far.connection.is_finished()
        });
        let state = self.bench.pair.near.connection.consumer().queue_pair.state();
        assert_eq!(state, QueuePairState::Ended(EndReason::ByPeer));
        assert_eq!(self.bench.pair.far.connection.consumer().state(), State::Free);
    }
}

#[test]
fn a_violation_ends_the_connection_and_all_memory_comes_back() {
    let read = ScsiCommand::new([0; 8], 100, 1, builder::read(Extent::new(0, 8))).reading(4096);
    let without_memory = message(IserHeader::new(), read.to_bytes(), &[]);
    for (what, bytes, violation, rejects) in [
        ("part of a header", vec![0x10; 20], Violation::IserHeader, 0),
        ("a command that names no memory", without_memory, Violation::MissingStag, 1),
    ] {
        let pool = Pool::new(64 << 20);
        let mut peer = AgainstTarget::ready(&pool);
        let answers = peer.send(&bytes);
        assert_eq!(
            answers.iter().filter(|answer| answer.opcode() == Opcode::REJECT).count(),
            rejects,
            "{what}"
        );
        assert_eq!(peer.close(), Some(CloseReason::Violation(violation.text())), "{what}");
        let at = peer.bench.pair.now;
        peer.run_to_the_end();
        assert_eq!(peer.bench.pair.now, at, "what is to be said is said, and then it ends at once");
        drop(peer);
        assert_eq!(pool.used(), 0, "{what}");
    }
}

/// Its adapter acknowledges the target's pings, and nobody answers them.
#[test]
fn an_acknowledgement_is_no_sign_of_life() {
    let pool = Pool::new(64 << 20);
    let mut peer = AgainstTarget::ready(&pool);
    let from = peer.bench.pair.now;
    peer.bench.run_until(|bench| bench.pair.far.connection.poll_close().is_some());
    assert_eq!(peer.bench.pair.now, from + IDLE_TIME + PING_TIME);
    assert!(matches!(peer.close(), Some(CloseReason::TimedOut(_))), "{:?}", peer.close());
    peer.run_to_the_end();
    drop(peer);
    assert_eq!(pool.used(), 0);
}

/// It sends all the time, and has no receive for the answers: what is sent to it is never acknowledged, and never given up by the queue pair.
#[test]
fn who_takes_nothing_that_is_sent_to_it_is_left() {
    let pool = Pool::new(64 << 20);
    let mut peer = AgainstTarget::ready(&pool);
    let ping = message(IserHeader::new(), NopOut::ping(7).to_bytes(), &[]);
    // It has receives for 64 messages, of which the login took one.
    for _ in 0..63 {
        peer.say(&ping);
    }
    assert_eq!(peer.send(&ping).len(), 63);
    let from = peer.bench.pair.now;
    let sign_of_life = message(IserHeader::new(), NopOut::ping(RESERVED_TAG).to_bytes(), &[]);
    let mut said = from;
    while peer.close().is_none() && said < from + SEND_TIME * 2 {
        peer.say(&sign_of_life);
        said = said + Duration::from_secs(10);
        peer.bench
            .run_until(|bench| bench.pair.now >= said || bench.pair.far.connection.poll_close().is_some());
    }
    assert_eq!(peer.close(), Some(CloseReason::TimedOut("the initiator does not read what is sent to it")));
    let now = peer.bench.pair.now;
    assert!(now >= from + SEND_TIME && now < from + SEND_TIME + Duration::from_secs(5), "{now:?}");
    peer.run_to_the_end();
    drop(peer);
    assert_eq!(pool.used(), 0);
}
