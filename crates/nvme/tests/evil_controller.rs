//! Controllers that lie, flood or dally: a host stays bounded, returns nothing that it was not given, and gives up in time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;

use core::time::Duration;

use common::{Bench, Link};
use nvme::cqe::CompletionQueueEntry;
use nvme::host::{self, Action, Failure, Queue, RemoteNamespace};
use nvme::identify::IdentifyNamespace;
use nvme::limits::{ADMIN_TIME, ASKED_TIME, COMMAND_TIME, DISCOVERY_TIME};
use nvme::pdu::{C2hData, CapsuleCmd, CapsuleResp, Digests, H2cData, IcResp, R2t, flags};
use nvme::status::Status;
use protocol::pair::{Half, aperiodic};
use protocol::{CloseReason, Connection as _, Instant};
use volume::{Extent, Features, Operation, VolumeErrorKind};
use zerocopy::{FromBytes, IntoBytes};

const NOW: Instant = Instant::ZERO;

fn response(cid: u16, status: Status) -> Vec<u8> {
    CapsuleResp::new(CompletionQueueEntry::new(cid, 0, status)).as_bytes().to_vec()
}

fn c2h(cid: u16, offset: u32, data: &[u8], marks: u8) -> Vec<u8> {
    let mut pdu = C2hData::new(cid, offset, data.len() as u32);
    pdu.header.flags = marks;
    pdu.header.pdo = 24;
    pdu.header.plen.set(24 + data.len() as u32);
    [pdu.as_bytes(), data].concat()
}

/// A bench with one ready I/O queue, whose controller is from now on the test.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.session(1, 1, (false, false));
    bench
}

/// The command that the host sends for what was submitted: its identifier.
fn cid(link: &mut Link) -> u16 {
    let bytes = link.pair.near.transmit(NOW);
    let (capsule, _) = CapsuleCmd::read_from_prefix(&bytes).unwrap();
    capsule.entry.cid.get()
}

fn tell(link: &mut Link, bytes: &[u8]) {
    link.pair.near.receive(link.pair.now, bytes);
    while let Some(action) = link.pair.near.connection.poll_action() {
        link.events.push(action);
    }
}

fn closed(link: &Link) -> String {
    match link.pair.near.connection.poll_close() {
        Some(CloseReason::Violation(text) | CloseReason::Refused(text) | CloseReason::TimedOut(text)) => {
            text.to_owned()
        }
        other => format!("it goes on ({other:?})"),
    }
}

#[test]
fn r2ts_ask_in_order_for_nothing_twice_and_one_at_a_time() {
    const KIB: u32 = 1024;
    // Offset and length of each R2T for a write of 256 KiB, whether its data is sent before the next, and what it comes to.
    type Asked = (u32, u32, bool);
    let cases: &[(&[Asked], &str)] = &[
        (&[(0, 64 * KIB, true), (64 * KIB, 192 * KIB, true)], "it goes on"),
        (&[(0, 64 * KIB, false), (64 * KIB, 64 * KIB, false)], "transfers at once"),
        (&[(0, 64 * KIB, true), (0, 64 * KIB, true)], "outside the range"),
        (&[(0, 64 * KIB, true), (32 * KIB, 64 * KIB, true)], "outside the range"),
        (&[(64 * KIB, 64 * KIB, true)], "outside the range"),
        (&[(0, 257 * KIB, true)], "outside the range"),
        (&[(0, 0, true)], "outside the range"),
        (&[(0, u32::MAX, true)], "outside the range"),
    ];
    for (r2ts, said) in cases {
        let mut bench = bench();
        let link = &mut bench.links[1];
        link.write(1, 0, aperiodic(256 << 10, 1));
        let cid = cid(link);
        for (offset, length, sent) in *r2ts {
            tell(link, R2t::new(cid, 3, *offset, *length).as_bytes());
            if *sent {
                link.pair.near.transmit(NOW);
            }
        }
        assert!(closed(link).contains(said), "NVMe/TCP §3.6.2.9: {r2ts:?} came to: {}", closed(link));
    }
}

