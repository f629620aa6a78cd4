//! What a controller holds for its hosts, and for how long: bytes against the pool and a share of it, deadlines for data and for reading, and keep
//! alive. The sibling of iSCSI's tests of the same name.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use buf::{Account, Pool};
use nvme::controller::{self, Action, Hosts, Portal, Subsystem};
use nvme::fabrics::{Connect, ConnectData, Property, PropertySize};
use nvme::lifetime::Lifetime;
use nvme::limits;
use nvme::log::{GetLogPage, lid};
use nvme::pdu::{CapsuleCmd, CapsuleResp, Digests, H2cData, IcReq, R2t, flags};
use nvme::sgl::SglDescriptor;
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use nvme::subsystem::Reply;
use protocol::pair::Half;
use protocol::{CloseReason, Connection as _, Instant, Transmit};
use volume::{Completion, Operation, Outcome, Submission, VolumeErrorKind};
use zerocopy::{FromBytes, IntoBytes};

const LIMIT: usize = 16 << 20;
const NOW: Instant = Instant::ZERO;
/// The longest write of the tests, in bytes.
const LONG: u32 = 1 << 20;
const WRITE: u8 = 1;
/// Milliseconds of the keep alive timer.
const KATO: u32 = 5000;

type Queue = Half<controller::Connection>;

/// A connection after ICReq and Connect: an admin queue, enabled, or I/O queue 1.
fn queue(pool: &Pool, role: (u16, &str)) -> Queue {
    queue_on(Arc::new(common::portal()), pool, role)
}

fn queue_on(portal: Arc<Portal>, pool: &Pool, (qid, subnqn): (u16, &str)) -> Queue {
    let connection = controller::Connection::new(portal, pool.clone(), NOW);
    let mut half = Half::new(connection);
    half.receive(NOW, IcReq::new(Digests::NONE, 0).as_bytes());
    let cntlid = if qid == 0 { 0xffff } else { 1 };
    let data = ConnectData::new(&common::host_identity(), cntlid, subnqn);
    half.receive(NOW, &capsule(Connect::entry(qid, 127, KATO), data.as_bytes()));
    assert!(matches!(half.connection.poll_action(), Some(Action::Group(_))));
    let joined = Reply::Joined { cntlid: 1, lifetime: Lifetime::new(), hostid: [5; 16] };
    half.connection.handle_input(NOW, controller::Input::Group(joined));
    if qid == 0 {
        half.receive(NOW, &capsule(Property::set(0x14, 0x0046_0001), &[]));
    }
    while half.connection.poll_action().is_some() {}
    half.transmit(NOW);
    half
}

fn io_queue(pool: &Pool) -> Queue {
    queue(pool, (1, common::NQN))
}

fn discovery(pool: &Pool) -> Queue {
    queue(pool, (0, nvme::DISCOVERY_NQN))
}

fn capsule(mut entry: SubmissionQueueEntry, data: &[u8]) -> Vec<u8> {
    if !data.is_empty() {
        entry.dptr = SglDescriptor::in_capsule(data.len() as u32);
    }
    let mut pdu = CapsuleCmd::new(entry);
    pdu.header.pdo = if data.is_empty() { 0 } else { 72 };
    pdu.header.plen.set(72 + data.len() as u32);
    [pdu.as_bytes(), data].concat()
}

fn write(cid: u16, length: u32) -> SubmissionQueueEntry {
    let mut entry = SubmissionQueueEntry::new(WRITE, 1).with(12, length / 512 - 1);
    entry.cid.set(cid);
    entry.dptr = SglDescriptor::transport(length);
    entry
}

fn read(cid: u16, length: u32) -> SubmissionQueueEntry {
    let mut entry = write(cid, length);
    entry.opcode = 2;
    entry
}

fn small_write(half: &mut Queue, cid: u16) -> bool {
    half.receive(NOW, &capsule(write(cid, 4096), &[7; 4096]));
    half.receive(NOW, &[]);
    let Some(Action::Submit(Submission { request, .. })) = half.connection.poll_action() else {
        return false;
    };
    let done = Completion { tag: request.tag, result: Ok(Outcome::Done) };
    half.connection.handle_input(NOW, controller::Input::Completion(done));
    half.transmit(NOW);
    true
}

fn page(cid: u16, length: u32) -> Vec<u8> {
    let mut entry = GetLogPage::entry(lid::DISCOVERY, 0, length);
    entry.cid.set(cid);
    entry.dptr = SglDescriptor::transport(length);
    capsule(entry, &[])
}

