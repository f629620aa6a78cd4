//! What passes between a transport and the device server: a command in, steps out, a reply at the end.

use alloc::sync::Arc;

use buf::BufList;
use volume::reservation;

use crate::mode::ModeState;
use volume::{Epoch, Extent, Geometry, Operation, VolumeId};

/// Which way a command's data goes, seen from the initiator, and how much of it the initiator expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataDirection {
    /// No data.
    None,
    /// To the initiator, at most this many bytes.
    In(u32),
    /// From the initiator, this many bytes.
    Out(u32),
}

/// How a task is ordered among others (SAM-5 §8.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskAttribute {
    /// No order.
    Simple,
    /// After all older and before all newer ones.
    Ordered,
    /// Before all others.
    HeadOfQueue,
    /// Ends an auto contingent allegiance.
    Aca,
}

/// A command as the transport received it.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// The logical unit number, as its eight bytes on the wire (SAM-5 §4.7).
    pub lun: [u8; 8],
    /// The command descriptor block, 6 to 260 bytes.
    pub cdb: &'a [u8],
    /// Data that the transport announces for it.
    pub data: DataDirection,
    /// Its attribute.
    pub attribute: TaskAttribute,
}

/// A status byte (SAM-5 §5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Good = 0x00,
    /// The sense data says why not.
    CheckCondition = 0x02,
    /// The compare of a conditional command (PRE-FETCH) was met.
    ConditionMet = 0x04,
    /// Try later.
    Busy = 0x08,
    /// A reservation forbids it.
    ReservationConflict = 0x18,
    /// No room for another task.
    TaskSetFull = 0x28,
    /// Aborted by another nexus.
    TaskAborted = 0x40,
}

/// The end of a command.
#[derive(Debug)]
pub struct Reply {
    /// How it ended.
    pub status: Status,
    /// Sense data when `status` is `CheckCondition`, in fixed or descriptor format; else empty.
    pub sense: Sense,
    /// Data for the initiator, already cut to what the CDB's allocation length allows (not yet to what the
    /// transport announced).
    pub data: BufList,
    /// Bytes that the command would have moved in or out had the initiator expected them all: the transport
    /// computes the residual from this and its expected length.
    pub full_length: u64,
}

/// Sense bytes; kept inline so that an error costs no allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sense {
    bytes: [u8; Self::MAX],
    len: u8,
}

impl Sense {
    /// The longest sense data that this device server makes, in bytes.
    pub const MAX: usize = 28;
    /// No sense data.
    pub const NONE: Self = Self { bytes: [0; Self::MAX], len: 0 };

    /// Sense data with these bytes; what exceeds [`Sense::MAX`] is cut off.
    pub(crate) fn of(sense: &[u8]) -> Self {
        let mut bytes = [0; Self::MAX];
        let len = sense.len().min(Self::MAX);
        for (place, byte) in bytes.iter_mut().zip(sense) {
            *place = *byte;
        }
        Self { bytes, len: u8::try_from(len).unwrap_or(0) }
    }

    /// The bytes for the wire.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// What the transport is to do next for a task. Exactly one step is open at a time per task.
#[derive(Debug)]
pub enum Step {
    /// Collect exactly `length` bytes from the initiator into one buffer, then call
    /// `DeviceServer::data_received`. Never more than the transport announced.
    ReceiveData {
        /// Bytes.
        length: u32,
    },
    /// Take a buffer of `length` bytes, submit a read of `extent` into it, and give its completion to
    /// `DeviceServer::completed`.
    Read {
        /// On which volume.
        volume: VolumeId,
        /// What it was judged by.
        epoch: Epoch,
        /// Which blocks.
        extent: Extent,
        /// Bytes of the extent.
        length: u32,
    },
    /// Submit the operation, and give its completion to `DeviceServer::completed`, or the operation itself to `DeviceServer::refused` if
    /// the volume's epoch is another one by then.
    Submit {
        /// On which volume.
        volume: VolumeId,
        /// What it was judged by.
        epoch: Epoch,
        /// What.
        operation: Operation,
    },
    /// Hand the command to the owner of the volume's reservations, and its answer to `DeviceServer::reserved`.
    Reserve {
        /// Of which volume.
        volume: VolumeId,
        /// In whose name.
        registrant: reservation::Registrant,
        /// What.
        command: reservation::Command,
    },
    /// The command is done.
    Complete(Reply),
}

/// Something that happened on a logical unit or target and concerns other nexuses of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NexusEvent {
    /// The logical unit was reset: others' tasks on it are gone, and they get a unit attention.
    LogicalUnitReset,
    /// Another nexus cleared the task set (CLEAR TASK SET): tasks on the unit are gone.
    TaskSetCleared,
    /// Mode parameters were changed by another nexus, to these.
    ModeParametersChanged(ModeState),
    /// The logical unit has this size from now on.
    CapacityChanged(Geometry),
    /// Reservations changed: the new state, and what happened to this nexus, if anything.
    Reservations {
        /// The state from now on.
        view: Arc<reservation::View>,
        /// Who is told what; each nexus looks for itself.
        notices: Arc<[(reservation::Registrant, reservation::Notice)]>,
        /// Whose tasks on the unit are to be aborted (PREEMPT AND ABORT).
        aborted: Arc<[reservation::Registrant]>,
    },
}
