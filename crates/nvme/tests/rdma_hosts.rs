//! Hosts over RDMA that break the rules, or do what others do not: each ends as the standard says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;
mod rdma_fabric;

use buf::{Buf, BufList, Pool, SharedBuf};
use common::{Bench, admin, config, host_identity, portal};
use nvme::controller::Action;
use nvme::fabrics::{ANY_CONTROLLER, Connect, ConnectData};
use nvme::host::Queue;
use nvme::limits::DATA_TIME;
use nvme::rdma::{ConnectRequest, RejectReply, RejectStatus};
use nvme::sgl::{KeyedBlock, SglDescriptor};
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use protocol::pair::aperiodic;
use protocol::{CloseReason, Connection as _, Ended, Instant};
use rdma_fabric::{Hostile, Iwarp, RawHost};
use std::time::Duration;
use verbs::{
    EndReason, PrivateData, QueuePair as _, QueuePairState, RegionMemory, RemoteRegion, SetupEvent,
    WorkMemory,
};
use zerocopy::IntoBytes;

const READ: u8 = 2;
const WRITE: u8 = 1;
const IDENTIFY: u8 = 6;

fn list(bytes: &[u8]) -> BufList {
    BufList::from(SharedBuf::from(bytes.to_vec()))
}

fn keyed(region: RemoteRegion, invalidate: bool) -> SglDescriptor {
    let block =
        KeyedBlock { address: region.offset, key: region.stag.0, length: region.length as usize, invalidate };
    SglDescriptor::keyed(block).unwrap()
}

fn entry(opcode: u8, cid: u16, dptr: SglDescriptor) -> SubmissionQueueEntry {
    let mut entry = SubmissionQueueEntry::new(opcode, 1);
    entry.cid.set(cid);
    entry.dptr = dptr;
    entry
}

fn blocks(entry: SubmissionQueueEntry, count: u32) -> SubmissionQueueEntry {
    entry.with(12, count - 1)
}

fn near(bench: &mut Bench<Hostile>, link: usize) -> &mut RawHost {
    &mut bench.links[link].pair.near.connection
}

fn closed(bench: &Bench<Hostile>, link: usize) -> Option<CloseReason> {
    bench.links[link].pair.far.connection.poll_close()
}

/// Sends a Connect for a queue, and gives its status and result.
fn connect(bench: &mut Bench<Hostile>, link: usize, (qid, cntlid): (u16, u16)) -> (Status, u64) {
    let data = ConnectData::new(&host_identity(), cntlid, common::NQN);
    let host = near(bench, link);
    let region = host.register(RegionMemory::Source(list(data.as_bytes())));
    let mut command = Connect::entry(qid, 31, 0);
    command.cid.set(0x77);
    command.dptr = keyed(region, true);
    host.command(command, &[]);
    bench.run();
    let (response, invalidated) = near(bench, link).responses().remove(0);
    assert_eq!((response.cid.get(), invalidated), (0x77, Some(region.stag)));
    (response.status(), response.result())
}

/// An admin queue that was connected, and enabled.
fn admin_queue(bench: &mut Bench<Hostile>) -> (usize, u16) {
    let link = bench.connect(admin(1));
    assert!(matches!(near(bench, link).events.as_slice(), [SetupEvent::Established(_)]));
    let (status, cntlid) = connect(bench, link, (0, ANY_CONTROLLER));
    assert_eq!(status, Status::SUCCESS);
    let enable = nvme::fabrics::Property::set(nvme::properties::offset::CC, 0x0046_0001);
    near(bench, link).command(enable, &[]);
    bench.run();
    assert_eq!(near(bench, link).responses().remove(0).0.status(), Status::SUCCESS);
    (link, cntlid as u16)
}

/// An I/O queue of 32 entries.
fn io_queue(bench: &mut Bench<Hostile>) -> usize {
    let (_, cntlid) = admin_queue(bench);
    bench.fabric.private_data = Some(ConnectRequest::new(1, cntlid, 32).encode());
    let link = bench.connect(config(Queue::Discovery));
    assert_eq!(connect(bench, link, (1, cntlid)).0, Status::SUCCESS);
    link
}

fn bench() -> Bench<Hostile> {
    Bench::over(Hostile::default(), portal())
}

