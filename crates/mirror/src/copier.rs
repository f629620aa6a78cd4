//! Copies regions to legs that are resynchronised, and between legs that may differ, chunk by chunk on the keeper's queue.
//!
//! A chunk's blocks are locked, so that no write passes the copy. A region counts as copied only for legs that got all of its chunks, and only if no write to
//! it failed meanwhile.

use std::time::Duration;

use buf::{Account, BufList};
use protocol::Instant;
use volume::{Durability, Extent, Failure, Features, Operation, Outcome, VolumeErrorKind};

use crate::limits::{ATTENDANT, CHUNK, PROBE};
use crate::members::{LegState, Medium, Membership};
use crate::placement::on_leg;
use crate::ports::Owner;
use crate::range_locks::{Holder, LockMode};
use crate::shared::{CopiedRegion, State};
use crate::spread::Spread;
use crate::tasks::QueueParts;

/// The number by which a queue's copies lock their blocks.
pub(crate) const COPY_LOCK: u64 = u64::MAX;
/// Time before memory is asked for again that the pool did not have.
const MEMORY: Duration = Duration::from_millis(10);

/// What is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A region, to all that need it.
    Region(u64),
    /// Blocks that a leg could not read.
    Repair(Membership),
}

#[derive(Debug)]
enum Step {
    /// It waits for its dirty bits: a repair that is cut off may leave older data.
    Logging,
    /// It is too early for the next chunk.
    Pausing,
    Locking,
    /// The source is asked whether anything is behind the blocks.
    Asking(Membership),
    Memory,
    Reading(Membership),
    Writing(Spread),
}

#[derive(Debug)]
struct Copy {
    purpose: Purpose,
    /// What is to be copied, and the part of it that is being copied.
    whole: Extent,
    chunk: Extent,
    /// The whole is locked, to ask whether anything is behind it.
    asking: bool,
    step: Step,
    /// Legs that could not be read, by bit.
    tried: u32,
    /// Legs that got every chunk so far; `None` before the first.
    got: Option<Vec<Membership>>,
}

/// The copies of one queue, one at a time.
#[derive(Debug)]
pub(crate) struct Copier {
    account: Account,
    copy: Option<Copy>,
    due: Option<Instant>,
    /// When a queue that does not attend begins, at the earliest.
    begins_at: Option<Instant>,
}

impl Copier {
    /// Copies with memory of this account alone.
    pub(crate) fn new(account: Account) -> Self {
        Self { account, copy: None, due: None, begins_at: None }
    }

    /// Goes on with what is possible. True if anything happened.
    pub(crate) fn work(&mut self, with: &mut QueueParts<'_>) -> bool {
        match &mut self.copy {
            None => self.begin(with),
            Some(Copy { step: Step::Memory, .. }) => self.read(with),
            Some(Copy { step: Step::Logging, purpose, whole, .. }) => {
                let logged = match purpose {
                    Purpose::Region(_) => true,
                    Purpose::Repair(_) => with.shared.lock().log.is_durable(*whole),
                };
                if logged {
                    self.lock(with);
                }
                logged
            }
            Some(Copy { step: Step::Pausing, .. }) => {
                let due = with.shared.lock().copy_at <= with.now;
                if due {
                    self.due = None;
                    self.lock(with);
                }
                due
            }
            Some(Copy { step: Step::Writing(spread), .. }) => {
                let settled = spread.settle(with.shared, with.shared.shape.timeout, with.now);
                settled && self.written(with)
            }
            Some(_) => false,
        }
    }

    fn begin(&mut self, with: &mut QueueParts<'_>) -> bool {
        self.due = None;
        let mut state = with.shared.lock();
        // Whoever was the keeper before may still copy.
        if !state.is_keeper(with.queue) || state.refusal().is_some() || state.copying.is_some() {
            return false;
        }
        let begins_at = *self.begins_at.get_or_insert(with.now + ATTENDANT);
        if !state.attends(with.queue) && with.now < begins_at {
            self.due = Some(begins_at);
            return false;
        }
        let (purpose, whole) = match next(&mut state, with.now) {
            Ok(next) => next,
            Err(due) => {
                self.due = due;
                return false;
            }
        };
        let asking = matches!(purpose, Purpose::Region(_));
        match purpose {
            Purpose::Region(region) => state.copying = Some(CopiedRegion { region, spoiled: false }),
            Purpose::Repair(_) => {
                state.log.begin_write(whole, with.now);
            }
        }
        drop(state);
        let chunk = if asking { whole } else { first_chunk(whole, with) };
        self.copy = Some(Copy { purpose, whole, chunk, asking, step: Step::Logging, tried: 0, got: None });
        self.work(with);
        true
    }

