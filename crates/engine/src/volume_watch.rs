//! Notices that a volume has another size, so that every core can be told, or is reached in another way, so that operators can.
//!
//! Core 0 listens to all volumes. A volume may wake it from any thread, and costs nothing while nothing changes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use host::{Event, Journal, Kind, Level};
use volume::{Changes, Geometry, PathState, Volume, VolumeId};

use crate::catalogue::ServedVolume;

/// Some volume has changed; wakes the core that looks which.
struct News {
    any: AtomicBool,
    core: Waker,
}

impl Wake for News {
    fn wake(self: Arc<Self>) {
        self.any.store(true, Ordering::Release);
        self.core.wake_by_ref();
    }
}

/// A volume, and the changes that were seen.
struct Watched {
    id: VolumeId,
    name: Arc<str>,
    volume: Arc<dyn Volume>,
    seen: Changes,
}

/// What is new of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VolumeNews {
    /// It has another size.
    Size(VolumeId, Geometry),
    /// It is reached in another way.
    Path {
        /// What it is called.
        volume: Arc<str>,
        /// How it is reached.
        state: PathState,
        /// What was last wrong.
        why: Option<String>,
    },
}

/// The volumes that are served, with the sizes that they were last seen to have.
pub(crate) struct VolumeWatch {
    news: Arc<News>,
    watched: Vec<Watched>,
}

impl VolumeWatch {
    /// `core` is woken when there is something to see.
    pub(crate) fn new(core: Waker) -> Self {
        Self { news: Arc::new(News { any: AtomicBool::new(false), core }), watched: Vec::new() }
    }

    /// Listens to these volumes, too, from now on.
    pub(crate) fn add(&mut self, volumes: &[ServedVolume]) {
        let known: HashSet<VolumeId> = self.watched.iter().map(|watched| watched.id).collect();
        for ServedVolume { id, name, volume } in volumes.iter().filter(|served| !known.contains(&served.id)) {
            volume.listen(Waker::from(Arc::clone(&self.news)));
            let (seen, name) = (volume.changes(), Arc::clone(name));
            self.watched.push(Watched { id: *id, name, volume: Arc::clone(volume), seen });
        }
    }

    /// Listens to no others any more.
    pub(crate) fn retain(&mut self, ids: &HashSet<VolumeId>) {
        self.watched.retain(|watched| ids.contains(&watched.id));
    }

    /// Reports every volume that has another size, or another path, than was last reported.
    pub(crate) fn check(&mut self, mut report: impl FnMut(VolumeNews)) {
        if !self.news.any.load(Ordering::Relaxed) || !self.news.any.swap(false, Ordering::AcqRel) {
            return;
        }
        for Watched { id, name, volume, seen } in &mut self.watched {
            let changes = volume.changes();
            let before = std::mem::replace(seen, changes);
            if before.resized != changes.resized {
                report(VolumeNews::Size(*id, volume.geometry()));
            }
            if before.path != changes.path {
                let (state, why) = (volume.path(), volume.last_error());
                report(VolumeNews::Path { volume: Arc::clone(name), state, why });
            }
        }
    }
}