/// Lets time pass, as the connection wants to be called; gives what it sends.
fn pass(half: &mut Queue, (from, time): (Instant, Duration)) -> (Instant, Vec<u8>) {
    let (mut now, end, mut sent) = (from, from + time, Vec::new());
    while let Some(due) = half.connection.poll_timeout().filter(|due| *due <= end) {
        now = due.max(now);
        half.connection.handle_timeout(now);
        sent.extend(half.transmit(now));
        if half.connection.poll_close().is_some() {
            break;
        }
    }
    (end, sent)
}

/// Others hold all of the pool, and somebody waits.
fn scarcity(pool: &Pool) -> [Account; 2] {
    let mut others = Account::new(pool);
    others.count(LIMIT - pool.used());
    let mut waiting = Account::new(pool);
    assert!(waiting.take(LONG as usize).is_none());
    [others, waiting]
}

fn status(bytes: &[u8]) -> Status {
    CapsuleResp::read_from_bytes(bytes).unwrap().entry.status()
}

#[test]
fn writes_without_data_leave_memory_to_others() {
    let pool = Pool::new(LIMIT);
    let mut good = io_queue(&pool);
    let mut hoarders = Vec::new();
    for number in 0..20 {
        let mut bad = io_queue(&pool);
        // Ever smaller ones, so that no gap is left.
        for cid in 0..120 {
            let length = [LONG, 256 << 10, 64 << 10, 4096, 512][usize::from(cid) / 24];
            bad.receive(NOW, &capsule(write(cid, length), &[]));
        }
        hoarders.push(bad);
        assert!(pool.used() <= LIMIT, "{} bytes of {LIMIT} are held", pool.used());
        assert!(small_write(&mut good, number), "a small write beside {} hoarders", number + 1);
        good.connection.poll_action();
    }
}

/// A host's 4K reads go on at once beside queues that are full of writes without data: one that was there before them, and newcomers. What the queues' tables take
/// is neither these hosts' part, nor much.
#[test]
fn full_queues_of_writes_without_data_leave_everybody_a_block() {
    for queues in [100, 1000] {
        // As much as gives each of a thousand connections a block.
        let limit = 64 << 20;
        let pool = Pool::new(limit);
        let mut old = io_queue(&pool);
        assert!((0..200).all(|cid| small_read(&mut old, cid)));
        let mut crowd = Vec::new();
        for _ in 0..queues {
            let mut bad = io_queue(&pool);
            for cid in 0..120 {
                bad.receive(NOW, &capsule(write(cid, 1 << 20), &[]));
            }
            crowd.push(bad);
        }
        let allocated = pool.usage().allocated;
        assert!(allocated <= limit + (16 << 20), "{allocated} bytes beside {queues} queues");
        let mut new = io_queue(&pool);
        for cid in 0..100 {
            assert!(small_read(&mut old, cid), "beside {queues} queues");
            assert!(small_read(&mut new, cid), "a newcomer's, beside {queues} queues");
        }
    }
}

/// A read of one block, from its command to its end.
fn small_read(half: &mut Queue, cid: u16) -> bool {
    half.receive(NOW, &capsule(read(cid, 4096), &[]));
    let Some(Action::Submit(Submission { request, .. })) = half.connection.poll_action() else {
        return false;
    };
    let Operation::Read { into, .. } = request.operation else { return false };
    let done = Completion { tag: request.tag, result: Ok(Outcome::Data(into.freeze().into())) };
    half.connection.handle_input(NOW, controller::Input::Completion(done));
    let mut send = Transmit::new(1 << 20, 512);
    half.connection.poll_transmit(NOW, &mut send);
    let count = send.len();
    drop(send);
    half.connection.handle_transmitted(NOW, count);
    true
}

