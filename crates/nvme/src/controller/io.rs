//! NVM commands on an I/O queue (NVM Command Set §3.2): checks, requests, and the next step of commands that
//! need several requests.

use alloc::sync::Arc;
use alloc::vec::Vec;

use buf::{Buf, BufList};
use volume::reservation::{Access, Registrant, View};
use volume::{Durability, Epoch, Extent, Features, Geometry, Operation, VolumeId};
use zerocopy::FromBytes;

use super::command::{DataTransfer, Plan, Position, Read, TransferKind, VolumeRef};
use super::reservation::{plan_change, plan_report};
use super::subsystem::{Namespace, NamespaceKey, Subsystem};
use super::volume_states::VolumeStates;
use crate::limits::{LEAST_TRANSFER, RANGES};
use crate::nvm::{BlockCommand, DatasetManagement, Range};
use crate::opcode::{CommandGroup, nvm};
use crate::reservation;
use crate::sgl::Capsule;
use crate::sqe::{ALL_NAMESPACES, SubmissionQueueEntry};
use crate::status::Status;
use crate::width::{from_field, from_wide};

/// A namespace as one queue sees it.
#[derive(Debug)]
pub(crate) struct Attached {
    nsid: u32,
    pub(crate) volume: VolumeId,
    geometry: Geometry,
    view: Arc<View>,
    access: Access,
    /// The volume's, of which `access` is what this host may do.
    epoch: Epoch,
    features: Features,
    max_discard: u64,
    /// Bytes of the longest transfer.
    max_transfer: usize,
}

impl Attached {
    /// A namespace of a controller that takes transfers of `most` bytes.
    fn new(namespace: &Namespace, most: usize) -> Self {
        Self {
            nsid: namespace.nsid,
            volume: namespace.volume,
            geometry: namespace.geometry,
            view: Arc::default(),
            access: Access::FULL,
            epoch: Epoch::default(),
            features: namespace.features,
            max_discard: namespace.limits.max_discard,
            max_transfer: most.min(from_field(namespace.limits.max_transfer.max(LEAST_TRANSFER))),
        }
    }

    fn key(&self) -> NamespaceKey {
        NamespaceKey { nsid: self.nsid, volume: self.volume }
    }

    fn volume_ref(&self) -> VolumeRef {
        VolumeRef { volume: self.volume, epoch: self.epoch }
    }

    /// The bytes of an extent that exists and may be touched.
    fn check(&self, extent: Extent, group: CommandGroup) -> Result<u64, Status> {
        let bytes = self.geometry.check(extent).ok_or(Status::LBA_OUT_OF_RANGE.dnr())?;
        self.may(group)?;
        Ok(bytes)
    }

    fn may(&self, group: CommandGroup) -> Result<(), Status> {
        if group == CommandGroup::Write && self.features.contains(Features::READ_ONLY) {
            return Err(Status::WRITE_PROTECTED.dnr());
        }
        self.admits(group)
    }

    /// Whether the reservation leaves room for a command of this group. Flush and Dataset Management count as writing, whatever they do.
    fn admits(&self, group: CommandGroup) -> Result<(), Status> {
        let allowed = match group {
            CommandGroup::Read => self.access.read,
            CommandGroup::Write => self.access.write,
        };
        if allowed { Ok(()) } else { Err(Status::RESERVATION_CONFLICT.dnr()) }
    }
}

/// The namespaces that a queue may use, and what bounds its commands.
#[derive(Debug)]
pub(crate) struct Namespaces {
    attached: Vec<Attached>,
    max_transfer: usize,
    in_capsule: usize,
}

impl Namespaces {
    pub(crate) fn new(subsystem: &Subsystem) -> Self {
        let max_transfer = from_field(subsystem.max_transfer());
        Self {
            attached: subsystem.namespaces.iter().map(|each| Attached::new(each, max_transfer)).collect(),
            max_transfer,
            in_capsule: from_field(subsystem.limits.in_capsule),
        }
    }

