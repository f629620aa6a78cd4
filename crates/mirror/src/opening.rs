//! Opens a mirror on a core: opens its legs, takes their reservations, reads what they hold, decides, and records the opening.

use std::sync::Arc;

use buf::{Buf, Pool};
use protocol::{Entropy, Instant};
use volume::{
    Completion, Durability, Extent, Features, Geometry, Limits, OpenError, Opened, Opening, Operation,
    Outcome, PreparedOpen, QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

use crate::area::Area;
use crate::assembly::{Plan, Seen, Wishes, assemble, placement};
use crate::bits::Bits;
use crate::dirty_log::DirtyLog;
use crate::fencer::{Claim, Fenced, Fencer, Need};
use crate::limits::{DEPTH, OPEN_WAIT, OWN_MEMORY, ZEROED_REGIONS};
use crate::members::{Acknowledged, Assembled, Leg, LegState, Medium, Members, Record};
use crate::numbering::Numbered;
use crate::options::Options;
use crate::releaser::Releaser;
use crate::shared::{Reopen, Shape, Shared, State};
use crate::superblock::{Content, Found};
use crate::volume::Mirror;

/// Where a mirror's numbers come from.
pub type EntropySource = Arc<dyn Fn() -> Box<dyn Entropy> + Send + Sync>;

/// A leg that is prepared, or why it could not be.
pub(crate) struct Child {
    pub(crate) prepared: Result<Box<dyn PreparedOpen>, OpenError>,
    /// Its URL, without secrets.
    pub(crate) url: String,
    /// It is on this machine.
    pub(crate) local: bool,
    /// Whether it must have a reservation.
    pub(crate) need: Need,
}

/// A mirror of which everything that may block is done.
pub(crate) struct PreparedMirror {
    pub(crate) children: Vec<Child>,
    pub(crate) options: Options,
    pub(crate) owner: String,
    pub(crate) entropy: EntropySource,
    pub(crate) reopen: Option<Arc<dyn Reopen>>,
}

/// How far a leg is.
enum LegStep {
    Opening(Box<dyn Opening>),
    Fencing(Fencer),
    Superblocks(Area),
    /// Superblocks are read.
    Read(Area),
    Bitmap(Area),
    /// Everything is read.
    Known(Area),
    Recording,
    Recorded,
    /// The mirror cannot be opened: what was asked last is answered, and then the leg's reservation given back.
    Leaving(Option<Releaser>),
    Failed(String),
}

struct LegOpening {
    url: String,
    local: bool,
    need: Need,
    step: LegStep,
    medium: Option<(Arc<dyn Volume>, Box<dyn VolumeQueue>)>,
    waiting: Option<Request>,
    asked: bool,
    /// The record was sent to it, and is not there for certain: it may come later.
    unsettled: bool,
}

enum Stage {
    Reading,
    Bitmaps(Box<Plan>),
    Recording(Box<Members>, Box<Bits>, Box<Plan>),
    /// It cannot be opened, and gives back what it has taken, until then at the latest.
    Failing(OpenError, Instant),
    Over,
}

struct MirrorOpening {
    legs: Vec<LegOpening>,
    stage: Stage,
    options: Options,
    owner: String,
    entropy: Box<dyn Entropy>,
    key: u64,
    reopen: Option<Arc<dyn Reopen>>,
    context: QueueContext,
    memory: Pool,
    /// Legs that are not open by then are missing.
    deadline: Option<Instant>,
}

impl PreparedOpen for PreparedMirror {
    fn begin(self: Box<Self>, context: &QueueContext) -> Box<dyn Opening> {
        let mut entropy = (self.entropy)();
        let key = entropy.number() | 1;
        let open = |child: Child| LegOpening {
            url: child.url,
            local: child.local,
            need: child.need,
            step: match child.prepared {
                Ok(prepared) => LegStep::Opening(prepared.begin(context)),
                Err(error) => LegStep::Failed(error.to_string()),
            },
            medium: None,
            waiting: None,
            asked: false,
            unsettled: false,
        };
        Box::new(MirrorOpening {
            legs: self.children.into_iter().map(open).collect(),
            stage: Stage::Reading,
            options: self.options,
            owner: self.owner,
            entropy,
            key,
            reopen: self.reopen,
            context: context.clone(),
            memory: Pool::new(OWN_MEMORY),
            deadline: None,
        })
    }
}

impl LegOpening {
    fn fail(&mut self, why: impl Into<String>) {
        (self.step, self.waiting, self.asked) = (LegStep::Failed(why.into()), None, false);
    }

    fn ask(&mut self, now: Instant, operation: Operation) {
        self.waiting = Some(Request { tag: Tag(1), operation });
        self.asked = true;
        self.push(now);
    }

    fn push(&mut self, now: Instant) {
        if let (Some(request), Some((_, queue))) = (self.waiting.take(), &mut self.medium)
            && let Err(QueueFull(request)) = queue.submit(now, request)
        {
            self.waiting = Some(request);
        }
    }

    /// What the leg has answered, if it has.
    fn take(&mut self, now: Instant) -> Option<Result<Outcome, VolumeErrorKind>> {
        self.push(now);
        let (_, queue) = self.medium.as_mut()?;
        let mut done: Vec<Completion> = Vec::new();
        queue.poll(now, &mut done);
        let answer = done.pop()?.outcome();
        self.asked = false;
        Some(answer)
    }

    fn read(&mut self, now: Instant, area: Area, memory: &Pool) {
        let Some((volume, _)) = &self.medium else { return };
        let (limits, size) = (volume.limits(), volume.geometry().block_size);
        let mut area = area;
        let most = limits.max_transfer.min(1 << 20);
        if area.next(most).is_none() && !area.wants_bitmap() && area.superblock() == Found::Blank {
            area.want_head();
        }
        let Some(extent) = area.next(most) else {
            self.step = if area.wants_bitmap() { LegStep::Known(area) } else { LegStep::Read(area) };
            return;
        };
        let bytes = wire::index(extent.blocks * u64::from(size));
        let into = memory.take(bytes).unwrap_or_else(|| Buf::zeroed(bytes));
        self.step = if area.wants_bitmap() { LegStep::Bitmap(area) } else { LegStep::Superblocks(area) };
        self.ask(now, Operation::Read { extent, into });
    }

    /// The volume is open: its reservation is next.
    fn opened(&mut self, now: Instant, volume: Arc<dyn Volume>, with: &Fencing<'_>) {
        if volume.features().contains(Features::READ_ONLY) {
            return self.fail("it cannot be written: a mirror's legs are opened for writing");
        }
        match volume.open_queue(with.context) {
            Ok(queue) => self.medium = Some((volume, queue)),
            Err(error) => return self.fail(error.to_string()),
        }
        let fencer = Fencer::new(with.key, self.need, with.claim);
        let operation = fencer.operation();
        self.step = LegStep::Fencing(fencer);
        self.ask(now, operation);
    }

    fn fenced(&mut self, now: Instant, memory: &Pool) {
        let Some((volume, _)) = &self.medium else { return };
        let block_size = volume.geometry().block_size;
        let Some(medium) = Medium::new(Arc::clone(volume), block_size) else {
            return self.fail(format!(
                "it has {} bytes, and a mirror needs more than 2 MiB of each leg for itself",
                volume.geometry().bytes()
            ));
        };
        self.read(now, Area::new(medium.reserve, block_size), memory);
    }

    /// Goes on as far as it can. An error ends the opening of the whole mirror.
    fn advance(&mut self, now: Instant, with: &Fencing<'_>) -> Result<bool, OpenError> {
        if let LegStep::Opening(opening) = &mut self.step {
            let Some(opened) = opening.poll(now) else { return Ok(false) };
            match opened {
                Ok(volume) => self.opened(now, volume, with),
                Err(error) => self.fail(error.to_string()),
            }
            return Ok(true);
        }
        if !self.asked {
            return Ok(false);
        }
        let Some(answer) = self.take(now) else { return Ok(false) };
        match (&mut self.step, answer) {
            (LegStep::Fencing(fencer), answer) => match fencer.answered(answer, with.claim) {
                Fenced::Ask(operation) => self.ask(now, operation),
                Fenced::Done => self.fenced(now, with.memory),
                Fenced::Failed(why) => self.fail(why),
                Fenced::Refused(why) => return Err(OpenError::new(format!("{}: {why}", self.url))),
            },
            (LegStep::Superblocks(area) | LegStep::Bitmap(area), Ok(Outcome::Data(data))) => {
                let mut area = area.clone();
                data.pieces().iter().for_each(|piece| area.add(piece));
                self.read(now, area, with.memory);
            }
            (LegStep::Recording, Ok(_)) => (self.step, self.unsettled) = (LegStep::Recorded, false),
            (_, Ok(_)) => self.fail("it answered something else when its own blocks were read"),
            (_, Err(VolumeErrorKind::ReservationConflict)) => {
                return Err(OpenError::new(format!(
                    "{}: another host has taken its reservation meanwhile",
                    self.url
                )));
            }
            (_, Err(kind)) => self.fail(format!("the mirror's blocks on it cannot be used: {kind}")),
        }
        Ok(true)
    }

    fn is_busy(&self) -> bool {
        self.asked || matches!(self.step, LegStep::Opening(_))
    }

    /// Begins to give back what this opening may have taken on the leg. A write that may still come is kept from the next owner's by a preemption alone: there it stays.
    fn leave(&mut self, now: Instant, key: u64) {
        if self.medium.is_none() || (self.unsettled && !self.asked) {
            return self.fail("the mirror was not opened");
        }
        self.step = LegStep::Leaving(None);
        if !self.asked {
            self.go_on_leaving(now, key, None);
        }
    }

    /// Goes on with that. True once it is over.
    fn has_left(&mut self, now: Instant, key: u64) -> bool {
        while matches!(self.step, LegStep::Leaving(_)) {
            let Some(answer) = self.take(now) else { return false };
            self.go_on_leaving(now, key, Some(answer));
        }
        true
    }

    fn go_on_leaving(&mut self, now: Instant, key: u64, answer: Option<Result<Outcome, VolumeErrorKind>>) {
        let LegStep::Leaving(releaser) = &mut self.step else { return };
        let next = match (releaser.as_mut(), answer) {
            (Some(releaser), Some(answer)) => releaser.answered(answer),
            (None, Some(Err(_))) if self.unsettled => None,
            _ => Some(releaser.insert(Releaser::new(key)).operation()),
        };
        match next {
            Some(operation) => self.ask(now, operation),
            None => self.fail("the mirror was not opened"),
        }
    }

    fn seen(&self) -> Option<Seen> {
        let (volume, _) = self.medium.as_ref()?;
        let (LegStep::Read(area) | LegStep::Known(area)) = &self.step else { return None };
        let block_size = volume.geometry().block_size;
        let medium = Medium::new(Arc::clone(volume), block_size)?;
        let (found, holds_data) = (area.superblock(), area.holds_data());
        Some(Seen { found, holds_data, room: medium.room(), block_size })
    }

    fn last_error(&self) -> Option<String> {
        match &self.step {
            LegStep::Failed(why) => Some(why.clone()),
            _ => None,
        }
    }
}

/// What every leg is given.
struct Fencing<'a> {
    key: u64,
    claim: Claim,
    context: &'a QueueContext,
    memory: &'a Pool,
}

