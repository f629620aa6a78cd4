//! Opens mirrors by URL, and their legs by whatever openers there are.

use std::sync::Arc;

use names::{Source, VolumeUrl};
use protocol::Instant;
use volume::{OpenError, Opened, Opener, Openers, Opening, PreparedOpen, QueueContext, Volume};

use crate::mirror::Mirror;

/// Opens `mirror=[URL,URL]`.
pub(crate) struct MirrorOpener;

impl Opener for MirrorOpener {
    fn schemes(&self) -> &'static [&'static str] {
        &["mirror"]
    }

    fn prepare(&self, url: &VolumeUrl, openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        let Source::Composite(composite) = &url.source else { return Err(OpenError::new("no mirror")) };
        let children = composite.children.iter().map(|child| openers.prepare(child));
        Ok(Box::new(Prepared(children.collect::<Result<_, _>>()?)))
    }
}

struct Prepared(Vec<Box<dyn PreparedOpen>>);

impl PreparedOpen for Prepared {
    fn begin(self: Box<Self>, context: &QueueContext) -> Box<dyn Opening> {
        let begin = |child: Box<dyn PreparedOpen>| (child.begin(context), None);
        Box::new(Children(self.0.into_iter().map(begin).collect()))
    }
}

/// A leg that is being opened, and the volume once it is.
type Child = (Box<dyn Opening>, Option<Arc<dyn Volume>>);

struct Children(Vec<Child>);

impl Opening for Children {
    fn poll(&mut self, now: Instant) -> Option<Opened> {
        for (opening, volume) in self.0.iter_mut().filter(|(_, volume)| volume.is_none()) {
            match opening.poll(now) {
                Some(Ok(opened)) => *volume = Some(opened),
                Some(Err(error)) => return Some(Err(error)),
                None => {}
            }
        }
        let legs: Option<Vec<_>> = self.0.iter().map(|(_, volume)| volume.clone()).collect();
        Some(Ok(Arc::new(Mirror::new(legs?))))
    }
}
