//! The smallest layer that has a handshake and records: what tests put between a connection and its wire, to show that no protocol notices.

use std::collections::VecDeque;

use protocol::{CloseReason, Instant, Layer, Transmit};

/// Bytes of plain data in a record, at most.
const RECORD: usize = 1000;
/// Bytes of a record before its data: how many there are.
const HEAD: usize = 2;
/// What each side says first.
pub(crate) const HELLO: &[u8] = b"hello";

/// Records of a length and bytes that are changed by their place in the stream, after a greeting of each side.
#[derive(Default)]
pub(crate) struct Scrambler {
    greeted: bool,
    open: bool,
    sent: u64,
    received: u64,
    plain: VecDeque<u8>,
    violation: Option<&'static str>,
}

fn mask(place: &mut u64) -> u8 {
    *place = place.wrapping_add(1);
    place.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]
}

impl Layer for Scrambler {
    const STAGING: usize = HEAD + RECORD;

    fn handle_wire(&mut self, _now: Instant, wire: &[u8]) -> usize {
        if self.has_plain() || self.violation.is_some() {
            return 0;
        }
        if !self.open {
            if wire.len() < HELLO.len() {
                return 0;
            }
            self.open = wire.starts_with(HELLO);
            if !self.open {
                self.violation = Some("no greeting");
            }
            return HELLO.len();
        }
        let Some((head, rest)) = wire.split_first_chunk() else { return 0 };
        let length = usize::from(u16::from_be_bytes(*head));
        let Some(record) = rest.get(..length) else { return 0 };
        self.plain.extend(record.iter().map(|byte| byte ^ mask(&mut self.received)));
        HEAD + length
    }

    fn has_plain(&self) -> bool {
        !self.plain.is_empty()
    }

    fn take_plain(&mut self, room: &mut [u8]) -> usize {
        let count = room.len().min(self.plain.len());
        for (target, byte) in room.iter_mut().zip(self.plain.drain(..count)) {
            *target = byte;
        }
        count
    }

    fn is_open(&self) -> bool {
        self.open
    }

    fn seal(&mut self, plain: &Transmit, wire: &mut Transmit) {
        let bytes: Vec<u8> = plain.segments().iter().flat_map(|piece| plain.bytes(piece)).copied().collect();
        for record in bytes.chunks(RECORD) {
            wire.put(&u16::try_from(record.len()).unwrap().to_be_bytes());
            let record: Vec<u8> = record.iter().map(|byte| byte ^ mask(&mut self.sent)).collect();
            wire.put(&record);
        }
    }

    fn poll_wire(&mut self, _now: Instant, wire: &mut Transmit) {
        if !std::mem::replace(&mut self.greeted, true) {
            wire.put(HELLO);
        }
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.violation.map(CloseReason::Violation)
    }
}