#[test]
fn a_flood_of_r2ts_is_ended_by_its_second() {
    let mut bench = bench();
    let link = &mut bench.links[1];
    link.write(1, 0, aperiodic(1 << 20, 1));
    let cid = cid(link);
    let flood = R2t::new(cid, 3, 0, 1 << 20).as_bytes().repeat(10_000);
    tell(link, &flood);
    assert!(closed(link).contains("transfers at once"));
    assert!(link.pair.near.transmit(NOW).len() < 1024, "nothing but the termination request is sent");
}

#[test]
fn a_write_is_not_done_before_its_data_was_sent() {
    // Before any R2T, after a part, and while a part is owed.
    for (asked, sent) in [(0, true), (64 << 10, true), (64 << 10, false), (256 << 10, false)] {
        let mut bench = bench();
        let link = &mut bench.links[1];
        link.write(1, 0, aperiodic(256 << 10, 2));
        let cid = cid(link);
        if asked > 0 {
            tell(link, R2t::new(cid, 3, 0, asked).as_bytes());
        }
        if sent {
            link.pair.near.transmit(NOW);
        }
        tell(link, &response(cid, Status::SUCCESS));
        let done = link.completions();
        assert_eq!(done.len(), 1);
        assert!(done[0].1.is_err(), "success after {asked} of 262144 bytes, sent: {sent}");
        assert_eq!(!closed(link).contains("it goes on"), !sent, "{}", closed(link));
    }
}

#[test]
fn a_command_that_fails_early_ends_when_what_was_asked_for_is_sent() {
    let mut bench = bench();
    let link = &mut bench.links[1];
    let bytes = aperiodic(256 << 10, 3);
    link.write(1, 0, bytes.clone());
    let cid = cid(link);
    tell(link, R2t::new(cid, 3, 0, 128 << 10).as_bytes());
    tell(link, &response(cid, Status::INTERNAL_ERROR));
    assert!(
        link.completions().is_empty(),
        "its data is still to be sent: the memory is not the caller's yet"
    );
    let sent = link.pair.near.transmit(NOW);
    let mut data = Vec::new();
    let mut rest = &sent[..];
    while let Ok((pdu, _)) = H2cData::read_from_prefix(rest) {
        let (start, whole) = (usize::from(pdu.header.pdo), pdu.header.plen.get() as usize);
        data.extend_from_slice(&rest[start..whole]);
        rest = &rest[whole..];
    }
    assert!(data == bytes[..128 << 10]);
    tell(link, &[]);
    let done = link.completions();
    assert!(matches!(&done[..], [(1, Err(_))]), "{done:?}");
    // It cannot end twice, and can ask for nothing more.
    tell(link, &response(cid, Status::INTERNAL_ERROR));
    assert!(!closed(link).contains("it goes on"));
}

#[test]
fn a_command_that_fails_early_and_is_never_read_is_given_up() {
    let mut bench = bench();
    let link = &mut bench.links[1];
    link.write(1, 0, aperiodic(256 << 10, 3));
    let cid = cid(link);
    tell(link, R2t::new(cid, 3, 0, 128 << 10).as_bytes());
    tell(link, &response(cid, Status::INTERNAL_ERROR));
    while link.pair.near.connection.poll_close().is_none() {
        let due = link.pair.near.connection.poll_timeout().unwrap();
        assert!(due <= NOW + COMMAND_TIME, "its time is a command's");
        link.pair.near.connection.handle_timeout(due);
    }
    tell(link, &[]);
    assert!(link.completions()[0].1.is_err());
}

