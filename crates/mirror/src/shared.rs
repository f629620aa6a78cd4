//! What all queues of a mirror share, behind one lock that is never held across a call to a leg.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use protocol::Instant;
use volume::{Extent, Features, Geometry, LeaveMode, Limits, Listeners, OpenError, Volume, VolumeErrorKind};

use crate::bits::Bits;
use crate::dirty_log::DirtyLog;
use crate::fencer::{Claim, Need};
use crate::limits::ABANDONED;
use crate::members::{Dropped, LegState, Medium, Members, Membership};
use crate::range_locks::{Held, Holder, RangeLocks};

/// Opens a leg that was not there when the mirror was opened, on another thread.
pub(crate) trait Reopen: Send + Sync + std::fmt::Debug {
    /// Begins to prepare the leg; `then` is called on some thread.
    fn begin(&self, leg: usize, then: Box<dyn FnOnce(Prepared) + Send>);
}

/// A leg of which everything that may block is done, or why that could not be.
pub(crate) type Prepared = Result<Box<dyn volume::PreparedOpen>, OpenError>;

/// What does not change while the mirror is open.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) geometry: Geometry,
    pub(crate) limits: Limits,
    pub(crate) features: Features,
    /// Bytes a second that are resynchronised.
    pub(crate) rate: u64,
    pub(crate) timeout: Duration,
    /// The key of this owner's reservations.
    pub(crate) key: u64,
    /// Reservations of others are taken away.
    pub(crate) takeover: bool,
    /// Legs that are no mirror's yet are written over though they hold data.
    pub(crate) overwrite: bool,
    /// Which legs must have a reservation.
    pub(crate) needs: Vec<Need>,
    /// The legs' URLs, without secrets.
    pub(crate) urls: Vec<String>,
}

/// A queue, as the others see it.
#[derive(Debug)]
struct QueueEntry {
    id: u64,
    waker: Waker,
    granted: Vec<u64>,
    /// Legs, the log or the record have changed.
    changed: bool,
}

/// Blocks that one leg could not read, and others could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repair {
    pub(crate) membership: Membership,
    pub(crate) extent: Extent,
}

/// Everything that changes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) members: Members,
    pub(crate) locks: RangeLocks,
    pub(crate) log: DirtyLog,
    /// Regions in which legs that are in sync may differ, as writes to them were left unfinished: they are read from the first leg alone.
    pub(crate) suspects: Bits,
    /// No suspect region is copied before: what was left unfinished may still take effect.
    pub(crate) suspects_rest_until: Instant,
    pub(crate) repairs: VecDeque<Repair>,
    /// The region that is being copied, and whether that has become useless.
    pub(crate) copying: Option<CopiedRegion>,
    /// When the next copy may begin.
    pub(crate) copy_at: Instant,
    /// The queue that brings a leg back: who was the keeper before may still be at it. Two of them would open the leg twice, and be two hosts to it, of which one has the reservation.
    pub(crate) probing: Option<u64>,
    /// A leg holds a reservation of somebody else: this mirror must not go on.
    pub(crate) fenced: bool,
    pub(crate) departure: Departure,
    /// Attempts to write the log that failed, and why the last one did.
    pub(crate) log_failures: u64,
    pub(crate) log_error: Option<VolumeErrorKind>,
    pub(crate) path_changes: u64,
    listeners: Arc<Listeners>,
    pub(crate) last_error: Option<String>,
    queues: Vec<QueueEntry>,
    last_queue: u64,
    /// The queue that attends, if one did last.
    attendant: Option<u64>,
}

/// How far the mirror is on its way to not being used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// It is used.
    No,
    /// No request is taken any more; those under way end.
    Wanted(LeaveMode),
    /// Its reservations are given back: nothing is written any more.
    Releasing(LeaveMode),
    /// Its part is done; what its legs are made of is left.
    Over(LeaveMode),
}

impl Departure {
    /// True while this mirror has something to do about it.
    pub(crate) fn is_under_way(self) -> bool {
        matches!(self, Self::Wanted(_) | Self::Releasing(_))
    }

    /// True while records and bits may be written.
    pub(crate) fn may_write(self) -> bool {
        matches!(self, Self::No | Self::Wanted(_))
    }

    fn how(self) -> LeaveMode {
        match self {
            Self::No => LeaveMode::Configured,
            Self::Wanted(how) | Self::Releasing(how) | Self::Over(how) => how,
        }
    }

    /// The later way holds.
    pub(crate) fn ask(&mut self, how: LeaveMode) {
        *self = match self {
            Self::No | Self::Wanted(_) => Self::Wanted(how),
            Self::Releasing(_) => Self::Releasing(how),
            Self::Over(_) => Self::Over(how),
        };
    }

    pub(crate) fn release(&mut self) {
        *self = Self::Releasing(self.how());
    }

    pub(crate) fn finish(&mut self) -> LeaveMode {
        *self = Self::Over(self.how());
        self.how()
    }
}

/// See [`State::copying`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopiedRegion {
    pub(crate) region: u64,
    pub(crate) spoiled: bool,
}

