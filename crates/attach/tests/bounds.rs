//! What hostile clients can make the server hold, and for how long; and that others are served beside them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "tests")]

mod common;

use std::time::Duration;

use attach::nbd::limits::{
    AT_ONCE, DATA_TIME, NEGOTIATION, REQUESTS, SCARCE_DATA_TIME, SCARCE_SEND_TIME, SEND_TIME, UNSENT_BYTES,
    WATCH,
};
use attach::nbd::wire::{Command, CommandFlags, OptionCode, RequestHeader};
use buf::{Account, Pool};
use common::{Bench, NOW, SIZE, option};
use protocol::{CloseReason, Connection as _, Instant, Transmit};
use volume::Geometry;
use zerocopy::IntoBytes;

const MEMORY: usize = 64 << 20;
const MIB: u32 = 1 << 20;

/// A client of an export of 64 MiB, with memory that others share.
fn client(pool: &Pool) -> Bench {
    Bench::agreed_on(pool, true, |export| export.geometry = Geometry::of(64 << 20, 512).unwrap())
}

fn ask(bench: &mut Bench, command: Command, range: (u64, u32)) {
    bench.half.receive(NOW, RequestHeader::new(command, 1, range.0, range.1).as_bytes());
}

/// Lets time pass for one connection, from one of its timers to the next.
fn wait(bench: &mut Bench, from: Instant, time: Duration) -> Instant {
    let end = from + time;
    while let Some(due) = bench.half.connection.poll_timeout().filter(|due| *due <= end) {
        bench.half.connection.handle_timeout(due);
        if bench.half.connection.poll_timeout().is_some_and(|next| next <= due) {
            break;
        }
    }
    end
}

fn why(bench: &Bench) -> Option<&'static str> {
    match bench.half.connection.poll_close() {
        Some(CloseReason::TimedOut(why)) => Some(why),
        Some(other) => panic!("{other:?}"),
        None => None,
    }
}

/// Gives the connection's replies to a transport that never says that they have gone out.
fn leave_unread(bench: &mut Bench, send: &mut Transmit) {
    while bench.hold() > 0 {
        bench.release();
    }
    if send.is_empty() {
        bench.half.connection.poll_transmit(NOW, send);
    }
    bench.half.receive(NOW, &[]);
}

#[test]
fn many_who_send_no_data_leave_memory_to_a_newcomer() {
    let pool = Pool::new(MEMORY);
    let mut silent: Vec<Bench> = (0..200).map(|_| client(&pool)).collect();
    for bench in &mut silent {
        ask(bench, Command::WRITE, (0, 32 * MIB));
    }
    assert!(pool.usage().allocated <= MEMORY, "{:?}", pool.usage());
    let mut good = client(&pool);
    good.write(0, &[7; 4096]);
    assert_eq!(good.read(0, 4096), [7; 4096]);
}

#[test]
fn one_who_reads_nothing_holds_its_share_and_is_closed() {
    let pool = Pool::new(MEMORY);
    let (mut bad, mut good) = (client(&pool), client(&pool));
    let mut send = Transmit::new(2 << 20, 512);
    for _ in 0..REQUESTS {
        ask(&mut bad, Command::READ, (0, MIB));
        leave_unread(&mut bad, &mut send);
    }
    assert!(pool.used() <= MEMORY / 2, "{} bytes for one that reads nothing", pool.used());
    assert_eq!(good.read(0, MIB).len(), MIB as usize);
    let later = wait(&mut bad, NOW, SEND_TIME.saturating_sub(Duration::from_millis(1)));
    assert_eq!(why(&bad), None);
    wait(&mut bad, later, WATCH);
    assert_eq!(why(&bad), Some("the client does not read what is sent to it"));
}

#[test]
fn while_others_wait_for_memory_patience_is_short() {
    let pool = Pool::new(MEMORY);
    let mut benches: Vec<Bench> = (0..8).map(|_| client(&pool)).collect();
    for bench in &mut benches {
        for _ in 0..REQUESTS {
            ask(bench, Command::READ, (0, MIB));
        }
    }
    let mut send = Transmit::new(2 << 20, 512);
    leave_unread(&mut benches[0], &mut send);
    let mut other = client(&pool);
    ask(&mut other, Command::READ, (0, 8 * MIB));
    assert_eq!(other.hold(), 0, "there was memory for it");
    assert!(pool.used() <= MEMORY, "what is lent in place of buffers is counted twice: {}", pool.used());
    let mut silent = client(&pool);
    ask(&mut silent, Command::WRITE, (0, 4096));
    wait(&mut silent, NOW, SCARCE_DATA_TIME + WATCH);
    assert_eq!(why(&silent), Some("the client stopped in the middle of a write's data"));
    wait(&mut benches[0], NOW, SCARCE_SEND_TIME + WATCH);
    assert_eq!(why(&benches[0]), Some("the client does not read what is sent to it"));
}