/// A controller that has no memory for data which comes in a capsule cannot always let it wait, and then has forgotten the command.
#[test]
fn data_waits_for_r2ts_once_the_controller_had_no_memory_for_capsules() {
    const LENGTH: usize = 4096;
    // The identifier of the command that is sent for a write now, and whether its data comes in its capsule.
    fn sent(link: &mut Link) -> (u16, bool) {
        link.write(1, 0, aperiodic(LENGTH, 4));
        let bytes = link.pair.near.transmit(NOW);
        let (capsule, data) = CapsuleCmd::read_from_prefix(&bytes).unwrap();
        (capsule.entry.cid.get(), data.len() == LENGTH)
    }
    fn serve(link: &mut Link, cid: u16) {
        tell(link, R2t::new(cid, 3, 0, LENGTH as u32).as_bytes());
        link.pair.near.transmit(NOW);
        tell(link, &response(cid, Status::SUCCESS));
        assert!(link.completions()[0].1.is_ok());
    }
    let mut bench = bench();
    let link = &mut bench.links[1];
    for (status, asked) in [
        (Status::SUCCESS, false),
        (Status::NAMESPACE_NOT_READY, false),
        (Status::COMMAND_INTERRUPTED.dnr(), false),
        (Status::COMMAND_INTERRUPTED, true),
    ] {
        let (cid, in_capsule) = sent(link);
        assert!(in_capsule);
        tell(link, &response(cid, status));
        assert_eq!(link.completions().len(), 1);
        if !asked {
            continue;
        }
        let (cid, in_capsule) = sent(link);
        assert!(!in_capsule);
        serve(link, cid);
    }
    link.pair.now = link.pair.now + ASKED_TIME;
    let (cid, _) = sent(link);
    serve(link, cid);
    assert!(sent(link).1, "what the controller offers holds again");
}

#[test]
fn an_answer_to_what_was_not_sent_is_none() {
    let answers: [fn(u16) -> Vec<u8>; 3] = [
        |cid| response(cid, Status::SUCCESS),
        |cid| c2h(cid, 0, &[7; 4096], flags::LAST | flags::SUCCESS),
        |cid| R2t::new(cid, 1, 0, 4096).as_bytes().to_vec(),
    ];
    for (index, answer) in answers.iter().enumerate() {
        let mut bench = bench();
        let link = &mut bench.links[1];
        link.read(1, 0, 4096);
        let first = cid(link);
        if index == 2 {
            link.write(2, 0, aperiodic(16 << 10, 4));
        } else {
            link.read(2, 0, 4096);
        }
        tell(link, &answer(first + 1));
        assert!(closed(link).contains("data for a command that expects none"), "{}", closed(link));
        assert!(link.completions().iter().all(|(_, result)| result.is_err()));
    }
}

#[test]
fn events_are_answered_as_fast_as_they_are_read_and_no_faster() {
    let mut bench = Bench::new();
    bench.session(1, 1, (false, false));
    let link = &mut bench.links[0];
    // The event request that waits: some identifier of the admin queue.
    let flood: Vec<u8> = (0..32).flat_map(|cid| response(cid, Status::SUCCESS)).collect();
    for _ in 0..1000 {
        tell(link, &flood);
    }
    assert!(
        closed(link).contains("expects none"),
        "an answer to an event request that was not sent: {}",
        closed(link)
    );
    assert!(link.pair.near.transmit(NOW).len() < 64 << 10);
}

#[test]
fn a_read_that_is_not_whole_is_an_error_and_never_old_memory() {
    // What comes for a read of 8 KiB: pieces of offset, bytes, flags; then a response if the last piece is none.
    type Piece = (u32, usize, u8);
    let both = flags::LAST | flags::SUCCESS;
    let data = aperiodic(16384, 5);
    let lies: &[(&[Piece], bool)] = &[
        (&[], true),
        (&[(0, 4096, both)], false),
        (&[(0, 4096, flags::LAST)], true),
        (&[(0, 4096, 0)], true),
        (&[(4096, 4096, both)], false),
        (&[(0, 4096, 0), (0, 4096, both)], false),
        (&[(0, 8704, both)], false),
        (&[(0, 4096, 0), (8192, 4096, both)], false),
        (&[(0, 0, both)], false),
        (&[(0, 8192, flags::SUCCESS)], false),
    ];
    for (pieces, answered) in lies {
        let mut bench = bench();
        let link = &mut bench.links[1];
        link.read(1, 0, 8192);
        let cid = cid(link);
        for (offset, len, marks) in *pieces {
            tell(link, &c2h(cid, *offset, &data[..*len], *marks));
        }
        if *answered {
            tell(link, &response(cid, Status::SUCCESS));
        }
        let done = link.completions();
        assert!(matches!(&done[..], [(1, Err(_))]), "NVMe/TCP §3.6.2.10: {pieces:?} came to {done:?}");
    }
    let mut bench = bench();
    let link = &mut bench.links[1];
    link.read(1, 0, 8192);
    let cid = cid(link);
    tell(link, &c2h(cid, 0, &data[..4096], 0));
    tell(link, &c2h(cid, 4096, &data[4096..8192], both));
    assert!(link.completions()[0].1.as_ref().unwrap() == &data[..8192]);
    // DATAL is what follows the header, or nobody knows where the next one begins.
    for told in [0, 256, 1024, u32::MAX] {
        let mut bench = self::bench();
        let link = &mut bench.links[1];
        link.read(1, 0, 8192);
        let cid = self::cid(link);
        let mut pdu = c2h(cid, 0, &data[..512], 0);
        pdu[16..20].copy_from_slice(&told.to_le_bytes());
        tell(link, &pdu);
        assert!(!closed(link).contains("it goes on"), "512 bytes that are told as {told}");
    }
    // Data after the end belongs to no command.
    tell(link, &c2h(cid, 0, &data[..4096], 0));
    assert!(!closed(link).contains("it goes on"));
}