impl MirrorOpening {
    /// Lets each leg go on. True if any did.
    fn advance(&mut self, now: Instant) -> Result<bool, OpenError> {
        let with = Fencing {
            key: self.key,
            claim: if self.options.takeover { Claim::Takeover } else { Claim::Free },
            context: &self.context,
            memory: &self.memory,
        };
        let mut some = false;
        for leg in &mut self.legs {
            some |= leg.advance(now, &with)?;
        }
        Ok(some)
    }

    fn is_busy(&self) -> bool {
        self.legs.iter().any(LegOpening::is_busy)
    }

    /// What is wrong with legs that cannot be used, for people.
    fn errors(&self) -> String {
        let wrong = self.legs.iter().filter_map(|leg| Some(format!("{}: {}", leg.url, leg.last_error()?)));
        wrong.fold(String::new(), |all, one| format!("{all}; {one}"))
    }

    fn decide(&mut self, now: Instant) -> Result<(), OpenError> {
        let seen: Vec<_> = self.legs.iter().map(LegOpening::seen).collect();
        let mut uuid = [0; 16];
        self.entropy.fill(&mut uuid);
        let Options { copies, slab, spares, degraded, overwrite, .. } = self.options;
        let wishes = Wishes { legs: self.legs.len(), spares, copies, slab, degraded, overwrite };
        let plan = assemble(wishes, &seen, uuid)?;
        for (leg, role) in self.legs.iter_mut().zip(&plan.roles) {
            let step = std::mem::replace(&mut leg.step, LegStep::Recorded);
            leg.step = match step {
                LegStep::Read(mut area) if role.content == Content::InSync && !plan.fresh => {
                    area.want_bitmap(plan.layout.regions());
                    leg.read(now, area, &self.memory);
                    continue;
                }
                LegStep::Read(area) => LegStep::Known(area),
                other => other,
            };
        }
        self.stage = Stage::Bitmaps(Box::new(plan));
        Ok(())
    }

