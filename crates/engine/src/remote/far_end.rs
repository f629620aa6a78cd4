//! What all queues of a remote volume share: what is known of the far end, and whether it is still the same.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use ::volume::{Features, Geometry, Identity, Limits, Listeners, Losses};

use super::client_context::ClientContext;
use super::durability::Durability;
use super::entries::Nexus;
use super::paths::{Paths, QueuePath};

/// What the far end told of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) geometry: Geometry,
    pub(crate) limits: Limits,
    pub(crate) features: Features,
    /// It takes discards, even if it does not promise what is read afterwards.
    pub(crate) discards: bool,
}

/// What a connection found at the other end.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) shape: Shape,
    /// What tells the volume from all others; empty if it has no such name.
    pub(crate) identity: Vec<u8>,
    /// What it says of itself to users.
    pub(crate) told: Identity,
    /// What changes whenever the far end begins anew and may have lost what it had in memory; `None` if it does not say.
    pub(crate) incarnation: Option<[u8; 16]>,
    /// Whose predecessor the connection has ended, if it has: see [`Nexus`].
    pub(crate) nexus: Option<Nexus>,
}

/// Why what a new connection found is not the volume that was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mismatch {
    /// It has another identity.
    #[error("another volume answers under its name: open it anew if that is meant")]
    Identity,
    /// Its blocks have another size, in bytes.
    #[error("the volume came back with blocks of {is} bytes, it had {was}: open it anew")]
    BlockSize { was: u32, is: u32 },
    /// It is smaller, in bytes.
    #[error("the volume came back with {is} bytes, it had {was}: open it anew")]
    Size { was: u64, is: u64 },
}

/// Which digests a connection is to have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digests {
    pub(crate) header: bool,
    pub(crate) data: bool,
}

/// How patient a volume is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// How long a command may take.
    pub(crate) command: Duration,
    /// How long requests wait for a lost connection; zero never to reconnect.
    pub(crate) reconnect: Duration,
}

impl Timing {
    /// The age from which a request is not sent again; as long it waits for the first attempt to connect. Then the contract's bound holds: it may wait for
    /// another connection as long as `reconnect` says, and its command may take as long as `command` says and another 15 s until an abort is answered.
    pub(crate) fn oldest(self) -> Duration {
        self.command.saturating_add(self.reconnect)
    }
}

/// What all queues of a volume share. Only [`Durability`] is touched for each request, and it has no lock.
#[derive(Debug)]
pub(crate) struct Shared {
    facts: Mutex<Facts>,
    /// How often the far end was found to be certainly another incarnation.
    epoch: AtomicU64,
    resized: AtomicU64,
    listeners: Listeners,
    last_error: Mutex<Option<String>>,
    pub(super) paths: Paths,
    pub(crate) durability: Durability,
    /// What the far end has said of acknowledged writes that are lost.
    pub(crate) losses: Arc<Losses>,
    pub(crate) timing: Timing,
    pub(crate) context: ClientContext,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(facts: Facts, timing: Timing, context: ClientContext) -> Arc<Self> {
        Arc::new(Self {
            facts: Mutex::new(facts),
            epoch: AtomicU64::new(0),
            resized: AtomicU64::new(0),
            listeners: Listeners::default(),
            last_error: Mutex::default(),
            paths: Paths::default(),
            durability: Durability::default(),
            losses: Losses::new(),
            timing,
            context,
        })
    }

    pub(crate) fn shape(&self) -> Shape {
        lock(&self.facts).shape
    }

    /// What it says of itself to users.
    pub(crate) fn told(&self) -> Identity {
        lock(&self.facts).told.clone()
    }

    /// Has `waker` woken when something has changed.
    pub(crate) fn listen(&self, waker: Waker) {
        self.listeners.add(waker);
    }

    /// How often the size has changed.
    pub(crate) fn resized(&self) -> u64 {
        self.resized.load(Ordering::Acquire)
    }