#[test]
fn pdus_that_claim_much_are_refused_by_their_header() {
    for plen in [24 + 8192 + 4, 16 << 20, u32::MAX] {
        let mut bench = bench();
        let link = &mut bench.links[1];
        link.read(1, 0, 8192);
        let cid = cid(link);
        let mut pdu = C2hData::new(cid, 0, plen - 24);
        pdu.header.pdo = 24;
        pdu.header.plen.set(plen);
        tell(link, pdu.as_bytes());
        assert!(!closed(link).contains("it goes on"), "{plen}");
    }
}

#[test]
fn half_a_pdu_and_other_answers_do_not_make_up_for_a_command() {
    let mut bench = bench();
    let link = &mut bench.links[1];
    link.read(1, 0, 4096);
    let first = cid(link);
    // Other reads are answered all the time; in the end half a header comes.
    let mut now = NOW;
    let mut ended = None;
    while ended.is_none() && now < NOW + 2 * COMMAND_TIME {
        now = now + Duration::from_secs(1);
        link.pair.now = now;
        link.read(2, 0, 512);
        let bytes = link.pair.near.transmit(now);
        if let Ok((capsule, _)) = CapsuleCmd::read_from_prefix(&bytes) {
            tell(link, &c2h(capsule.entry.cid.get(), 0, &[1; 512], flags::LAST | flags::SUCCESS));
        }
        if link.pair.near.connection.poll_timeout().is_some_and(|due| due <= now) {
            link.pair.near.connection.handle_timeout(now);
        }
        tell(link, &[]);
        ended = link.completions().into_iter().find(|(tag, _)| *tag == 1);
    }
    assert_eq!(ended.unwrap().1.unwrap_err(), VolumeErrorKind::TimedOut);
    assert!(
        now.since(NOW) <= COMMAND_TIME + Duration::from_secs(1),
        "command {first} took {:?}",
        now.since(NOW)
    );
}

#[test]
fn a_digest_that_is_required_cannot_be_left_out() {
    for (header, data) in [(true, false), (false, true), (true, true)] {
        for (grants_header, grants_data) in [(false, false), (true, false), (false, true), (true, true)] {
            for queue in [Queue::Discovery, Queue::Admin { nsid: 1, queues: 1, kato: 0 }] {
                let mut config = common::config(queue);
                (config.header_digest, config.data_digest) = (header, data);
                let mut half = Half::new(host::Connection::new(config, NOW));
                half.transmit(NOW);
                half.receive(
                    NOW,
                    IcResp::new(Digests { header: grants_header, data: grants_data }, 8192).as_bytes(),
                );
                let failed =
                    core::iter::from_fn(|| half.connection.poll_action()).find_map(|action| match action {
                        Action::Failed(Failure::Unusable(text)) => Some(text),
                        _ => None,
                    });
                let enough = (!header || grants_header) && (!data || grants_data);
                assert_eq!(
                    failed.is_none(),
                    enough,
                    "{header} {data} required, {grants_header} {grants_data} granted"
                );
                assert!(failed.is_none_or(|text| text.contains("requires")));
                assert_eq!(half.transmit(NOW).is_empty(), !enough, "nothing is sent without them");
            }
        }
    }
}

