//! No heap allocation per I/O in the steady state, counted, over both roles with 4 KiB and 128 KiB reads and writes, over TCP and over iSER.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
#[path = "../../verbs/tests/common/counting_allocator.rs"]
mod counting_allocator;

use std::sync::Arc;

use buf::{BufList, Pool};
use common::iser::{far, near};
use common::{BLOCK, config, portal, resources};
use counting_allocator::count;
use iscsi::datamover::iser::Invalidation;
use iscsi::datamover::tcp;
use iscsi::{initiator, session, target};
use protocol::{Connection, Group, Instant, SeededEntropy, Transmit};
use volume::{Completion, Durability, Extent, Operation, Outcome, Request, Submission, Tag};

/// One end with memory of its own that is kept.
struct End<C> {
    connection: C,
    send: Transmit,
    staged: Vec<u8>,
}

impl<C: Connection> End<C> {
    fn new(connection: C) -> Self {
        Self { connection, send: Transmit::new(1 << 20, 256), staged: Vec::with_capacity(1 << 20) }
    }

    /// Sends to `peer` what there is to send; false when there was nothing.
    fn send_to<D: Connection>(&mut self, peer: &mut End<D>) -> bool {
        self.send.clear();
        self.connection.poll_transmit(Instant::ZERO, &mut self.send);
        for segment in self.send.segments() {
            peer.staged.extend_from_slice(self.send.bytes(segment));
        }
        if !self.send.is_empty() {
            self.connection.handle_transmitted(Instant::ZERO, self.send.len());
        }
        peer.receive();
        !self.send.is_empty()
    }

    fn receive(&mut self) {
        let mut at = 0;
        loop {
            if let Some(mut placement) = self.connection.take_placement() {
                let count = placement.len.min(self.staged.len() - at);
                assert_eq!(count, placement.len, "a whole send crosses at once");
                placement.buf[placement.start..][..count].copy_from_slice(&self.staged[at..at + count]);
                at += count;
                self.connection.handle_placed(Instant::ZERO, placement);
                continue;
            }
            let used = self.connection.handle_bytes(Instant::ZERO, &self.staged[at..]);
            at += used;
            if used == 0 {
                break;
            }
        }
        self.staged.drain(..at);
    }
}

struct World<I = tcp::InitiatorConnection, T = tcp::TargetConnection> {
    near: End<I>,
    far: End<T>,
    sessions: session::Sessions<u8>,
    ready: bool,
    done: usize,
}

impl World {
    fn new(pool: &Pool) -> Self {
        let entropy = Box::new(SeededEntropy::new(4));
        let near = tcp::InitiatorConnection::new(Instant::ZERO, config(), pool.clone(), entropy);
        let far = tcp::TargetConnection::new(Instant::ZERO, Arc::new(portal(1024)), resources(pool));
        Self::of(near, far)
    }
}

impl<I, T> World<I, T>
where
    I: Connection<Input = initiator::Input, Action = initiator::Action>,
    T: Connection<Input = target::Input, Action = target::Action>,
{
    fn of(near: I, far: T) -> Self {
        let sessions = session::Sessions::new();
        Self { near: End::new(near), far: End::new(far), sessions, ready: false, done: 0 }
    }

    fn run(&mut self) {
        loop {
            let mut any = self.near.send_to(&mut self.far) | self.far.send_to(&mut self.near);
            while let Some(action) = self.far.connection.poll_action() {
                any = true;
                let input = match action {
                    target::Action::Submit(Submission { request: Request { tag, operation }, .. }) => {
                        let outcome = match operation {
                            Operation::Read { into, .. } => Outcome::Data(into.freeze().into()),
                            _ => Outcome::Done,
                        };
                        target::Input::Completion(Completion { tag, result: Ok(outcome) })
                    }
                    target::Action::Group(request) => {
                        self.sessions.handle_message(Instant::ZERO, 1, request);
                        target::Input::Group(self.sessions.poll_message().unwrap().message)
                    }
                    other => panic!("{other:?}"),
                };
                self.far.connection.handle_input(Instant::ZERO, input);
            }
            while let Some(action) = self.near.connection.poll_action() {
                any = true;
                match action {
                    initiator::Action::Ready(_) => self.ready = true,
                    initiator::Action::Complete(completion) => {
                        assert!(completion.result.is_ok());
                        self.done += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            if !any {
                return;
            }
        }
    }

    fn submit(&mut self, operation: Operation) {
        let request = Request { tag: Tag(1), operation };
        self.near.connection.handle_input(Instant::ZERO, initiator::Input::Submit(request));
    }

    fn run_rounds(&mut self, pool: &Pool, rounds: Rounds) {
        let Rounds { count, depth, blocks, direction } = rounds;
        let extent = Extent::new(8, blocks);
        let length = usize::try_from(blocks).unwrap() * BLOCK;
        for _ in 0..count {
            for _ in 0..depth {
                let buf = pool.take(length).unwrap();
                self.submit(match direction {
                    Direction::Read => Operation::Read { extent, into: buf },
                    Direction::Write => {
                        let data = BufList::from(buf.freeze());
                        Operation::Write { extent, data, durability: Durability::Cached }
                    }
                });
            }
            self.run();
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    Read,
    Write,
}

/// `count` rounds of `depth` requests at a time.
#[derive(Debug, Clone, Copy)]
struct Rounds {
    count: usize,
    depth: usize,
    blocks: u64,
    direction: Direction,
}

#[test]
fn reads_and_writes_allocate_nothing() {
    let pool = Pool::new(64 << 20);
    check(World::new(&pool), &pool);
}

#[test]
fn reads_and_writes_allocate_nothing_over_iser() {
    let pool = Pool::new(64 << 20);
    check(World::of(near(config(), Invalidation::Used), far(portal(1024), &pool)), &pool);
}

fn check<I, T>(mut world: World<I, T>, pool: &Pool)
where
    I: Connection<Input = initiator::Input, Action = initiator::Action>,
    T: Connection<Input = target::Input, Action = target::Action>,
{
    world.run();
    assert!(world.ready);
    for blocks in [8, 256] {
        for direction in [Direction::Read, Direction::Write] {
            let warm = Rounds { count: 20, depth: 32, blocks, direction };
            world.run_rounds(pool, warm);
            let (before, done) = (count(), world.done);
            world.run_rounds(pool, Rounds { count: 100, ..warm });
            assert_eq!(world.done - done, 3200);
            assert_eq!(count() - before, 0, "{blocks} blocks, {direction:?}");
        }
    }
}

#[test]
fn the_counter_counts() {
    let before = count();
    drop(std::hint::black_box(Box::new(7_u64)));
    assert_eq!(count() - before, 1);
}
