//! Asynchronous events (NVMe Base §5.1.2): what completes an Asynchronous Event Request, and which of them a host asks for.

use wire::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use crate::log::lid;

/// Dword 0 of the completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AsyncEventResult {
    /// Asynchronous event type (bits 2:0).
    pub kind: u8,
    /// Asynchronous event information.
    pub information: u8,
    /// The log page that tells more.
    pub lid: u8,
    reserved: u8,
}

const _: () = assert!(size_of::<AsyncEventResult>() == 4);

/// Type 2h: a notice.
const NOTICE: u8 = 2;
/// Type 6h: an event of an I/O command set.
const IO_COMMAND_SET: u8 = 6;
/// Notice 00h: attributes of a namespace have changed.
const NAMESPACE_ATTRIBUTE: u8 = 0x00;
/// Notice F0h: the discovery log page has changed.
const DISCOVERY_LOG: u8 = 0xf0;
/// I/O command set event 00h: there is a reservation notification.
const RESERVATION_LOG: u8 = 0x00;

/// An event that a controller here reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncEvent {
    /// Namespaces have changed.
    Namespaces,
    /// The discovery log page has changed.
    Discovery,
    /// A reservation notification is to be read.
    Reservation,
}

impl AsyncEvent {
    /// The completion's result.
    pub const fn result(self) -> AsyncEventResult {
        let (kind, information, lid) = match self {
            Self::Namespaces => (NOTICE, NAMESPACE_ATTRIBUTE, lid::CHANGED_NAMESPACES),
            Self::Discovery => (NOTICE, DISCOVERY_LOG, lid::DISCOVERY),
            Self::Reservation => (IO_COMMAND_SET, RESERVATION_LOG, lid::RESERVATION),
        };
        AsyncEventResult { kind, information, lid, reserved: 0 }
    }

    /// The event that reading this log page clears.
    pub const fn of_log(lid: u8) -> Option<Self> {
        match lid {
            lid::CHANGED_NAMESPACES => Some(Self::Namespaces),
            lid::DISCOVERY => Some(Self::Discovery),
            lid::RESERVATION => Some(Self::Reservation),
            _ => None,
        }
    }
}

impl AsyncEventResult {
    /// The dword.
    pub fn dword(self) -> u32 {
        let dword: U32 = transmute!(self);
        dword.get()
    }
}

/// Asynchronous Event Configuration (NVMe Base §5.1.25.1.5): what the host asks to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AsyncEventConfiguration(pub u32);

impl AsyncEventConfiguration {
    const NAMESPACE_ATTRIBUTE: u32 = 1 << 8;
    const DISCOVERY_LOG: u32 = 1 << 31;

    /// True when the host asks for the event. Reservation notifications have a feature of their own for that.
    pub const fn asks_for(self, event: AsyncEvent) -> bool {
        match event {
            AsyncEvent::Namespaces => self.0 & Self::NAMESPACE_ATTRIBUTE != 0,
            AsyncEvent::Discovery => self.0 & Self::DISCOVERY_LOG != 0,
            AsyncEvent::Reservation => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [AsyncEvent; 3] = [AsyncEvent::Namespaces, AsyncEvent::Discovery, AsyncEvent::Reservation];

    #[test]
    fn golden_vectors() {
        assert_eq!(ALL.map(|event| event.result().dword()), [0x0004_0002, 0x0070_f002, 0x0080_0006]);
        for event in ALL {
            assert_eq!(AsyncEvent::of_log(event.result().lid), Some(event));
        }
    }

    #[test]
    fn a_host_hears_what_it_has_asked_for() {
        let asked = |value| ALL.map(|event| AsyncEventConfiguration(value).asks_for(event));
        assert_eq!(asked(0), [false, false, true]);
        assert_eq!(asked(1 << 8), [true, false, true]);
        assert_eq!(asked(1 << 31), [false, true, true]);
    }
}