/// What becomes of a connection request with this private data.
fn asked(private_data: &[u8], pool: Option<Pool>) -> (Option<SetupEvent>, Option<CloseReason>) {
    let mut bench = bench();
    bench.pool = pool.unwrap_or(bench.pool);
    bench.fabric.private_data = PrivateData::new(private_data);
    let link = bench.connect(admin(1));
    let close = closed(&bench, link);
    (near(&mut bench, link).events.pop(), close)
}

#[test]
fn wrong_private_data_is_rejected_each_with_its_status() {
    let request = |qid, hrqsize: u16, hsqsize: u16| {
        let mut bytes = ConnectRequest::new(qid, 0, 32).encode().bytes().to_vec();
        bytes[4..6].copy_from_slice(&hrqsize.to_le_bytes());
        bytes[6..8].copy_from_slice(&hsqsize.to_le_bytes());
        bytes
    };
    let mut format = request(0, 32, 31);
    format[0] = 1;
    let short = request(0, 32, 31)[..31].to_vec();
    for (private_data, status) in [
        (Vec::new(), RejectStatus::INVALID_PRIVATE_DATA_LENGTH),
        (short, RejectStatus::INVALID_PRIVATE_DATA_LENGTH),
        (format, RejectStatus::INVALID_RECFMT),
        (request(65, 32, 31), RejectStatus::INVALID_QID),
        (request(0, 32, 0), RejectStatus::INVALID_HSQSIZE),
        (request(0, 129, 128), RejectStatus::INVALID_HSQSIZE),
        (request(1, 129, 128), RejectStatus::INVALID_HSQSIZE),
        (request(1, u16::MAX, u16::MAX), RejectStatus::INVALID_HSQSIZE),
        (request(0, 30, 31), RejectStatus::INVALID_HRQSIZE),
    ] {
        let (event, close) = asked(&private_data, None);
        assert_eq!(event, Some(SetupEvent::Rejected(RejectReply::new(status).encode())), "{status:?}");
        assert_eq!(close, Some(CloseReason::Refused(status.describe())));
    }
    for (qid, hsqsize) in [(0, 127), (64, 127), (1, 1)] {
        let (event, close) = asked(&request(qid, hsqsize, hsqsize), None);
        let expected = nvme::rdma::AcceptReply::new(hsqsize + 1).encode();
        assert_eq!((event, close), (Some(SetupEvent::Established(expected)), None));
    }
}

#[test]
fn a_queue_for_which_there_is_no_memory_is_rejected_and_holds_none() {
    let pool = Pool::new(512 << 10);
    let (event, close) = asked(ConnectRequest::new(1, 0, 128).encode().bytes(), Some(pool.clone()));
    let status = RejectStatus::NO_RESOURCES;
    assert_eq!(event, Some(SetupEvent::Rejected(RejectReply::new(status).encode())));
    assert_eq!(close, Some(CloseReason::Refused(status.describe())));
    assert_eq!(pool.used(), 0);
}

#[test]
fn receives_count_against_the_connection_and_come_back() {
    let pool = Pool::new(4 << 20);
    let mut bench = bench();
    bench.pool = pool.clone();
    bench.fabric.private_data = Some(ConnectRequest::new(1, 0, 64).encode());
    let link = bench.connect(admin(1));
    assert!(pool.used() >= 64 * (64 + nvme::limits::RDMA_IN_CAPSULE as usize), "{}", pool.used());
    bench.end(link);
    bench.links.clear();
    assert_eq!(pool.used(), 0);
}

#[test]
fn data_is_read_and_written_by_keys_and_keys_are_invalidated_as_asked() {
    let mut bench = bench();
    let link = io_queue(&mut bench);
    let data = aperiodic(65_536, 1);
    for invalidate in [true, false] {
        let host = near(&mut bench, link);
        let source = host.register(RegionMemory::Source(list(&data)));
        host.command(blocks(entry(WRITE, 5, keyed(source, invalidate)), 128), &[]);
        bench.run();
        let (response, invalidated) = near(&mut bench, link).responses().remove(0);
        assert_eq!(response.status(), Status::SUCCESS);
        assert_eq!(invalidated, invalidate.then_some(source.stag));
        assert_eq!(bench.disks[0][..data.len()], data);
        let host = near(&mut bench, link);
        let sink = host.register(RegionMemory::Sink(Buf::zeroed(65_536 + 512)));
        // The memory that a command names may begin anywhere in its region.
        let part = RemoteRegion { offset: 512, length: 65_536, ..sink };
        host.command(blocks(entry(READ, 6, keyed(part, invalidate)), 128), &[]);
        bench.run();
        let host = near(&mut bench, link);
        let (response, invalidated) = host.responses().remove(0);
        assert_eq!((response.status(), invalidated), (Status::SUCCESS, invalidate.then_some(sink.stag)));
        let WorkMemory::Region(RegionMemory::Sink(memory)) = host.invalidate(sink.stag) else { panic!() };
        assert_eq!((&memory[..512], &memory[512..]), (&[0; 512][..], &data[..]));
    }
}