    /// Everything is known: the legs as they are from now on, and the record of that.
    fn record(&mut self, now: Instant, plan: Box<Plan>) -> Result<(), OpenError> {
        let regions = plan.layout.regions();
        let mut dirty = Bits::new(regions);
        let mut unread = None;
        for (index, (leg, role)) in self.legs.iter().zip(&plan.roles).enumerate() {
            match &leg.step {
                LegStep::Known(area) if role.content == Content::InSync && !plan.fresh => {
                    dirty.unite(&area.dirty(&plan.layout.uuid, regions));
                }
                LegStep::Failed(_) if role.content == Content::InSync => unread = Some(index),
                _ => {}
            }
        }
        if let Some(index) = unread {
            return Err(OpenError::new(format!(
                "{} failed while its dirty log was read: open the mirror again",
                Numbered(index)
            )));
        }
        if plan.fresh && usize::from(plan.layout.copies) < usize::from(plan.layout.legs - plan.layout.spares)
        {
            // Several legs are sources, and hold whatever they held.
            dirty = Bits::full(regions);
        }
        let mut members = self.members(now, &plan);
        let Ok(Record { blocks, slot, .. }) = members.begin_record(0, now) else {
            return Err(OpenError::new("too few legs are there to record the opening"));
        };
        for (membership, bytes) in blocks {
            let Some(leg) = self.legs.get_mut(membership.leg) else { continue };
            let Some((volume, _)) = &leg.medium else { continue };
            let size = volume.geometry().block_size;
            let Some(medium) = Medium::new(Arc::clone(volume), size) else { continue };
            let mut block = self.memory.take(size as usize).unwrap_or_else(|| Buf::zeroed(size as usize));
            block.fill(0);
            if let Some(first) = block.get_mut(..bytes.len()) {
                first.copy_from_slice(&bytes);
            }
            let extent = Extent::new(medium.reserve + wire::widen(slot), 1);
            (leg.step, leg.unsettled) = (LegStep::Recording, true);
            let (data, durability) = (block.freeze().into(), Durability::Durable);
            leg.ask(now, Operation::Write { extent, data, durability });
        }
        self.stage = Stage::Recording(Box::new(members), Box::new(dirty), plan);
        Ok(())
    }

