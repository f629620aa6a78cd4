//! Opens `cache=[FAST,CAPACITY]`, its two volumes by whatever openers there are.

use std::fmt;
use std::sync::Arc;

use names::{Source, VolumeUrl};
use protocol::Entropy;
use volume::{OpenError, OpenStage, Opener, Openers, Opening, PreparedOpen, QueueContext};

use crate::opening::CacheOpening;
use crate::options::Options;

/// Opens caches.
#[derive(Clone)]
pub struct CacheOpener {
    /// Where the number of a new cache comes from.
    pub entropy: Arc<dyn Fn() -> Box<dyn Entropy> + Send + Sync>,
}

impl fmt::Debug for CacheOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheOpener")
    }
}

impl Opener for CacheOpener {
    fn schemes(&self) -> &'static [&'static str] {
        &["cache"]
    }

    fn prepare(&self, url: &VolumeUrl, openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        let Source::Composite(composite) = &url.source else {
            return Err(OpenError::new("it is no cache").at(OpenStage::Scheme));
        };
        let [fast, capacity] = composite.children.as_slice() else {
            return Err(OpenError::new(format!(
                "a cache has two volumes, and here are {}: write cache=[FAST,CAPACITY]",
                composite.children.len()
            )));
        };
        let options = Options::read(composite)?;
        Ok(Box::new(Prepared {
            fast: openers.prepare(fast)?,
            capacity: openers.prepare(capacity)?,
            options,
            cache: (self.entropy)().number(),
        }))
    }
}

struct Prepared {
    fast: Box<dyn PreparedOpen>,
    capacity: Box<dyn PreparedOpen>,
    options: Options,
    cache: u64,
}

impl PreparedOpen for Prepared {
    fn begin(self: Box<Self>, context: &QueueContext) -> Box<dyn Opening> {
        let (fast, capacity) = (self.fast.begin(context), self.capacity.begin(context));
        Box::new(CacheOpening::new(fast, capacity, self.options, self.cache, context.clone()))
    }
}
