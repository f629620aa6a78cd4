//! The volumes that a process attaches: its first core opens them side by side, and then every core has them.

use std::sync::Arc;

use buf::Pool;
use host::World;
use linerate::CoreOpening;
use names::VolumeUrl;
use protocol::Instant;
use volume::{OpenError, Volume};

/// Volumes that are being opened.
pub(crate) struct Openings(Vec<Progress>);

enum Progress {
    Opening(Box<CoreOpening>),
    Open(Arc<dyn Volume>),
}

/// The first volume that could not be opened.
#[derive(Debug)]
pub(crate) struct Unopened {
    /// Which one of those that were asked for.
    pub(crate) number: usize,
    pub(crate) error: OpenError,
}

impl Openings {
    /// Begins to open volumes for all cores.
    pub(crate) fn begin<'a, M>(
        urls: impl Iterator<Item = &'a VolumeUrl>,
        world: &World<M>,
        pool: &Pool,
    ) -> Self {
        Self(urls.map(|url| Progress::Opening(Box::new(CoreOpening::begin(url, world, pool)))).collect())
    }

    /// All of them once all are open, or the first that cannot be. Asked no more after that.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Result<Vec<Arc<dyn Volume>>, Unopened>> {
        for (number, one) in self.0.iter_mut().enumerate() {
            let Progress::Opening(opening) = one else { continue };
            match opening.poll(now) {
                Some(Ok(volume)) => *one = Progress::Open(volume),
                Some(Err(error)) => return Some(Err(Unopened { number, error })),
                None => {}
            }
        }
        let open = self.0.iter().map(|one| match one {
            Progress::Open(volume) => Some(Arc::clone(volume)),
            Progress::Opening(_) => None,
        });
        open.collect::<Option<Vec<_>>>().map(Ok)
    }

    /// When to poll again even if nothing wakes the core.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let waits = self.0.iter().filter_map(|one| match one {
            Progress::Opening(opening) => opening.poll_timeout(),
            Progress::Open(_) => None,
        });
        waits.min()
    }
}