    fn members(&mut self, now: Instant, plan: &Plan) -> Members {
        let layout = plan.layout;
        let mut legs = Vec::new();
        for (leg, role) in self.legs.iter().zip(&plan.roles) {
            let usable = !matches!(leg.step, LegStep::Failed(_) | LegStep::Opening(_));
            let volume = leg.medium.as_ref().filter(|_| usable).map(|(volume, _)| Arc::clone(volume));
            let medium = volume.and_then(|volume| Medium::new(volume, layout.block_size));
            let state = match role {
                _ if role.member.is_none() => LegState::Spare,
                _ if role.content == Content::InSync && medium.is_some() => LegState::InSync,
                _ => LegState::Out,
            };
            legs.push(Leg {
                medium,
                state,
                content: role.content,
                member: role.member.map(usize::from),
                reserved: usable,
                tenure: 0,
                outstanding: 0,
                rests_until: now,
                out_since: now,
                pending: Bits::new(0),
                copied: 0,
                acknowledged: Acknowledged::default(),
                error: leg.last_error(),
            });
        }
        let mut preference: Vec<usize> = (0..legs.len()).collect();
        let local = |index: usize| self.legs.get(index).is_some_and(|leg| leg.local);
        preference.sort_by_key(|index| (self.options.prefer != Some(*index), !local(*index)));
        let mut version = plan.version;
        version.generation += 1;
        let mut members = Members::new(Assembled {
            layout,
            placement: placement(&layout),
            legs,
            preference,
            version,
            nonce: self.entropy.number(),
            owner: self.owner.clone(),
            epoch: plan.epoch + 1,
            degraded: self.options.degraded,
        });
        members.include_reachable();
        members
    }

