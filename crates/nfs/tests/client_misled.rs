//! A client whose server lies, is slow, or is none: what it does is bounded, and no request succeeds that was not carried out.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client_world;
mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use client_world::{
    Kept, Record, World, at, config, each_record, ends, fail_at, filled, is_answer, memory_with_file,
    read_four, replace, set_word, word,
};
use volume::{Durability, Extent, Outcome, Tag, VolumeErrorKind};

const BIND: u32 = 41;
const GETATTR: u32 = 9;
const FREE: u32 = 45;
const READ: u32 = 25;
const SEQUENCE: u32 = 53;
const WRITE: u32 = 38;
const SIZE: u64 = 64 << 10;
const CACHED: Durability = Durability::Cached;

/// A world that is misled from now on; how often.
fn misled(change: impl FnMut(&mut Record) -> bool + 'static) -> (World, Rc<Cell<usize>>) {
    client_world::misled(World::new(SIZE), change)
}

#[test]
fn a_short_read_is_gone_on_with() {
    let (mut world, count) = misled(|record| {
        let Some(length) = word(record, at::SECOND).filter(|_| is_answer(record, READ)) else { return false };
        if length <= 512 {
            return false;
        }
        set_word(record, at::FIRST, 0);
        set_word(record, at::SECOND, 512);
        record.truncate(at::DATA + 512);
        true
    });
    read_four(&mut world);
    let data = world.data(10);
    for (content, byte) in data.chunks(512).zip(1..) {
        assert!(content.iter().all(|read| *read == byte), "block {byte}");
    }
    assert_eq!((data.len(), count.get()), (2048, 3));
}

#[test]
fn a_read_that_ends_with_the_file_is_out_of_range() {
    let (mut world, _) = misled(|record| {
        let hits = is_answer(record, READ);
        if hits {
            set_word(record, at::FIRST, 1);
            set_word(record, at::SECOND, 512);
            record.truncate(at::DATA + 512);
        }
        hits
    });
    read_four(&mut world);
    assert!(matches!(world.outcome(10), Err(VolumeErrorKind::OutOfRange)));
    assert!(world.is_connected());
}

#[test]
fn a_read_of_nothing_for_ever_ends_the_connection() {
    let (mut world, _) = misled(|record| {
        let hits = is_answer(record, READ);
        if hits {
            set_word(record, at::FIRST, 0);
            set_word(record, at::SECOND, 0);
            record.truncate(at::DATA);
        }
        hits
    });
    read_four(&mut world);
    ends(&world, "READ gives nothing");
}

#[test]
fn a_read_of_more_than_was_asked_for_ends_the_connection() {
    let (mut world, _) = misled(|record| {
        let hits = is_answer(record, READ);
        if hits {
            set_word(record, at::SECOND, 4096);
            record.resize(at::DATA + 4096, 9);
        }
        hits
    });
    read_four(&mut world);
    ends(&world, "above its maximum");
}

#[test]
fn a_payload_that_ends_too_early_ends_the_connection() {
    let (mut world, _) = misled(|record| {
        let hits = is_answer(record, READ);
        if hits {
            record.truncate(at::DATA + 100);
        }
        hits
    });
    read_four(&mut world);
    ends(&world, "breaks the protocol");
}

#[test]
fn an_answer_for_another_slot_session_or_sequence_ends_the_connection() {
    for (place, value) in
        [(at::SLOT, 7), (at::SLOT, u32::MAX), (at::SEQUENCE, 99), (at::SESSION, 0x0102_0304)]
    {
        let (mut world, _) = misled(move |record| {
            let hits = is_answer(record, READ);
            if hits {
                set_word(record, place, value);
            }
            hits
        });
        read_four(&mut world);
        ends(&world, "another slot or session");
    }
}

#[test]
fn a_write_of_nothing_of_too_much_or_less_durable_ends_the_connection() {
    for (place, value, durability) in [
        (at::FIRST, 0, CACHED),
        (at::FIRST, 513, CACHED),
        (at::FIRST, u32::MAX, CACHED),
        (at::SECOND, 0, Durability::Durable),
        (at::SECOND, 1, Durability::Durable),
        (at::SECOND, 3, CACHED),
    ] {
        let (mut world, _) = misled(move |record| {
            let hits = is_answer(record, WRITE);
            if hits {
                set_word(record, place, value);
            }
            hits
        });
        world.submit(10, Kept::Write(Extent::new(9, 1), filled(1, 1), durability));
        ends(&world, "breaks the protocol: a WRITE");
    }
}

