//! One core's queue of a remote volume: its requests, and whatever connection there is for them.
//!
//! The queue keeps a copy of each request until it is answered ([`super::replay`]). While there is no connection, requests wait
//! here. [`super::recovery`] says when to connect and when to give up; a [`Route`] says how.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use ::volume::{
    Completion, Failure, Operation, QueueFull, Request, Tag, VolumeErrorKind, VolumeQueue, promises,
};
use buf::Buf;
use protocol::Instant;

use crate::limits;

use super::entries::{Entries, Entry, Nexus, Nexuses, Place};
use super::far_end::{Facts, Shape, Shared};
use super::link::{Link, LinkInput};
use super::paths::QueuePath;
use super::precheck::precheck;
use super::recovery::{Patience, Recovery, State, Step};
use super::replay::Replay;
use super::route::{Attempt, Connected, Route};

/// One core's queue.
pub(crate) struct RemoteQueue {
    shared: Arc<Shared>,
    route: Box<dyn Route>,
    recovery: Recovery,
    link: Option<Rc<Link>>,
    path: QueuePath,
    /// The epoch of the far end that the connection leads to ([`Shared::recognise`]).
    epoch: u64,
    /// The nexus of the connection, if that is known.
    nexus: Option<Nexus>,
    nexuses: Nexuses,
    attempt: Option<Box<dyn Attempt>>,
    /// How often the size had changed when the latest attempt was begun.
    begun: u64,
    entries: Entries,
    /// Those that wait for a connection, with the tags that they are to have there.
    parked: VecDeque<Request>,
    /// Memory of reads that wait, and are not in `parked`: a connection gave it back.
    spare: HashMap<Tag, Buf>,
    /// When the first held request may be sent again.
    release: Option<Instant>,
    /// Losses that users of this queue have been told of.
    told: u64,
    done: Vec<Completion>,
    /// Answers that tell of a loss whose record is not kept yet.
    owed: Vec<Completion>,
    scratch: Vec<Completion>,
    /// Requests that the admin queue has.
    admin_outstanding: usize,
    depth: usize,
    /// The volume's shape, and how often its size had changed then.
    shape: (u64, Shape),
    waker: Waker,
}

impl RemoteQueue {
    /// A queue whose first connection is being made.
    pub(crate) fn new(shared: Arc<Shared>, mut route: Box<dyn Route>, waker: Waker) -> Self {
        let begun = shared.resized();
        let attempt = Some(route.begin());
        let patience = Patience { first: shared.timing.oldest(), later: shared.timing.reconnect };
        let recovery = Recovery::new(patience, (shared.context.entropy)());
        let shape = (shared.resized(), shared.shape());
        let depth = shape.1.limits.depth as usize;
        let told = shared.durability.losses();
        shared.losses.add_queue(waker.clone());
        Self {
            shared,
            route,
            recovery,
            link: None,
            path: QueuePath::Unknown,
            epoch: 0,
            nexus: None,
            nexuses: Nexuses::default(),
            attempt,
            begun,
            entries: Entries::default(),
            parked: VecDeque::new(),
            spare: HashMap::new(),
            release: None,
            told,
            done: Vec::new(),
            owed: Vec::new(),
            scratch: Vec::new(),
            admin_outstanding: 0,
            depth,
            shape,
            waker,
        }
    }

    fn wake(&self, link: &Link) {
        if let Some(endpoint) = link.endpoint() {
            self.shared.context.dialer.wake(endpoint);
        }
    }

    /// Ends a request; `own` is its tag toward the connection.
    fn end(&mut self, own: Tag, kind: VolumeErrorKind) {
        if let Some(tag) = self.entries.remove(own) {
            let memory = self.spare.remove(&own);
            self.done.push(Completion { tag, result: Err(Failure { kind, memory }) });
            self.waker.wake_by_ref();
        }
    }

    /// Keeps the memory of a read that a connection has not done, until it is sent again or ends.
    fn keep_memory(&mut self, own: Tag, memory: Option<Buf>) {
        if let Some(memory) = memory.filter(|_| self.entries.get_mut(own).is_some()) {
            self.spare.insert(own, memory);
        }
    }

    /// The same of a request that was not begun.
    fn keep(&mut self, request: Request) {
        if let Operation::Read { into, .. } = request.operation {
            self.keep_memory(request.tag, Some(into));
        }
    }