    fn finish(&mut self, now: Instant) -> Option<Opened> {
        let Stage::Recording(mut members, dirty, plan) = std::mem::replace(&mut self.stage, Stage::Over)
        else {
            return None;
        };
        let wrote: Vec<usize> = (0..self.legs.len())
            .filter(|index| self.legs.get(*index).is_some_and(|leg| matches!(leg.step, LegStep::Recorded)))
            .collect();
        for (index, leg) in self.legs.iter().enumerate() {
            if leg.medium.is_some() {
                members.end(index);
            }
        }
        if let Err(why) = members.opened(&wrote) {
            return Some(Err(OpenError::new(format!("{why}{}", self.errors()))));
        }
        let layout = plan.layout;
        let region_blocks = layout.region / u64::from(layout.block_size);
        let suspects = (*dirty).clone();
        // Above everything that earlier openings have written.
        let sequence = members.version.generation.saturating_mul(1 << 40);
        let log = DirtyLog::new(layout.regions(), region_blocks, *dirty, sequence, now);
        let shape = self.shape(&members, &plan);
        let state = State::new(*members, log, suspects);
        let shared = Shared::new(shape, state, self.reopen.clone());
        Some(Ok(Arc::new(Mirror::new(shared))))
    }

    fn shape(&self, members: &Members, plan: &Plan) -> Shape {
        let layout = plan.layout;
        let media = || members.legs.iter().filter_map(|leg| leg.medium.as_ref());
        let limits = media().map(|medium| limits_in(medium, layout.block_size)).reduce(least);
        let mut limits = limits.unwrap_or_default();
        limits.depth = limits.depth.min(DEPTH);
        limits.max_discard =
            limits.max_discard.min(ZEROED_REGIONS * layout.region / u64::from(layout.block_size));
        let features = media().map(|medium| medium.volume.features()).reduce(Features::intersection);
        let cached = media().any(|medium| medium.volume.features().contains(Features::VOLATILE_CACHE));
        let mut features = features.unwrap_or(Features::empty()) | Features::COMPARE;
        features.set(Features::VOLATILE_CACHE, cached);
        let physical = media().map(|medium| medium.volume.geometry().physical_block_size).max();
        let geometry = Geometry {
            blocks: layout.size / u64::from(layout.block_size),
            block_size: layout.block_size,
            physical_block_size: physical.unwrap_or(layout.block_size).max(layout.block_size),
        };
        Shape {
            geometry,
            limits,
            features,
            rate: self.options.rate,
            timeout: self.options.timeout,
            key: self.key,
            takeover: self.options.takeover,
            overwrite: self.options.overwrite,
            needs: self.legs.iter().map(|leg| leg.need).collect(),
            urls: self.legs.iter().map(|leg| leg.url.clone()).collect(),
        }
    }

