//! In the steady state no message, write or read allocates (ARCHITECTURE.md).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../verbs/tests/common/counting_allocator.rs"]
mod counting_allocator;
mod rig;

use buf::{BufList, Pool};
use iwarp::Connection;
use protocol::{Connection as _, Instant, Transmit};
use rig::{Chunks, Joined, OFFER};
use verbs::{
    QueuePair as _, RegionMemory, RemoteRegion, WorkCompletion, WorkDone, WorkId, WorkMemory, WorkRequest,
};

const NOW: Instant = Instant::ZERO;

/// Moves what one connection has to send into the other, and says how many allocations the connections made.
fn carry(from: &mut Connection, to: &mut Connection, send: &mut Transmit) -> u64 {
    send.clear();
    let before = counting_allocator::count();
    from.poll_transmit(NOW, send);
    let mut count = counting_allocator::count() - before;
    let bytes: Vec<u8> = send.segments().iter().flat_map(|segment| send.bytes(segment).to_vec()).collect();
    let before = counting_allocator::count();
    from.handle_transmitted(NOW, bytes.len());
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        if let Some(mut placement) = to.take_placement() {
            let (now, later) = rest.split_at(placement.len);
            placement.buf[placement.start..placement.start + placement.len].copy_from_slice(now);
            to.handle_placed(NOW, placement);
            rest = later;
        } else {
            let consumed = to.handle_bytes(NOW, rest);
            rest = &rest[consumed..];
        }
    }
    count += counting_allocator::count() - before;
    count
}

#[test]
fn the_steady_state_allocates_nothing() {
    let mut joined = Joined::open([OFFER, OFFER], Chunks::Of(usize::MAX));
    let pool = Pool::new(8 << 20);
    let regions = [4096, 4096].map(|bytes| pool.take(bytes).unwrap());
    let [sink, source] = regions;
    let sink = joined.far().register(RegionMemory::Sink(sink));
    let source = joined.far().register(RegionMemory::Source(BufList::from(source.freeze())));
    let mut ends = joined.ends.into_iter();
    let (mut near, mut far) = (ends.next().unwrap().connection, ends.next().unwrap().connection);
    let (mut send, mut done) = (Transmit::new(1 << 20, 256), Vec::<WorkCompletion>::new());
    let mut receive = pool.take(64);
    let (mut counted, mut completed) = (0, 0);
    for turn in 0..100 {
        let data = || BufList::from(pool.take(2000).unwrap().freeze());
        let to = RemoteRegion { length: 2000, ..sink };
        let requests = [
            WorkRequest::Write { data: data(), to },
            WorkRequest::Read { into: pool.take(4096).unwrap(), from: source },
            WorkRequest::Send { data: BufList::from(pool.take(64).unwrap().freeze()), invalidate: None },
        ];
        let mut count = 0;
        let before = counting_allocator::count();
        for request in requests {
            near.post(WorkId(turn), request).map_err(|refused| refused.reason).unwrap();
        }
        if let Some(into) = receive.take() {
            far.post(WorkId(turn), WorkRequest::Receive { into }).map_err(|refused| refused.reason).unwrap();
        }
        count += counting_allocator::count() - before;
        count += carry(&mut near, &mut far, &mut send);
        count += carry(&mut far, &mut near, &mut send);
        done.clear();
        let before = counting_allocator::count();
        near.poll(NOW, &mut done);
        far.poll(NOW, &mut done);
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