    /// Locks the chunk.
    fn lock(&mut self, with: &mut QueueParts<'_>) {
        let Some(copy) = &mut self.copy else { return };
        (copy.step, copy.tried) = (Step::Locking, 0);
        let holder = Holder { queue: with.queue, number: COPY_LOCK };
        let locked = with.shared.lock().locks.lock(holder, copy.chunk, LockMode::Exclusive).is_some();
        if locked {
            self.granted(with);
        }
    }

    /// The chunk is locked.
    pub(crate) fn granted(&mut self, with: &mut QueueParts<'_>) {
        let Some(copy) = self.copy.as_mut().filter(|copy| matches!(copy.step, Step::Locking)) else { return };
        if !copy.asking {
            copy.step = Step::Memory;
            self.read(with);
            return;
        }
        let blocks = copy.whole.blocks;
        let takes_zeroes = with.shared.shape.limits.max_discard >= blocks;
        match self.source(with) {
            Some((membership, at, medium))
                if medium.volume.features().contains(Features::ALLOCATION) && takes_zeroes =>
            {
                let Some(copy) = &mut self.copy else { return };
                copy.step = Step::Asking(membership);
                let extent = on_leg(at, copy.chunk.blocks, medium.factor);
                with.shared.lock().members.begin(&[membership]);
                with.ports.send(with.now, membership, Owner::Copy, Operation::QueryAllocation { extent });
            }
            _ => self.stop_asking(with),
        }
    }

    /// A leg that has the chunk.
    fn source(&self, with: &QueueParts<'_>) -> Option<(Membership, u64, Medium)> {
        let copy = self.copy.as_ref()?;
        let state = with.shared.lock();
        let placement = state.members.placement;
        let is_bad = |membership: &Membership| matches!(copy.purpose, Purpose::Repair(bad) if bad.leg == membership.leg);
        let mut in_sync = state.members.in_sync(placement.row(copy.chunk.start));
        let membership =
            in_sync.find(|membership| copy.tried & (1 << membership.leg) == 0 && !is_bad(membership))?;
        let leg = state.members.leg(membership.leg)?;
        Some((membership, placement.block_on(leg.member?, copy.chunk.start), leg.medium.clone()?))
    }

    /// Goes on chunk by chunk.
    fn stop_asking(&mut self, with: &mut QueueParts<'_>) {
        unlock(with);
        if let Some(copy) = &mut self.copy {
            copy.asking = false;
            copy.chunk = first_chunk(copy.whole, with);
        }
        self.lock(with);
    }

    fn read(&mut self, with: &mut QueueParts<'_>) -> bool {
        let Some(blocks) = self.copy.as_ref().map(|copy| copy.chunk.blocks) else { return false };
        let Some((membership, at, medium)) = self.source(with) else {
            self.give_up(with, "no leg that has it can be read");
            return true;
        };
        let bytes = wire::index(blocks * u64::from(with.shared.shape.geometry.block_size));
        let Some(into) = self.account.take(bytes) else {
            self.due = Some(with.now + MEMORY);
            return false;
        };
        if let Some(copy) = &mut self.copy {
            copy.step = Step::Reading(membership);
        }
        self.due = None;
        with.shared.lock().members.begin(&[membership]);
        let extent = on_leg(at, blocks, medium.factor);
        with.ports.send(with.now, membership, Owner::Copy, Operation::Read { extent, into });
        true
    }

    /// A leg has answered.
    pub(crate) fn answered(
        &mut self,
        with: &mut QueueParts<'_>,
        membership: Membership,
        result: Result<Outcome, Failure>,
    ) {
        let Some(copy) = &mut self.copy else { return };
        match (&mut copy.step, result) {
            (Step::Writing(spread), result) => {
                spread.answered(with.shared, membership, "a copy to it", result, with.now);
            }
            (Step::Reading(asked), Ok(Outcome::Data(data))) if *asked == membership => {
                self.write(with, membership, Some(data));
            }
            (Step::Reading(asked), result) if *asked == membership => {
                copy.tried |= 1 << membership.leg;
                copy.step = Step::Memory;
                Self::source_failed(with, membership, result.err().map(VolumeErrorKind::from));
                self.read(with);
            }
            (Step::Asking(asked), Ok(Outcome::Allocation(run))) if *asked == membership => {
                let whole = run.extent.blocks >= copy.whole.blocks && !run.mapped;
                if whole { self.write(with, membership, None) } else { self.stop_asking(with) }
            }
            (Step::Asking(asked), _) if *asked == membership => self.stop_asking(with),
            _ => {}
        }
    }

