//! The legs of a mirror: which of them have every acknowledged write, and the record that says so.
//!
//! A leg that fails is out from that moment, in memory; the epoch moves, and nothing is acknowledged until the record of the new epoch is on every leg that
//! remains, and, where there are three members or more, on most of them. The last leg that is in sync stays: its errors are the requests'.

use std::sync::Arc;

use protocol::Instant;
use volume::{Extent, Features, OpenError, Volume, VolumeErrorKind};

use crate::bits::Bits;
use crate::limits::{PROBE, RESERVE, SPARE_AFTER, UNIT};
use crate::numbering::Numbered;
use crate::placement::{Placement, on_leg};
use crate::planted::{Fault, planted};
use crate::slots::Slots;
use crate::superblock::{Content, Layout, Role, Superblock, Version};

/// How a leg takes part now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegState {
    /// It has every acknowledged write, gets every write, and serves reads.
    InSync,
    /// It gets every write, and what was there before is copied to it.
    Resynchronizing,
    /// It gets nothing.
    Out,
    /// It holds nothing yet, and takes the place of one that stays out.
    Spare,
}

/// A leg's blocks, as the mirror uses them.
#[derive(Debug, Clone)]
pub(crate) struct Medium {
    pub(crate) volume: Arc<dyn Volume>,
    /// Blocks of the leg in one of the mirror.
    pub(crate) factor: u64,
    /// Its first block that is the mirror's own.
    pub(crate) reserve: u64,
    /// Bytes in one of its blocks.
    pub(crate) block_size: u32,
    /// It takes discards, and what was discarded reads as zeros.
    pub(crate) discards: bool,
}

impl Medium {
    /// The blocks of a volume that is to be a leg of a mirror with blocks of `block_size` bytes; `None` where it is too small or has larger blocks.
    pub(crate) fn new(volume: Arc<dyn Volume>, block_size: u32) -> Option<Self> {
        let geometry = volume.geometry();
        let own = geometry.block_size;
        let reserve = geometry.blocks.checked_sub(RESERVE / u64::from(own))?;
        let factor = u64::from(block_size / own);
        let discards = volume.features().contains(Features::DISCARD);
        (reserve > 0 && factor > 0).then_some(Self { volume, factor, reserve, block_size: own, discards })
    }

    /// Bytes for data.
    pub(crate) fn room(&self) -> u64 {
        self.reserve * u64::from(self.block_size)
    }
}

/// One leg.
#[derive(Debug)]
pub(crate) struct Leg {
    /// The volume, for good once it is open; `None` before.
    pub(crate) medium: Option<Medium>,
    pub(crate) state: LegState,
    pub(crate) content: Content,
    pub(crate) member: Option<usize>,
    /// This owner has had its reservation.
    pub(crate) reserved: bool,
    /// Moves when the leg is put out: what was sent before counts no more.
    pub(crate) tenure: u64,
    /// Requests of all queues that it has not answered.
    pub(crate) outstanding: u64,
    /// It does not take part before, as it may still carry out what nobody waits for.
    pub(crate) rests_until: Instant,
    pub(crate) out_since: Instant,
    /// Regions that are still to be copied to it.
    pub(crate) pending: Bits,
    /// Bytes that were copied to it since the mirror was opened.
    pub(crate) copied: u64,
    /// The record and the write of the dirty log that it has acknowledged last: what returns with less has lost what it had called durable.
    pub(crate) acknowledged: Acknowledged,
    /// What was last wrong with it.
    pub(crate) error: Option<String>,
}

/// See [`Leg::acknowledged`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Acknowledged {
    pub(crate) version: Version,
    pub(crate) log: u64,
}

/// A leg, as long as it takes part without a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) leg: usize,
    pub(crate) tenure: u64,
}

/// What became of a leg that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// It is out, now or since before.
    Out,
    /// It is the last that has some of the data, and stays.
    Last,
}

/// A record that the caller is to write.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) epoch: u64,
    pub(crate) slot: usize,
    /// Where to, and what.
    pub(crate) blocks: Vec<(Membership, [u8; UNIT])>,
}

/// All legs, and the record.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) layout: Layout,
    pub(crate) placement: Placement,
    pub(crate) legs: Vec<Leg>,
    /// Legs in the order in which they are read: local ones first.
    pub(crate) preference: Vec<usize>,
    pub(crate) version: Version,
    pub(crate) nonce: u64,
    pub(crate) owner: String,
    pub(crate) epoch: u64,
    /// The epoch that the legs have.
    pub(crate) recorded: u64,
    /// Going on without most of the members is allowed.
    pub(crate) degraded: bool,
    writer: Option<u64>,
    slots: Slots,
    /// The epoch cannot be recorded: why.
    stuck: Option<VolumeErrorKind>,
    retry_at: Instant,
}

