//! A command as a transport hands it to the device server.

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

impl DataDirection {
    /// The most bytes that the initiator announced to send.
    pub(crate) fn announced(self) -> u32 {
        match self {
            Self::Out(bytes) => bytes,
            Self::None | Self::In(_) => 0,
        }
    }
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