#[test]
fn a_connect_of_an_io_queue_may_have_its_data_in_the_capsule() {
    let mut bench = bench();
    let (_, cntlid) = admin_queue(&mut bench);
    bench.fabric.private_data = Some(ConnectRequest::new(1, cntlid, 32).encode());
    let link = bench.connect(config(Queue::Discovery));
    let data = ConnectData::new(&host_identity(), cntlid, common::NQN);
    near(&mut bench, link).command(Connect::entry(1, 31, 0), data.as_bytes());
    bench.run();
    assert_eq!(near(&mut bench, link).responses().remove(0).0.status(), Status::SUCCESS);
}

#[test]
fn descriptors_that_do_not_fit_are_refused_and_the_queue_goes_on() {
    let mut bench = bench();
    let link = io_queue(&mut bench);
    let sink = near(&mut bench, link).register(RegionMemory::Sink(Buf::zeroed(4096)));
    let mut behind = SglDescriptor::in_capsule(512);
    behind.address.set(4096);
    let mut address = keyed(sink, false);
    address.identifier = 0x00;
    let whole = vec![7; 512];
    let too_long = RemoteRegion { length: 8192, ..sink };
    for (cid, (opcode, dptr, data, status)) in [
        (WRITE, SglDescriptor::transport(512), &[][..], Status::SGL_TYPE_INVALID),
        (WRITE, address, &[], Status::SGL_TYPE_INVALID),
        (WRITE, behind, &whole, Status::SGL_OFFSET_INVALID),
        (WRITE, SglDescriptor::in_capsule(1024), &whole, Status::DATA_SGL_LENGTH_INVALID),
        (WRITE, keyed(too_long, false), &[], Status::DATA_SGL_LENGTH_INVALID),
        (READ, keyed(too_long, false), &[], Status::DATA_SGL_LENGTH_INVALID),
        (READ, SglDescriptor::in_capsule(512), &whole, Status::INVALID_FIELD),
    ]
    .into_iter()
    .enumerate()
    {
        near(&mut bench, link).command(blocks(entry(opcode, cid as u16, dptr), 1), data);
        bench.run();
        let responses = near(&mut bench, link).responses();
        let [(response, None)] = responses.as_slice() else { panic!("{responses:?}") };
        assert_eq!(response.cid.get(), cid as u16);
        assert_eq!(response.status().code(), status.code(), "{cid}");
    }
    assert_eq!(closed(&bench, link), None);
    // Data in the capsule may begin behind its front.
    let mut offset = SglDescriptor::in_capsule(512);
    offset.address.set(24);
    let capsule = [vec![0xdd; 24], aperiodic(512, 3), vec![0xdd; 8]].concat();
    near(&mut bench, link).command(blocks(entry(WRITE, 9, offset), 1), &capsule);
    bench.run();
    assert_eq!(near(&mut bench, link).responses().remove(0).0.status(), Status::SUCCESS);
    assert_eq!(bench.disks[0][..512], aperiodic(512, 3));
}

#[test]
fn what_is_no_capsule_ends_the_connection() {
    let mut bench = bench();
    let link = bench.connect(admin(1));
    near(&mut bench, link).send(&[0; 63]);
    bench.run();
    let text = "a command capsule of fewer than 64 bytes";
    assert_eq!(closed(&bench, link), Some(CloseReason::Violation(text)));
    // One that is too long finds no room in its receive: in-capsule data is none on an admin queue.
    let link = bench.connect(admin(1));
    near(&mut bench, link).send(&[0; 65]);
    bench.run();
    assert!(matches!(closed(&bench, link), Some(CloseReason::Violation(_))));
    let state = near(&mut bench, link).pair.state();
    assert!(matches!(state, QueuePairState::Ended(EndReason::Terminated(_))), "{state:?}");
}

