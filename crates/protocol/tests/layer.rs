//! A layer between stream and connection: the smallest that has a handshake and records, and what crosses it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod records;

use std::collections::VecDeque;

use buf::{Buf, Pool};
use protocol::pair::{Mishap, Pair, aperiodic};
use protocol::{CloseReason, Connection, Ended, Instant, Layered, Placement, Transmit};
use records::{HELLO, Scrambler};

/// A connection whose messages are a length, and a payload that goes to memory of a pool; without memory it waits.
struct Courier {
    pool: Pool,
    expected: Option<usize>,
    placement: Option<Placement>,
    outbox: VecDeque<Buf>,
    inbox: VecDeque<Buf>,
    /// Payloads that were told as sent.
    sent: usize,
    under_way: usize,
}

const LENGTH: usize = 4;

impl Courier {
    fn new(limit: usize) -> Self {
        Self {
            pool: Pool::new(limit),
            expected: None,
            placement: None,
            outbox: VecDeque::new(),
            inbox: VecDeque::new(),
            sent: 0,
            under_way: 0,
        }
    }

    fn begin(&mut self) {
        if let Some(len) = self.expected
            && let Some(mut buf) = self.pool.take(len)
        {
            buf.set_len(len);
            self.expected = None;
            self.placement = Some(Placement { buf, start: 0, len, token: 0 });
        }
    }
}

impl Connection for Courier {
    type Input = Buf;
    type Action = Buf;

    const STAGING: usize = LENGTH;

    fn handle_bytes(&mut self, _now: Instant, bytes: &[u8]) -> usize {
        let Some(head) = bytes.first_chunk().filter(|_| self.placement.is_none()) else { return 0 };
        self.expected = Some(u32::from_be_bytes(*head) as usize);
        self.begin();
        LENGTH
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.placement.take()
    }

    fn handle_placed(&mut self, _now: Instant, placement: Placement) {
        self.inbox.push_back(placement.buf);
    }

    fn handle_input(&mut self, _now: Instant, input: Buf) {
        self.outbox.push_back(input);
    }

    fn handle_transmitted(&mut self, _now: Instant, bytes: usize) {
        assert_eq!(bytes, self.under_way, "it hears of its own bytes, once");
        self.sent += bytes;
        self.under_way = 0;
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn handle_ended(&mut self, _now: Instant, _how: Ended) {}

    fn poll_transmit(&mut self, _now: Instant, send: &mut Transmit) {
        while !send.is_full()
            && let Some(buf) = self.outbox.pop_front()
        {
            send.put(&u32::try_from(buf.len()).unwrap().to_be_bytes());
            send.put_shared(buf.freeze());
        }
        self.under_way = send.len();
    }

    fn poll_action(&mut self) -> Option<Buf> {
        self.inbox.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn wants_bytes(&mut self) -> bool {
        self.begin();
        self.expected.is_none()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        None
    }
}

type End = Layered<Scrambler, Courier>;

fn end(limit: usize) -> End {
    Layered::new(Scrambler::default(), Courier::new(limit))
}

fn message(len: usize, seed: u64) -> Buf {
    let mut buf = Buf::zeroed(len);
    buf.copy_from_slice(&aperiodic(len, seed));
    buf
}

#[test]
fn messages_cross_a_layer_in_chunks_of_every_size() {
    const LENGTHS: [usize; 8] = [1, 3, 500, 995, 996, 997, 1024, 20_000];
    for chunk in [1, 2, 3, 7, 499, 1002, 1003, usize::MAX] {
        let mut pair = Pair::new(end(1 << 20), end(1 << 20));
        pair.chunk = chunk;
        for (seed, len) in (0..).zip(LENGTHS) {
            pair.near.connection.handle_input(pair.now, message(len, seed));
            pair.far.connection.handle_input(pair.now, message(len, seed + 100));
        }
        pair.exchange();
        for (seed, len) in (0..).zip(LENGTHS) {
            let there = pair.far.connection.poll_action().unwrap();
            assert_eq!(&there[..], aperiodic(len, seed), "{len} bytes in chunks of {chunk}");
            let back = pair.near.connection.poll_action().unwrap();
            assert_eq!(&back[..], aperiodic(len, seed + 100), "{len} bytes in chunks of {chunk}");
        }
        let sent: usize = LENGTHS.iter().map(|len| len + LENGTH).sum();
        assert_eq!(pair.near.connection.connection().sent, sent);
    }
}

/// A send that is told in two parts is told to the connection once.
#[test]
fn a_send_that_is_cut_is_told_once() {
    for at in [1, HELLO.len(), HELLO.len() + 1, 600] {
        let mut pair = Pair::new(end(1 << 20), end(1 << 20));
        pair.near.mishap = Some(Mishap::Cut(at));
        pair.near.connection.handle_input(pair.now, message(1000, 1));
        pair.exchange();
        assert_eq!(pair.far.connection.poll_action().unwrap().len(), 1000, "cut at {at}");
        assert_eq!(pair.near.connection.connection().sent, 1000 + LENGTH);
    }
}

/// While the connection has no memory, the rest of a record waits in the layer; it goes on although nothing more comes from the wire.
#[test]
fn what_waits_in_the_layer_goes_on_when_memory_comes_back() {
    let mut pair = Pair::new(end(1 << 20), end(4096));
    for seed in 0..3 {
        pair.near.connection.handle_input(pair.now, message(3000, seed));
    }
    pair.exchange();
    for seed in 0..3 {
        let there = pair.far.connection.poll_action().expect("one at a time");
        assert_eq!(&there[..], aperiodic(3000, seed));
        assert!(pair.far.connection.poll_action().is_none(), "there is memory for one");
        drop(there);
        pair.exchange();
        pair.far.receive(pair.now, &[]);
    }
}

#[test]
fn a_layer_closes_what_does_not_greet() {
    let mut pair = Pair::new(end(4096), end(4096));
    pair.far.receive(pair.now, b"GET / HTTP");
    assert_eq!(pair.far.connection.poll_close(), Some(CloseReason::Violation("no greeting")));
    assert!(!pair.far.connection.is_established());
}