/// A queue for whose commands there is no memory leaves them in the stream until one has ended, and none fails.
#[test]
fn a_command_for_which_there_is_no_slot_waits_for_one() {
    let pool = Pool::new(LIMIT);
    let mut half = io_queue(&pool);
    let mut others = Account::new(&pool);
    others.count(LIMIT - LIMIT / 8);
    let mut flush = SubmissionQueueEntry::new(0, 1);
    for cid in 0..=limits::FIRST_SLOTS {
        flush.cid.set(cid);
        half.receive(NOW, &capsule(flush, &[]));
    }
    assert!(!half.connection.wants_bytes());
    let mut tags: Vec<_> = std::iter::from_fn(|| half.connection.poll_action())
        .filter_map(|action| match action {
            Action::Submit(Submission { request, .. }) => Some(request.tag),
            _ => None,
        })
        .collect();
    assert_eq!(tags.len(), usize::from(limits::FIRST_SLOTS));
    let done = Completion { tag: tags.remove(0), result: Ok(Outcome::Done) };
    half.connection.handle_input(NOW, controller::Input::Completion(done));
    assert!(half.connection.wants_bytes());
    half.receive(NOW, &[]);
    assert!(matches!(half.connection.poll_action(), Some(Action::Submit(_))), "the one that waited");
    others.uncount(LIMIT - LIMIT / 8);
    let done = Completion { tag: tags.remove(0), result: Ok(Outcome::Done) };
    half.connection.handle_input(NOW, controller::Input::Completion(done));
    for cid in 50..150 {
        flush.cid.set(cid);
        half.receive(NOW, &capsule(flush, &[]));
    }
    let begun = std::iter::from_fn(|| half.connection.poll_action()).count();
    assert_eq!(begun, 100, "memory is free");
}

#[test]
fn a_command_that_cannot_be_done_takes_no_memory() {
    let pool = Pool::new(LIMIT);
    let mut half = io_queue(&pool);
    let beyond = |cid| write(cid, LONG).with(10, u32::try_from(common::BLOCKS).unwrap() - 1);
    let elsewhere = |cid| {
        let mut entry = write(cid, LONG);
        entry.nsid.set(9);
        entry
    };
    let unknown = |cid| {
        let mut entry = write(cid, LONG);
        entry.opcode = 0x7d;
        entry
    };
    // Nothing is left for a buffer: whoever asked for one would wait.
    let hostage: Vec<_> = std::iter::from_fn(|| pool.take(512)).collect();
    for (cid, (entry, expected)) in [
        (beyond(0), Status::LBA_OUT_OF_RANGE),
        (elsewhere(1), Status::INVALID_NAMESPACE),
        (unknown(2), Status::INVALID_OPCODE),
    ]
    .into_iter()
    .enumerate()
    {
        half.receive(NOW, &capsule(entry, &[]));
        let answer = half.transmit(NOW);
        assert!(
            !answer.is_empty(),
            "command {cid} waits for memory, and cannot be done (Status {expected:?})"
        );
        assert_eq!(status(&answer), expected.dnr());
    }
    drop(hostage);
}

#[test]
fn a_write_without_a_buffer_waits_before_its_r2t_and_the_stream_goes_on() {
    let pool = Pool::new(LIMIT);
    let mut half = io_queue(&pool);
    let hostage: Vec<_> = std::iter::from_fn(|| pool.take(512)).collect();
    half.receive(NOW, &capsule(write(1, LONG), &[]));
    assert!(half.transmit(NOW).is_empty(), "an R2T is sent for which there is no buffer");
    let mut flush = SubmissionQueueEntry::new(0, 1);
    flush.cid.set(2);
    half.receive(NOW, &capsule(flush, &[]));
    let submitted = half.connection.poll_action();
    assert!(
        matches!(submitted, Some(Action::Submit(_))),
        "a flush behind a write that waits is carried out: {submitted:?}"
    );
    drop(hostage);
    let (_, sent) = pass(&mut half, (NOW, Duration::from_secs(1)));
    assert_eq!(R2t::read_from_bytes(&sent).unwrap().r2tl.get(), LONG);
}

#[test]
fn data_that_does_not_come_ends_its_command_and_not_the_queue() {
    let pool = Pool::new(LIMIT);
    let mut half = io_queue(&pool);
    half.receive(NOW, &capsule(write(3, LONG), &[]));
    let r2t = R2t::read_from_bytes(&half.transmit(NOW)).unwrap();
    let held = pool.used();
    let (now, sent) = pass(&mut half, (NOW, limits::DATA_TIME + limits::WATCH));
    assert_eq!(status(&sent), Status::DATA_TRANSFER_ERROR);
    assert!(pool.used() + LONG as usize <= held, "its buffer is free");
    let mut late = H2cData::new(3, r2t.ttag.get(), 0, LONG);
    (late.header.flags, late.header.pdo) = (flags::LAST, 24);
    late.header.plen.set(24 + LONG);
    half.receive(now, late.as_bytes());
    half.receive(now, &vec![0; LONG as usize]);
    assert!(
        half.transmit(now).is_empty() && half.connection.poll_close().is_none(),
        "late data is passed over"
    );
    assert!(small_write(&mut half, 3));
}

