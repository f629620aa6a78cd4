//! How blocks are allocated, as an admin queue finds out by Get LBA Status (NVM Command Set §4.2.1).
//!
//! A few commands are under way at a time, so that Keep Alive and events have places in the queue.

use buf::Buf;
use protocol::Instant;
use volume::{Allocation, Operation, Outcome, Request, Tag, VolumeErrorKind};

use super::Queue;
use super::command_table::{HostCommand, NewCommand, QueryEnd, ReadTarget};
use super::entry::moving;
use super::fabric_transport::FabricTransport;
use super::queue::HostQueue;
use crate::allocation::{GetLbaStatus, ONE_RANGE, first_run};
use crate::limits::ALLOCATION_COMMANDS;
use crate::status::Status;

impl<T: FabricTransport> HostQueue<T> {
    /// Takes a request on a queue that is no I/O queue.
    pub(super) fn start_query(&mut self, now: Instant, request: Request) {
        match request.operation {
            Operation::QueryAllocation { extent } if matches!(self.config.queue, Queue::Admin { .. }) => {
                self.queries.waiting.push_back((request.tag, extent));
                self.send_queries(now);
            }
            _ => self.refuse(request, VolumeErrorKind::Unsupported),
        }
    }

    fn send_queries(&mut self, now: Instant) {
        let Queue::Admin { nsid, .. } = self.config.queue else { return };
        while self.queries.under_way < ALLOCATION_COMMANDS && !self.commands.is_full() {
            let Some((tag, extent)) = self.queries.waiting.pop_front() else { return };
            self.queries.under_way = self.queries.under_way.saturating_add(1);
            let entry = moving(GetLbaStatus::about(extent).encode(nsid), ONE_RANGE);
            let target = ReadTarget::new(Buf::zeroed(ONE_RANGE), ONE_RANGE);
            self.send(now, entry, NewCommand::new(HostCommand::Query(tag, target, extent)));
        }
    }

    /// A query has ended. A controller that cannot say is taken for one with data everywhere.
    pub(super) fn complete_query(&mut self, now: Instant, tag: Tag, ended: QueryEnd<'_>) {
        let QueryEnd { status, target, asked } = ended;
        self.queries.under_way = self.queries.under_way.saturating_sub(1);
        let result = match status.to_volume() {
            _ if status.is_success() && target.damaged => Err(Status::TRANSIENT_TRANSPORT.to_volume()),
            _ if status.is_success() => {
                let data = target.buf.as_deref().unwrap_or_default();
                let run = first_run(data.get(..target.received).unwrap_or_default(), asked);
                run.map(Outcome::Allocation).ok_or(VolumeErrorKind::Media)
            }
            VolumeErrorKind::Unsupported | VolumeErrorKind::Misaligned => {
                Ok(Outcome::Allocation(Allocation { extent: asked, mapped: true }))
            }
            kind => Err(kind),
        };
        self.answer(tag, result);
        self.send_queries(now);
    }
}
