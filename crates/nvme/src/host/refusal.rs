//! Requests that fail: a read's buffer goes back to whoever asked.

use buf::Buf;
use volume::{Completion, Extent, Failure, Outcome, Request, Tag, VolumeErrorKind};

use super::Action;
use super::fabric_transport::FabricTransport;
use super::queue::HostQueue;

impl<T: FabricTransport> HostQueue<T> {
    /// Ends a read that failed, with the buffer that it was to fill.
    pub(super) fn give_back(&mut self, tag: Tag, kind: VolumeErrorKind, memory: Option<Buf>) {
        let result = Err(Failure { kind, memory });
        self.actions.push_back(Action::Complete(Completion { tag, result }));
    }

    /// Ends a request that was not begun.
    pub(super) fn refuse(&mut self, request: Request, kind: VolumeErrorKind) {
        self.actions.push_back(Action::Complete(request.failed(kind)));
    }

    /// A request without blocks does nothing successfully; one whose memory has another length, or that no
    /// command can express, is refused.
    pub(super) fn refuse_length(&mut self, tag: Tag, extent: Extent, into: Option<Buf>) {
        match into {
            memory if extent.blocks != 0 => self.give_back(tag, VolumeErrorKind::Misaligned, memory),
            Some(into) => self.answer(tag, Ok(Outcome::Data(into.freeze().into()))),
            None => self.answer(tag, Ok(Outcome::Done)),
        }
    }
}
