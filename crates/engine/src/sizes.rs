//! Notices that a volume has another size, so that every core can be told.
//!
//! Core 0 listens to all volumes. A volume may wake it from any thread, and costs nothing while nothing changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use volume::{Geometry, Volume, VolumeId};

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

/// The sizes of all volumes as they were last seen.
pub(crate) struct Sizes {
    news: Arc<News>,
    seen: Vec<u64>,
}

impl Sizes {
    /// Listens from now on; `core` is woken when there is something to see.
    pub(crate) fn new(volumes: &[Arc<dyn Volume>], core: Waker) -> Self {
        let news = Arc::new(News { any: AtomicBool::new(false), core });
        let seen = volumes.iter().map(|volume| {
            volume.listen(Waker::from(Arc::clone(&news)));
            volume.changes().resized
        });
        Self { seen: seen.collect(), news }
    }

    /// Tells of every volume that has another size than it was last told to have.
    pub(crate) fn look(&mut self, volumes: &[Arc<dyn Volume>], mut tell: impl FnMut(VolumeId, Geometry)) {
        if !self.news.any.load(Ordering::Relaxed) || !self.news.any.swap(false, Ordering::AcqRel) {
            return;
        }
        for (slot, (seen, volume)) in (0_u16..).zip(self.seen.iter_mut().zip(volumes)) {
            let resized = volume.changes().resized;
            if std::mem::replace(seen, resized) != resized {
                tell(VolumeId::new(slot, 0), volume.geometry());
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
        let all: Vec<Arc<dyn Volume>> =
            volumes.iter().map(|each| Arc::clone(each) as Arc<dyn Volume>).collect();
        let mut sizes = Sizes::new(&all, Waker::noop().clone());
        let mut told = Vec::new();
        let mut look = |sizes: &mut Sizes| {
            sizes.look(&all, |volume, geometry| told.push((volume.slot(), geometry.blocks)));
            std::mem::take(&mut told)
        };
        assert_eq!(look(&mut sizes), []);
        volumes[1].set(7);
        volumes[1].set(9);
        assert_eq!(look(&mut sizes), [(1, 9)], "the newest size, once");
        assert_eq!(look(&mut sizes), []);
        volumes[0].set(1);
        assert_eq!(look(&mut sizes), [(0, 1)]);
    }
}
