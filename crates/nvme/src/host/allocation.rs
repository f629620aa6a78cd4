//! How blocks are allocated, as an admin queue finds out by Get LBA Status (NVM Command Set §4.2.1).

use buf::Buf;
use protocol::Instant;
use volume::{Allocation, Operation, Outcome, Request, VolumeErrorKind};

use super::Queue;
use super::allocation_queries::AllocationQuery;
use super::command_table::{AllocationRead, HostCommand, ReadTarget};
use super::entry::moving;
use super::fabric_transport::{CommandCapsule, FabricTransport};
use super::queue::HostQueue;
use crate::allocation::{GetLbaStatus, ONE_RANGE, first_run};
use crate::status::Status;

impl<T: FabricTransport> HostQueue<T> {
    /// Takes a request on a queue that is no I/O queue.
    pub(super) fn start_query(&mut self, now: Instant, request: Request) {
        match request.operation {
            Operation::QueryAllocation { extent } if matches!(self.config.queue, Queue::Admin { .. }) => {
                self.queries.push(AllocationQuery { tag: request.tag, extent });
                self.send_queries(now);
            }
            _ => self.refuse(request, VolumeErrorKind::Unsupported),
        }
    }

    fn send_queries(&mut self, now: Instant) {
        let Queue::Admin { nsid, .. } = self.config.queue else { return };
        while !self.commands.is_full()
            && let Some(AllocationQuery { tag, extent }) = self.queries.start_next()
        {
            let entry = moving(GetLbaStatus::about(extent).encode(nsid), ONE_RANGE);
            let target = ReadTarget::new(Buf::zeroed(ONE_RANGE), ONE_RANGE);
            let command = HostCommand::Query(AllocationRead { tag, target, extent });
            self.send(now, command, CommandCapsule::bare(entry));
        }
    }

    /// A query has ended. A controller that cannot say is taken for one with data everywhere.
    pub(super) fn complete_query(&mut self, now: Instant, status: Status, read: &AllocationRead) {
        let AllocationRead { tag, ref target, extent } = *read;
        self.queries.on_end();
        let result = match status.to_volume() {
            _ if status.is_success() && target.damaged => Err(Status::TRANSIENT_TRANSPORT.to_volume()),
            _ if status.is_success() => {
                let data = target.buf.as_deref().unwrap_or_default();
                let run = first_run(data.get(..target.received).unwrap_or_default(), extent);
                run.map(Outcome::Allocation).ok_or(VolumeErrorKind::Media)
            }
            VolumeErrorKind::Unsupported | VolumeErrorKind::Misaligned => {
                Ok(Outcome::Allocation(Allocation { extent, mapped: true }))
            }
            kind => Err(kind),
        };
        self.answer(tag, result);
        self.send_queries(now);
    }
}
