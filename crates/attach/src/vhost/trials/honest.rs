//! A front end as it should be: it writes, reads back, and finds what it wrote.

use protocol::{Entropy, SeededEntropy};
use virtio::block::{HEADER, Header, Kind, Status};
use virtio::either::Layout;
use virtio::{Area, DriverQueue};
use zerocopy::IntoBytes;

use super::core::Core;
use super::front::{DATA, Front};
use super::slow::Slow;
use super::{below, index_below};

/// Requests under way at most, each with blocks of its own.
const SLOTS: usize = 16;
/// Bytes of memory of each: header, data, status.
const SLOT: usize = DATA / SLOTS;
/// Blocks of each on the volume, from its beginning on.
const BLOCKS: usize = 128;
/// Where the blocks of others begin.
pub(super) const END: usize = BLOCKS * SLOTS;
const DATA_AT: usize = 64;
const STATUS_AT: usize = SLOT - 64;
const NO_STATUS: u8 = 0xee;

#[derive(Clone, Copy)]
struct UnderWay {
    kind: Kind,
    from: usize,
    blocks: usize,
    byte: u8,
}

pub(super) struct Honest {
    pub(super) front: Front,
    /// What each slot's blocks hold, one byte for a block.
    content: Vec<[u8; BLOCKS]>,
    under_way: Vec<Option<UnderWay>>,
    /// By what the queue calls buffers.
    owners: Vec<usize>,
    verified: usize,
}

impl Honest {
    pub(super) fn new(core: &mut Core, volume: &Slow, dice: &mut SeededEntropy) -> Self {
        let layout = if dice.number() & 1 == 0 { Layout::split(64) } else { Layout::packed(64) };
        Self {
            front: Front::new(core, volume, layout.unwrap()),
            content: vec![[0; BLOCKS]; SLOTS],
            under_way: vec![None; SLOTS],
            owners: vec![0; 64],
            verified: 0,
        }
    }

    /// Requests that came to what they should.
    pub(super) fn verified(&self) -> usize {
        self.verified
    }

    /// Looks at what has ended, and asks for more.
    pub(super) fn act(&mut self, dice: &mut SeededEntropy) {
        self.take_used();
        for slot in 0..SLOTS {
            if self.under_way[slot].is_none() && below(dice, 3) > 0 {
                self.ask(slot, dice);
            }
        }
        self.front.publish();
    }

    fn ask(&mut self, slot: usize, dice: &mut SeededEntropy) {
        let from = index_below(dice, BLOCKS);
        let blocks = 1 + index_below(dice, BLOCKS - from);
        let kind = if below(dice, 2) == 0 { Kind::Read } else { Kind::Write };
        let byte = wire::saturate(below(dice, 256));
        let base = self.front.ring_len() + slot * SLOT;
        let sector = wire::widen(BLOCKS * slot + from);
        self.front.memory.write(base, Header::new(kind, sector).as_bytes());
        self.front.memory.write(base + STATUS_AT, &[NO_STATUS]);
        let fill = if kind == Kind::Write { byte } else { 0xdd };
        self.front.memory.write(base + DATA_AT, &vec![fill; blocks * 512]);
        let place = slot * SLOT;
        let data = wire::bounded(blocks * 512);
        let pieces = [
            self.front.segment(place, wire::bounded(HEADER), false),
            self.front.segment(place + DATA_AT, data, kind == Kind::Read),
            self.front.segment(place + STATUS_AT, 1, true),
        ];
        let id = self.front.driver.add(&pieces).unwrap();
        self.owners[usize::from(id)] = slot;
        self.under_way[slot] = Some(UnderWay { kind, from, blocks, byte });
    }

    fn take_used(&mut self) {
        while let Some(used) = self.front.driver.next_used().unwrap() {
            let slot = self.owners[usize::from(used.id)];
            let UnderWay { kind, from, blocks, byte } = self.under_way[slot].take().unwrap();
            let base = self.front.ring_len() + slot * SLOT;
            let mut status = [0];
            self.front.memory.read(base + STATUS_AT, &mut status);
            assert_eq!(status[0], Status::Ok.byte());
            let own = &mut self.content[slot][from..from + blocks];
            if kind == Kind::Write {
                own.fill(byte);
                assert_eq!(used.written, 1);
            } else {
                let mut data = vec![0; blocks * 512];
                self.front.memory.read(base + DATA_AT, &mut data);
                let wanted: Vec<u8> = own.iter().flat_map(|byte| [*byte; 512]).collect();
                assert!(data == wanted, "it reads what it wrote");
            }
            self.verified += 1;
        }
    }

    /// Waits for all that is under way.
    pub(super) fn finish(&mut self, core: &mut Core) {
        for _ in 0..2000 {
            self.take_used();
            if self.under_way.iter().all(Option::is_none) {
                return;
            }
            core.run_for(1_000_000);
        }
        panic!("everything that a front end asks for ends, whatever others do");
    }

    pub(super) fn leave(self, core: &mut Core) {
        core.stop(self.front.ring);
    }
}