    /// The namespaces that are not in the subsystem.
    pub(crate) fn gone_from(&self, subsystem: &Subsystem) -> Vec<NamespaceKey> {
        self.attached.iter().map(Attached::key).filter(|key| !subsystem.has(*key)).collect()
    }

    /// The subsystem is this from now on. What is known of the volumes is to be said again ([`Namespaces::apply`]). What the host was once told
    /// that it may transfer it still may.
    pub(crate) fn replace(&mut self, subsystem: &Subsystem) {
        self.max_transfer = self.max_transfer.max(from_field(subsystem.max_transfer()));
        self.in_capsule = self.in_capsule.max(from_field(subsystem.limits.in_capsule));
        let attached =
            subsystem.namespaces.iter().map(|namespace| Attached::new(namespace, self.max_transfer));
        self.attached = attached.collect();
    }

    /// True when one of them is on the volume.
    pub(crate) fn uses(&self, volume: VolumeId) -> bool {
        self.attached.iter().any(|namespace| namespace.volume == volume)
    }

    /// Where a namespace is among those of the queue; none is at the last position.
    pub(crate) fn position(&self, nsid: u32) -> u32 {
        let found = (0..u32::MAX).zip(&self.attached).find(|(_, namespace)| namespace.nsid == nsid);
        found.map_or(u32::MAX, |(position, _)| position)
    }

    /// How many of them a flush of all has flushed once it has flushed the volume: none if it is gone.
    pub(crate) fn flushed_with(&self, volume: VolumeId) -> usize {
        let found = self.attached.iter().position(|namespace| namespace.volume == volume);
        found.map_or(0, |position| position.saturating_add(1))
    }

    /// The identifiers of those that are on the volume.
    pub(super) fn of_volume(&self, volume: VolumeId) -> impl Iterator<Item = u32> {
        let attached = self.attached.iter().filter(move |namespace| namespace.volume == volume);
        attached.map(|namespace| namespace.nsid)
    }

    /// The volume has this size from now on.
    pub(super) fn resize(&mut self, volume: VolumeId, geometry: Geometry) {
        let attached = self.attached.iter_mut().filter(|namespace| namespace.volume == volume);
        attached.for_each(|namespace| namespace.geometry = geometry);
    }

    /// What the host may do is this from now on.
    pub(super) fn apply(&mut self, states: &VolumeStates, host: &Registrant) {
        for namespace in &mut self.attached {
            if let Some(state) = states.find(namespace.volume) {
                namespace.access = state.view.access(host);
                namespace.view = Arc::clone(&state.view);
                namespace.epoch = state.current.epoch;
            }
        }
    }

    pub(crate) fn find(&self, nsid: u32) -> Result<&Attached, Status> {
        self.attached.iter().find(|namespace| namespace.nsid == nsid).ok_or(Status::INVALID_NAMESPACE.dnr())
    }

    /// Decides about a command from its queue entry and its capsule.
    pub(crate) fn plan(&self, entry: &SubmissionQueueEntry, capsule: Capsule) -> Result<Plan, Status> {
        match entry.opcode {
            nvm::FLUSH => self.plan_flush(entry, capsule),
            nvm::READ | nvm::WRITE | nvm::COMPARE => self.plan_transfer(entry, capsule),
            nvm::WRITE_ZEROES | nvm::VERIFY => self.plan_without_data(entry, capsule),
            nvm::DATASET_MANAGEMENT => {
                let namespace = self.find(entry.nsid.get())?;
                let pointer = entry.data_pointer(capsule)?;
                let DatasetManagement { ranges, deallocate } = DatasetManagement::decode(entry);
                // Linux sends a page for any number of ranges: what follows the last one is not looked at.
                let needed = ranges.saturating_mul(size_of::<Range>());
                if !(needed..=RANGES.saturating_mul(size_of::<Range>())).contains(&pointer.length()) {
                    return Err(Status::DATA_SGL_LENGTH_INVALID.dnr());
                }
                namespace.admits(CommandGroup::Write)?;
                if deallocate {
                    namespace.may(CommandGroup::Write)?;
                }
                Ok(Plan::receive(pointer))
            }
            nvm::RESERVATION_REPORT => plan_report(&self.find(entry.nsid.get())?.view, entry, capsule),
            opcode if reservation::changes(opcode) => {
                self.find(entry.nsid.get())?;
                plan_change(entry, capsule)
            }
            _ => Err(Status::INVALID_OPCODE.dnr()),
        }
    }

