//! Brings legs back, on the keeper's queue: opens those that were not there, looks at those that are out, and puts those in sync to which everything is copied.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::Instant;
use volume::{Failure, OpenError, Opening, Operation, Outcome, PathState, QueueContext, VolumeErrorKind};

use crate::area::Area;
use crate::bits::Bits;
use crate::limits::{PROBE, REOPEN};
use crate::members::{Acknowledged, LegState, Membership};
use crate::numbering::Numbered;
use crate::planted::{Fault, planted};
use crate::ports::Owner;
use crate::shared::{Prepared, State};
use crate::superblock::{Content, Found, Version};
use crate::tasks::QueueParts;

enum Step {
    /// A thread prepares the volume.
    Preparing { leg: usize, told: Arc<Mutex<Option<Prepared>>> },
    /// The volume is being opened here.
    Opening { leg: usize, opening: Box<dyn Opening> },
    /// The leg's own blocks are read.
    Reading { membership: Membership, area: Area },
    /// The dirty log is written to all legs, the leg among them.
    Rewriting { membership: Membership, mark: u64 },
    /// What was copied is made durable there.
    Flushing,
}

/// What the keeper does for one leg at a time.
#[derive(Default)]
pub(crate) struct Prober {
    step: Option<Step>,
    /// When legs that are out are looked at next, and legs that are not there opened.
    probe_at: Instant,
    reopen_at: Instant,
    due: Option<Instant>,
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prober").field("probe_at", &self.probe_at).finish_non_exhaustive()
    }
}

/// Most bytes of a leg's own that are read at a time.
const TRANSFER: u32 = 1 << 20;

impl Prober {
    /// Goes on with what is possible. True if anything happened.
    pub(crate) fn work(&mut self, with: &mut QueueParts<'_>, context: &QueueContext) -> bool {
        let some = self.advance(with, context);
        self.release(with);
        some
    }

    /// Lets another queue bring legs back, if nothing of that is under way here.
    fn release(&self, with: &QueueParts<'_>) {
        if self.step.is_some() {
            return;
        }
        let mut state = with.shared.lock();
        if state.probing.take_if(|probing| *probing == with.queue).is_some() && !state.is_keeper(with.queue) {
            // The keeper has waited for it.
            state.tell_all();
        }
    }

    fn advance(&mut self, with: &mut QueueParts<'_>, context: &QueueContext) -> bool {
        self.due = None;
        match self.step.take() {
            None => self.begin(with, context),
            Some(Step::Preparing { leg, told }) => {
                let prepared = told.lock().unwrap_or_else(PoisonError::into_inner).take();
                match prepared {
                    // Whoever was to tell is gone.
                    None if Arc::strong_count(&told) == 1 => {
                        note(with, leg, "it cannot be prepared".to_owned());
                    }
                    None => self.step = Some(Step::Preparing { leg, told }),
                    Some(Ok(prepared)) => {
                        self.step = Some(Step::Opening { leg, opening: prepared.begin(context) });
                        return true;
                    }
                    Some(Err(error)) => note(with, leg, error.to_string()),
                }
                false
            }
            Some(Step::Opening { leg, opening }) => self.open(with, leg, opening),
            Some(Step::Rewriting { membership, mark }) => self.rewritten(with, membership, mark),
            Some(step) => {
                self.step = Some(step);
                false
            }
        }
    }

    fn begin(&mut self, with: &mut QueueParts<'_>, context: &QueueContext) -> bool {
        let mut state = with.shared.lock();
        if !state.is_keeper(with.queue) || state.refusal().is_some() || state.probing.is_some() {
            return false;
        }
        if state.members.use_spare(with.now) {
            state.path_changed();
            state.tell_all();
        }
        let spare_at = state.members.spare_at();
        if let Some(membership) = copied(&state) {
            let mark = state.log.rewrite();
            state.probing = Some(with.queue);
            state.tell_all();
            drop(state);
            self.step = Some(Step::Rewriting { membership, mark });
            return true;
        }
        let absent = state.members.legs.iter().position(|leg| leg.medium.is_none());
        let out = state.members.legs.iter().any(|leg| leg.state == LegState::Out && leg.medium.is_some());
        let absent = absent.filter(|_| with.shared.reopen.is_some());
        self.due = [
            spare_at,
            out.then_some(self.probe_at.max(with.now + PROBE / 10)),
            absent.map(|_| self.reopen_at.max(with.now + PROBE / 10)),
        ]
        .into_iter()
        .flatten()
        .min();
        if out && self.probe_at <= with.now {
            self.probe_at = with.now + PROBE;
            self.due = Some(self.probe_at);
            if let Some((membership, area)) = returned(&state, with.now) {
                state.probing = Some(with.queue);
                drop(state);
                self.read(with, membership, area);
                return true;
            }
        }
        let (Some(leg), Some(reopen), true) = (absent, &with.shared.reopen, self.reopen_at <= with.now)
        else {
            return false;
        };
        state.probing = Some(with.queue);
        drop(state);
        self.reopen_at = with.now + REOPEN;
        let told = Arc::new(Mutex::new(None));
        self.step = Some(Step::Preparing { leg, told: Arc::clone(&told) });
        let waker = context.waker.clone();
        reopen.begin(
            leg,
            Box::new(move |prepared| {
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(prepared);
                waker.wake();
            }),
        );
        false
    }

