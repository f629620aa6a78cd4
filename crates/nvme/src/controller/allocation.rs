//! Get LBA Status at the controller: what is asked, and how far the answer is.

use buf::Buf;
use volume::{Extent, Features, VolumeId};

use super::subsystem::Subsystem;
use crate::allocation::{GetLbaStatus, Ranges, TRACKED_ALLOCATED};
use crate::limits::ADMIN_DATA;
use crate::sgl::Capsule;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;
use crate::width::from_wide;

/// What a command asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    pub(crate) volume: VolumeId,
    pub(crate) extent: Extent,
    /// Bytes of the answer.
    pub(crate) length: usize,
}

impl Query {
    /// Decides about a Get LBA Status to a controller of the subsystem; discovery has none.
    pub(super) fn plan(
        subsystem: Option<&Subsystem>,
        entry: &SubmissionQueueEntry,
        capsule: Capsule,
    ) -> Result<Self, Status> {
        let subsystem = subsystem.filter(|subsystem| subsystem.tells_allocation());
        let subsystem = subsystem.ok_or(Status::INVALID_OPCODE.dnr())?;
        let found = subsystem.namespaces.iter().find(|namespace| namespace.nsid == entry.nsid.get());
        let namespace = found.ok_or(Status::INVALID_NAMESPACE.dnr())?;
        let command = GetLbaStatus::decode(entry);
        let pointer = entry.data_pointer(capsule)?;
        let length = from_wide(command.length);
        let tracked = namespace.features.contains(Features::ALLOCATION);
        if command.action != TRACKED_ALLOCATED || !tracked || length > ADMIN_DATA || capsule.data != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        if pointer.length() != length {
            return Err(Status::DATA_SGL_LENGTH_INVALID.dnr());
        }
        let end = namespace.geometry.blocks;
        let rest =
            end.checked_sub(command.start).filter(|rest| *rest > 0).ok_or(Status::LBA_OUT_OF_RANGE.dnr())?;
        let extent = Extent::new(command.start, command.blocks.map_or(rest, u64::from));
        namespace.geometry.check(extent).ok_or(Status::LBA_OUT_OF_RANGE.dnr())?;
        Ok(Self { volume: namespace.volume, extent, length })
    }
}

/// A command whose answer is being found out.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) volume: VolumeId,
    /// What was not looked at yet.
    pub(crate) left: Extent,
    pub(crate) ranges: Ranges,
    pub(crate) answer: Buf,
    /// Runs that may still be looked at.
    pub(crate) queries: usize,
}