    /// Gives a request to the connection, or lets it wait for one.
    fn dispatch(&mut self, request: Request) {
        let own = request.tag;
        let Some(link) = &self.link else { return self.parked.push_back(request) };
        let Some(entry) = self.entries.get_mut(own) else { return };
        match request.operation {
            Operation::Flush => {
                let losses = self.shared.durability.losses();
                if std::mem::replace(&mut self.told, losses) != losses {
                    self.shared.set_last_error(LOSS.to_owned());
                    return self.end(own, VolumeErrorKind::Unreachable);
                }
                entry.flush = self.shared.durability.begin_flush();
            }
            Operation::QueryAllocation { .. } => {
                (entry.place, entry.was_sent) = (Place::Sent, true);
                let link = Rc::clone(link);
                return self.dispatch_query(&link, request);
            }
            _ => {}
        }
        (entry.place, entry.was_sent) = (Place::Sent, true);
        if link.submit(request) {
            self.wake(link);
        }
    }

    /// Gives an allocation query to the admin queue, or to the connection.
    fn dispatch_query(&mut self, link: &Link, request: Request) {
        match self.route.submit_admin(request) {
            None => self.admin_outstanding += 1,
            Some(request) => {
                if link.submit(request) {
                    self.wake(link);
                }
            }
        }
    }

    /// Takes what the connection has answered.
    fn collect(&mut self, now: Instant) {
        let Some(link) = &self.link else { return };
        link.take_done(&mut self.scratch);
        if self.admin_outstanding > 0 {
            let own = self.scratch.len();
            self.route.take_admin_done(&mut self.scratch);
            self.admin_outstanding = self.admin_outstanding.saturating_sub(self.scratch.len() - own);
        }
        if self.scratch.is_empty() {
            return;
        }
        let ending = link.failure().is_some();
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut wrote = false;
        for mut completion in scratch.drain(..) {
            let mut busy = false;
            if let Err(Failure { kind, memory }) = &mut completion.result {
                busy = *kind == VolumeErrorKind::Busy;
                // What a connection gives back because it ends is not over yet.
                let waits = (ending && *kind == VolumeErrorKind::Unreachable)
                    || (busy && self.rest(now, completion.tag));
                if waits {
                    self.keep_memory(completion.tag, memory.take());
                    continue;
                }
            }
            let own = completion.tag;
            let Some(entry) = self.entries.get(own) else { continue };
            let tag = entry.tag;
            if self.tells_of_loss(entry, &completion) {
                self.entries.remove(own);
                self.refuse(tag);
                continue;
            }
            if completion.result.is_ok() {
                self.recovery.handle_progress();
                match &entry.replay {
                    Replay::Flush => self.shared.durability.flushed(entry.flush),
                    replay if replay.is_cached_write() => {
                        self.shared.durability.wrote();
                        wrote = true;
                    }
                    _ => {}
                }
            }
            if let (Err(failure), true) = (&mut completion.result, busy && entry.busy > 0) {
                failure.kind = VolumeErrorKind::TimedOut;
            }
            self.entries.remove(own);
            completion.tag = tag;
            self.done.push(completion);
        }
        if wrote {
            self.shared.acknowledged(self.epoch);
        }
        self.scratch = scratch;
    }

    /// Ends a request that fails because acknowledged writes are lost.
    fn refuse(&mut self, tag: Tag) {
        self.owed.push(Completion::failed(tag, VolumeErrorKind::Media));
        self.waker.wake_by_ref();
    }

    /// Notes what the end of a request says of writes that were acknowledged before; true if it has to speak of a loss. A far end tells of it
    /// once, so whoever else asks is told here. A flush that succeeds promises nothing once a loss is known.
    fn tells_of_loss(&self, entry: &Entry, completion: &Completion) -> bool {
        let losses = &self.shared.losses;
        match (&entry.replay, &completion.result) {
            (Replay::Flush, Ok(_)) => losses.happened(),
            (Replay::Flush, Err(Failure { kind, .. })) => match meaning(*kind) {
                Meaning::Lost => {
                    losses.report(&format!("the far end failed a flush: {kind}"));
                    true
                }
                Meaning::Unheard => {
                    self.shared.flush_unheard();
                    false
                }
                Meaning::NotBegun => false,
            },
            // Its own data could not be written, or what lay in the far end's cache: nothing says which.
            (replay, Err(Failure { kind: kind @ VolumeErrorKind::Media, .. }))
                if replay.is_durable_write() =>
            {
                losses.report(&format!("the far end failed a durable write: {kind}"));
                true
            }
            _ => false,
        }
    }