    fn open(&mut self, with: &mut QueueParts<'_>, leg: usize, mut opening: Box<dyn Opening>) -> bool {
        match opening.poll(with.now) {
            None => {
                self.due = opening.poll_timeout();
                self.step = Some(Step::Opening { leg, opening });
                return false;
            }
            Some(Err(error)) => note(with, leg, error.to_string()),
            Some(Ok(volume)) => {
                if let Err(misfit) = with.shared.join(leg, volume) {
                    note(with, leg, misfit.to_string());
                } else {
                    self.probe_at = with.now;
                }
            }
        }
        true
    }

    fn read(&mut self, with: &mut QueueParts<'_>, membership: Membership, area: Area) {
        let Some(extent) = area.next(TRANSFER.min(with.shared.shape.limits.max_transfer)) else {
            if area.wants_bitmap() {
                self.admit(with, membership, &area);
            } else {
                self.check(with, membership, area);
            }
            return;
        };
        let block_size = {
            let mut state = with.shared.lock();
            state.members.begin(&[membership]);
            let medium = state.members.leg(membership.leg).and_then(|leg| leg.medium.as_ref());
            medium.map_or(512, |medium| medium.block_size)
        };
        let into = with.buffer(wire::index(extent.blocks * u64::from(block_size)));
        self.step = Some(Step::Reading { membership, area });
        with.ports.send(with.now, membership, Owner::Probe, Operation::Read { extent, into });
    }

    /// The superblocks are read: does the leg belong here, and is its bitmap worth reading?
    fn check(&mut self, with: &mut QueueParts<'_>, membership: Membership, mut area: Area) {
        let found = area.superblock();
        let (verdict, regions) = {
            let state = with.shared.lock();
            (verdict(&state, membership.leg, &found), state.members.layout.regions())
        };
        match verdict {
            Ok(Content::Blank) if found == Found::Blank && area.want_head() => {
                self.read(with, membership, area);
            }
            Ok(Content::Blank) if area.holds_data() && !with.shared.shape.overwrite => {
                let why = "it is no mirror's, and holds data that would be overwritten: name the right volume, or open the mirror anew with overwrite=1";
                note(with, membership.leg, why.to_owned());
            }
            Ok(Content::Blank) => self.take_in(with, membership, Bits::full(regions), Content::Blank),
            Ok(_) if has_lost(with, membership.leg, |has| found_version(&found) < has.version) => {
                self.take_in(with, membership, Bits::full(regions), Content::Blank);
            }
            Ok(_) => {
                area.want_bitmap(regions);
                self.read(with, membership, area);
            }
            Err(why) => note(with, membership.leg, why.to_string()),
        }
    }

    fn admit(&mut self, with: &mut QueueParts<'_>, membership: Membership, area: &Area) {
        let layout = with.shared.lock().members.layout;
        let (uuid, regions) = (layout.uuid, layout.regions());
        if has_lost(with, membership.leg, |has| area.newest_log(&uuid, regions) < has.log) {
            return self.take_in(with, membership, Bits::full(regions), Content::Blank);
        }
        let dirty = area.dirty(&uuid, regions);
        self.take_in(with, membership, dirty, Content::Out);
    }

    fn take_in(
        &mut self,
        with: &mut QueueParts<'_>,
        membership: Membership,
        mut pending: Bits,
        content: Content,
    ) {
        self.step = None;
        let mut guard = with.shared.lock();
        let state = &mut *guard;
        if state.members.state(membership) != Some(LegState::Out) {
            return;
        }
        // Writes that are under way have their bits set.
        pending.unite(state.log.set());
        pending.unite(&state.suspects);
        pending.retain(|region| state.holds(membership.leg, region));
        if let Some(leg) = state.members.legs.get_mut(membership.leg) {
            leg.content = content;
        }
        state.members.admit(membership.leg, pending, with.now);
        state.tell_all();
    }

    /// A leg has answered.
    pub(crate) fn answered(
        &mut self,
        with: &mut QueueParts<'_>,
        membership: Membership,
        result: Result<Outcome, Failure>,
    ) {
        self.handle_answer(with, membership, result);
        self.release(with);
    }