#[test]
fn a_command_before_the_queue_is_connected_ends_the_connection() {
    let mut bench = bench();
    let link = bench.connect(admin(1));
    let data = ConnectData::new(&host_identity(), ANY_CONTROLLER, common::NQN);
    let host = near(&mut bench, link);
    let region = host.register(RegionMemory::Source(list(data.as_bytes())));
    let mut command = Connect::entry(0, 31, 0);
    command.dptr = keyed(region, true);
    host.command(command, &[]);
    // The group does not hear of it.
    bench.links[link].pair.exchange();
    let action = bench.links[link].pair.far.connection.poll_action();
    assert!(matches!(action, Some(Action::Group(_))));
    near(&mut bench, link).command(SubmissionQueueEntry::new(0x18, 0), &[]);
    bench.run();
    let text = "a command before the queue was connected";
    assert_eq!(closed(&bench, link), Some(CloseReason::Violation(text)));
    // Anything but a Connect is refused, as over TCP.
    let link = bench.connect(admin(1));
    near(&mut bench, link).command(SubmissionQueueEntry::new(0x18, 0), &[]);
    bench.run();
    let (response, _) = near(&mut bench, link).responses().remove(0);
    assert_eq!(response.status().code(), Status::COMMAND_SEQUENCE.code());
}

/// What is wrong with the memory that a command names.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    Key,
    Bounds,
    Right,
}

#[test]
fn wrong_keys_end_both_sides_and_reach_no_volume() {
    for (opcode, wrong) in [
        (WRITE, Wrong::Key),
        (WRITE, Wrong::Bounds),
        (WRITE, Wrong::Right),
        (READ, Wrong::Key),
        (READ, Wrong::Bounds),
        (READ, Wrong::Right),
    ] {
        let mut bench = bench();
        let link = io_queue(&mut bench);
        bench.disks[0].fill(0x11);
        let host = near(&mut bench, link);
        let sink = RegionMemory::Sink(Buf::zeroed(65_536));
        let source = RegionMemory::Source(list(&vec![0x22; 65_536]));
        // With the right key the region is for the other direction.
        let for_writing = (opcode == READ) != matches!(wrong, Wrong::Right);
        let mut region = host.register(if for_writing { sink } else { source });
        match wrong {
            Wrong::Key => region.stag.0 ^= 1,
            Wrong::Bounds => region.offset = 1,
            Wrong::Right => {}
        }
        host.command(blocks(entry(opcode, 1, keyed(region, true)), 128), &[]);
        bench.run();
        assert!(
            matches!(closed(&bench, link), Some(CloseReason::Violation(_))),
            "{:?}",
            closed(&bench, link)
        );
        assert!(matches!(
            near(&mut bench, link).pair.state(),
            QueuePairState::Ended(EndReason::Violation(_))
        ));
        assert!(near(&mut bench, link).responses().is_empty());
        assert!(bench.disks[0].iter().all(|byte| *byte == 0x11));
    }
}

#[test]
fn more_commands_than_were_agreed_find_no_receive_in_the_end() {
    let mut bench = bench();
    let link = io_queue(&mut bench);
    let pool = bench.pool.clone();
    bench.held = Some(Vec::new());
    let used = |bench: &Bench<Hostile>| bench.pool.used();
    let mut most = 0;
    for cid in 0..200 {
        if closed(&bench, link).is_some() {
            break;
        }
        // Flush: it waits at its volume.
        near(&mut bench, link).command(entry(0, cid, SglDescriptor::in_capsule(0)), &[]);
        bench.run();
        most = most.max(used(&bench));
    }
    assert!(matches!(closed(&bench, link), Some(CloseReason::Violation(_))), "{:?}", closed(&bench, link));
    assert!(
        bench.held.as_ref().unwrap().len() <= 32 + 8,
        "the queue has so many entries, and a little slack"
    );
    assert!(most < 2 << 20, "{most}");
    for link in 0..bench.links.len() {
        bench.end(link);
    }
    bench.links.clear();
    bench.held = None;
    assert_eq!(pool.used(), 0);
}

