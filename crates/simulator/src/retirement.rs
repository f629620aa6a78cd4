//! What is seen of a server whose volumes come and go, and bugs at their ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{ControlEvent, ControlObserver, Message, Retired};
use host::CoreIndex;
use protocol::Instant;
use volume::{
    Completion, Features, Geometry, Limits, OpenError, Operation, Outcome, QueueContext, QueueFull, Request,
    Tag, Volume, VolumeId, VolumeQueue,
};

use crate::failure::TrialFailure;
use crate::lock;
use crate::mail::MessageHook;
use crate::slow::Effect;

/// What core 0 says of catalogues and volumes, and whether it was true.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    retired: BTreeSet<VolumeId>,
    events: Vec<ControlEvent>,
    broken: Option<String>,
}

impl Ledger {
    /// A volume comes that has this id from now on.
    pub(crate) fn begin(&self, id: VolumeId) {
        lock(&self.0).retired.remove(&id);
    }

    /// A write takes effect on the volume of this id.
    pub(crate) fn see(&self, id: VolumeId, effect: &Effect<'_>) {
        let mut entries = lock(&self.0);
        if entries.retired.contains(&id) {
            let (start, now) = (effect.extent.start, effect.now);
            let what = format!(
                "a write to block {start} of {id:?} takes effect at {now:?}, after the volume was retired"
            );
            entries.broken.get_or_insert(what);
        }
    }

    /// What was said since the last time. The error is what was not true.
    pub(crate) fn take(&self) -> Result<Vec<ControlEvent>, TrialFailure> {
        let mut entries = lock(&self.0);
        entries.broken.take().map_or(Ok(()), |what| Err(TrialFailure::Broken(what)))?;
        Ok(std::mem::take(&mut entries.events))
    }
}

impl ControlObserver for Ledger {
    fn observe(&self, event: ControlEvent) {
        let mut entries = lock(&self.0);
        if let ControlEvent::Retired { id, .. } = &event {
            entries.retired.insert(*id);
        }
        entries.events.push(event);
    }
}

/// A client's requests: those under way, and how others failed.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Each has its beginning on the clock that stands while a core does.
    under_way: BTreeMap<u64, Instant>,
    clock: Instant,
    failures: Vec<String>,
}

impl Requests {
    /// The time on the clock that stands while a core does.
    pub(crate) fn tell_time(&mut self, clock: Instant) {
        self.clock = clock;
    }

    /// None has failed, and none takes longer than this.
    pub(crate) fn check(&mut self, longest: Duration) -> Result<(), TrialFailure> {
        if let Some(failure) = self.failures.pop() {
            return Err(TrialFailure::Broken(format!(
                "it stays, and a request of its client fails: {failure}"
            )));
        }
        if self.under_way.values().any(|begun| self.clock > *begun + longest) {
            return Err(TrialFailure::Late(format!(
                "it stays, and a request of its client does not end within {longest:?}"
            )));
        }
        Ok(())
    }
}

/// A client's queue whose requests are noted.
pub(crate) struct Noted {
    pub(crate) inner: Box<dyn VolumeQueue>,
    pub(crate) requests: Arc<Mutex<Requests>>,
}

impl VolumeQueue for Noted {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let Tag(tag) = request.tag;
        self.inner.submit(now, request)?;
        let mut requests = lock(&self.requests);
        let begun = requests.clock;
        requests.under_way.insert(tag, begun);
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        self.inner.cancel(tag);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let before = done.len();
        self.inner.poll(now, done);
        let mut requests = lock(&self.requests);
        for Completion { tag, result } in done.iter().skip(before) {
            requests.under_way.remove(&tag.0);
            requests.failures.extend(result.as_ref().err().map(ToString::to_string));
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }
}

/// A volume whose last flush does nothing.
pub(crate) struct Unflushed(pub(crate) Arc<dyn Volume>);

impl Volume for Unflushed {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn features(&self) -> Features {
        self.0.features()
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        Ok(Box::new(UnflushedQueue { inner: self.0.open_queue(context)?, done: Vec::new() }))
    }
}

impl std::fmt::Debug for Unflushed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unflushed")
    }
}

struct UnflushedQueue {
    inner: Box<dyn VolumeQueue>,
    done: Vec<Tag>,
}

/// Above the asker's own bits, tags of requests that no connection has made are all ones.
const OF_NO_CONNECTION: u64 = 0x7fff_ffff << 33;

impl VolumeQueue for UnflushedQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        if matches!(request.operation, Operation::Flush) && request.tag.0 >= OF_NO_CONNECTION {
            self.done.push(request.tag);
            return Ok(());
        }
        self.inner.submit(now, request)
    }

    fn cancel(&mut self, tag: Tag) {
        self.inner.cancel(tag);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.inner.poll(now, done);
        done.extend(self.done.drain(..).map(|tag| Completion { tag, result: Ok(Outcome::Done) }));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }
}

/// What one core serves, and is about to.
#[derive(Default)]
struct Round {
    current: BTreeSet<VolumeId>,
    next: BTreeSet<VolumeId>,
    answers: u8,
}

/// Each core says that it has no queue of a volume any more as soon as it does not show the volume.
pub(crate) fn retire_before_drain() -> MessageHook<Message> {
    let mut rounds: BTreeMap<CoreIndex, Round> = BTreeMap::new();
    Box::new(move |(from, to), message| match message {
        Message::Prepare(catalogue) => {
            let round = rounds.entry(to).or_default();
            round.next = catalogue.volumes.iter().map(|served| served.id).collect();
            round.answers = 0;
            vec![(to, Message::Prepare(catalogue))]
        }
        Message::Answered(generation, Ok(())) => {
            let mut posted = vec![(to, Message::Answered(generation, Ok(())))];
            let round = rounds.entry(from).or_default();
            round.answers += 1;
            if round.answers == 3 {
                let gone = round.current.difference(&round.next).copied();
                let early = gone.map(|id| Message::Retired(Retired { id, secured: true, forced: 0 }));
                posted.extend(early.map(|message| (to, message)));
                round.current = std::mem::take(&mut round.next);
            }
            posted
        }
        Message::Retired(_) => Vec::new(),
        other => vec![(to, other)],
    })
}

/// A core that has no queue of a volume any more does not acknowledge a fence for it.
pub(crate) fn unknown_fence() -> MessageHook<Message> {
    let mut fences: BTreeMap<u64, VolumeId> = BTreeMap::new();
    let mut gone: BTreeSet<(CoreIndex, VolumeId)> = BTreeSet::new();
    Box::new(move |(from, to), message| {
        match &message {
            Message::Fence(fence) => {
                fences.insert(fence.number, fence.served);
            }
            Message::Retired(retired) => {
                gone.insert((from, retired.id));
            }
            Message::Fenced(number) if fences.get(number).is_some_and(|id| gone.contains(&(from, *id))) => {
                return Vec::new();
            }
            _ => {}
        }
        vec![(to, message)]
    })
}