/// What members begin with.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) layout: Layout,
    pub(crate) placement: Placement,
    pub(crate) legs: Vec<Leg>,
    pub(crate) preference: Vec<usize>,
    pub(crate) version: Version,
    pub(crate) nonce: u64,
    pub(crate) owner: String,
    pub(crate) epoch: u64,
    pub(crate) degraded: bool,
}

impl Members {
    /// The legs as they were assembled. Nothing is recorded yet.
    pub(crate) fn new(assembled: Assembled) -> Self {
        let Assembled { layout, placement, legs, preference, version, nonce, owner, epoch, degraded } =
            assembled;
        Self {
            layout,
            placement,
            legs,
            preference,
            version,
            nonce,
            owner,
            epoch,
            recorded: epoch.wrapping_sub(1),
            degraded,
            writer: None,
            slots: Slots::default(),
            stuck: None,
            retry_at: Instant::ZERO,
        }
    }

    /// True if all members are in sync, and the record says so: nothing is to be done for any leg.
    pub(crate) fn are_well(&self) -> bool {
        let is_well = |leg: &Leg| match leg.state {
            LegState::InSync => true,
            LegState::Spare => leg.medium.is_some(),
            LegState::Resynchronizing | LegState::Out => false,
        };
        self.is_recorded() && self.legs.iter().all(is_well)
    }

    fn holds(&self, leg: &Leg, row: u64) -> bool {
        leg.member.is_some_and(|member| self.placement.holds(member, row))
    }

    fn memberships(&self, wanted: impl Fn(&Leg) -> bool) -> impl Iterator<Item = Membership> {
        let in_order =
            self.preference.iter().filter_map(|index| self.legs.get(*index).map(|leg| (*index, leg)));
        let memberships = in_order.filter(move |(_, leg)| wanted(leg));
        memberships.map(|(leg, found)| Membership { leg, tenure: found.tenure })
    }

    /// The legs that have all data of a row, the preferred one first.
    pub(crate) fn in_sync(&self, row: u64) -> impl Iterator<Item = Membership> {
        self.memberships(move |leg| {
            let serves = leg.state == LegState::InSync
                || (planted(Fault::StaleLeg) && leg.state == LegState::Out && leg.medium.is_some());
            serves && self.holds(leg, row)
        })
    }

    /// The legs that take writes of a row.
    pub(crate) fn writable(&self, row: u64) -> impl Iterator<Item = Membership> {
        self.memberships(move |leg| leg.takes_writes() && self.holds(leg, row))
    }

    /// The legs that take writes of any row.
    pub(crate) fn all_writable(&self) -> Vec<Membership> {
        self.memberships(Leg::takes_writes).collect()
    }

    pub(crate) fn leg(&self, leg: usize) -> Option<&Leg> {
        self.legs.get(leg)
    }

    /// True while what was sent to this membership counts.
    pub(crate) fn counts(&self, membership: Membership) -> bool {
        self.legs.get(membership.leg).is_some_and(|leg| leg.tenure == membership.tenure)
    }

    /// The leg's state, if the membership counts.
    pub(crate) fn state(&self, membership: Membership) -> Option<LegState> {
        self.legs.get(membership.leg).filter(|leg| leg.tenure == membership.tenure).map(|leg| leg.state)
    }

    /// Tells each leg that takes writes of these blocks, which lie in one slab, with its own blocks and whether it takes discards; it gets a request.
    pub(crate) fn begin_writes(&mut self, extent: Extent, mut tell: impl FnMut(Membership, Extent, bool)) {
        let row = self.placement.row(extent.start);
        for index in &self.preference {
            let Some(leg) = self.legs.get_mut(*index).filter(|leg| leg.takes_writes()) else { continue };
            let (Some(medium), Some(member)) = (&leg.medium, leg.member) else { continue };
            if !self.placement.holds(member, row) {
                continue;
            }
            leg.outstanding += 1;
            let at = self.placement.block_on(member, extent.start);
            let place = on_leg(at, extent.blocks, medium.factor);
            tell(Membership { leg: *index, tenure: leg.tenure }, place, medium.discards);
        }
    }