/// What the news of a queue are.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Numbers whose locks were granted.
    pub(crate) granted: Vec<u64>,
    pub(crate) changed: bool,
    /// See [`State::is_quiet`].
    pub(crate) is_quiet: bool,
}

/// What became of a request that a leg failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The leg is out: the request goes on without it.
    WithoutLeg,
    /// It was the last leg: the failure is the request's.
    Request,
}

/// A mirror, as its queues see it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) shape: Shape,
    state: Mutex<State>,
    pub(crate) reopen: Option<Arc<dyn Reopen>>,
}

impl State {
    pub(crate) fn new(members: Members, log: DirtyLog, suspects: Bits) -> Self {
        Self {
            members,
            locks: RangeLocks::default(),
            log,
            suspects,
            suspects_rest_until: Instant::ZERO,
            repairs: VecDeque::new(),
            copying: None,
            copy_at: Instant::ZERO,
            probing: None,
            fenced: false,
            departure: Departure::No,
            log_failures: 0,
            log_error: None,
            path_changes: 0,
            listeners: Arc::default(),
            last_error: None,
            queues: Vec::new(),
            last_queue: 0,
            attendant: None,
        }
    }

    /// A new queue's number. `attends` says that it is the keeper from now on.
    pub(crate) fn add_queue(&mut self, waker: Waker, attends: bool) -> u64 {
        self.last_queue += 1;
        let place = if attends { 0 } else { self.queues.len() };
        self.attendant = if attends { Some(self.last_queue) } else { self.attendant };
        let entry = QueueEntry { id: self.last_queue, waker, granted: Vec::new(), changed: true };
        self.queues.insert(place, entry);
        self.last_queue
    }

    /// True for the queue that does what is to be done once for all queues: the one that attends, or the oldest.
    pub(crate) fn is_keeper(&self, queue: u64) -> bool {
        self.queues.first().is_some_and(|first| first.id == queue)
    }

    /// True if nobody else has a queue.
    pub(crate) fn has_one_queue(&self) -> bool {
        self.queues.len() == 1
    }

    /// Why no request is taken any more, if that is so.
    pub(crate) fn refusal(&self) -> Option<VolumeErrorKind> {
        match self.departure {
            _ if self.fenced => Some(VolumeErrorKind::ReservationConflict),
            Departure::No => None,
            _ => Some(VolumeErrorKind::ShuttingDown),
        }
    }

    /// True for a queue that attends the mirror.
    pub(crate) fn attends(&self, queue: u64) -> bool {
        self.attendant == Some(queue)
    }

    /// What has happened for a queue since it last asked.
    pub(crate) fn news(&mut self, queue: u64) -> News {
        let is_quiet = self.is_quiet();
        let Some(entry) = self.queues.iter_mut().find(|entry| entry.id == queue) else {
            return News::default();
        };
        let (granted, changed) = (std::mem::take(&mut entry.granted), std::mem::take(&mut entry.changed));
        News { granted, changed, is_quiet }
    }

    /// True if nothing is to be done but what requests ask for, and what falls due by time.
    fn is_quiet(&self) -> bool {
        !self.log.is_stale()
            && self.departure == Departure::No
            && self.members.are_well()
            && self.suspects.count() == 0
            && self.repairs.is_empty()
    }

    /// Has `waker` woken when the path has changed.
    pub(crate) fn listen(&self, waker: Waker) {
        self.listeners.add(waker);
    }

    /// Members are missing that were not, or the reverse.
    pub(crate) fn path_changed(&mut self) {
        self.path_changes += 1;
        self.listeners.wake();
    }

    /// Has all queues look at what has changed.
    pub(crate) fn tell_all(&mut self) {
        for entry in &mut self.queues {
            entry.changed = true;
            entry.waker.wake_by_ref();
        }
    }

    /// Tells queues of locks that were granted.
    fn tell_granted(&mut self, granted: Vec<Holder>) {
        for Holder { queue, number } in granted {
            if let Some(entry) = self.queues.iter_mut().find(|entry| entry.id == queue) {
                entry.granted.push(number);
                entry.waker.wake_by_ref();
            }
        }
    }

    /// What this owner may do about a leg's reservation. One that it has had is not taken back; a leg that was not there when the mirror was opened is taken over
    /// then, if that is wished.
    pub(crate) fn claim(&self, leg: usize, takeover: bool) -> Claim {
        match self.members.leg(leg) {
            Some(leg) if !leg.reserved && takeover => Claim::Takeover,
            Some(leg) if !leg.reserved => Claim::Free,
            _ => Claim::Held,
        }
    }

    /// Unlocks what a queue has locked by this number, in this place if it knows.
    pub(crate) fn unlock(&mut self, holder: Holder, held: Option<Held>) {
        let mut granted = Vec::new();
        self.locks.unlock(holder, held, &mut granted);
        if !granted.is_empty() {
            self.tell_granted(granted);
        }
    }

    /// A leg failed a request: it goes out, unless it is the last.
    pub(crate) fn fail(&mut self, membership: Membership, why: String, now: Instant) -> Failed {
        match self.members.drop_leg(membership, why, now) {
            Dropped::Last => Failed::Request,
            Dropped::Out => {
                self.path_changed();
                self.tell_all();
                Failed::WithoutLeg
            }
        }
    }