#[test]
fn data_that_does_not_come_ends_its_command_sooner_while_others_wait() {
    let pool = Pool::new(LIMIT);
    let mut half = io_queue(&pool);
    half.receive(NOW, &capsule(write(3, LONG), &[]));
    half.transmit(NOW);
    let _others = scarcity(&pool);
    let (_, sent) = pass(&mut half, (NOW, limits::SCARCE_DATA_TIME + limits::WATCH));
    assert_eq!(status(&sent), Status::DATA_TRANSFER_ERROR);
}

#[test]
fn a_pdu_that_stops_half_way_ends_the_connection_while_others_wait() {
    let pool = Pool::new(LIMIT);
    let mut half = io_queue(&pool);
    half.receive(NOW, &capsule(write(3, 4096), &[7; 4096])[..1000]);
    let _others = scarcity(&pool);
    pass(&mut half, (NOW, limits::SCARCE_DATA_TIME + limits::WATCH));
    let close = half.connection.poll_close();
    assert!(matches!(close, Some(CloseReason::TimedOut(_))), "{close:?}");
}

#[test]
fn log_pages_that_nobody_reads_count_in_bytes() {
    let pool = Pool::new(LIMIT);
    let mut half = discovery(&pool);
    for cid in 0..100 {
        half.receive(NOW, &page(cid, LONG));
    }
    assert!(!half.connection.wants_bytes());
    let held = pool.used();
    assert!((LONG as usize..LONG as usize + (32 << 10)).contains(&held), "{held} bytes are held: one page");
    // What is being sent still counts; what was sent does not.
    let mut send = Transmit::new(4 << 20, 512);
    half.connection.poll_transmit(NOW, &mut send);
    assert!(pool.used() >= LONG as usize && !half.connection.wants_bytes());
    half.connection.handle_transmitted(NOW, send.len());
    assert!(pool.used() < 32 << 10 && half.connection.wants_bytes());
}

#[test]
fn many_discovery_connections_share_the_limit() {
    let pool = Pool::new(LIMIT);
    let mut crowd = Vec::new();
    for _ in 0..100 {
        let mut half = discovery(&pool);
        half.receive(NOW, &page(1, LONG));
        half.receive(NOW, &page(2, LONG));
        crowd.push(half);
        assert!(pool.used() <= LIMIT + (1 << 20), "{} bytes are held by {}", pool.used(), crowd.len());
    }
    assert!(crowd.last_mut().is_some_and(|half| !half.connection.wants_bytes()), "the last one waits");
    assert!(small_write(&mut io_queue(&pool), 1));
}

/// A Keep Alive is read although no memory comes for the command before it, so that neither side gives the controller up; and silence counts as ever.
#[test]
fn a_controller_without_memory_is_kept_alive() {
    let pool = Pool::new(LIMIT);
    let mut half = discovery(&pool);
    let hostage: Vec<_> = std::iter::from_fn(|| pool.take(512)).collect();
    let alive = |cid: u16| {
        let mut entry = SubmissionQueueEntry::new(0x18, 0);
        entry.cid.set(cid);
        capsule(entry, &[])
    };
    let mut now = NOW;
    for cid in 0..60 {
        half.receive(now, &[page(cid, 4096), alive(cid + 100)].concat());
        let mut out;
        (now, out) = pass(&mut half, (now, limits::STARVED_TIME));
        half.receive(now, &[]);
        out.extend(half.transmit(now));
        assert_eq!(half.connection.poll_close(), None, "at {now:?}");
        let [page, alive] = [0, 24].map(|at| status(&out[at..at + 24]));
        assert_eq!((page, alive), (Status::COMMAND_INTERRUPTED, Status::SUCCESS), "at {now:?}");
    }
    drop(hostage);
    half.receive(now, &page(60, 4096));
    assert!(half.transmit(now).len() > 4096);
    pass(&mut half, (now, Duration::from_millis(u64::from(KATO)) + Duration::from_secs(2)));
    assert!(matches!(half.connection.poll_close(), Some(CloseReason::TimedOut(_))));
}