    /// The far end was too busy for a request, which is made again a little later: false if its time is over, or it was not
    /// kept.
    fn rest(&mut self, now: Instant, own: Tag) -> bool {
        let Some(entry) = self.entries.get_mut(own) else { return false };
        let pause = limits::BUSY_FIRST.saturating_mul(1 << entry.busy.min(16)).min(limits::BUSY_MOST);
        let again = now + pause;
        if !entry.replay.is_kept() || entry.submitted + self.shared.timing.command <= again {
            return false;
        }
        entry.busy = entry.busy.saturating_add(1);
        entry.place = Place::Held(again, None);
        self.release = Some(self.release.map_or(again, |release| release.min(again)));
        true
    }

    /// Looks whether the connection still stands.
    fn check_link(&mut self, now: Instant) {
        let Some(link) = &self.link else { return };
        if let Some(why) = link.failure().or_else(|| self.route.breach()) {
            link.push(LinkInput::Abandon);
            let link = Rc::clone(link);
            self.wake(&link);
            self.lose(now, why);
        }
    }

    /// The connection is gone: what it had is to be sent again, or ends.
    fn lose(&mut self, now: Instant, why: String) {
        for input in self.link.take().map(|link| link.take_back()).unwrap_or_default() {
            if let LinkInput::Submit(request) = input {
                self.keep(request);
            }
        }
        self.admin_outstanding = 0;
        self.route.handle_lost(&why);
        self.shared.set_last_error(why);
        self.shared.set_path(&mut self.path, QueuePath::Lost);
        self.recovery.handle_ended(now);
        let quiet = self.route.quiet_time();
        let nexus = self.nexus.take().and_then(|nexus| self.nexuses.number(nexus));
        let oldest = self.shared.timing.oldest();
        for tag in self.entries.select(|entry| entry.place == Place::Sent) {
            let Some(entry) = self.entries.get_mut(tag) else { continue };
            let old = entry.submitted + oldest <= now;
            if old || !entry.replay.is_kept() {
                self.end(tag, VolumeErrorKind::Unreachable);
            } else if entry.replay.writes() && !quiet.is_zero() {
                entry.place = Place::Held(now + quiet, nexus);
            } else if let Some(operation) = entry.replay.operation(self.spare.remove(&tag)) {
                entry.place = Place::Parked;
                self.parked.push_back(Request { tag, operation });
            }
        }
        self.find_release();
        if self.recovery.state().fails_fast() {
            self.expire();
        }
    }

    fn find_release(&mut self) {
        let held = self.entries.iter_mut().filter_map(|entry| match entry.place {
            Place::Held(until, _) => Some(until),
            Place::Parked | Place::Sent => None,
        });
        self.release = held.min();
    }

    /// Sends again what was held until `now`.
    fn release_held(&mut self, now: Instant) {
        if self.release.is_none_or(|release| release > now) {
            return;
        }
        self.send_again(|place| matches!(place, Place::Held(until, _) if until <= now));
    }

    /// Sends again what is held so.
    fn send_again(&mut self, wanted: impl Fn(Place) -> bool) {
        for tag in self.entries.select(|entry| wanted(entry.place)) {
            let Some(entry) = self.entries.get_mut(tag) else { continue };
            entry.place = Place::Parked;
            if let Some(operation) = entry.replay.operation(self.spare.remove(&tag)) {
                self.dispatch(Request { tag, operation });
            }
        }
        self.find_release();
    }

    /// Ends everything that waits.
    fn expire(&mut self) {
        for request in std::mem::take(&mut self.parked) {
            self.keep(request);
        }
        self.release = None;
        for tag in self.entries.select(|entry| entry.place != Place::Sent) {
            self.end(tag, VolumeErrorKind::Unreachable);
        }
    }

    /// Looks how the attempt is doing.
    fn check_attempt(&mut self, now: Instant) {
        match self.attempt.as_mut().and_then(|attempt| attempt.poll()) {
            None => {}
            Some(Ok(Connected { link, facts })) => {
                self.attempt = None;
                self.open(link, &facts);
            }
            Some(Err(error)) => {
                self.attempt = None;
                self.shared.set_last_error(error.to_string());
                self.shared.set_path(&mut self.path, QueuePath::Lost);
                self.recovery.handle_failed(now);
                if self.recovery.state() == State::Dead {
                    self.expire();
                }
            }
        }
    }