    /// True if a region is still to be copied to a leg.
    pub(crate) fn lacks(&self, membership: Membership, region: u64) -> bool {
        let leg = self.members.leg(membership.leg);
        leg.is_some_and(|leg| leg.state == LegState::Resynchronizing && leg.pending.contains(region))
    }

    /// True if a leg holds a region.
    pub(crate) fn holds(&self, leg: usize, region: u64) -> bool {
        let placement = self.members.placement;
        let row = placement.row(self.log.extent(region).start);
        let member = self.members.leg(leg).and_then(|leg| leg.member);
        member.is_some_and(|member| placement.holds(member, row))
    }

    /// The legs may differ in these blocks: a write to them has failed, or was left.
    pub(crate) fn suspect(&mut self, extent: Extent) {
        for region in self.log.regions(extent) {
            self.suspects.insert(region);
            for index in 0..self.members.legs.len() {
                let holds = self.holds(index, region);
                let leg = self.members.legs.get_mut(index);
                let leg = leg.filter(|leg| holds && leg.state == LegState::Resynchronizing);
                if let Some(leg) = leg {
                    leg.pending.insert(region);
                }
            }
            if let Some(copied) = self.copying.as_mut().filter(|copied| copied.region == region) {
                copied.spoiled = true;
            }
        }
    }

    /// Nothing is done for this user any more, as another one is.
    pub(crate) fn fence(&mut self) {
        if !self.fenced {
            self.fenced = true;
            self.path_changed();
            self.last_error = Some(
                "another host has taken this mirror over by a reservation on its legs: open it anew to take it back".to_owned(),
            );
            self.tell_all();
        }
    }

    /// A queue is gone. What it was writing may take effect for a while.
    pub(crate) fn forget_queue(&mut self, queue: u64, now: Instant) {
        self.queues.retain(|entry| entry.id != queue);
        let mut granted = Vec::new();
        self.locks.forget_queue(queue, &mut granted);
        self.tell_granted(granted);
        self.members.forget_queue(queue, now);
        self.log.forget_queue(queue, now);
        self.probing.take_if(|probing| *probing == queue);
        self.tell_all();
    }

    /// A leg has this request of a queue that is gone: nobody will hear of its end. `copies` says that it writes older data than what may be written there from
    /// now on: such a leg must not be the only one that has the blocks, as it could lose what was acknowledged since.
    pub(crate) fn abandon(&mut self, membership: Membership, copies: bool, now: Instant) {
        self.members.end(membership.leg);
        if copies || self.members.state(membership) == Some(LegState::Resynchronizing) {
            let why = "a queue was closed while it copied to it, which may still take effect".to_owned();
            self.members.drop_leg(membership, why, now);
        }
        self.suspects_rest_until = self.suspects_rest_until.max(now + ABANDONED);
        if let Some(leg) = self.members.legs.get_mut(membership.leg) {
            leg.rests_until = leg.rests_until.max(now + ABANDONED);
        }
    }
}

impl Shared {
    pub(crate) fn new(shape: Shape, state: State, reopen: Option<Arc<dyn Reopen>>) -> Arc<Self> {
        Arc::new(Self { shape, state: Mutex::new(state), reopen })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A leg that was not there is open, and takes part from now on if it fits.
    pub(crate) fn join(&self, leg: usize, volume: Arc<dyn Volume>) -> Result<(), OpenError> {
        self.check_shape(&*volume)?;
        let medium = Medium::new(volume, self.shape.geometry.block_size)
            .ok_or_else(|| OpenError::new("it is too small, or its blocks are larger than the mirror's"))?;
        let mut state = self.lock();
        let needed = self.room_needed(&state);
        if medium.room() < needed {
            let room = medium.room();
            return Err(OpenError::new(format!(
                "it has room for {room} bytes of data, and {needed} are needed"
            )));
        }
        if let Some(leg) = state.members.legs.get_mut(leg) {
            leg.medium = Some(medium);
        }
        state.tell_all();
        Ok(())
    }

    /// Bytes of data on each leg.
    fn room_needed(&self, state: &State) -> u64 {
        let placement = state.members.placement;
        if placement.copies >= placement.members {
            return self.shape.geometry.bytes();
        }
        let slabs = self.shape.geometry.blocks / placement.slab;
        (slabs / placement.members)
            .saturating_mul(placement.copies)
            .saturating_mul(placement.slab)
            .saturating_mul(u64::from(self.shape.geometry.block_size))
    }

    /// What keeps a volume from being a leg of a mirror that is open already.
    fn check_shape(&self, volume: &dyn Volume) -> Result<(), OpenError> {
        let (limits, features) = (volume.limits(), volume.features());
        if features.contains(Features::READ_ONLY) {
            return Err(OpenError::new("it cannot be written"));
        }
        let (theirs, ours) = (limits.max_transfer, self.shape.limits.max_transfer);
        if theirs < ours {
            return Err(OpenError::new(format!(
                "it takes {theirs} bytes at a time, and the mirror was opened for {ours}: open the mirror again"
            )));
        }
        Ok(())
    }
}