/// Reads of a discovery log page are parts of one image, also for hosts that see fewer subsystems than others.
#[test]
fn pieces_of_a_log_page_are_parts_of_one_image() {
    let pool = Pool::new(LIMIT);
    let whole = common::portal().with_log();
    let mut masked = common::portal();
    masked.subsystems.push(Arc::new(Subsystem {
        nqn: "nqn.secret".into(),
        hosts: Hosts::Listed(Vec::new()),
        ..(*masked.subsystems[0]).clone()
    }));
    let masked = masked.with_log();
    for (portal, records) in [(whole, 4), (masked, 4)] {
        let mut half = queue_on(Arc::new(portal), &pool, (0, nvme::DISCOVERY_NQN));
        let (mut places, mut sends) = (Vec::new(), Vec::new());
        for cid in 0..2 {
            half.receive(NOW, &page(cid, 4096));
            let mut send = Transmit::new(1 << 20, 512);
            half.connection.poll_transmit(NOW, &mut send);
            let data = send
                .segments()
                .iter()
                .map(|segment| send.bytes(segment))
                .find(|bytes| bytes.len() == 4096)
                .unwrap();
            assert_eq!(data[8], records, "records");
            places.push(data.as_ptr());
            half.connection.handle_transmitted(NOW, send.len());
            // Kept, so that its memory is not given out again.
            sends.push(send);
        }
        assert_eq!(places[0], places[1], "it was made anew");
    }
}

#[test]
fn who_reads_nothing_is_closed() {
    let pool = Pool::new(LIMIT);
    let mut half = io_queue(&pool);
    half.receive(NOW, &capsule(write(3, LONG), &[]));
    let mut send = Transmit::new(1 << 20, 512);
    half.connection.poll_transmit(NOW, &mut send);
    assert!(!send.is_empty());
    let end = NOW + limits::SEND_TIME + limits::WATCH;
    while let Some(due) = half.connection.poll_timeout().filter(|due| *due <= end) {
        half.connection.handle_timeout(due);
        if half.connection.poll_close().is_some() {
            break;
        }
    }
    let close = half.connection.poll_close();
    assert!(matches!(close, Some(CloseReason::TimedOut(_))), "{close:?}");
}

#[test]
fn who_reads_nothing_is_closed_sooner_while_others_wait() {
    let pool = Pool::new(LIMIT);
    let mut half = queue(&pool, (0, common::NQN));
    half.receive(NOW, &capsule(Property::get(0x1c, PropertySize::Four), &[]));
    let mut send = Transmit::new(1 << 20, 512);
    half.connection.poll_transmit(NOW, &mut send);
    assert!(!send.is_empty());
    let _others = scarcity(&pool);
    let mut now = NOW;
    while now < NOW + limits::SCARCE_SEND_TIME {
        assert_eq!(half.connection.poll_close(), None, "before its time");
        // It is alive: only its reading is amiss.
        half.receive(now, &capsule(SubmissionQueueEntry::new(0x18, 0), &[]));
        now = now + limits::WATCH;
        half.connection.handle_timeout(now);
    }
    let close = half.connection.poll_close();
    assert!(
        matches!(close, Some(CloseReason::TimedOut("the host does not read what is sent to it"))),
        "{close:?}"
    );
}

#[test]
fn data_in_a_capsule_does_not_take_the_place_of_what_waits() {
    let pool = Pool::new(LIMIT);
    let mut half = io_queue(&pool);
    let (mut others, mut later) = (Account::new(&pool), Account::new(&pool));
    // So many that a long one is more than an equal share, and passes nobody.
    let _idle: Vec<_> = (0..16).map(|_| Account::new(&pool)).collect();
    others.count(LIMIT - LIMIT / 8);
    half.receive(NOW, &capsule(write(3, LONG), &[]));
    assert!(later.take(LONG as usize).is_none());
    assert!(small_write(&mut half, 4));
    others.uncount(LONG as usize + (64 << 10));
    assert!(later.take(LONG as usize).is_none(), "it is the turn of the queue, which came first");
    half.connection.handle_timeout(NOW + limits::MEMORY_RETRY);
    let r2t = R2t::read_from_bytes(&half.transmit(NOW)).unwrap();
    assert_eq!(r2t.cccid.get(), 3);
}

/// Its stream may stay for seconds until what was sent last has gone.
#[test]
fn who_is_being_closed_no_longer_stands_in_line() {
    let pool = Pool::new(LIMIT);
    let mut half = io_queue(&pool);
    let mut others = Account::new(&pool);
    others.count(LIMIT - pool.used());
    half.receive(NOW, &capsule(write(3, LONG), &[]));
    assert!(others.is_wanted());
    half.connection.handle_input(NOW, controller::Input::Shutdown);
    assert_eq!(half.connection.poll_close(), Some(CloseReason::ShuttingDown));
    half.connection.handle_timeout(NOW + limits::MEMORY_RETRY);
    assert!(!others.is_wanted(), "what it waited for goes to nobody else");
}

