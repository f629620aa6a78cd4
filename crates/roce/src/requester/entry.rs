//! A request other than a receive, with its memory.

use buf::{Buf, BufList};
use verbs::{RegionMemory, RemoteRegion, STag, WorkCompletion, WorkDone, WorkError, WorkId, WorkMemory};

use super::progress::Progress;

/// What a request is to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// See [`verbs::WorkRequest::Send`].
    Send { data: BufList, invalidate: Option<STag> },
    /// See [`verbs::WorkRequest::Write`].
    Write { data: BufList, to: RemoteRegion },
    /// See [`verbs::WorkRequest::Read`].
    Read { into: Buf, from: RemoteRegion },
    /// The region, which the peer may use already.
    Register(RemoteRegion),
    /// See [`verbs::WorkRequest::Invalidate`]. Its memory, once the region has ended.
    Invalidate { stag: STag, memory: Option<RegionMemory> },
}

impl Work {
    /// Bytes that cross for it.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Send { data, .. } | Self::Write { data, .. } => data.len(),
            Self::Read { from, .. } => usize::try_from(from.length).unwrap_or(usize::MAX),
            Self::Register(_) | Self::Invalidate { .. } => 0,
        }
    }

    pub(crate) const fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. })
    }
}

/// A request.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: WorkId,
    pub(crate) work: Work,
    pub(crate) progress: Progress,
}

impl Entry {
    pub(crate) fn new(id: WorkId, work: Work) -> Self {
        let progress = match work {
            Work::Register(_) => Progress::Done,
            _ => Progress::Waiting,
        };
        Self { id, work, progress }
    }

    /// Its completion, with its memory.
    pub(crate) fn complete(self, result: Result<(), WorkError>) -> WorkCompletion {
        let (done, memory) = match self.work {
            Work::Send { data, .. } => (WorkDone::Sent, WorkMemory::List(data)),
            Work::Write { data, .. } => (WorkDone::Written, WorkMemory::List(data)),
            Work::Read { into, .. } => (WorkDone::Read, WorkMemory::Buf(into)),
            Work::Register(region) => (WorkDone::Registered(region), WorkMemory::None),
            Work::Invalidate { memory, .. } => {
                (WorkDone::Invalidated, memory.map_or(WorkMemory::None, WorkMemory::Region))
            }
        };
        WorkCompletion { id: self.id, result: result.map(|()| done), memory }
    }
}