#[test]
fn a_host_whose_memory_does_not_answer_is_given_up() {
    let mut bench = bench();
    let link = io_queue(&mut bench);
    let host = near(&mut bench, link);
    let source = host.register(RegionMemory::Source(list(&vec![1; 65_536])));
    host.command(blocks(entry(WRITE, 1, keyed(source, true)), 128), &[]);
    // The command arrives, and the RDMA Read is lost.
    let sent = bench.links[link].pair.near.transmit(Instant::ZERO);
    let far = &mut bench.links[link].pair.far;
    far.receive(Instant::ZERO, &sent);
    assert!(!far.transmit(Instant::ZERO).is_empty());
    far.connection.handle_timeout(Instant::ZERO + DATA_TIME / 2);
    assert_eq!(far.connection.poll_close(), None);
    far.connection.handle_timeout(Instant::ZERO + DATA_TIME + Duration::from_secs(1));
    let stalled = CloseReason::TimedOut("the host does not answer RDMA Reads");
    assert_eq!(far.connection.poll_close(), Some(stalled));
}

#[test]
fn a_connection_may_be_lost_at_any_byte() {
    let whole = {
        let mut bench = bench();
        let link = io_queue(&mut bench);
        let before = bench.links[link].pair.near.sent();
        write_and_read(&mut bench, link);
        (before, bench.links[link].pair.near.sent())
    };
    assert!(whole.1 - whole.0 > 65_536);
    for at in (0..whole.1).step_by(whole.1 / 97) {
        let mut bench = bench();
        let pool = bench.pool.clone();
        let (_, cntlid) = admin_queue(&mut bench);
        let used = pool.used();
        bench.fabric.private_data = Some(ConnectRequest::new(1, cntlid, 32).encode());
        let host = {
            use common::Fabric as _;
            bench.fabric.host(config(Queue::Discovery), Instant::ZERO)
        };
        let mut pair = protocol::pair::Pair::new(host, {
            use common::Fabric as _;
            bench.fabric.controller(bench.portal.clone(), pool.clone(), Instant::ZERO)
        });
        let mut left = at;
        let mut commanded = false;
        for _ in 0..64 {
            let bytes = pair.near.transmit(Instant::ZERO);
            let arrived = bytes.len().min(left);
            left -= arrived;
            pair.far.receive(Instant::ZERO, &bytes[..arrived]);
            if arrived < bytes.len() {
                break;
            }
            while pair.far.connection.poll_action().is_some() {}
            let back = pair.far.transmit(Instant::ZERO);
            pair.near.receive(Instant::ZERO, &back);
            if !commanded && pair.near.connection.pair.is_established() {
                commanded = true;
                let data = ConnectData::new(&host_identity(), cntlid, common::NQN);
                let host = &mut pair.near.connection;
                let region = host.register(RegionMemory::Source(list(data.as_bytes())));
                let mut command = Connect::entry(1, 31, 0);
                command.dptr = keyed(region, true);
                host.command(command, &[]);
            }
        }
        pair.far.end(Instant::ZERO, Ended::ByPeer);
        assert!(pair.far.connection.poll_close().is_some());
        drop(pair);
        assert_eq!(pool.used(), used, "lost behind {at} bytes");
    }
}

fn write_and_read(bench: &mut Bench<Hostile>, link: usize) {
    let host = near(bench, link);
    let source = host.register(RegionMemory::Source(list(&aperiodic(65_536, 4))));
    host.command(blocks(entry(WRITE, 1, keyed(source, true)), 128), &[]);
    bench.run();
    let host = near(bench, link);
    let sink = host.register(RegionMemory::Sink(Buf::zeroed(65_536)));
    host.command(blocks(entry(READ, 2, keyed(sink, true)), 128), &[]);
    bench.run();
    assert_eq!(near(bench, link).responses().len(), 2);
}

