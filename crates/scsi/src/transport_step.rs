//! What the device server asks of the transport for a task.

use volume::{Epoch, Extent, Operation, VolumeId, reservation};

use crate::reply::Reply;

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