#[test]
fn a_short_write_is_gone_on_with() {
    let (mut world, count) = misled(|record| {
        let hits = is_answer(record, WRITE) && word(record, at::FIRST) > Some(512);
        if hits {
            set_word(record, at::FIRST, 512);
        }
        hits
    });
    world.submit(10, Kept::Write(Extent::new(9, 3), filled(3, 1), CACHED));
    assert!(matches!(world.outcome(10), Ok(Outcome::Done)));
    assert_eq!(count.get(), 2);
}

#[test]
fn a_record_without_bounds_ends_the_connection() {
    let (mut world, _) = misled(|_| false);
    world.tamper = Some(Box::new(|bytes| {
        if let Some(mark) = bytes.first_chunk_mut::<4>() {
            *mark = [0xff; 4];
        }
    }));
    read_four(&mut world);
    assert!(!world.is_connected() && world.done.is_empty());
}

#[test]
fn an_answer_to_no_call_is_passed_over() {
    let (mut world, _) = misled(|_| false);
    world.tamper = Some(Box::new(|bytes| {
        let mut twice = Vec::new();
        each_record(bytes, |record| {
            for xid in [0xdead_beef, word(record, 0).unwrap()] {
                let mut copy = record.clone();
                set_word(&mut copy, 0, xid);
                twice.extend((u32::try_from(copy.len()).unwrap() | 1 << 31).to_be_bytes());
                twice.extend(copy);
            }
        });
        *bytes = twice;
    }));
    read_four(&mut world);
    assert_eq!(world.data(10).len(), 2048);
}

/// What each status of the operation does to a read and to a write.
#[test]
fn statuses_of_operations() {
    for (status, read, write) in [
        (5, VolumeErrorKind::Media, VolumeErrorKind::Media),
        (28, VolumeErrorKind::NoSpace, VolumeErrorKind::NoSpace),
        (30, VolumeErrorKind::Media, VolumeErrorKind::ReadOnly),
        (13, VolumeErrorKind::Media, VolumeErrorKind::ReadOnly),
        (10_012, VolumeErrorKind::ReservationConflict, VolumeErrorKind::ReservationConflict),
    ] {
        for (operation, expected) in [(READ, read), (WRITE, write)] {
            let (mut world, _) = misled(move |record| {
                let hits = is_answer(record, operation);
                if hits {
                    fail_at(record, at::OPERATION_STATUS, 3, status);
                }
                hits
            });
            let request = if operation == READ {
                Kept::Read(Extent::new(0, 1))
            } else {
                Kept::Write(Extent::new(0, 1), filled(1, 1), CACHED)
            };
            world.submit(10, request);
            assert_eq!(world.outcome(10).unwrap_err(), expected, "{status}");
            assert!(world.is_connected());
        }
    }
}

/// A server that is busy has done nothing: whoever asks does so again.
#[test]
fn a_busy_server_may_be_asked_again() {
    let busy = Rc::new(Cell::new(3));
    let (mut world, count) = misled(move |record| {
        let hits = is_answer(record, READ) && busy.get() > 0;
        if hits {
            busy.set(busy.get() - 1);
            fail_at(record, at::OPERATION_STATUS, 3, 10_008);
        }
        hits
    });
    for _ in 0..4 {
        assert!(world.done.is_empty());
        read_four(&mut world);
    }
    assert_eq!((world.data(10).len(), count.get()), (2048, 3));
}

/// State that is lost is told by flags, and by statuses: the next connection opens the file anew, and the request is made.
#[test]
fn a_server_that_has_forgotten_is_asked_anew() {
    for (flags, status) in [(0x100, None), (0x08, None), (0, Some(10_025)), (0, Some(10_011)), (0, Some(70))]
    {
        let lies = Rc::new(Cell::new(true));
        let once = Rc::clone(&lies);
        let (mut world, _) = misled(move |record| {
            let hits = is_answer(record, READ) && once.get();
            if hits {
                once.set(false);
                match status {
                    Some(status) => fail_at(record, at::OPERATION_STATUS, 3, status),
                    None => set_word(record, at::FLAGS, flags),
                }
            }
            hits
        });
        read_four(&mut world);
        assert!(!world.is_connected() && world.done.is_empty() && !lies.get());
        world.connect(None);
        assert_eq!(world.ready.len(), 2, "{:?}", world.failures);
        world.resubmit();
        assert_eq!(world.data(10).len(), 2048);
    }
}

