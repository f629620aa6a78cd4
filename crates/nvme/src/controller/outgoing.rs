//! What leaves one queue: responses for its host, requests for volumes and for its group, and what the operator is told.
//!
//! Every response says where the head of the submission queue is, so that the head is here. A queue that is over answers nothing any more.

use alloc::collections::VecDeque;

use buf::BufList;
use protocol::{CloseReason, Notice, NoticeKind, Notices};
use volume::{Operation, Request, Submission, Tag};

use super::Action;
use super::command::{CommandResult, EndedCommand, VolumeRef};
use super::fabric_transport::{FabricTransport, Response};
use super::submission_head::SubmissionHead;
use crate::cqe::CompletionQueueEntry;
use crate::sgl::DataPointer;
use crate::status::Status;

/// The way out of a queue over the transport `T`.
#[derive(Debug)]
pub(super) struct Outgoing<T> {
    pub(super) transport: T,
    pub(super) head: SubmissionHead,
    notices: Notices,
    actions: VecDeque<Action>,
    /// Why the queue is over, once it is.
    close: Option<CloseReason>,
}

impl<T: FabricTransport> Outgoing<T> {
    /// Of a queue that nobody has connected yet.
    pub(super) fn new(transport: T) -> Self {
        Self {
            transport,
            head: SubmissionHead::default(),
            notices: Notices::default(),
            actions: VecDeque::new(),
            close: None,
        }
    }

    /// Answers a command.
    #[inline]
    pub(super) fn complete(&mut self, command: EndedCommand, result: CommandResult, data: Option<BufList>) {
        let CommandResult { status, value } = result;
        if status.code() == Status::RESERVATION_CONFLICT.code() {
            self.notices.push(NoticeKind::Conflict, "Reservation Conflict");
        }
        let completion =
            CompletionQueueEntry::new(command.cid, self.head.report(), status).with_result(value);
        if self.close.is_none() {
            let block = command.pointer.and_then(DataPointer::keyed_block);
            let sq_flow_off = self.head.is_flow_off();
            self.transport.send_response(Response { block, completion, data, sq_flow_off });
        }
    }

    /// Makes a request for the command in a slot, if it has one.
    #[inline]
    pub(super) fn submit(&mut self, slot: Option<u16>, volume_ref: VolumeRef, operation: Operation) {
        if let Some(slot) = slot {
            let request = Request { tag: Tag(u64::from(slot)), operation };
            let VolumeRef { volume, epoch } = volume_ref;
            self.actions.push_back(Action::Submit(Submission { volume, epoch, request }));
        }
    }

    /// Asks the inside for something else.
    pub(super) fn ask(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Tells the operator.
    pub(super) fn tell(&mut self, kind: NoticeKind, text: &'static str) {
        self.notices.push(kind, text);
    }

    /// The queue is over once everything is sent. The first reason stands.
    pub(super) fn close(&mut self, reason: CloseReason) {
        self.close.get_or_insert(reason);
    }

    /// Why the queue is over, once it is.
    #[inline]
    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        self.close
    }

    /// True once the queue is over.
    #[inline]
    pub(super) fn is_closing(&self) -> bool {
        self.close.is_some()
    }

    /// The next thing that is asked of the inside.
    #[inline]
    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What the operator is to be told, the oldest first.
    pub(super) fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop()
    }
}