#[test]
fn reads_under_way_are_no_more_than_the_provider_has() {
    let mut bench = Bench::over(
        Hostile { iwarp: Iwarp { reads: 2, ..Iwarp::default() }, ..Hostile::default() },
        portal(),
    );
    let link = io_queue(&mut bench);
    let host = near(&mut bench, link);
    let sources: Vec<_> =
        (0..8).map(|seed| host.register(RegionMemory::Source(list(&aperiodic(65_536, seed))))).collect();
    let sink = host.register(RegionMemory::Sink(Buf::zeroed(512)));
    for (cid, source) in (0_u16..).zip(sources) {
        let command = entry(WRITE, cid, keyed(source, true)).with(10, 128 * u32::from(cid));
        host.command(blocks(command, 128), &[]);
    }
    host.command(blocks(entry(READ, 8, keyed(sink, true)).with(10, 8000), 1), &[]);
    bench.run();
    let responses = near(&mut bench, link).responses();
    assert_eq!(responses.len(), 9);
    assert!(responses.iter().all(|(response, _)| response.status().is_success()));
    assert_ne!(responses.last().unwrap().0.cid.get(), 8, "a response does not wait for reads that wait");
    for cid in 0..8 {
        assert_eq!(bench.disks[0][65_536 * cid..][..65_536], aperiodic(65_536, cid as u64));
    }
}

#[test]
fn an_admin_command_gives_its_data_by_a_key() {
    let mut bench = bench();
    let (link, _) = admin_queue(&mut bench);
    let host = near(&mut bench, link);
    let sink = host.register(RegionMemory::Sink(Buf::zeroed(4096)));
    host.command(entry(IDENTIFY, 3, keyed(sink, true)).with(10, 1), &[]);
    bench.run();
    let host = near(&mut bench, link);
    assert_eq!(host.responses().remove(0).0.status(), Status::SUCCESS);
    let WorkMemory::Region(RegionMemory::Sink(identify)) = host.invalidate(sink.stag) else { panic!() };
    let dword = |at: usize| u32::from_le_bytes(identify[at..at + 4].try_into().unwrap());
    assert_eq!(dword(536), 1 | 1 << 2 | 1 << 20, "SGLS: keyed blocks and offsets");
    assert_eq!((dword(1792), dword(1796)), ((64 + 4096) / 16, 1), "IOCCSZ and IORCSZ in units of 16 bytes");
    assert_eq!((identify[1800], identify[1801], identify[1803]), (0, 0, 1), "ICDOFF and MSDBD");
}

/// Sends an Abort of a command of the I/O queue, and says whether it was performed, once that is answered.
fn abort(bench: &mut Bench<Hostile>, cid: u16) -> Option<bool> {
    let mut entry = SubmissionQueueEntry::new(0x08, 0).with(10, u32::from(cid) << 16 | 1);
    entry.cid.set(500 + cid);
    near(bench, 0).command(entry, &[]);
    bench.links[0].pair.exchange();
    bench.act(0);
    bench.act(1);
    bench.act(0);
    bench.links[0].pair.exchange();
    near(bench, 0).responses().pop().map(|(end, _)| end.result() == 0)
}

#[test]
fn an_abort_ends_a_write_before_its_read_at_once_and_during_it_when_that_ends() {
    let mut bench = Bench::over(
        Hostile { iwarp: Iwarp { reads: 1, ..Iwarp::default() }, ..Hostile::default() },
        portal(),
    );
    let link = io_queue(&mut bench);
    assert_eq!(link, 1);
    let host = near(&mut bench, link);
    let sources: Vec<_> =
        (0..2).map(|seed| host.register(RegionMemory::Source(list(&aperiodic(65_536, seed))))).collect();
    for (cid, source) in (0_u16..).zip(sources) {
        let command = entry(WRITE, cid, keyed(source, true)).with(10, 128 * u32::from(cid));
        host.command(blocks(command, 128), &[]);
    }
    // Both commands arrive; the answers to RDMA Reads are on their way for long.
    let pair = &mut bench.links[link].pair;
    let sent = pair.near.transmit(Instant::ZERO);
    pair.far.receive(Instant::ZERO, &sent);
    let asked = pair.far.transmit(Instant::ZERO);
    assert_eq!(abort(&mut bench, 0), None, "its memory is being written to");
    assert_eq!(abort(&mut bench, 1), Some(true), "nothing has begun");
    let pair = &mut bench.links[link].pair;
    pair.near.receive(Instant::ZERO, &asked);
    bench.run();
    let ends = near(&mut bench, link).responses();
    assert_eq!(ends.len(), 2);
    assert!(ends.iter().all(|(end, _)| end.status().code() == Status::ABORT_REQUESTED.code()));
    assert_eq!(near(&mut bench, 0).responses().pop().map(|(end, _)| end.result()), Some(0), "performed");
    assert!(bench.disks[0].iter().all(|byte| *byte == 0));
}
