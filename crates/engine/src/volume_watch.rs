//! Notices that a volume has another size, so that every core can be told.
//!
//! Core 0 listens to all volumes. A volume may wake it from any thread, and costs nothing while nothing changes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use volume::{Geometry, Volume, VolumeId};

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

/// A volume, and the number of changes of its size that were seen.
struct Watched {
    id: VolumeId,
    volume: Arc<dyn Volume>,
    seen: u64,
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
        for ServedVolume { id, volume, .. } in volumes.iter().filter(|served| !known.contains(&served.id)) {
            volume.listen(Waker::from(Arc::clone(&self.news)));
            let seen = volume.changes().resized;
            self.watched.push(Watched { id: *id, volume: Arc::clone(volume), seen });
        }
    }

    /// Listens to no others any more.
    pub(crate) fn retain(&mut self, ids: &HashSet<VolumeId>) {
        self.watched.retain(|watched| ids.contains(&watched.id));
    }

    /// Reports every volume that has another size than was last reported.
    pub(crate) fn check(&mut self, mut report: impl FnMut(VolumeId, Geometry)) {
        if !self.news.any.load(Ordering::Relaxed) || !self.news.any.swap(false, Ordering::AcqRel) {
            return;
        }
        for Watched { id, volume, seen } in &mut self.watched {
            let resized = volume.changes().resized;
            if std::mem::replace(seen, resized) != resized {
                report(*id, volume.geometry());
            }
        }
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
            watch.check(|volume, geometry| reported.push((volume.slot(), geometry.blocks)));
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