    /// The legs get a request each.
    pub(crate) fn begin(&mut self, memberships: &[Membership]) {
        for membership in memberships {
            if let Some(leg) = self.legs.get_mut(membership.leg) {
                leg.outstanding += 1;
            }
        }
    }

    /// A leg has answered a request, or nobody waits for the answer any more.
    pub(crate) fn end(&mut self, leg: usize) {
        if let Some(leg) = self.legs.get_mut(leg) {
            leg.outstanding = leg.outstanding.saturating_sub(1);
        }
    }

    fn can_lose(&self, lost: usize) -> bool {
        let Some(member) = self.legs.get(lost).and_then(|leg| leg.member) else { return true };
        let mut rows = (0..self.placement.rows()).filter(|row| self.placement.holds(member, *row));
        rows.all(|row| {
            let others = self.legs.iter().enumerate().filter(|(index, _)| *index != lost);
            others.into_iter().any(|(_, leg)| leg.state == LegState::InSync && self.holds(leg, row))
        })
    }

    /// Puts a leg out that failed, unless it is the last.
    pub(crate) fn drop_leg(&mut self, membership: Membership, why: String, now: Instant) -> Dropped {
        let last = !self.can_lose(membership.leg);
        let Some(leg) = self.legs.get_mut(membership.leg).filter(|leg| leg.tenure == membership.tenure)
        else {
            return Dropped::Out;
        };
        leg.error = Some(why);
        match leg.state {
            LegState::InSync if last => return Dropped::Last,
            LegState::InSync => {
                leg.content = Content::Out;
                self.epoch += 1;
                self.retry_at = now;
            }
            LegState::Resynchronizing => {}
            LegState::Out | LegState::Spare => return Dropped::Out,
        }
        leg.state = LegState::Out;
        leg.out_since = now;
        leg.tenure += 1;
        Dropped::Out
    }

    /// The leg, which is out, gets every write from now on; these regions are to be copied to it.
    pub(crate) fn admit(&mut self, leg: usize, pending: Bits, now: Instant) {
        if let Some(leg) = self.legs.get_mut(leg) {
            (leg.state, leg.pending) = (LegState::Resynchronizing, pending);
            leg.tenure += 1;
            self.retry_at = now;
        }
    }

    /// Everything is copied to the leg and durable there: it is in sync from the next epoch on.
    pub(crate) fn promote(&mut self, membership: Membership) {
        if let Some(leg) = self.legs.get_mut(membership.leg).filter(|leg| leg.tenure == membership.tenure) {
            (leg.state, leg.content, leg.error) = (LegState::InSync, Content::InSync, None);
            self.epoch += 1;
        }
    }

    /// Gives a spare the place of a member that stays out, if there are both.
    pub(crate) fn use_spare(&mut self, now: Instant) -> bool {
        let stays_out = |leg: &Leg| {
            leg.state == LegState::Out && leg.member.is_some() && leg.out_since + SPARE_AFTER <= now
        };
        let spare = self.legs.iter().position(|leg| leg.state == LegState::Spare && leg.medium.is_some());
        let lost = self.legs.iter().position(stays_out);
        let Some((spare, lost)) = spare.zip(lost) else { return false };
        let Some(member) = self.legs.get_mut(lost).map(|leg| {
            (leg.state, leg.content) = (LegState::Spare, Content::Blank);
            leg.tenure += 1;
            leg.member.take()
        }) else {
            return false;
        };
        if let Some(leg) = self.legs.get_mut(spare) {
            (leg.state, leg.content, leg.member) = (LegState::Out, Content::Blank, member);
            leg.out_since = now;
            leg.tenure += 1;
        }
        self.epoch += 1;
        true
    }

    /// When a spare is to be used, if one might.
    pub(crate) fn spare_at(&self) -> Option<Instant> {
        self.legs.iter().find(|leg| leg.state == LegState::Spare && leg.medium.is_some())?;
        let out = self.legs.iter().filter(|leg| leg.state == LegState::Out && leg.member.is_some());
        out.map(|leg| leg.out_since + SPARE_AFTER).min()
    }

    /// The opening was recorded on these legs: the others are out. An error if they are too few.
    pub(crate) fn opened(&mut self, wrote: &[usize]) -> Result<(), OpenError> {
        self.writer = None;
        let version = self.version;
        for (index, leg) in self.legs.iter_mut().enumerate() {
            if wrote.contains(&index) {
                leg.acknowledged.version = version;
            }
            if leg.state == LegState::Resynchronizing {
                leg.state = LegState::Out;
            }
            if leg.state == LegState::InSync && !wrote.contains(&index) {
                return Err(OpenError::new(format!(
                    "{} failed while the opening was recorded: open the mirror again",
                    Numbered(index)
                )));
            }
        }
        if wrote.len() < self.quorum() {
            return Err(OpenError::new("the opening could not be recorded on most of the legs"));
        }
        self.recorded = self.epoch;
        Ok(())
    }

