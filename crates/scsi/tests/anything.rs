//! No command descriptor block, whatever its bytes, makes the device server panic or go on without end.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{Nexus, Shared, device};
use scsi::{DataDirection, Status};

/// Commands per run.
const COMMANDS: usize = 60_000;
/// Operation codes of which the device server knows something: random ones would mostly be refused at once.
const KNOWN: [u8; 32] = [
    0x00, 0x03, 0x08, 0x0a, 0x12, 0x15, 0x1a, 0x1b, 0x1e, 0x25, 0x28, 0x2a, 0x2e, 0x2f, 0x35, 0x41, 0x42,
    0x55, 0x5a, 0x5e, 0x5f, 0x88, 0x89, 0x8a, 0x8e, 0x8f, 0x93, 0x9e, 0xa0, 0xa3, 0xa8, 0xaa,
];

/// Lengths of a CDB, right and wrong ones.
const LENGTHS: [usize; 7] = [0, 1, 6, 10, 12, 16, 32];
/// Bytes that the transport announces.
const SIZES: [u32; 7] = [0, 16, 24, 512, 1024, 16384, 70_000];

/// A generator of numbers that starts from a seed (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[3]
    }

    /// Bytes that are mostly zero, so that fields are often small enough to make sense.
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| if self.byte() < 160 { 0 } else { self.byte() }).collect()
    }
}

fn command(numbers: &mut Numbers) -> (Vec<u8>, DataDirection, Vec<u8>) {
    let length = LENGTHS[usize::from(numbers.byte()) % LENGTHS.len()].max(usize::from(numbers.byte() > 8));
    let mut cdb = numbers.bytes(length);
    let known = KNOWN[usize::from(numbers.byte()) % KNOWN.len()];
    if let Some(first) = cdb.first_mut() {
        *first = if numbers.byte() < 230 { known } else { numbers.byte() };
    }
    let size = SIZES[usize::from(numbers.byte()) % SIZES.len()];
    let direction = match numbers.byte() % 3 {
        0 => DataDirection::None,
        1 => DataDirection::In(size),
        _ => DataDirection::Out(size),
    };
    (cdb, direction, numbers.bytes(40))
}

#[test]
fn every_command_ends() {
    for seed in [0x9e37_79b9_7f4a_7c15, 0x0123_4567_89ab_cdef] {
        let mut numbers = Numbers(seed);
        let (mut nexus, mut shared) = (Nexus::ready(device(), "a"), Shared::default());
        let mut good = 0_usize;
        for _ in 0..COMMANDS / 2 {
            let (cdb, direction, data) = command(&mut numbers);
            let reply = nexus.run(&mut shared, (&cdb, direction, &data));
            good += usize::from(reply.status == Status::Good);
            assert_eq!(reply.status == Status::CheckCondition, !reply.sense.bytes().is_empty(), "{cdb:02x?}");
            let moved = u64::try_from(reply.data.len()).unwrap();
            assert!(moved <= reply.full_length, "more data than the command moves: {cdb:02x?}");
            shared.disk.log.clear();
            // Write protection and long-gone reservations would turn all that follows into refusals.
            nexus.server.reset_unit([0; 8]);
            while nexus.server.poll_event().is_some() {}
            nexus.control(&mut shared, &[0; 6]);
        }
        assert!(good > COMMANDS / 20, "only {good} commands did anything");
    }
}
