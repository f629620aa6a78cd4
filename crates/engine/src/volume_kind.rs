//! Volumes, as the kind of what is served that they are.

use std::sync::Arc;

use host::{Kind, Level};
use protocol::Instant;
use volume::{
    Completion, Features, OpenError, Operation, QueueContext, QueueFull, Request, Tag, VolumeErrorKind,
    VolumeQueue,
};

use crate::catalogue::{ProposalError, ServedVolume};
use crate::kind::{ServedKind, Tagged, Telling};
use crate::served_id::ServedId;

/// Blocks that are read and written.
#[derive(Debug)]
pub(crate) struct VolumeKind;

impl Tagged for Request {
    #[inline]
    fn tag(&self) -> Tag {
        self.tag
    }

    #[inline]
    fn set_tag(&mut self, tag: Tag) {
        self.tag = tag;
    }
}

impl Tagged for Completion {
    #[inline]
    fn tag(&self) -> Tag {
        self.tag
    }

    #[inline]
    fn set_tag(&mut self, tag: Tag) {
        self.tag = tag;
    }
}

impl ServedKind for VolumeKind {
    type Served = ServedVolume;
    type Queue = Box<dyn VolumeQueue>;
    type Request = Request;
    type Completion = Completion;
    type Error = VolumeErrorKind;

    const WITHDRAWN: &'static str = "a volume in use is not served any more";

    fn id(served: &ServedVolume) -> ServedId {
        served.id
    }

    fn name(served: &ServedVolume) -> &Arc<str> {
        &served.name
    }

    fn open(served: &ServedVolume, context: &QueueContext) -> Result<Self::Queue, OpenError> {
        served.volume.open_queue(context)
    }

    fn refusal(served: &ServedVolume, error: OpenError) -> ProposalError {
        ProposalError::Volume { volume: Arc::clone(&served.name), error }
    }

    fn no_queue() -> Self::Queue {
        Box::new(NoQueue)
    }

    /// A flush, unless the volume cannot be written to.
    fn last(served: &ServedVolume, tag: Tag) -> Option<Request> {
        let is_written = !served.volume.features().contains(Features::READ_ONLY);
        is_written.then_some(Request { tag, operation: Operation::Flush })
    }

    #[inline]
    fn submit(queue: &mut Self::Queue, now: Instant, request: Request) -> Result<(), Request> {
        queue.submit(now, request).map_err(|QueueFull(request)| request)
    }

    #[inline]
    fn cancel(queue: &mut Self::Queue, tag: Tag) {
        queue.cancel(tag);
    }

    #[inline]
    fn poll(queue: &mut Self::Queue, now: Instant, done: &mut Vec<Completion>) {
        queue.poll(now, done);
    }

    #[inline]
    fn poll_timeout(queue: &Self::Queue) -> Option<Instant> {
        queue.poll_timeout()
    }

    fn cancelled(request: Request) -> Completion {
        request.failed(VolumeErrorKind::Cancelled)
    }

    #[inline]
    fn error(completion: &Completion) -> Option<VolumeErrorKind> {
        completion.error()
    }

    fn telling(error: VolumeErrorKind) -> Option<Telling> {
        let (kind, level) = match error {
            VolumeErrorKind::NoSpace => (Kind::NoSpace, Level::Error),
            // Of a conflict the connection tells, whoever has found it: it knows the names.
            VolumeErrorKind::Miscompare { .. }
            | VolumeErrorKind::Cancelled
            | VolumeErrorKind::ReservationConflict => return None,
            // The initiator asked for what the volume cannot do, or too much at once.
            VolumeErrorKind::OutOfRange
            | VolumeErrorKind::ReadOnly
            | VolumeErrorKind::Misaligned
            | VolumeErrorKind::Unsupported
            | VolumeErrorKind::Busy
            | VolumeErrorKind::ShuttingDown => (Kind::Io, Level::Debug),
            _ => (Kind::Io, Level::Error),
        };
        Some(Telling { kind, level })
    }
}

/// What stands where no volume's queue is.
struct NoQueue;

impl VolumeQueue for NoQueue {
    fn submit(&mut self, _: Instant, request: Request) -> Result<(), QueueFull> {
        Err(QueueFull(request))
    }

    fn cancel(&mut self, _: Tag) {}

    fn poll(&mut self, _: Instant, _: &mut Vec<Completion>) {}
}