/// The set-up of a namespace, whose Identify Namespace is what `change` makes of it.
fn identified(change: impl Fn(&mut [u8])) -> Vec<Action> {
    let mut bench = Bench::new();
    let near = host::Connection::new(common::admin(1), NOW);
    let far =
        nvme::controller::Connection::new(std::sync::Arc::clone(&bench.portal), bench.pool.clone(), NOW);
    bench.links.push(Link { pair: protocol::pair::Pair::new(near, far), events: Vec::new() });
    for _ in 0..40 {
        let pair = &mut bench.links[0].pair;
        let out = pair.near.transmit(NOW);
        let namespace = CapsuleCmd::read_from_prefix(&out)
            .is_ok_and(|(pdu, _)| pdu.header.kind.0 == 4 && pdu.entry.opcode == 6 && out[8 + 40] == 0);
        pair.far.receive(NOW, &out);
        while let Some(action) = bench.links[0].pair.far.connection.poll_action() {
            if let nvme::controller::Action::Group(request) = action {
                use protocol::{Group as _, GroupMessage};
                bench.group.handle_message(NOW, 0, request);
                while let Some(GroupMessage { to, message: reply }) = bench.group.poll_message() {
                    bench.input(to, nvme::controller::Input::Group(reply));
                }
            }
        }
        let link = &mut bench.links[0];
        let mut back = link.pair.far.transmit(NOW);
        if namespace {
            change(&mut back[24..]);
        }
        tell(link, &back);
    }
    std::mem::take(&mut bench.links[0].events)
}

/// NVM Command Set §4.1.5.1: whoever promises zeros needs to know that deallocated blocks read as zeros.
#[test]
fn a_namespace_whose_deallocated_blocks_do_not_read_as_zeros_offers_no_discard() {
    const DLFEAT: usize = 33;
    for (reads, zeros) in [(0, false), (1, true), (2, false)] {
        let found = identified(|data| data[DLFEAT] = data[DLFEAT] & !7 | reads);
        let [Action::Ready(remote)] = &found[..] else { panic!("{found:?}") };
        let offers = remote.features.contains(Features::DISCARD);
        assert_eq!((offers, remote.discards), (zeros, true), "DLFEAT {reads}");
    }
}

#[test]
fn absurd_sizes_and_formats_are_no_namespace() {
    let honest = identified(|_| {});
    assert!(matches!(&honest[..], [Action::Ready(_)]), "{honest:?}");
    let size: fn(&mut [u8]) = |data| data[..8].fill(0xff);
    let none: fn(&mut [u8]) = |data| data[..8].fill(0);
    let format: fn(&mut [u8]) = |data| data[128..192].fill(0xff);
    for change in [size, none, format] {
        let found = identified(change);
        assert!(matches!(&found[..], [Action::Failed(Failure::Unusable(_))]), "{found:?}");
    }
    let _shape = size_of::<IdentifyNamespace>();
}

#[test]
fn a_discovery_that_dallies_ends() {
    let mut config = common::config(Queue::Discovery);
    config.header_digest = false;
    let mut half = Half::new(host::Connection::new(config, NOW));
    half.transmit(NOW);
    half.receive(NOW, IcResp::new(Digests::NONE, 8192).as_bytes());
    let mut now = NOW;
    while half.connection.poll_close().is_none() && now < NOW + 3 * DISCOVERY_TIME {
        let out = half.transmit(now);
        now = now + ADMIN_TIME / 12;
        // Each command is answered in time: properties with what gets the set-up on, log pages with one that never ends.
        if let Ok((capsule, _)) = CapsuleCmd::read_from_prefix(&out) {
            let cid = capsule.entry.cid.get();
            if capsule.entry.opcode == 2 {
                let length =
                    4 * (u32::from_le_bytes(out[8 + 40..8 + 44].try_into().unwrap()) >> 16) as usize + 4;
                let mut page = vec![0; length];
                if length <= 1024 {
                    page[8..16].copy_from_slice(&4000_u64.to_le_bytes());
                }
                half.receive(now, &c2h(cid, 0, &page, flags::LAST | flags::SUCCESS));
            } else {
                // CAP with a queue, and CSTS ready.
                let mut entry = CompletionQueueEntry::new(cid, 0, Status::SUCCESS);
                entry.as_mut_bytes()[..8].copy_from_slice(&0x0000_0001_0000_001f_u64.to_le_bytes());
                half.receive(now, CapsuleResp::new(entry).as_bytes());
            }
        }
        if half.connection.poll_timeout().is_some_and(|due| due <= now) {
            half.connection.handle_timeout(now);
        }
        while half.connection.poll_action().is_some() {}
    }
    assert!(matches!(half.connection.poll_close(), Some(CloseReason::TimedOut(_))), "{:?}", half.connection);
    assert!(now.since(NOW) <= DISCOVERY_TIME + ADMIN_TIME / 12, "it took {:?}", now.since(NOW));
}

