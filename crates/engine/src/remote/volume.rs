//! An opened remote volume.

use std::sync::Arc;
use std::task::Waker;

use ::volume::{
    Changes, Features, Geometry, Identity, Limits, LossRecord, OpenError, PathState, QueueContext, Volume,
    VolumeQueue,
};

use super::far_end::Shared;
use super::queue::RemoteQueue;
use super::route::OpenRoute;

/// A volume on another machine.
pub(crate) struct RemoteVolume {
    pub(crate) name: String,
    pub(crate) shared: Arc<Shared>,
    pub(crate) open: Box<OpenRoute>,
}

impl std::fmt::Debug for RemoteVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteVolume").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Volume for RemoteVolume {
    fn geometry(&self) -> Geometry {
        self.shared.shape().geometry
    }

    fn limits(&self) -> Limits {
        self.shared.shape().limits
    }

    fn features(&self) -> Features {
        self.shared.shape().features
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.shared.told())
    }

    fn changes(&self) -> Changes {
        Changes { resized: self.shared.resized(), path: self.shared.paths.changes(), ..Changes::default() }
    }

    fn listen(&self, waker: Waker) {
        self.shared.listen(waker);
    }

    fn keep_losses(&self, record: Arc<dyn LossRecord>, known: Option<String>) {
        self.shared.losses.keep_in(record, known);
    }

    fn path(&self) -> PathState {
        self.shared.paths.state()
    }

    fn last_error(&self) -> Option<String> {
        self.shared.last_error()
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let route = (self.open)(context.core, context.waker.clone())?;
        Ok(Box::new(RemoteQueue::new(Arc::clone(&self.shared), route, context.waker.clone())))
    }
}
