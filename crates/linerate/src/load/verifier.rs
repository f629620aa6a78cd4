//! Blocks that a load writes, reads back and compares beside its own requests: a volume that loses data only under load is found.
//!
//! One request is under way at a time, and ten start in a second: a write, and a tenth of a second later its read. They go to the last
//! [`VERIFY_BYTES`] of each volume in turn, which the load itself leaves alone, and they count in no rate and no latency. Every write has
//! a pattern of its own, so that what an earlier one left does not pass for it.

use std::time::Duration;

use buf::{BufList, Pool};
use protocol::{Entropy, Instant, SeededEntropy};
use volume::{Completion, Durability, Extent, Geometry, Operation, Outcome};

/// Bytes at the end of each volume that a load which verifies keeps for that.
pub const VERIFY_BYTES: u64 = 64 << 10;
/// Time from one request to the next.
const PERIOD: Duration = Duration::from_millis(100);
/// How long to wait when a volume takes no request.
const AGAIN: Duration = Duration::from_millis(1);
/// Bytes of a request, where the volume's blocks divide it; else a block.
const CHUNK: u64 = 4096;

/// Data that came back other than it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongData {
    /// The number of its volume, from 0.
    pub volume: usize,
    /// The first byte that differs.
    pub at: u64,
    /// Reads that differed, on all volumes.
    pub reads: u64,
}

/// Where a volume is verified, in its blocks.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: u64,
    /// Blocks of a request.
    blocks: u64,
    /// Requests that the place has room for; at least 1.
    chunks: u64,
    block_size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Write,
    Writing,
    Read,
    Reading,
}

/// What is asked next.
pub(super) struct Ask {
    pub(super) volume: usize,
    pub(super) operation: Operation,
}

/// What a read showed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Same,
    Differs { volume: usize, at: u64 },
}

/// Writes and compares beside a load.
#[derive(Debug)]
pub(super) struct Verifier {
    places: Vec<Place>,
    seed: u64,
    /// Writes so far.
    round: u64,
    state: State,
    due: Instant,
}

impl Verifier {
    pub(super) fn new(geometries: &[Geometry], seed: u64) -> Self {
        let places = geometries.iter().map(Place::of).collect();
        Self { places, seed, round: 0, state: State::Write, due: Instant::ZERO }
    }

    /// When it has something to ask; never while a request is under way.
    pub(super) const fn due(&self) -> Option<Instant> {
        if self.is_under_way() { None } else { Some(self.due) }
    }

    pub(super) fn is_writing(&self) -> bool {
        self.state == State::Writing
    }

    pub(super) const fn is_under_way(&self) -> bool {
        matches!(self.state, State::Writing | State::Reading)
    }

    /// What is to be asked now, if something is.
    pub(super) fn next(&self, now: Instant, pool: &Pool) -> Option<Ask> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        let (volume, place) = self.place()?;
        let extent = self.extent(place);
        // Of the pool, as direct I/O wants it.
        let mut memory = pool.take(usize::try_from(place.bytes()).ok()?)?;
        let operation = if self.state == State::Write {
            memory.copy_from_slice(&self.pattern(place));
            Operation::Write { extent, data: BufList::from(memory.freeze()), durability: Durability::Cached }
        } else {
            Operation::Read { extent, into: memory }
        };
        Some(Ask { volume, operation })
    }

    /// The volume took what [`Self::next`] gave.
    pub(super) fn handle_taken(&mut self, now: Instant) {
        self.state = if self.state == State::Write { State::Writing } else { State::Reading };
        self.due = now + PERIOD;
    }

    /// It did not.
    pub(super) fn handle_refused(&mut self, now: Instant) {
        self.due = now + AGAIN;
    }

    /// What a completion showed; nothing for a write, or a request that failed, which the caller counts.
    pub(super) fn complete(&mut self, completion: &Completion) -> Option<Finding> {
        let wrote = self.state == State::Writing && completion.result.is_ok();
        let finding = match &completion.result {
            Ok(Outcome::Data(data)) if self.state == State::Reading => self.compare(data),
            _ => None,
        };
        self.state = if wrote { State::Read } else { State::Write };
        self.round += u64::from(!wrote);
        finding
    }

    /// Where the request that is under way went: the volume, and its byte.
    pub(super) fn target(&self) -> Option<WrongData> {
        let (volume, place) = self.place()?;
        Some(WrongData { volume, at: self.extent(place).start * place.block_size, reads: 1 })
    }

    fn compare(&self, data: &BufList) -> Option<Finding> {
        let target = self.target()?;
        let (volume, place) = self.place()?;
        let expected = self.pattern(place);
        let mut found = vec![0; expected.len()];
        let copied = data.copy_to(&mut found);
        let differs = expected.iter().zip(&found).position(|(expected, found)| expected != found);
        let first = differs.or((copied < expected.len()).then_some(copied));
        Some(first.map_or(Finding::Same, |first| Finding::Differs { volume, at: target.at + first as u64 }))
    }

    fn place(&self) -> Option<(usize, Place)> {
        let volume = usize::try_from(self.round % (self.places.len() as u64).max(1)).ok()?;
        Some((volume, *self.places.get(volume)?))
    }

    fn extent(&self, place: Place) -> Extent {
        let turn = self.round / (self.places.len() as u64).max(1);
        Extent::new(place.start + (turn % place.chunks) * place.blocks, place.blocks)
    }

    /// The bytes of this round's write.
    fn pattern(&self, place: Place) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(place.bytes()).unwrap_or_default()];
        let round = self.round.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        SeededEntropy::new(self.seed ^ round).fill(&mut bytes);
        bytes
    }
}

impl Place {
    fn of(geometry: &Geometry) -> Self {
        let block_size = u64::from(geometry.block_size);
        let blocks = if CHUNK.is_multiple_of(block_size) { CHUNK / block_size } else { 1 };
        let kept = (VERIFY_BYTES / block_size).clamp(1, geometry.blocks);
        Self { start: geometry.blocks - kept, blocks, chunks: (kept / blocks).max(1), block_size }
    }

    const fn bytes(self) -> u64 {
        self.blocks * self.block_size
    }
}
