//! No heap allocation per 4K read or write in the steady state, at either end; and what an I/O costs in PDUs and
//! bytes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;
#[path = "../../verbs/tests/common/counting_allocator.rs"]
mod counting_allocator;
mod rdma_fabric;

use std::cell::Cell;

use buf::{BufList, Pool};
use common::{Bench, Fabric, Tcp, portal};
use nvme::controller::{Action, Input};
use nvme::host;
use protocol::{Connection as _, Instant, Transmit};
use rdma_fabric::Iwarp;
use volume::{Completion, Durability, Extent, Operation, Outcome, Request, Submission, Tag};

/// Moves what one end sends into the other without allocating; answers PDU bytes.
fn carry<A: protocol::Connection, B: protocol::Connection>(
    (from, to): (&mut A, &mut B),
    (send, wire): (&mut Transmit, &mut Vec<u8>),
) -> usize {
    send.clear();
    from.poll_transmit(Instant::ZERO, send);
    wire.clear();
    for segment in send.segments() {
        wire.extend_from_slice(send.bytes(segment));
    }
    from.handle_transmitted(Instant::ZERO, send.len());
    let mut used = 0;
    while used < wire.len() {
        if let Some(mut placement) = to.take_placement() {
            let end = placement.start + placement.len;
            placement.buf[placement.start..end].copy_from_slice(&wire[used..used + placement.len]);
            used += placement.len;
            to.handle_placed(Instant::ZERO, placement);
        } else {
            used += to.handle_bytes(Instant::ZERO, &wire[used..]);
        }
    }
    send.len()
}

struct Loop<F: Fabric = Tcp> {
    bench: Bench<F>,
    send: Transmit,
    wire: Vec<u8>,
}

impl<F: Fabric> Loop<F> {
    fn new(fabric: F, digests: bool) -> Self {
        let mut bench = Bench::over(fabric, portal());
        bench.session(1, 1, (digests, digests));
        Self { bench, send: Transmit::new(1 << 21, 256), wire: Vec::with_capacity(1 << 21) }
    }

    /// One I/O from request to completion; bytes to the controller and to the host, with both ends' turns.
    fn turn(&mut self, operation: Operation) -> (Vec<usize>, Vec<usize>) {
        let pair = &mut self.bench.links[1].pair;
        let (near, far) = (&mut pair.near.connection, &mut pair.far.connection);
        let (mut to_far, mut to_near) = (Vec::new(), Vec::new());
        near.handle_input(Instant::ZERO, host::Input::Submit(Request { tag: Tag(9), operation }));
        loop {
            let out = carry((near, far), (&mut self.send, &mut self.wire));
            while let Some(action) = far.poll_action() {
                let Action::Submit(Submission { request, .. }) = action else { continue };
                let result = Ok(match request.operation {
                    Operation::Read { into, .. } => Outcome::Data(into.freeze().into()),
                    _ => Outcome::Done,
                });
                far.handle_input(Instant::ZERO, Input::Completion(Completion { tag: request.tag, result }));
            }
            let back = carry((far, near), (&mut self.send, &mut self.wire));
            if COUNTING_COSTS.get() {
                to_far.push(out);
                to_near.push(back);
            }
            if let Some(host::Action::Complete(completion)) = near.poll_action() {
                assert!(completion.result.is_ok());
                return (to_far, to_near);
            }
        }
    }
}

thread_local!(static COUNTING_COSTS: Cell<bool> = const { Cell::new(false) });

fn read(pool: &Pool, length: usize) -> Operation {
    Operation::Read { extent: Extent::new(0, length as u64 / 512), into: pool.take(length).unwrap() }
}

fn write(pool: &Pool, length: usize) -> Operation {
    let data = BufList::from(pool.take(length).unwrap().freeze());
    Operation::Write { extent: Extent::new(0, length as u64 / 512), data, durability: Durability::Cached }
}

#[test]
fn no_allocation_for_small_and_large_io() {
    for digests in [false, true] {
        assert_eq!(allocations(Tcp, digests), [0, 0], "digests {digests}");
    }
}

#[test]
fn no_allocation_over_rdma() {
    for crc in [false, true] {
        assert_eq!(allocations(Iwarp { crc, ..Iwarp::default() }, false), [0, 0], "CRC {crc}");
    }
}

/// Allocations of a hundred reads and writes in the steady state, of 4 KiB and of 128 KiB.
fn allocations<F: Fabric>(fabric: F, digests: bool) -> [u64; 2] {
    let pool = Pool::new(64 << 20);
    let mut bench = Loop::new(fabric, digests);
    [4096, 128 << 10].map(|length| {
        let mut all = |rounds: usize| {
            for _ in 0..rounds {
                bench.turn(read(&pool, length));
                bench.turn(write(&pool, length));
            }
        };
        // Long enough for every slot of every table to have been used.
        all(100);
        let before = counting_allocator::count();
        all(100);
        counting_allocator::count() - before
    })
}

/// The cost of an I/O in bytes of each turn: commands 72, in-capsule data behind it, R2T, data and response 24
/// each, digests 4. A change here is a change of the protocol's cost.
#[test]
fn cost_of_an_io() {
    COUNTING_COSTS.set(true);
    let pool = Pool::new(64 << 20);
    let mut bench = Loop::new(Tcp, false);
    let small = 4096;
    let large = 128 << 10;
    assert_eq!(bench.turn(read(&pool, small)), (vec![72], vec![24 + small]));
    assert_eq!(bench.turn(write(&pool, small)), (vec![72 + small], vec![24]));
    assert_eq!(bench.turn(read(&pool, large)), (vec![72], vec![24 + large]));
    assert_eq!(bench.turn(write(&pool, large)), (vec![72, 24 + large], vec![24, 24]));
    let mut bench = Loop::new(Tcp, true);
    assert_eq!(bench.turn(read(&pool, small)), (vec![76], vec![32 + small]));
    assert_eq!(bench.turn(write(&pool, large)), (vec![76, 32 + large], vec![28, 28]));
}