/// The session is gone at the server: a new one is made, and the old one is not left there.
#[test]
fn a_session_that_is_gone_is_made_anew() {
    let once = Rc::new(Cell::new(true));
    let (mut world, _) = misled(move |record| {
        let hits = is_answer(record, READ) && once.replace(false);
        if hits {
            fail_at(record, at::SEQUENCE_STATUS, 1, 10_052);
        }
        hits
    });
    let bytes = world.bench.group.bytes();
    read_four(&mut world);
    ends(&world, "BADSESSION");
    world.connect(None);
    world.resubmit();
    assert_eq!(world.data(10).len(), 2048);
    assert_eq!(world.bench.group.bytes(), bytes, "the old one is destroyed");
}

/// A server that has revoked what was open says so with each answer until that is acknowledged by FREE_STATEID (RFC 8881 §18.46.3).
#[test]
fn revoked_state_is_acknowledged() {
    let revoked = Rc::new(Cell::new(true));
    let (mut world, _) = misled(move |record| {
        let sequence = word(record, at::FIRST_OPERATION) == Some(SEQUENCE)
            && word(record, at::SEQUENCE_STATUS) == Some(0);
        if sequence && word(record, at::SECOND_OPERATION) == Some(FREE) {
            revoked.set(false);
        }
        let hits = sequence && revoked.get();
        if hits {
            set_word(record, at::FLAGS, 0x20);
        }
        hits
    });
    read_four(&mut world);
    ends(&world, "lease of this client");
    world.connect(None);
    assert_eq!(world.ready.len(), 2, "{:?}", world.failures);
    world.resubmit();
    assert_eq!(world.data(10).len(), 2048);
}

/// A server that does not take a new connection into the session may still carry out what the session has: it is destroyed first.
#[test]
fn a_session_that_takes_no_new_connection_is_destroyed() {
    let (mut world, count) = misled(|record| {
        let hits = word(record, at::FIRST_OPERATION) == Some(BIND);
        if hits {
            fail_at(record, at::SEQUENCE_STATUS, 1, 22);
        }
        hits
    });
    let bytes = world.bench.group.bytes();
    world.end();
    world.connect(None);
    assert_eq!((world.ready.len(), count.get()), (2, 1), "{:?}", world.failures);
    assert_eq!(world.bench.group.bytes(), bytes, "the old one is destroyed");
    read_four(&mut world);
    assert_eq!(world.data(10).len(), 2048);
}

/// A server that wants one slot to be used, of many, gets one request at a time.
#[test]
fn one_slot_is_enough() {
    let (mut world, _) = misled(|record| {
        let hits = word(record, at::FIRST_OPERATION) == Some(SEQUENCE);
        if hits {
            set_word(record, at::TARGET, 0);
        }
        hits
    });
    for block in 0..4 {
        world.submit(10 + block, Kept::Read(Extent::new(block, 1)));
    }
    for block in 0..4 {
        assert_eq!(world.data(10 + block).len(), 512);
    }
}

/// What a request asks for may take any number of COMPOUNDs, as long as each of them does what it is to.
#[test]
fn a_long_request_is_no_short_answer() {
    let size = 4100 * (64 << 10);
    let mut world = World::new(size);
    world.connect(None);
    world.submit(1, Kept::Verify(Extent::new(0, size / 512)));
    assert!(matches!(world.outcome(1), Ok(Outcome::Done)));
    assert!(world.bench.requests["read"] >= 4100);
}

/// Makes an answer tell that a file of `size` bytes has one block; true if it told of such a file.
fn tells_one_block(record: &mut Record, size: u64) -> bool {
    is_answer(record, GETATTR)
        && replace(&mut record[at::FIRST..], &size.to_be_bytes(), &512_u64.to_be_bytes()) > 0
}

#[test]
fn a_file_that_does_not_grow_is_no_volume() {
    let mut world = World::new(SIZE);
    world.tamper = Some(Box::new(|bytes| {
        each_record(bytes, |record| {
            tells_one_block(record, SIZE);
        });
    }));
    world.connect(None);
    world.pass(Duration::from_secs(1));
    assert!(world.ready.is_empty() && !world.is_connected());
    assert!(world.failures[0].contains("says that it has grown"), "{:?}", world.failures);
}