    /// There is a connection, if only it leads to the same volume.
    fn open(&mut self, link: Rc<Link>, facts: &Facts) {
        match self.shared.recognise(facts, self.begun) {
            Ok(epoch) => self.epoch = epoch,
            Err(mismatch) => {
                link.push(LinkInput::Disconnect);
                self.wake(&link);
                self.shared.set_last_error(mismatch.to_string());
                self.shared.set_path(&mut self.path, QueuePath::Lost);
                self.recovery.handle_mismatch();
                return self.expire();
            }
        }
        self.recovery.handle_opened();
        self.shared.set_path(&mut self.path, QueuePath::Open);
        self.link = Some(link);
        self.nexus = facts.nexus;
        // What the nexus had before is over: its login has ended that.
        if let Some(ended) = facts.nexus.and_then(|nexus| self.nexuses.number(nexus)) {
            self.send_again(|place| matches!(place, Place::Held(_, Some(nexus)) if nexus == ended));
        }
        for request in std::mem::take(&mut self.parked) {
            self.dispatch(request);
        }
    }
}

/// What the failure of a flush says of writes that were acknowledged before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Some are lost.
    Lost,
    /// It may have failed for that, and nobody has heard it.
    Unheard,
    /// Nothing: it was not begun, or goes on elsewhere.
    NotBegun,
}

fn meaning(kind: VolumeErrorKind) -> Meaning {
    match kind {
        VolumeErrorKind::TimedOut | VolumeErrorKind::Cancelled => Meaning::Unheard,
        VolumeErrorKind::Busy
        | VolumeErrorKind::ReservationConflict
        | VolumeErrorKind::ShuttingDown
        | VolumeErrorKind::Unreachable
        | VolumeErrorKind::Unsupported => Meaning::NotBegun,
        _ => Meaning::Lost,
    }
}

/// What users of a queue read when a flush fails though there is a connection.
const LOSS: &str = "the volume was away, and may have lost what was written and not yet flushed";

impl VolumeQueue for RemoteQueue {
    fn submit(&mut self, now: Instant, mut request: Request) -> Result<(), QueueFull> {
        if self.entries.len() + self.done.len() + self.owed.len() >= self.depth {
            return Err(QueueFull(request));
        }
        let resized = self.shared.resized();
        if self.shape.0 != resized {
            self.shape = (resized, self.shared.shape());
        }
        let tag = request.tag;
        if let Some(answer) = precheck(&request.operation, &self.shape.1) {
            self.done.push(match answer {
                Ok(outcome) => Completion { tag, result: Ok(outcome) },
                Err(kind) => request.failed(kind),
            });
            self.waker.wake_by_ref();
            return Ok(());
        }
        if self.shared.losses.happened() && promises(&request.operation) {
            self.refuse(tag);
            return Ok(());
        }
        let replay = Replay::of(&request.operation);
        let place = Place::Parked;
        request.tag = self.entries.insert(Entry {
            tag,
            replay,
            place,
            submitted: now,
            was_sent: false,
            flush: 0,
            busy: 0,
        });
        if self.recovery.state().fails_fast() {
            let own = request.tag;
            self.keep(request);
            self.end(own, VolumeErrorKind::Unreachable);
        } else {
            if self.link.is_none() {
                self.recovery.handle_waiting(now);
            }
            self.dispatch(request);
        }
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        let Some(own) = self.entries.find(tag) else { return };
        let Some(entry) = self.entries.get_mut(own) else { return };
        match (&self.link, entry.place) {
            (Some(link), Place::Sent) => {
                link.push(LinkInput::Cancel(own));
                self.wake(link);
            }
            (None, Place::Sent) => {}
            (_, Place::Parked | Place::Held(..)) => {
                // What a lost connection had may have taken effect.
                let unknown = entry.was_sent && entry.replay.writes();
                let parked = self.parked.iter().position(|request| request.tag == own);
                if let Some(request) = parked.and_then(|index| self.parked.remove(index)) {
                    self.keep(request);
                }
                self.end(
                    own,
                    if unknown { VolumeErrorKind::Unreachable } else { VolumeErrorKind::Cancelled },
                );
                self.find_release();
            }
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.collect(now);
        self.check_link(now);
        loop {
            self.check_attempt(now);
            self.release_held(now);
            match self.recovery.poll(now) {
                Step::Rest => break,
                Step::Expire => self.expire(),
                Step::Dial => {
                    self.begun = self.shared.resized();
                    self.attempt = Some(self.route.begin());
                }
            }
        }
        if !self.owed.is_empty() && !self.shared.losses.is_being_kept() {
            self.done.append(&mut self.owed);
        }
        done.append(&mut self.done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.recovery.poll_timeout(), self.release].into_iter().flatten().min()
    }
}

impl Drop for RemoteQueue {
    fn drop(&mut self) {
        self.shared.set_path(&mut self.path, QueuePath::Unknown);
        if let Some(link) = &self.link {
            link.push(LinkInput::Disconnect);
            self.wake(link);
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.give_up();
        }
    }
}

#[cfg(test)]
mod tests;
