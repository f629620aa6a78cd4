//! File systems, as the kind of what is served that they are.

use std::sync::Arc;

use filesystem::{
    Completion, CoreId, Failure, FileErrorKind, FileSystemQueue, QueueContext as Place, QueueFull, Request,
};
use host::{Kind, Level};
use nfs::server::exports::FileSystemId;
use protocol::Instant;
use volume::{OpenError, QueueContext, Tag};

use crate::catalogue::{ProposalError, ServedFiles};
use crate::kind::{ServedKind, Tagged, Telling};
use crate::served_id::ServedId;

/// Files and directories.
#[derive(Debug)]
pub(crate) struct FileKind;

impl Tagged for Request {
    #[inline]
    fn tag(&self) -> Tag {
        Tag(self.tag.0)
    }

    #[inline]
    fn set_tag(&mut self, tag: Tag) {
        self.tag = filesystem::Tag(tag.0);
    }
}

impl Tagged for Completion {
    #[inline]
    fn tag(&self) -> Tag {
        Tag(self.tag.0)
    }

    #[inline]
    fn set_tag(&mut self, tag: Tag) {
        self.tag = filesystem::Tag(tag.0);
    }
}

/// What NFS calls a file system that is served.
pub(crate) fn named(id: ServedId) -> FileSystemId {
    FileSystemId(u32::from(id.generation()) << u16::BITS | wire::saturate::<u32>(id.slot()))
}

/// The file system that NFS calls so.
pub(crate) fn served(id: FileSystemId) -> ServedId {
    let [slot, generation] = [id.0 & u32::from(u16::MAX), id.0 >> u16::BITS].map(wire::bounded::<u16>);
    ServedId::new(slot, generation)
}

impl ServedKind for FileKind {
    type Served = ServedFiles;
    type Queue = Box<dyn FileSystemQueue>;
    type Request = Request;
    type Completion = Completion;
    type Error = FileErrorKind;

    const WITHDRAWN: &'static str = "a file system in use is not served any more";

    fn id(served: &ServedFiles) -> ServedId {
        served.id
    }

    fn name(served: &ServedFiles) -> &Arc<str> {
        &served.name
    }

    fn open(served: &ServedFiles, context: &QueueContext) -> Result<Self::Queue, OpenError> {
        let QueueContext { core, waker, pool, .. } = context;
        let place = Place::new(CoreId(core.0), waker.clone(), pool.clone());
        served.filesystem.open_queue(&place).map_err(|error| OpenError::new(error.to_string()))
    }

    fn refusal(served: &ServedFiles, error: OpenError) -> ProposalError {
        ProposalError::Files { share: Arc::clone(&served.name), error }
    }

    fn no_queue() -> Self::Queue {
        Box::new(NoQueue)
    }

    /// None: what is not durable yet was told so to its writer, who still has it and commits it at the next server (RFC 8881 §18.32.3).
    fn last(_: &ServedFiles, _: Tag) -> Option<Request> {
        None
    }

    #[inline]
    fn submit(queue: &mut Self::Queue, now: Instant, request: Request) -> Result<(), Request> {
        queue.submit(now, request).map_err(|QueueFull(request)| request)
    }

    #[inline]
    fn cancel(queue: &mut Self::Queue, tag: Tag) {
        queue.cancel(filesystem::Tag(tag.0));
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
        failed(request, FileErrorKind::Cancelled)
    }

    #[inline]
    fn error(completion: &Completion) -> Option<FileErrorKind> {
        completion.result.as_ref().err().map(|failure| failure.kind)
    }

    /// Names that are not there and rights that are missing are what clients ask about all day; the operator hears of what is broken.
    fn telling(error: FileErrorKind) -> Option<Telling> {
        let kind = match error {
            FileErrorKind::NoSpace => Kind::NoSpace,
            FileErrorKind::Io | FileErrorKind::ServerFault => Kind::Io,
            _ => return None,
        };
        Some(Telling { kind, level: Level::Error })
    }
}

/// The end of a request that no queue has taken.
pub(crate) fn failed(request: Request, kind: FileErrorKind) -> Completion {
    Completion { tag: request.tag, result: Err(Failure::of(request.operation, kind)) }
}

/// What stands where no file system's queue is.
struct NoQueue;

impl FileSystemQueue for NoQueue {
    fn submit(&mut self, _: Instant, request: Request) -> Result<(), QueueFull> {
        Err(QueueFull(request))
    }

    fn cancel(&mut self, _: filesystem::Tag) {}

    fn poll(&mut self, _: Instant, _: &mut Vec<Completion>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_keeps_its_name_in_nfs() {
        for id in [ServedId::new(0, 0), ServedId::new(7, 9), ServedId::new(u16::MAX, 3)] {
            assert_eq!(served(named(id)), id);
        }
        assert_ne!(named(ServedId::new(1, 0)), named(ServedId::new(1, 1)));
    }
}