/// Each PDU's header and data of one exchange is damaged in turn; nothing damaged is stored or returned.
#[test]
fn damage_of_every_pdu_in_each_direction_and_size_is_found() {
    for len in [512, 1024, 1536, 4096, 8192, 8704, 16384, 65536, 300 << 10, 1 << 20] {
        for writes in [true, false] {
            let mut nth = 0;
            while damaged(len, writes, nth) {
                nth += 1;
            }
            assert!(nth >= 2, "there was nothing to damage");
        }
    }
}

/// Carries out one request, flipping a bit of the `nth` place that may be damaged: header, then data of each PDU both ways. False
/// when there is no such place.
fn damaged(len: usize, writes: bool, nth: usize) -> bool {
    let mut bench = Bench::new();
    bench.session(1, 1, (true, true));
    let bytes = aperiodic(len, 9 + nth as u64);
    if writes {
        bench.links[1].write(1, 0, bytes.clone());
    } else {
        bench.disks[0][..len].copy_from_slice(&bytes);
        bench.links[1].read(1, 0, len);
    }
    let (mut seen, mut hit) = (0, false);
    for _ in 0..20 {
        let mut out = bench.links[1].pair.near.transmit(NOW);
        hit |= flip(&mut out, &mut seen, nth);
        bench.links[1].pair.far.receive(NOW, &out);
        bench.act(1);
        let mut back = bench.links[1].pair.far.transmit(NOW);
        hit |= flip(&mut back, &mut seen, nth);
        tell(&mut bench.links[1], &back);
    }
    let far = bench.links[1].pair.far.connection.poll_close().is_some();
    let link = &mut bench.links[1];
    let ended = far || !closed(link).contains("it goes on");
    let done = link.completions();
    if hit {
        let failed = done.iter().any(|(_, result)| result.is_err());
        assert!(ended || failed, "NVMe/TCP §3.5.1: nobody found the damage of place {nth} of {len} bytes");
        let stored = bench.disks[0][..len].chunks(512).zip(bytes.chunks(512));
        for (part, whole) in stored {
            assert!(
                part == whole || part.iter().all(|byte| *byte == 0),
                "stored damage: {nth} of {len} bytes"
            );
        }
        for (_, result) in &done {
            assert!(
                result.as_ref().map_or(true, |data| writes || *data == bytes),
                "returned damage: {nth} of {len}"
            );
        }
    } else {
        assert!(matches!(&done[..], [(1, Ok(_))]), "{done:?}");
    }
    hit
}

/// Flips a bit in the `nth` place: places are counted over all sends, a header and its data being one each.
fn flip(bytes: &mut [u8], seen: &mut usize, nth: usize) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        let (hlen, pdo) = (usize::from(bytes[at + 2]), usize::from(bytes[at + 3]));
        let plen = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        let data = plen > hlen + 4 && pdo != 0;
        // A byte of the command or of the tag; and the last byte of the data, before its digest.
        let places = [(hlen > 8).then_some(at + 9), data.then_some(at + plen.max(5) - 5)];
        for place in places.into_iter().flatten() {
            if *seen == nth {
                bytes[place] ^= 0x10;
                *seen += 1;
                return true;
            }
            *seen += 1;
        }
        at += plen;
    }
    false
}

/// A host's I/O queue whose controller takes so many bytes in one PDU (MAXH2CDATA).
fn queue_of_a_controller_that_takes(most: u32) -> Link {
    let mut bench = Bench::new();
    let remote = bench.session(1, 1, (false, false));
    let mut link = bench.links.remove(1);
    link.pair.near = Half::new(host::Connection::new(common::io(1, &remote), NOW));
    link.pair.near.transmit(NOW);
    tell(&mut link, IcResp::new(Digests::NONE, most).as_bytes());
    let connect = cid(&mut link);
    tell(&mut link, &response(connect, Status::SUCCESS));
    assert!(matches!(link.events.pop(), Some(Action::QueueReady)));
    link
}