    fn plan_flush(&self, entry: &SubmissionQueueEntry, capsule: Capsule) -> Result<Plan, Status> {
        entry.no_data(capsule.data)?;
        let namespace = match entry.nsid.get() {
            ALL_NAMESPACES => self.attached.first().ok_or(Status::INVALID_NAMESPACE.dnr())?,
            nsid => self.find(nsid)?,
        };
        namespace.admits(CommandGroup::Write)?;
        Ok(Plan::Submit { volume_ref: namespace.volume_ref(), operation: Operation::Flush })
    }

    /// The blocks of a command, if they exist and may be touched.
    fn blocks(&self, entry: &SubmissionQueueEntry, group: CommandGroup) -> Result<Blocks<'_>, Status> {
        let nsid = entry.nsid.get();
        let found = (0_u32..).zip(&self.attached).find(|(_, namespace)| namespace.nsid == nsid);
        let (position, namespace) = found.ok_or(Status::INVALID_NAMESPACE.dnr())?;
        let command = BlockCommand::decode(entry);
        if command.protection {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let bytes = namespace.check(command.extent, group)?;
        let length = from_wide(bytes);
        Ok(Blocks { namespace, position, command, length })
    }

    fn plan_transfer(&self, entry: &SubmissionQueueEntry, capsule: Capsule) -> Result<Plan, Status> {
        let pointer = entry.data_pointer(capsule)?;
        let group = match entry.opcode {
            nvm::WRITE => CommandGroup::Write,
            _ => CommandGroup::Read,
        };
        let Blocks { namespace, position, command, length } = self.blocks(entry, group)?;
        if length > namespace.max_transfer {
            return Err(Status::INVALID_FIELD.dnr());
        }
        if pointer.length() != length || capsule.data > self.in_capsule {
            return Err(Status::DATA_SGL_LENGTH_INVALID.dnr());
        }
        if entry.opcode != nvm::READ {
            let kind = match entry.opcode {
                nvm::WRITE => TransferKind::Write(durability(command)),
                _ => TransferKind::Compare,
            };
            let transfer = DataTransfer { extent: command.extent, namespace: position, kind };
            let (length, in_capsule) = (pointer.length(), pointer.is_in_capsule());
            return Ok(Plan::Receive { length, in_capsule, transfer: Some(transfer) });
        }
        if capsule.data != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        Ok(Plan::Read(Read { volume_ref: namespace.volume_ref(), extent: command.extent, length }))
    }

    fn plan_without_data(&self, entry: &SubmissionQueueEntry, capsule: Capsule) -> Result<Plan, Status> {
        entry.no_data(capsule.data)?;
        let zeroes = entry.opcode == nvm::WRITE_ZEROES;
        let group = if zeroes { CommandGroup::Write } else { CommandGroup::Read };
        let Blocks { namespace, command, .. } = self.blocks(entry, group)?;
        let extent = command.extent;
        let operation = if zeroes {
            if extent.blocks > namespace.max_discard {
                return Err(Status::INVALID_FIELD.dnr());
            }
            let durability = durability(command);
            Operation::WriteZeroes { extent, durability, may_unmap: command.deallocate }
        } else {
            Operation::Verify { extent }
        };
        Ok(Plan::Submit { volume_ref: namespace.volume_ref(), operation })
    }