/// Its stream may stay for seconds until what was sent last has gone.
#[test]
fn who_is_being_closed_no_longer_stands_in_line() {
    let pool = Pool::new(MEMORY);
    let mut bad = client(&pool);
    let mut send = Transmit::new(2 << 20, 512);
    ask(&mut bad, Command::READ, (0, MIB));
    leave_unread(&mut bad, &mut send);
    let mut hogs = [(); 3].map(|()| Account::new(&pool));
    for hog in &mut hogs {
        while hog.charge(1 << 20) {}
        hog.stop_waiting();
    }
    let others = &hogs[0];
    ask(&mut bad, Command::READ, (0, 8 * MIB));
    assert!(others.is_wanted());
    let later = wait(&mut bad, NOW, SCARCE_SEND_TIME + WATCH);
    assert_eq!(why(&bad), Some("the client does not read what is sent to it"));
    bad.half.connection.handle_timeout(later);
    assert!(!others.is_wanted(), "what it waited for goes to nobody else");
}

#[test]
fn data_that_stops_ends_the_connection_and_slow_data_does_not() {
    let pool = Pool::new(MEMORY);
    let (mut slow, mut silent) = (client(&pool), client(&pool));
    for bench in [&mut slow, &mut silent] {
        ask(bench, Command::WRITE, (0, 4 * MIB));
        bench.half.receive(NOW, &[1; 512]);
    }
    let mut now = NOW;
    for piece in 0..4 {
        now = wait(&mut slow, now, DATA_TIME.saturating_sub(WATCH));
        assert_eq!(why(&slow), None, "after {piece} pieces");
        let bytes = if piece < 3 { AT_ONCE } else { AT_ONCE - 512 };
        slow.half.receive(now, &vec![1; bytes]);
    }
    assert_eq!(slow.settle().len(), 16);
    wait(&mut slow, now, DATA_TIME * 10);
    assert_eq!(why(&slow), None, "a client may be silent between requests");
    wait(&mut silent, NOW, DATA_TIME + WATCH);
    assert_eq!(why(&silent), Some("the client stopped in the middle of a write's data"));
}

#[test]
fn silence_does_not_count_while_there_is_no_memory_for_the_data() {
    let pool = Pool::new(MEMORY);
    let mut bench = client(&pool);
    let hog: Vec<_> = std::iter::from_fn(|| pool.take(512 << 10)).collect();
    ask(&mut bench, Command::WRITE, (0, MIB));
    assert!(!bench.half.connection.wants_bytes());
    let later = wait(&mut bench, NOW, DATA_TIME * 3);
    assert_eq!(why(&bench), None);
    drop(hog);
    bench.half.receive(later, &vec![3; 1 << 20]);
    assert_eq!(bench.settle().len(), 16);
}

/// Room for all of a long read is found before any of it is taken, or two of them could wait for each other.
#[test]
fn the_longest_reads_take_turns() {
    let pool = Pool::new(MEMORY);
    let mut benches: Vec<Bench> = (0..3).map(|_| client(&pool)).collect();
    for bench in &mut benches {
        ask(bench, Command::READ, (0, 32 * MIB));
    }
    let mut served = Vec::new();
    for round in 0..3 {
        for (index, bench) in benches.iter_mut().enumerate() {
            if let Some(due) = bench.half.connection.poll_timeout() {
                bench.half.connection.handle_timeout(due);
            }
            let pieces = bench.hold();
            assert!(pieces == 0 || pieces == 4, "{pieces} pieces of a read without the others");
            if pieces == 4 && served.len() <= round && !served.contains(&index) {
                served.push(index);
                bench.held.clear();
            }
        }
    }
    assert_eq!(served.len(), 3);
    assert!(pool.usage().allocated <= MEMORY);
}

#[test]
fn haggling_without_reading_is_bounded_in_bytes_and_time() {
    let pool = Pool::new(MEMORY);
    let mut bench = Bench::on(&pool, |export| export.description = "x".repeat(4000));
    bench.half.receive(NOW, &3_u32.to_be_bytes());
    // An empty name, and the description three times.
    let data = [&[0; 4][..], &[0, 1], &[0, 2]].concat();
    for _ in 0..10_000 {
        bench.half.receive(NOW, &option(OptionCode::INFO, &data));
    }
    assert!(bench.half.staged() > 0, "ten thousand options were answered");
    assert!(pool.used() >= UNSENT_BYTES, "what waits to be sent is not counted: {}", pool.used());
    assert!(pool.used() <= 2 * UNSENT_BYTES, "{} bytes for options", pool.used());
    wait(&mut bench, NOW, NEGOTIATION);
    assert_eq!(why(&bench), Some("the client did not choose an export in time"));
}

#[test]
fn answers_about_allocation_count_before_and_after_they_are_found() {
    let pool = Pool::new(MEMORY);
    let mut bench = Bench::agreed_on(&pool, true, |_| {});
    let before = pool.used();
    let mut send = Transmit::new(2 << 20, 512);
    bench.half.connection.poll_transmit(NOW, &mut send);
    for _ in 0..REQUESTS {
        let header = RequestHeader::new(Command::BLOCK_STATUS, 1, 0, SIZE as u32).with(CommandFlags::empty());
        bench.half.receive(NOW, header.as_bytes());
    }
    assert!(pool.used() >= before + REQUESTS * 4096, "{} bytes for {REQUESTS} queries", pool.used() - before);
    bench.settle();
    assert!(pool.used() < before + REQUESTS * 1024, "{} bytes stay", pool.used() - before);
    drop(bench);
    assert_eq!(pool.used(), 0);
}
