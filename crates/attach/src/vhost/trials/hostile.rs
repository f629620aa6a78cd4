//! A front end that means harm: it breaks every rule that it can, begins anew, and asks for as much as there is.

use protocol::{Entropy, SeededEntropy};
use virtio::block::{HEADER, Header, Kind};
use virtio::either::Layout;
use virtio::{Area, DriverQueue, Segment};
use zerocopy::IntoBytes;

use super::core::Core;
use super::front::{DATA, Front};
use super::honest;
use super::slow::{BLOCKS, Slow};
use super::{below, index_below};

pub(super) struct Hostile {
    pub(super) front: Front,
    /// Whether it still takes what was used.
    is_sane: bool,
}

const KINDS: [Kind; 6] =
    [Kind::Read, Kind::Write, Kind::Flush, Kind::GetId, Kind::Discard, Kind::WriteZeroes];

/// Where its blocks begin.
fn first() -> u64 {
    wire::widen(honest::END)
}

impl Hostile {
    pub(super) fn new(core: &mut Core, volume: &Slow, dice: &mut SeededEntropy) -> Self {
        let size = [16, 128, 512][index_below(dice, 3)];
        let layout = if dice.number() & 1 == 0 { Layout::split(size) } else { Layout::packed(size) };
        Self { front: Front::new(core, volume, layout.unwrap()), is_sane: true }
    }

    pub(super) fn act(&mut self, core: &mut Core, dice: &mut SeededEntropy) {
        match below(dice, 40) {
            0 => {
                self.front.begin_anew(core);
                self.is_sane = true;
            }
            1 => self.scribble_ring(dice),
            2 => self.scribble_data(dice),
            3..20 => self.ask_for_much(dice),
            20..34 => self.ask_for_anything(dice),
            _ => self.take_used(),
        }
        if below(dice, 8) > 0 {
            self.front.publish();
        }
    }

    /// Writes anything into its queue.
    fn scribble_ring(&mut self, dice: &mut SeededEntropy) {
        for _ in 0..=below(dice, 8) {
            let at = index_below(dice, self.front.ring_len() - 16);
            let mut bytes = [0; 16];
            dice.fill(&mut bytes);
            let len = 1 + index_below(dice, 16);
            self.front.memory.write(at, &bytes[..len]);
        }
        self.is_sane = false;
    }

    /// Writes anything into memory that the device reads or has written, also while it does.
    fn scribble_data(&mut self, dice: &mut SeededEntropy) {
        let at = self.front.ring_len() + index_below(dice, DATA - 64);
        let mut bytes = [0; 64];
        dice.fill(&mut bytes);
        self.front.memory.write(at, &bytes);
    }

    /// Requests that are right, and as large as they can be.
    fn ask_for_much(&mut self, dice: &mut SeededEntropy) {
        for number in 0..=index_below(dice, 16) {
            let place = number * 64;
            let base = self.front.ring_len() + place;
            let blocks = 1 + below(dice, (BLOCKS - first()) / 2);
            let sector = first() + below(dice, BLOCKS - first() - blocks);
            let kind = KINDS[index_below(dice, 2)];
            self.front.memory.write(base, Header::new(kind, sector).as_bytes());
            let data = self.front.segment(4096, wire::saturate(blocks * 512), kind == Kind::Read);
            let data = Segment { len: data.len.min(wire::bounded(DATA - 4096)) / 512 * 512, ..data };
            let (head, status) = (
                self.front.segment(place, wire::bounded(HEADER), false),
                self.front.segment(place + 32, 1, true),
            );
            let _no_room = self.front.driver.add(&[head, data, status]);
        }
    }

    /// Requests of pieces that may be anything, at sectors that nobody else uses if they are there at all.
    fn ask_for_anything(&mut self, dice: &mut SeededEntropy) {
        let place = index_below(dice, 64) * 64;
        let base = self.front.ring_len() + place;
        let sector =
            if below(dice, 2) == 0 { first() + below(dice, BLOCKS) } else { u64::MAX - below(dice, 1 << 20) };
        let mut head = [0; HEADER];
        dice.fill(&mut head);
        if below(dice, 4) > 0 {
            head.copy_from_slice(Header::new(KINDS[index_below(dice, 4)], sector).as_bytes());
        } else {
            // Whatever its kind is, it reaches nobody's blocks.
            head[8..].copy_from_slice(&sector.to_le_bytes());
        }
        self.front.memory.write(base, &head);
        let mut pieces = vec![self.front.segment(place, wire::bounded(HEADER), false)];
        for _ in 0..below(dice, 140) {
            let len = [0, 1, 511, 512, 4096, 65_536, u32::MAX][index_below(dice, 7)];
            let mut piece = self.front.segment(index_below(dice, DATA), len, below(dice, 2) == 0);
            match below(dice, 20) {
                0 => piece.address = u64::MAX - below(dice, 4096),
                1 => piece.address = below(dice, 4096),
                _ => {}
            }
            pieces.push(piece);
        }
        // What the device reads comes first, mostly.
        if below(dice, 8) > 0 {
            pieces.sort_by_key(|piece| piece.is_written);
        }
        if below(dice, 8) > 0 {
            pieces.push(self.front.segment(place + 32, 1, true));
        }
        let _no_room = self.front.driver.add(&pieces);
    }

    fn take_used(&mut self) {
        // What it has scribbled over may look like a fault of the device's.
        while self.is_sane && matches!(self.front.driver.next_used(), Ok(Some(_))) {}
    }

    pub(super) fn leave(self, core: &mut Core) {
        core.stop(self.front.ring);
    }
}