    /// The request of a transfer whose data has arrived. Size and reservation are checked again, as they may have changed while the
    /// data was on its way; the rest of the command is decided.
    pub(crate) fn with_data(
        &self,
        transfer: DataTransfer,
        data: Buf,
    ) -> Result<(VolumeRef, Operation), Status> {
        let DataTransfer { extent, namespace, kind } = transfer;
        let position = from_field(namespace);
        let namespace = self.attached.get(position).ok_or(Status::INVALID_NAMESPACE.dnr())?;
        namespace.check(extent, kind.group())?;
        let data = BufList::from(data.freeze());
        let operation = match kind {
            TransferKind::Write(durability) => Operation::Write { extent, data, durability },
            TransferKind::Compare => Operation::Compare { extent, data },
        };
        Ok((namespace.volume_ref(), operation))
    }

    /// Whether a request of this command that was not begun on the volume may begin now, and what says so.
    pub(crate) fn judge_again(
        &self,
        entry: &SubmissionQueueEntry,
        volume: VolumeId,
    ) -> Result<VolumeRef, Status> {
        let group = match entry.opcode {
            nvm::READ | nvm::COMPARE | nvm::VERIFY => CommandGroup::Read,
            _ => CommandGroup::Write,
        };
        let namespace = self.attached.iter().find(|namespace| namespace.volume == volume);
        let namespace = namespace.ok_or(Status::INVALID_NAMESPACE.dnr())?;
        namespace.admits(group)?;
        Ok(namespace.volume_ref())
    }

    /// The next request of a flush of all namespaces, of which `done` have been flushed.
    pub(crate) fn next_flush(
        &self,
        entry: &SubmissionQueueEntry,
        done: usize,
    ) -> Result<Option<(VolumeRef, Operation)>, Status> {
        if entry.opcode != nvm::FLUSH || entry.nsid.get() != ALL_NAMESPACES {
            return Ok(None);
        }
        let Some(namespace) = self.attached.get(done) else { return Ok(None) };
        namespace.admits(CommandGroup::Write)?;
        Ok(Some((namespace.volume_ref(), Operation::Flush)))
    }

    /// The next request of a Dataset Management command. `None` when all is over.
    pub(crate) fn next_discard(
        &self,
        entry: &SubmissionQueueEntry,
        ranges: &[u8],
        position: Position,
    ) -> Result<Option<Discard>, Status> {
        let Position { mut next, mut done } = position;
        let namespace = self.find(entry.nsid.get())?;
        let DatasetManagement { ranges: count, deallocate } = DatasetManagement::decode(entry);
        if !deallocate {
            return Ok(None);
        }
        namespace.may(CommandGroup::Write)?;
        while next < count {
            let offset = next.saturating_mul(size_of::<Range>());
            let bytes = ranges.get(offset..).unwrap_or_default();
            let Ok((range, _)) = Range::read_from_prefix(bytes) else { return Ok(None) };
            let whole = Extent::new(range.start.get(), u64::from(range.blocks.get()));
            namespace.geometry.check(whole).ok_or(Status::LBA_OUT_OF_RANGE.dnr())?;
            let blocks = whole.blocks.saturating_sub(done).min(namespace.max_discard);
            if blocks != 0 {
                let extent = Extent::new(whole.start.saturating_add(done), blocks);
                let position = Position { next, done: done.saturating_add(blocks) };
                return Ok(Some(Discard { volume_ref: namespace.volume_ref(), extent, position }));
            }
            (next, done) = (next.saturating_add(1), 0);
        }
        Ok(None)
    }
}

/// The blocks of a command.
struct Blocks<'a> {
    namespace: &'a Attached,
    /// The namespace's, among those of the queue.
    position: u32,
    command: BlockCommand,
    /// Bytes of them.
    length: usize,
}

/// One step of a Dataset Management command.
#[derive(Debug)]
pub(crate) struct Discard {
    pub(crate) volume_ref: VolumeRef,
    pub(crate) extent: Extent,
    /// The position after it.
    pub(crate) position: Position,
}

fn durability(command: BlockCommand) -> Durability {
    if command.fua { Durability::Durable } else { Durability::Cached }
}