/// Tells that a volume is reached in another way.
pub(crate) fn tell_path(journal: &dyn Journal, volume: Arc<str>, state: PathState, why: Option<String>) {
    let level = if state == PathState::Optimized { Level::Info } else { Level::Warn };
    if journal.wants(Kind::Path, level) {
        let last = why.filter(|_| state != PathState::Optimized).map(|why| format!(": {why}"));
        let reason = format!("the path to the volume is {state}{}", last.unwrap_or_default());
        let event = Event { volume: Some(volume), ..Event::new(Kind::Path, reason) };
        journal.record(event.at(level));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use volume::{Changes, Features, Limits, Listeners, OpenError, QueueContext, VolumeQueue};

    use super::*;

    /// A volume that has the size that the test says.
    #[derive(Debug, Default)]
    struct Elastic {
        size: Mutex<(u64, u64)>,
        listeners: Listeners,
    }

    impl Elastic {
        fn set(&self, blocks: u64) {
            let mut size = self.size.lock().unwrap();
            *size = (blocks, size.1 + 1);
            self.listeners.wake();
        }
    }

    impl Volume for Elastic {
        fn geometry(&self) -> Geometry {
            Geometry { blocks: self.size.lock().unwrap().0, block_size: 512, physical_block_size: 512 }
        }
        fn limits(&self) -> Limits {
            Limits::default()
        }
        fn features(&self) -> Features {
            Features::empty()
        }
        fn changes(&self) -> Changes {
            Changes { resized: self.size.lock().unwrap().1, ..Changes::default() }
        }
        fn listen(&self, waker: Waker) {
            self.listeners.add(waker);
        }
        fn open_queue(&self, _context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
            Err(OpenError::new("it has only a size"))
        }
    }

    /// A volume whose path is another each time that it is changed.
    #[derive(Debug)]
    struct Distant(Elastic);

    impl Volume for Distant {
        fn geometry(&self) -> Geometry {
            self.0.geometry()
        }
        fn limits(&self) -> Limits {
            Limits::default()
        }
        fn features(&self) -> Features {
            Features::empty()
        }
        fn changes(&self) -> Changes {
            Changes { path: self.0.changes().resized, ..Changes::default() }
        }
        fn path(&self) -> PathState {
            PathState::Degraded { missing: u16::try_from(self.0.geometry().blocks).unwrap() }
        }
        fn last_error(&self) -> Option<String> {
            Some("a leg is away".to_owned())
        }
        fn listen(&self, waker: Waker) {
            self.0.listen(waker);
        }
        fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
            self.0.open_queue(context)
        }
    }

    #[test]
    fn a_path_that_changes_is_told_once_with_what_is_wrong() {
        let volume = Arc::new(Distant(Elastic::default()));
        let served = ServedVolume {
            id: VolumeId::new(0, 0),
            name: "disk".into(),
            volume: Arc::clone(&volume) as Arc<dyn Volume>,
        };
        let mut watch = VolumeWatch::new(Waker::noop().clone());
        watch.add(&[served]);
        let check = |watch: &mut VolumeWatch| {
            let mut reported = Vec::new();
            watch.check(|news| reported.push(news));
            reported
        };
        volume.0.set(1);
        volume.0.set(2);
        let (state, why) = (PathState::Degraded { missing: 2 }, Some("a leg is away".to_owned()));
        assert_eq!(check(&mut watch), [VolumeNews::Path { volume: "disk".into(), state, why }]);
        assert_eq!(check(&mut watch), []);
    }

    #[test]
    fn each_change_is_told_once_and_of_its_volume() {
        let volumes = [Arc::new(Elastic::default()), Arc::new(Elastic::default())];
        let served = (0..).zip(&volumes).map(|(slot, volume)| ServedVolume {
            id: VolumeId::new(slot, 0),
            name: "disk".into(),
            volume: Arc::clone(volume) as Arc<dyn Volume>,
        });
        let served: Vec<_> = served.collect();
        let mut watch = VolumeWatch::new(Waker::noop().clone());
        watch.add(&served);
        let check = |watch: &mut VolumeWatch| {
            let mut reported = Vec::new();
            watch.check(|news| match news {
                VolumeNews::Size(volume, geometry) => reported.push((volume.slot(), geometry.blocks)),
                VolumeNews::Path { .. } => panic!("nothing is wrong with the paths"),
            });
            reported
        };
        assert_eq!(check(&mut watch), []);
        volumes[1].set(7);
        volumes[1].set(9);
        assert_eq!(check(&mut watch), [(1, 9)], "the newest size, once");
        assert_eq!(check(&mut watch), []);
        volumes[0].set(1);
        assert_eq!(check(&mut watch), [(0, 1)]);
        watch.add(&served);
        watch.retain(&HashSet::from([served[1].id]));
        volumes[0].set(2);
        volumes[1].set(3);
        assert_eq!(check(&mut watch), [(1, 3)], "the other is not watched any more");
    }
}