    fn source_failed(with: &QueueParts<'_>, membership: Membership, kind: Option<VolumeErrorKind>) {
        let mut state = with.shared.lock();
        match kind {
            Some(VolumeErrorKind::ReservationConflict) => state.fence(),
            Some(VolumeErrorKind::Media | VolumeErrorKind::Protection | VolumeErrorKind::Busy) | None => {}
            Some(kind) => {
                state.fail(membership, format!("a read failed: {kind}"), with.now);
            }
        }
    }

    /// Writes the chunk, or zeros if there is nothing to write, to all that need it.
    #[expect(clippy::needless_pass_by_value, reason = "the chunk goes with its write")]
    fn write(&mut self, with: &mut QueueParts<'_>, source: Membership, data: Option<BufList>) {
        let Some(copy) = &mut self.copy else { return };
        let mut state = with.shared.lock();
        let placement = state.members.placement;
        let memberships = targets(&state, copy.purpose, copy.chunk, source);
        let mut places = Vec::new();
        for membership in &memberships {
            let leg = state.members.leg(membership.leg);
            let found = leg.and_then(|leg| Some((leg.member?, leg.medium.as_ref()?.factor)));
            let Some((member, factor)) = found else { continue };
            let at = placement.block_on(member, copy.chunk.start);
            places.push((*membership, on_leg(at, copy.chunk.blocks, factor)));
        }
        state.members.begin(&memberships);
        drop(state);
        copy.step = Step::Writing(Spread::new(&memberships));
        let durability = Durability::Cached;
        for (membership, extent) in places {
            let operation = match &data {
                Some(data) => Operation::Write { extent, data: data.clone(), durability },
                None => Operation::WriteZeroes { extent, durability, may_unmap: true },
            };
            with.ports.send(with.now, membership, Owner::Copy, operation);
        }
    }

    /// The chunk is on all legs that need it and still count.
    fn written(&mut self, with: &mut QueueParts<'_>) -> bool {
        let Some(copy) = &mut self.copy else { return false };
        let Step::Writing(spread) = &copy.step else { return false };
        if spread.failure().is_some() {
            self.give_up(with, "a leg that has other data alone cannot be written");
            return true;
        }
        let done = spread.done().to_vec();
        let got = copy.got.get_or_insert_with(|| done.clone());
        got.retain(|membership| done.contains(membership));
        let bytes = copy.chunk.blocks * u64::from(with.shared.shape.geometry.block_size);
        unlock(with);
        {
            let mut state = with.shared.lock();
            if !copy.asking {
                let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(with.shared.shape.rate.max(1));
                let pause = Duration::from_nanos(wire::saturate(nanos));
                state.copy_at = state.copy_at.max(with.now) + pause;
            }
            for membership in &done {
                if let Some(leg) = state.members.legs.get_mut(membership.leg) {
                    leg.copied += bytes;
                }
            }
        }
        let end = copy.chunk.start + copy.chunk.blocks;
        let left = copy.whole.start + copy.whole.blocks - end;
        if left == 0 {
            self.finish(with);
        } else {
            copy.chunk = first_chunk(Extent::new(end, left), with);
            copy.step = Step::Pausing;
            self.due = Some(with.shared.lock().copy_at);
        }
        true
    }

    /// The whole is copied.
    fn finish(&mut self, with: &mut QueueParts<'_>) {
        let Some(Copy { purpose, whole, got, .. }) = self.copy.take() else { return };
        let got = got.unwrap_or_default();
        let mut guard = with.shared.lock();
        let state = &mut *guard;
        let Purpose::Region(region) = purpose else { return state.log.end_write(whole, with.now) };
        let spoiled = state.copying.take().is_none_or(|copied| copied.spoiled);
        if spoiled {
            return;
        }
        if !state.fenced {
            state.last_error = None;
        }
        for membership in &got {
            let resynchronizing = state.members.state(*membership) == Some(LegState::Resynchronizing);
            if let Some(leg) = state.members.legs.get_mut(membership.leg).filter(|_| resynchronizing) {
                leg.pending.remove(region);
            }
        }
        let row = state.members.placement.row(whole.start);
        let differs =
            |membership: &Membership| !got.contains(membership) && !state.lacks(*membership, region);
        let without = state.members.writable(row).filter(differs).count();
        // One of them was the source. What was left unfinished may still make them differ again.
        if state.suspects_rest_until <= with.now && without <= 1 {
            state.suspects.remove(region);
        }
        state.tell_all();
    }

