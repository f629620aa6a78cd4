//! In the steady state no message, write or read allocates (ARCHITECTURE.md).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../verbs/tests/common/counting_allocator.rs"]
mod counting_allocator;
mod rig;

use buf::{BufList, Pool};
use protocol::Instant;
use rig::{CONFIG, Host, World, register};
use roce::endpoint::Arrival;
use roce::train::Train;
use verbs::{
    QueuePair as _, RegionMemory, RemoteRegion, WorkCompletion, WorkDone, WorkId, WorkMemory, WorkRequest,
};

const NOW: Instant = Instant::ZERO;

/// Moves what one host's connection has to send into the other's, and says how many allocations that took.
fn carry(from: &mut Host, to: &mut Host, train: &mut Train) -> u64 {
    let source = from.address;
    let before = counting_allocator::count();
    loop {
        train.clear();
        from.one().poll_transmit(NOW, train);
        if train.is_empty() {
            return counting_allocator::count() - before;
        }
        for packet in train.packets() {
            match to.endpoint.handle_datagram(source, packet) {
                Arrival::Packet(id, packet) => {
                    to.connections.get_mut(&id).unwrap().handle_packet(NOW, packet);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn the_steady_state_allocates_nothing() {
    let World { hosts: [mut near, mut far], .. } = World::connected([CONFIG, CONFIG]);
    let pool = Pool::new(8 << 20);
    let sink = register(far.one(), RegionMemory::Sink(pool.take(4096).unwrap()));
    let source = BufList::from(pool.take(4096).unwrap().freeze());
    let source = register(far.one(), RegionMemory::Source(source));
    let (mut train, mut done) = (Train::default(), Vec::<WorkCompletion>::new());
    let mut receive = pool.take(64);
    let (mut counted, mut completed) = (0, 0);
    for turn in 0..100 {
        let data = BufList::from(pool.take(2000).unwrap().freeze());
        let requests = [
            WorkRequest::Write { data, to: RemoteRegion { length: 2000, ..sink } },
            WorkRequest::Read { into: pool.take(4096).unwrap(), from: source },
            WorkRequest::Send { data: BufList::from(pool.take(64).unwrap().freeze()), invalidate: None },
        ];
        let before = counting_allocator::count();
        for request in requests {
            near.one().post(WorkId(turn), request).map_err(|refused| refused.reason).unwrap();
        }
        if let Some(into) = receive.take() {
            far.one().post(WorkId(turn), WorkRequest::Receive { into }).map_err(|it| it.reason).unwrap();
        }
        let mut count = counting_allocator::count() - before;
        count += carry(&mut near, &mut far, &mut train);
        count += carry(&mut far, &mut near, &mut train);
        done.clear();
        let before = counting_allocator::count();
        near.one().poll(NOW, &mut done);
        far.one().poll(NOW, &mut done);
        count += counting_allocator::count() - before;
        for WorkCompletion { result, memory, .. } in done.drain(..) {
            completed += u32::from(result.is_ok());
            if let (Ok(WorkDone::Received { .. }), WorkMemory::Buf(into)) = (result, memory) {
                receive = Some(into);
            }
        }
        if turn >= 10 {
            counted += count;
        }
    }
    assert_eq!((completed, counted), (400, 0));
}
