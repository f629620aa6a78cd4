//! The end of a command: status, sense bytes and data (SAM-5 §5.3).

use buf::BufList;

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