/// Another client makes the file larger than `size=` asks for, just before this one would: nothing is cut off.
#[test]
fn a_file_that_has_grown_meanwhile_is_not_cut() {
    let memory = memory_with_file();
    let mut world = World::with(config(2 * SIZE), memory);
    world.connect(None);
    world.input(nfs::client::Input::Disconnect);
    assert_eq!(world.ready[0].geometry.bytes(), 2 * SIZE);
    world.config = nfs::client::Config { owner: b"another".to_vec(), ..config(SIZE) };
    let once = Cell::new(true);
    world.tamper = Some(Box::new(move |bytes| {
        each_record(bytes, |record| {
            if once.get() {
                once.set(!tells_one_block(record, 2 * SIZE));
            }
        });
    }));
    world.connect(None);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.ready.len(), 2, "{:?}", world.failures);
    assert_eq!(world.ready[1].geometry.bytes(), 2 * SIZE);
}

/// An answer that was not kept: what was carried out is carried out again, as it changes nothing more.
#[test]
fn a_write_whose_answer_was_not_kept_is_made_again() {
    let (mut world, _) = misled(|_| false);
    world.tamper = Some(Box::new(Vec::clear));
    world.submit(10, Kept::Write(Extent::new(9, 1), filled(1, 5), CACHED));
    assert_eq!(world.writes(), 5, "it was carried out, and not heard of");
    world.end();
    let once = Rc::new(Cell::new(true));
    world.tamper = Some(Box::new(move |bytes| {
        each_record(bytes, |record| {
            if is_answer(record, WRITE) && once.replace(false) {
                fail_at(record, at::SEQUENCE_STATUS, 1, 10_068);
            }
        });
    }));
    world.connect(None);
    assert_eq!(world.ready.len(), 2, "{:?}", world.failures);
    world.resubmit();
    assert!(matches!(world.outcome(10), Ok(Outcome::Done)));
    assert_eq!(world.writes(), 6);
}

#[test]
fn a_server_that_says_nothing_is_given_up_while_the_file_is_opened() {
    for answers in 0..8 {
        let left = Rc::new(Cell::new(answers));
        let mut world = World::new(SIZE);
        world.tamper = Some(Box::new(move |bytes| {
            if left.get() == 0 {
                bytes.clear();
            } else if !bytes.is_empty() {
                left.set(left.get() - 1);
            }
        }));
        world.connect(None);
        world.pass(Duration::from_secs(31));
        assert!(!world.is_connected() && world.ready.is_empty(), "after {answers} answers");
        assert!(world.failures[0].contains("does not answer"), "{:?}", world.failures);
    }
}

#[test]
fn a_server_that_falls_silent_is_noticed() {
    let (mut world, _) = misled(|_| false);
    world.tamper = Some(Box::new(Vec::clear));
    world.pass(Duration::from_secs(16));
    assert!(!world.is_connected(), "5 s of silence, and 10 s for the answer");
    assert!(world.failures[0].contains("10 s"), "{:?}", world.failures);
}

/// A server that always says that it is busy is given up when the time is over, and says why.
#[test]
fn grace_without_end_is_given_up() {
    let mut world = World::new(SIZE);
    world.tamper = Some(Box::new(|bytes| {
        each_record(bytes, |record| {
            // OPEN is the third operation.
            if word(record, at::OPERATION) == Some(18) {
                fail_at(record, at::OPERATION_STATUS, 3, 10_013);
            }
        });
    }));
    world.connect(None);
    world.pass(Duration::from_secs(28));
    assert!(world.is_connected());
    world.pass(Duration::from_secs(3));
    assert!(!world.is_connected());
    assert!(world.failures[0].contains("NFS4ERR_GRACE"), "{:?}", world.failures);
}

/// Whatever is said, what the client keeps of it is bounded, and each request ends.
#[test]
fn any_byte_of_any_answer_may_be_another() {
    let mut ended = 0;
    for place in 0..160 {
        let (mut world, _) = misled(move |record| {
            if let Some(byte) = record.get_mut(place) {
                *byte ^= 0x41;
            }
            true
        });
        world.submit(10, Kept::Read(Extent::new(0, 1)));
        world.submit(11, Kept::Write(Extent::new(1, 1), filled(1, 1), CACHED));
        world.submit(12, Kept::Flush);
        world.pass(Duration::from_secs(1));
        if let Some(client) = world.client() {
            assert!(client.held() < 256 << 10 && !client.is_closing());
        }
        world.end();
        ended += 1;
        for tag in [10, 11, 12] {
            let kept = world.kept.contains_key(&Tag(tag));
            assert!(kept || world.done.contains_key(&Tag(tag)), "{tag} has ended, or is to be made again");
        }
    }
    assert_eq!(ended, 160);
}
