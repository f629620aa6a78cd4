//! What each block may hold: the acknowledged write, and those that may have taken effect since it was submitted.

use std::collections::BTreeMap;

use protocol::Instant;

/// When a write that has ended certainly takes no effect any more; `None` while it is under way.
type End = Option<Instant>;

#[derive(Debug, Clone, Copy)]
struct Write {
    stamp: u64,
    begun: Instant,
    end: End,
}

/// The blocks of a mirror as its user may find them.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// By block: writes any of which may be what it holds. No entry means zeros.
    blocks: BTreeMap<u64, Vec<Write>>,
}

/// Stands for what was there before the first write.
const ZEROS: Write = Write { stamp: 0, begun: Instant::ZERO, end: Some(Instant::ZERO) };

impl Model {
    fn block(&mut self, block: u64) -> &mut Vec<Write> {
        self.blocks.entry(block).or_insert_with(|| vec![ZEROS])
    }

    pub(super) fn begin(&mut self, block: u64, stamp: u64, begun: Instant) {
        self.block(block).push(Write { stamp, begun, end: None });
    }

    /// The write is acknowledged: what had ended before it began is gone.
    pub(super) fn acknowledged(&mut self, block: u64, stamp: u64, now: Instant) {
        let writes = self.block(block);
        let Some(begun) = writes.iter().find(|write| write.stamp == stamp).map(|write| write.begun) else {
            return;
        };
        writes.retain(|write| write.stamp == stamp || write.end.is_none_or(|end| end >= begun));
        self.ended(block, stamp, now);
    }

    /// The write has failed, or nobody will hear of it; it may take effect until then.
    pub(super) fn ended(&mut self, block: u64, stamp: u64, until: Instant) {
        let write = self.block(block).iter_mut().find(|write| write.stamp == stamp);
        if let Some(write) = write {
            write.end = Some(until);
        }
    }

    /// Whatever was under way takes no effect after `now`.
    pub(super) fn settled(&mut self, block: u64, now: Instant) {
        for write in self.block(block) {
            write.end = write.end.map(|end| end.min(now));
        }
    }

    /// What a read that begins now may find; later writes too.
    pub(super) fn possible(&mut self, block: u64) -> Vec<u64> {
        self.block(block).iter().map(|write| write.stamp).collect()
    }
}
