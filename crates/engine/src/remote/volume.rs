//! An opened remote volume, and its queue on each core.

use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use ::volume::{
    Completion, CoreId, Features, Geometry, Limits, OpenError, QueueFull, Request, Tag, Volume, VolumeQueue,
};
use protocol::Instant;

use super::link::{Link, Order, Stage};

/// Opens one more connection to the volume, on the calling core, and answers its link.
pub(crate) type Connect = dyn Fn(CoreId, Waker) -> Result<Rc<Link>, OpenError> + Send + Sync;

/// Lets a link's connection see its orders.
pub(crate) type Nudge = Arc<dyn host::Dialer>;

/// What the far end told of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) geometry: Geometry,
    pub(crate) limits: Limits,
    pub(crate) features: Features,
}

/// A volume on another machine.
pub(crate) struct RemoteVolume {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) connect: Box<Connect>,
    pub(crate) dialer: Nudge,
    /// Keeps the connections that belong to the volume as such.
    pub(crate) _purpose: Arc<()>,
}

impl std::fmt::Debug for RemoteVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteVolume").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Volume for RemoteVolume {
    fn geometry(&self) -> Geometry {
        self.shape.geometry
    }

    fn limits(&self) -> Limits {
        self.shape.limits
    }

    fn features(&self) -> Features {
        self.shape.features
    }

    fn open_queue(&self, core: CoreId, waker: Waker) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let link = (self.connect)(core, waker)?;
        let depth = self.shape.limits.depth as usize;
        Ok(Box::new(RemoteQueue { link, dialer: Arc::clone(&self.dialer), depth }))
    }
}

/// One core's connection to a remote volume.
struct RemoteQueue {
    link: Rc<Link>,
    dialer: Nudge,
    depth: usize,
}

impl RemoteQueue {
    fn nudge(&self) {
        if let Some(endpoint) = self.link.endpoint() {
            self.dialer.nudge(endpoint);
        }
    }
}

impl VolumeQueue for RemoteQueue {
    fn submit(&mut self, _now: Instant, request: Request) -> Result<(), QueueFull> {
        if self.link.outstanding() >= self.depth {
            return Err(QueueFull(request));
        }
        self.link.order(Order::Submit(request));
        self.nudge();
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        self.link.order(Order::Cancel(tag));
        self.nudge();
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Completion>) {
        self.link.take_done(done);
    }
}

impl Drop for RemoteQueue {
    fn drop(&mut self) {
        if !matches!(self.link.stage(), Stage::Failed(_)) {
            self.link.order(Order::Leave);
            self.nudge();
        }
    }
}