    fn handle_answer(
        &mut self,
        with: &mut QueueParts<'_>,
        membership: Membership,
        result: Result<Outcome, Failure>,
    ) {
        match (self.step.take(), result) {
            (Some(Step::Reading { membership: asked, mut area }), Ok(Outcome::Data(data)))
                if asked == membership =>
            {
                data.pieces().iter().for_each(|piece| area.add(piece));
                self.read(with, membership, area);
            }
            (
                Some(Step::Reading { .. } | Step::Flushing),
                Err(Failure { kind: VolumeErrorKind::ReservationConflict, .. }),
            ) => {
                // Otherwise somebody else has a leg that this owner never had, and the leg says so.
                let mut state = with.shared.lock();
                if state.members.leg(membership.leg).is_some_and(|leg| leg.reserved) {
                    state.fence();
                }
            }
            (Some(Step::Reading { .. }), Err(failure)) => {
                note(with, membership.leg, format!("its own blocks cannot be read: {}", failure.kind));
            }
            (Some(Step::Flushing), Ok(_)) => {
                let mut state = with.shared.lock();
                let complete = state.members.leg(membership.leg).is_some_and(|leg| leg.pending.count() == 0);
                if complete && state.members.state(membership) == Some(LegState::Resynchronizing) {
                    state.members.promote(membership);
                    state.path_changed();
                    state.tell_all();
                }
            }
            (Some(Step::Flushing), Err(failure)) => {
                let why = format!("a flush failed: {}", failure.kind);
                with.shared.lock().fail(membership, why, with.now);
            }
            (step, _) => self.step = step,
        }
    }

    fn rewritten(&mut self, with: &mut QueueParts<'_>, membership: Membership, mark: u64) -> bool {
        let mut state = with.shared.lock();
        if state.members.state(membership) != Some(LegState::Resynchronizing) {
            return true;
        }
        if !state.log.is_rewritten(mark) {
            drop(state);
            self.step = Some(Step::Rewriting { membership, mark });
            return false;
        }
        state.members.begin(&[membership]);
        drop(state);
        self.step = Some(Step::Flushing);
        with.ports.send(with.now, membership, Owner::Probe, Operation::Flush);
        true
    }

    /// True if nothing is under way for a leg.
    pub(crate) fn is_idle(&self) -> bool {
        self.step.is_none()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}

/// The version of a record that was found.
fn found_version(found: &Found) -> Version {
    match found {
        Found::Record(record) => record.version,
        _ => Version::default(),
    }
}

/// True if a leg has less than it had acknowledged as durable: then nothing else that it acknowledged counts, and it says so.
fn has_lost(with: &QueueParts<'_>, leg: usize, lacks: impl Fn(Acknowledged) -> bool) -> bool {
    let mut state = with.shared.lock();
    let Some(leg) = state.members.legs.get_mut(leg) else { return false };
    let lost = lacks(leg.acknowledged) && !planted(Fault::TrustedLiar);
    if lost {
        leg.error =
            Some("it has lost what it had acknowledged as durable: everything is copied to it".to_owned());
    }
    lost
}

/// Keeps what is wrong with a leg, for people.
fn note(with: &QueueParts<'_>, leg: usize, why: String) {
    if let Some(leg) = with.shared.lock().members.legs.get_mut(leg) {
        leg.error = Some(why);
    }
}

/// A leg to which everything is copied.
fn copied(state: &State) -> Option<Membership> {
    let legs = state.members.legs.iter().enumerate();
    let mut done = legs.filter(|(_, leg)| leg.state == LegState::Resynchronizing && leg.pending.count() == 0);
    done.next().map(|(leg, found)| Membership { leg, tenure: found.tenure })
}

/// A leg that is out and may be looked at.
fn returned(state: &State, now: Instant) -> Option<(Membership, Area)> {
    let legs = state.members.legs.iter().enumerate();
    let mut ready = legs.filter(|(_, leg)| {
        let reachable =
            leg.medium.as_ref().is_some_and(|medium| medium.volume.path() != PathState::Inaccessible);
        leg.state == LegState::Out && leg.outstanding == 0 && leg.rests_until <= now && reachable
    });
    // Each in turn, so that one that cannot be read keeps nobody else out.
    let count = ready.clone().count();
    let turn = usize::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(0);
    let (leg, found) = if count > 0 { ready.nth(turn % count)? } else { return None };
    let medium = found.medium.as_ref()?;
    Some((Membership { leg, tenure: found.tenure }, Area::new(medium.reserve, medium.block_size)))
}

/// What a leg that is out holds, or why it must not take part.
fn verdict(state: &State, leg: usize, found: &Found) -> Result<Content, OpenError> {
    let members = &state.members;
    let content = members.leg(leg).map_or(Content::Blank, |leg| leg.content);
    match found {
        Found::Blank | Found::Damaged => Ok(Content::Blank),
        Found::Record(record) if record.layout.uuid != members.layout.uuid => Err(OpenError::new(
            "it holds a leg of another mirror: name the right volume, or clear its last 2 MiB",
        )),
        Found::Record(record) if record.version.generation > members.version.generation => {
            Err(OpenError::new(format!(
                "{} has opened this mirror since: open it anew, and let one host alone use it",
                record.owner
            )))
        }
        Found::Record(record) if usize::from(record.leg) != leg => Err(OpenError::new(format!(
            "it is {} of this mirror, and stands in the place of {}: write the legs in their order",
            Numbered(usize::from(record.leg)),
            Numbered(leg)
        ))),
        Found::Record(_) => Ok(content),
        Found::Later(version) => Err(OpenError::new(format!(
            "its superblock has version {version}, which this program does not know"
        ))),
        Found::Foreign => {
            Err(OpenError::new("its last 2 MiB hold something else: name the right volume, or clear them"))
        }
    }
}