    /// Which writes are lost, or what was last wrong with the path to the volume.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.losses.last_error().or_else(|| lock(&self.last_error).clone())
    }

    pub(crate) fn set_last_error(&self, text: String) {
        *lock(&self.last_error) = Some(text);
    }

    /// A queue's path has changed; whoever listens is told if that changes the state of the whole.
    pub(super) fn set_path(&self, path: &mut QueuePath, to: QueuePath) {
        if self.paths.change(std::mem::replace(path, to), to) {
            self.listeners.wake();
        }
    }

    /// The volume has another size now.
    pub(crate) fn resize(&self, geometry: Geometry) {
        if self.put_size(&mut lock(&self.facts), geometry) {
            self.listeners.wake();
        }
    }

    /// Puts a size among the facts; true if it is another than before. It is counted while the facts are locked, so that
    /// nobody sees one without the other.
    fn put_size(&self, facts: &mut Facts, geometry: Geometry) -> bool {
        let other = std::mem::replace(&mut facts.shape.geometry, geometry) != geometry;
        if other {
            self.resized.fetch_add(1, Ordering::Release);
        }
        other
    }

    /// Looks whether what a new connection found is still the volume; says how it differs if it is not. Unless the far end
    /// is the incarnation that it was, what is not flushed may be lost. Answers the epoch of the connection.
    ///
    /// `resized` is how often the size had changed when the connection was begun. If another connection has heard of a new
    /// size since, the one that was found here may be that of before; this connection then hears of the change, too.
    pub(crate) fn recognise(&self, found: &Facts, resized: u64) -> Result<u64, Mismatch> {
        let mut facts = lock(&self.facts);
        let dated = self.resized() != resized;
        let (was, is) = (facts.shape.geometry, found.shape.geometry);
        if facts.identity != found.identity {
            return Err(Mismatch::Identity);
        }
        if was.block_size != is.block_size {
            let (was, is) = (was.block_size, is.block_size);
            return Err(Mismatch::BlockSize { was, is });
        }
        if is.blocks < was.blocks && !dated {
            let (was, is) = (was.bytes(), is.bytes());
            return Err(Mismatch::Size { was, is });
        }
        let known = facts.incarnation.zip(found.incarnation);
        if known.is_some_and(|(was, is)| was != is) {
            self.epoch.fetch_add(1, Ordering::SeqCst);
        }
        if known.is_none_or(|(was, is)| was != is) {
            // Either this sees a write that another queue is acknowledging, or that queue sees the new epoch.
            fence(Ordering::SeqCst);
            self.durability.suspect();
        }
        facts.incarnation = found.incarnation;
        let epoch = self.epoch.load(Ordering::SeqCst);
        let other = !dated && self.put_size(&mut facts, is);
        drop(facts);
        if other {
            self.listeners.wake();
        }
        Ok(epoch)
    }

    /// A flush was given up before its answer came. If it failed, only a far end that can be recognised, one of ours, says so again.
    pub(crate) fn flush_unheard(&self) {
        if lock(&self.facts).incarnation.is_none() {
            self.durability.suspect();
        }
    }

    /// Writes were acknowledged over a connection of that epoch. If others have found another incarnation since, they came
    /// too late to be suspected then.
    pub(crate) fn acknowledged(&self, epoch: u64) {
        fence(Ordering::SeqCst);
        if self.epoch.load(Ordering::SeqCst) != epoch {
            self.durability.suspect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(blocks: u64, identity: &[u8], incarnation: Option<u8>) -> Facts {
        let geometry = Geometry { blocks, block_size: 512, physical_block_size: 4096 };
        let features = Features::VOLATILE_CACHE;
        let shape = Shape { geometry, limits: Limits::default(), features, discards: false };
        Facts {
            shape,
            identity: identity.to_vec(),
            told: Identity::default(),
            incarnation: incarnation.map(|mark| [mark; 16]),
            nexus: None,
        }
    }

    fn shared(facts: Facts) -> Arc<Shared> {
        let timing = Timing { command: Duration::from_secs(1), reconnect: Duration::from_secs(1) };
        Shared::new(facts, timing, ClientContext::without_network())
    }

    #[test]
    fn what_comes_back_must_be_the_same_and_not_smaller() {
        let shared = shared(facts(100, b"one", None));
        assert!(
            shared
                .recognise(&facts(100, b"two", None), shared.resized())
                .unwrap_err()
                .to_string()
                .contains("another volume")
        );
        let smaller = shared.recognise(&facts(99, b"one", None), shared.resized()).unwrap_err();
        assert!(smaller.to_string().contains("51200"));
        let mut other = facts(100, b"one", None);
        other.shape.geometry.block_size = 4096;
        let other = shared.recognise(&other, shared.resized()).unwrap_err();
        assert!(other.to_string().contains("blocks of 4096 bytes"));
        assert_eq!(shared.shape().geometry.blocks, 100);
        assert_eq!(shared.recognise(&facts(120, b"one", None), shared.resized()), Ok(0), "it may have grown");
        assert_eq!((shared.shape().geometry.blocks, shared.resized.load(Ordering::Relaxed)), (120, 1));
    }

    #[test]
    fn a_size_from_before_a_change_that_another_connection_heard_of_is_not_believed() {
        for (now, before) in [(200, 100), (50, 100)] {
            let shared = shared(facts(before, b"one", None));
            let begun = shared.resized();
            shared.resize(facts(now, b"one", None).shape.geometry);
            assert_eq!(shared.recognise(&facts(before, b"one", None), begun), Ok(0));
            assert_eq!(shared.shape().geometry.blocks, now);
        }
    }

    /// Losses that are counted when such a connection is made after a write that nothing has flushed.
    fn losses_after(shared: &Shared, incarnation: Option<u8>) -> u64 {
        let before = shared.durability.losses();
        shared.durability.wrote();
        shared.recognise(&facts(1, b"", incarnation), shared.resized()).unwrap();
        shared.durability.losses() - before
    }

    #[test]
    fn only_the_same_incarnation_has_certainly_lost_nothing() {
        let shared = shared(facts(1, b"", Some(1)));
        for (found, losses, why) in [
            (Some(1), 0, "it is the same"),
            (Some(2), 1, "it is another"),
            (Some(2), 0, "it is the same again"),
            (None, 1, "it does not say"),
            (Some(2), 1, "it may have been another in between"),
        ] {
            // What was written before is another case's.
            shared.durability.flushed(shared.durability.begin_flush());
            assert_eq!(losses_after(&shared, found), losses, "{why}");
        }
    }

    #[test]
    fn a_write_that_an_old_incarnation_acknowledged_is_suspected_however_late_it_is_heard_of() {
        let shared = shared(facts(1, b"", Some(1)));
        let old = shared.recognise(&facts(1, b"", Some(1)), shared.resized()).unwrap();
        let new = shared.recognise(&facts(1, b"", Some(2)), shared.resized()).unwrap();
        assert_eq!(shared.durability.losses(), 0, "nothing was written");
        shared.durability.wrote();
        shared.acknowledged(new);
        assert_eq!(shared.durability.losses(), 0);
        shared.acknowledged(old);
        assert_eq!(shared.durability.losses(), 1);
    }
}