    /// Leaves it for now.
    fn give_up(&mut self, with: &mut QueueParts<'_>, why: &str) {
        unlock(with);
        let copy = self.copy.take();
        let mut state = with.shared.lock();
        if let Some(Copy { purpose: Purpose::Repair(_), whole, .. }) = copy {
            state.log.end_write(whole, with.now);
        }
        state.copying = None;
        state.copy_at = with.now + PROBE;
        state.last_error = Some(format!("blocks could not be resynchronised: {why}"));
    }

    /// The queue is gone: what it was writing may take effect later, over what is written after it.
    pub(crate) fn abandon(&mut self, state: &mut State, now: Instant) {
        let Some(Copy { purpose, whole, step, .. }) = self.copy.take() else { return };
        state.copying = None;
        if matches!(step, Step::Writing(_)) {
            state.suspect(whole);
        }
        if let Purpose::Repair(_) = purpose {
            state.log.end_write(whole, now);
        }
    }

    /// True if nothing is being copied.
    pub(crate) fn is_idle(&self) -> bool {
        self.copy.is_none()
    }

    pub(crate) fn poll_timeout(&self, timeout: Duration) -> Option<Instant> {
        let late = match &self.copy {
            Some(Copy { step: Step::Writing(spread), .. }) => spread.deadline(timeout),
            _ => None,
        };
        late.or(self.due)
    }
}

fn unlock(with: &mut QueueParts<'_>) {
    with.shared.lock().unlock(Holder { queue: with.queue, number: COPY_LOCK }, None);
}

fn first_chunk(whole: Extent, with: &QueueParts<'_>) -> Extent {
    let bytes = CHUNK.min(with.shared.shape.limits.max_transfer);
    let blocks = u64::from(bytes / with.shared.shape.geometry.block_size).max(1);
    Extent::new(whole.start, blocks.min(whole.blocks))
}

/// The legs that need a chunk that this leg has.
fn targets(state: &State, purpose: Purpose, chunk: Extent, source: Membership) -> Vec<Membership> {
    let needs = |membership: &Membership| match (purpose, state.members.state(*membership)) {
        (Purpose::Repair(bad), Some(LegState::InSync)) => bad == *membership,
        (Purpose::Region(region), Some(LegState::InSync)) => state.suspects.contains(region),
        (Purpose::Region(region), Some(LegState::Resynchronizing)) => {
            state.suspects.contains(region) || state.lacks(*membership, region)
        }
        _ => false,
    };
    let row = state.members.placement.row(chunk.start);
    let all = state.members.writable(row);
    all.filter(|membership| membership.leg != source.leg && needs(membership)).collect()
}

/// What to copy next, in this order: blocks that a leg could not read, regions in which legs may differ, what legs that are resynchronised lack. Otherwise when
/// to ask again.
fn next(state: &mut State, now: Instant) -> Result<(Purpose, Extent), Option<Instant>> {
    if state.copy_at > now {
        let is_waiting =
            |leg: &crate::members::Leg| leg.state == LegState::Resynchronizing && leg.pending.count() > 0;
        let some = !state.repairs.is_empty()
            || state.suspects.count() > 0
            || state.members.legs.iter().any(is_waiting);
        return Err(some.then_some(state.copy_at));
    }
    while let Some(repair) = state.repairs.pop_front() {
        if state.members.state(repair.membership) == Some(LegState::InSync) {
            return Ok((Purpose::Repair(repair.membership), repair.extent));
        }
    }
    let rested = state.suspects_rest_until <= now;
    while let Some(region) = state.suspects.first().filter(|_| rested) {
        let row = state.members.placement.row(state.log.extent(region).start);
        if state.members.writable(row).nth(1).is_some() {
            break;
        }
        // There is nobody to differ from; who comes back gets all regions that were written.
        state.suspects.remove(region);
    }
    let suspect = state.suspects.first();
    let rests = suspect.is_some() && !rested;
    let resynchronizing = state.members.legs.iter().filter(|leg| leg.state == LegState::Resynchronizing);
    let pending = resynchronizing.filter_map(|leg| leg.pending.first()).min();
    let region = suspect.filter(|_| !rests).or(pending);
    let Some(region) = region else { return Err(rests.then_some(state.suspects_rest_until)) };
    Ok((Purpose::Region(region), state.log.extent(region)))
}
