//! Reservations from the host's side: a request becomes one of the four commands, and a report becomes a view.

use alloc::sync::Arc;

use buf::{Buf, BufList, SharedBuf};
use protocol::Instant;
use volume::reservation::Command;
use volume::{Outcome, Tag, VolumeErrorKind};

use super::HostQueue;
use crate::host::command_table::{HostCommand, ReadTarget};
use crate::host::entry::moving;
use crate::host::fabric_transport::{CommandCapsule, FabricTransport};
use crate::limits::REPORT;
use crate::reservation;
use crate::status::Status;

impl<T: FabricTransport> HostQueue<T> {
    /// Sends a change of the namespace's reservations.
    pub(super) fn start_reserve(&mut self, now: Instant, tag: Tag, change: &Command) {
        let Some(nsid) = self.remote().map(|remote| remote.nsid) else { return };
        let reservation::ReservationCommand { entry, data } = reservation::encode(nsid, change);
        let data = BufList::from(SharedBuf::from(data));
        self.send_with_data(now, tag, CommandCapsule { entry, data });
    }

    /// Asks for the namespace's reservations.
    pub(super) fn start_report(&mut self, now: Instant, tag: Tag, nsid: u32) {
        let longest = self.remote().map_or(REPORT, |remote| remote.limits.max_transfer);
        let length = REPORT.min(longest);
        let room = usize::try_from(length).unwrap_or(0);
        let target = ReadTarget::new(Buf::zeroed(room), room);
        let entry = moving(reservation::encode_report(nsid, length), room);
        self.send(now, HostCommand::Report { tag, target }, CommandCapsule::bare(entry));
    }

    /// A report has come, perhaps shorter than there was room for.
    pub(super) fn complete_report(&mut self, tag: Tag, status: Status, target: &ReadTarget) {
        if !status.is_success() {
            return self.complete(tag, status);
        }
        let data = target.buf.as_deref().filter(|_| !target.damaged).unwrap_or_default();
        let view = reservation::read_report(data.get(..target.received).unwrap_or_default());
        let outcome = view.map(|view| Outcome::Reservations(Arc::new(view)));
        self.answer(tag, outcome.ok_or(VolumeErrorKind::Media));
    }
}