/// Asking what a connection wants begins nothing: the one that is told of memory begins what waits for it.
#[test]
fn memory_that_comes_back_is_offered_when_the_connection_is_told() {
    let pool = Pool::new(LIMIT);
    let mut half = io_queue(&pool);
    let hostage: Vec<_> = std::iter::from_fn(|| pool.take(512)).collect();
    half.receive(NOW, &capsule(read(1, LONG), &[]));
    half.connection.handle_memory(NOW);
    assert!(half.connection.awaits_memory() && half.connection.poll_action().is_none());
    drop(hostage);
    assert!(half.connection.poll_action().is_none(), "it was not told");
    half.connection.handle_memory(NOW);
    assert!(matches!(half.connection.poll_action(), Some(Action::Submit(_))));
    assert!(!half.connection.awaits_memory());
}

#[test]
fn what_is_little_does_not_wait_behind_what_is_long() {
    let pool = Pool::new(LIMIT);
    let mut half = io_queue(&pool);
    let mut others = Account::new(&pool);
    others.count(LIMIT - LIMIT / 8);
    half.receive(NOW, &capsule(write(3, LONG), &[]));
    assert!(others.is_wanted() && half.transmit(NOW).is_empty());
    half.receive(NOW, &capsule(write(4, 4096), &[]));
    let r2t = R2t::read_from_bytes(&half.transmit(NOW)).unwrap();
    assert_eq!(r2t.cccid.get(), 4);
    assert!(others.is_wanted(), "the long one has kept its place");
    half.receive(NOW, &capsule(read(5, 4096), &[]));
    assert!(matches!(half.connection.poll_action(), Some(Action::Submit(_))));
    others.uncount(LIMIT / 2);
    half.connection.handle_timeout(NOW + limits::MEMORY_RETRY);
    let r2t = R2t::read_from_bytes(&half.transmit(NOW)).unwrap();
    assert_eq!(r2t.cccid.get(), 3);
}

/// Behind a long write that waits, the floor has room for one small command at a time: whenever one has ended, the oldest of those that it has room for begins.
#[test]
fn what_is_little_and_found_no_room_is_looked_at_again() {
    const LITTLE: u32 = 64 << 10;
    let pool = Pool::new(LIMIT);
    let mut half = io_queue(&pool);
    let mut others = Account::new(&pool);
    // The floor is the part of one in thirteen: 78 KiB.
    let _idle: Vec<_> = (0..11).map(|_| Account::new(&pool)).collect();
    others.count(LIMIT - LIMIT / 8);
    half.receive(NOW, &capsule(write(3, LONG), &[]));
    half.receive(NOW, &capsule(read(4, LITTLE), &[]));
    half.receive(NOW, &capsule(write(5, 2 * LITTLE), &[]));
    half.receive(NOW, &capsule(read(6, LITTLE), &[]));
    half.receive(NOW, &capsule(write(7, LITTLE), &[]));
    assert!(half.transmit(NOW).is_empty(), "the floor is taken");
    assert_eq!(end_only_read(&mut half).len(), 24, "nothing but its completion");
    let sent = end_only_read(&mut half);
    let r2t = R2t::read_from_bytes(&sent[24..]).unwrap();
    assert_eq!(r2t.cccid.get(), 7, "what is longer than the floor is passed");
    assert!(others.is_wanted(), "the long one has kept its place");
    others.uncount(LIMIT / 2);
    half.connection.handle_timeout(NOW + limits::MEMORY_RETRY);
    let sent = half.transmit(NOW);
    let asked: Vec<_> = sent.chunks(24).map(|r2t| R2t::read_from_bytes(r2t).unwrap().cccid.get()).collect();
    assert_eq!(asked, [3, 5], "in order");
}

/// Ends the only read that is at the volume, and gives what is sent then.
fn end_only_read(half: &mut Queue) -> Vec<u8> {
    let Some(Action::Submit(Submission { request, .. })) = half.connection.poll_action() else {
        panic!("no read has begun")
    };
    assert!(half.connection.poll_action().is_none(), "the floor has room for one");
    let done = Completion::failed(request.tag, VolumeErrorKind::Unsupported);
    drop(request.operation);
    half.connection.handle_input(NOW, controller::Input::Completion(done));
    half.transmit(NOW)
}