/// NVMe/TCP §3.6.2.4, §3.6.2.9: whatever a controller asks for comes from its own place, in PDUs as short as it wants them.
#[test]
fn every_byte_is_asked_for_once_and_sent_once() {
    const KIB: u32 = 1024;
    let bytes = aperiodic(256 << 10, 6);
    for most in [4 * KIB, 64 * KIB, 1024 * KIB] {
        let mut link = queue_of_a_controller_that_takes(most);
        link.write(1, 0, bytes.clone());
        let cid = cid(&mut link);
        let mut stored = vec![0; bytes.len()];
        for (offset, length) in [(0, 64 * KIB), (64 * KIB, 32 * KIB), (96 * KIB, 160 * KIB)] {
            tell(&mut link, R2t::new(cid, 3, offset, length).as_bytes());
            let sent = link.pair.near.transmit(NOW);
            let (mut rest, mut next) = (&sent[..], offset);
            while let Ok((pdu, _)) = H2cData::read_from_prefix(rest) {
                let (start, whole) = (usize::from(pdu.header.pdo), pdu.header.plen.get() as usize);
                let at = pdu.datao.get();
                assert!(at == next && pdu.datal.get() <= most, "{pdu:?} is not the next of at most {most}");
                next += pdu.datal.get();
                assert_eq!(pdu.header.flags & flags::LAST != 0, next == offset + length);
                stored[at as usize..next as usize].copy_from_slice(&rest[start..whole]);
                rest = &rest[whole..];
            }
            assert_eq!((next, rest), (offset + length, &[][..]), "what was asked for, and no more");
        }
        assert!(stored == bytes, "of PDUs of {most} bytes at most");
        tell(&mut link, &response(cid, Status::SUCCESS));
        assert!(matches!(&link.completions()[..], [(1, Ok(_))]));
    }
}

/// Data that the caller never sees is checked like all other: blocks that are read to verify them, and reservations.
#[test]
fn damage_of_data_that_is_looked_at_here_is_found() {
    for damage in [false, true] {
        let verify = || Operation::Verify { extent: Extent::new(0, 16) };
        let operations: [&dyn Fn() -> Operation; 2] = [&verify, &|| Operation::ReadReservations];
        for operation in operations {
            let mut bench = Bench::new();
            let remote = bench.session(1, 0, (true, true));
            let mut config = common::io(1, &RemoteNamespace { verifies: false, ..remote });
            (config.header_digest, config.data_digest) = (true, true);
            let index = bench.connect(config);
            bench.run();
            let what = format!("{:?}", operation());
            bench.links[index].submit(1, operation());
            let out = bench.links[index].pair.near.transmit(NOW);
            bench.links[index].pair.far.receive(NOW, &out);
            bench.act(index);
            let mut back = bench.links[index].pair.far.transmit(NOW);
            // The first place is the header, the second the data that follows it.
            assert!(!damage || flip(&mut back, &mut 0, 1));
            tell(&mut bench.links[index], &back);
            let done = bench.links[index].completions();
            let [(1, result)] = &done[..] else { panic!("{what} has not ended: {done:?}") };
            assert_eq!(result.is_err(), damage, "{what}: {result:?}");
        }
    }
}

/// NVM Command Set §4.1.5.1: NPDG says something only where NSFEAT says so.
#[test]
fn a_granularity_counts_only_where_it_is_given() {
    const NSFEAT: usize = 24;
    const NPDG: std::ops::Range<usize> = 68..70;
    const PREFERRED: u8 = 1 << 4;
    for (others, given) in [(0, false), (0, true), (1, false), (1, true)] {
        let found = identified(|data| {
            data[NSFEAT] = others | (u8::from(given) * PREFERRED);
            data[NPDG].copy_from_slice(&[7, 0]);
        });
        let [Action::Ready(remote)] = &found[..] else { panic!("{found:?}") };
        let granularity = remote.limits.discard_granularity;
        assert_eq!(granularity, if given { 8 } else { 1 }, "NSFEAT {others}, given: {given}");
    }
}