    /// Legs that are out and there count for the record of the opening.
    pub(crate) fn include_reachable(&mut self) {
        let out = |leg: &&mut Leg| leg.state == LegState::Out && leg.medium.is_some();
        self.legs.iter_mut().filter(out).for_each(|leg| leg.state = LegState::Resynchronizing);
    }

    fn members(&self) -> usize {
        usize::from(self.layout.legs.saturating_sub(self.layout.spares))
    }

    /// Legs that must have a record before it holds.
    pub(crate) fn quorum(&self) -> usize {
        if self.members() < 3 || self.degraded { 1 } else { self.members() / 2 + 1 }
    }

    /// Members that are not in sync.
    pub(crate) fn missing(&self) -> usize {
        self.legs.iter().filter(|leg| leg.member.is_some() && leg.state != LegState::InSync).count()
    }

    /// True if the record says what holds: requests may be acknowledged.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded == self.epoch
    }

    /// Why the epoch cannot be recorded, if it cannot.
    pub(crate) fn stuck(&self) -> Option<VolumeErrorKind> {
        self.stuck.filter(|_| !self.is_recorded())
    }

    /// The record as it is for one leg.
    fn superblock(&self, leg: usize) -> Superblock {
        let role = |leg: &Leg| Role { member: leg.member.map(wire::bounded), content: leg.content };
        Superblock {
            layout: self.layout,
            leg: wire::bounded(leg),
            version: self.version,
            epoch: self.epoch,
            nonce: self.nonce,
            roles: self.legs.iter().map(role).collect(),
            owner: self.owner.clone(),
        }
    }

    /// A record that `queue` is to write now, if one is due; or when it will be.
    pub(crate) fn begin_record(&mut self, queue: u64, now: Instant) -> Result<Record, Option<Instant>> {
        if self.is_recorded() || self.writer.is_some() {
            return Err(None);
        }
        if now < self.retry_at {
            return Err(Some(self.retry_at));
        }
        let memberships: Vec<_> =
            self.memberships(|leg| leg.takes_writes() && leg.member.is_some()).collect();
        if memberships.len() < self.quorum() {
            // A record that only a minority has could be taken for one that holds.
            self.stuck = Some(VolumeErrorKind::Unreachable);
            self.retry_at = now + PROBE;
            return Err(Some(self.retry_at));
        }
        let slot = self.slots.next(now).map_err(Some)?;
        self.writer = Some(queue);
        self.version.sequence += 1;
        self.begin(&memberships);
        let blocks = memberships
            .iter()
            .map(|membership| (*membership, self.superblock(membership.leg).encode()))
            .collect();
        Ok(Record { epoch: self.epoch, slot, blocks })
    }

    /// The record of `epoch` was written on these legs, and on others it could not be, for that reason.
    pub(crate) fn end_record(
        &mut self,
        epoch: u64,
        on: &[Membership],
        failure: Option<VolumeErrorKind>,
        now: Instant,
    ) {
        self.writer = None;
        let version = self.version;
        for membership in on {
            if let Some(leg) = self.legs.get_mut(membership.leg) {
                leg.acknowledged.version = version;
            }
        }
        let have =
            |leg: &usize| on.iter().any(|membership| membership.leg == *leg && self.counts(*membership));
        let in_sync = self.legs.iter().enumerate().filter(|(_, leg)| leg.state == LegState::InSync);
        let all = in_sync.map(|(index, _)| index).all(|leg| have(&leg));
        if all && on.len() >= self.quorum() {
            (self.recorded, self.stuck) = (epoch, None);
        } else if failure.is_some() || on.len() < self.quorum() {
            self.stuck = Some(failure.unwrap_or(VolumeErrorKind::Unreachable));
            self.retry_at = now + PROBE;
        }
    }

    /// A queue is gone that may have been writing a record.
    pub(crate) fn forget_queue(&mut self, queue: u64, now: Instant) {
        if self.writer == Some(queue) {
            self.writer = None;
            self.slots.abandon(now);
        }
    }
}

impl Leg {
    pub(crate) fn takes_writes(&self) -> bool {
        matches!(self.state, LegState::InSync | LegState::Resynchronizing)
    }
}