    fn go_on(&mut self, now: Instant) -> Result<Option<Opened>, OpenError> {
        let deadline = *self.deadline.get_or_insert(now + OPEN_WAIT);
        while self.advance(now)? {}
        if now >= deadline {
            let slow = self.legs.iter_mut().filter(|leg| matches!(leg.step, LegStep::Opening(_)));
            slow.for_each(|leg| leg.fail("it could not be opened in time"));
        }
        if self.is_busy() {
            return Ok(None);
        }
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Reading => self.decide(now)?,
            Stage::Bitmaps(plan) => self.record(now, plan)?,
            recording @ Stage::Recording(..) => {
                self.stage = recording;
                return Ok(self.finish(now));
            }
            decided @ (Stage::Failing(..) | Stage::Over) => {
                self.stage = decided;
                return Ok(None);
            }
        }
        self.go_on(now)
    }

    /// It cannot be opened: whoever opens it next finds nothing of this owner on its legs, where they answer in time. What was taken over from somebody else stays: that one may still run, and
    /// would have access again.
    fn give_up(&mut self, now: Instant, why: OpenError) {
        for leg in &mut self.legs {
            if self.options.takeover {
                leg.fail("the mirror was not opened");
            } else {
                leg.leave(now, self.key);
            }
        }
        self.stage = Stage::Failing(why, now + OPEN_WAIT);
    }
}

/// A leg's limits, in the mirror's blocks.
fn limits_in(medium: &Medium, block_size: u32) -> Limits {
    let limits = medium.volume.limits();
    let factor = medium.factor;
    Limits {
        max_transfer: limits.max_transfer / block_size * block_size,
        discard_granularity: wire::saturate(u64::from(limits.discard_granularity).div_ceil(factor)),
        max_discard: limits.max_discard / factor,
        atomic_blocks: 1,
        ..limits
    }
}

fn least(one: Limits, two: Limits) -> Limits {
    Limits {
        max_transfer: one.max_transfer.min(two.max_transfer),
        memory_alignment: one.memory_alignment.max(two.memory_alignment),
        depth: one.depth.min(two.depth),
        discard_granularity: one.discard_granularity.max(two.discard_granularity),
        max_discard: one.max_discard.min(two.max_discard),
        atomic_blocks: 1,
    }
}

impl Opening for MirrorOpening {
    fn poll(&mut self, now: Instant) -> Option<Opened> {
        if matches!(self.stage, Stage::Over) {
            return None;
        }
        if !matches!(self.stage, Stage::Failing(..)) {
            match self.go_on(now) {
                Ok(Some(Err(why))) => self.give_up(now, why),
                Ok(opened) => return opened,
                Err(why) => {
                    let why = OpenError::new(format!("{why}{}", self.errors()));
                    self.give_up(now, why);
                }
            }
        }
        let key = self.key;
        let mut has_left = true;
        for leg in &mut self.legs {
            has_left &= leg.has_left(now, key);
        }
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Failing(why, until) if has_left || until <= now => Some(Err(why)),
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let of_leg = |leg: &LegOpening| match (&leg.step, &leg.medium) {
            (LegStep::Opening(opening), _) => opening.poll_timeout(),
            (_, Some((_, queue))) if leg.asked => queue.poll_timeout(),
            _ => None,
        };
        let waits = self.legs.iter().any(|leg| matches!(leg.step, LegStep::Opening(_)));
        let until = match &self.stage {
            Stage::Failing(_, until) => Some(*until),
            _ => self.deadline.filter(|_| waits),
        };
        self.legs.iter().filter_map(of_leg).chain(until).min()
    }
}
