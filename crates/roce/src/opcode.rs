//! What a packet is, and which headers follow its first one (IBTA §9.2).

/// The operation of a packet, with any value; its upper three bits name the transport service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opcode(pub u8);

impl Opcode {
    /// The first packet of a message.
    pub const SEND_FIRST: Self = Self(0x00);
    /// A packet of a message between others.
    pub const SEND_MIDDLE: Self = Self(0x01);
    /// The last packet of a message.
    pub const SEND_LAST: Self = Self(0x02);
    /// The last packet of a message, with immediate data.
    pub const SEND_LAST_IMMEDIATE: Self = Self(0x03);
    /// A message in one packet.
    pub const SEND_ONLY: Self = Self(0x04);
    /// A message in one packet, with immediate data.
    pub const SEND_ONLY_IMMEDIATE: Self = Self(0x05);
    /// The first packet of a write, which names the memory.
    pub const WRITE_FIRST: Self = Self(0x06);
    /// A packet of a write between others.
    pub const WRITE_MIDDLE: Self = Self(0x07);
    /// The last packet of a write.
    pub const WRITE_LAST: Self = Self(0x08);
    /// The last packet of a write, with immediate data.
    pub const WRITE_LAST_IMMEDIATE: Self = Self(0x09);
    /// A write in one packet.
    pub const WRITE_ONLY: Self = Self(0x0a);
    /// A write in one packet, with immediate data.
    pub const WRITE_ONLY_IMMEDIATE: Self = Self(0x0b);
    /// Asks for memory.
    pub const READ_REQUEST: Self = Self(0x0c);
    /// The first packet of the memory that was asked for.
    pub const READ_RESPONSE_FIRST: Self = Self(0x0d);
    /// A packet of the memory that was asked for between others.
    pub const READ_RESPONSE_MIDDLE: Self = Self(0x0e);
    /// The last packet of the memory that was asked for.
    pub const READ_RESPONSE_LAST: Self = Self(0x0f);
    /// The memory that was asked for in one packet.
    pub const READ_RESPONSE_ONLY: Self = Self(0x10);
    /// Tells what has come, or what was wrong.
    pub const ACKNOWLEDGE: Self = Self(0x11);
    /// The last packet of a message that invalidates memory.
    pub const SEND_LAST_INVALIDATE: Self = Self(0x16);
    /// A message in one packet that invalidates memory.
    pub const SEND_ONLY_INVALIDATE: Self = Self(0x17);
    /// Atomic operations, which this crate does not serve.
    pub const COMPARE_SWAP: Self = Self(0x13);
    /// Likewise.
    pub const FETCH_ADD: Self = Self(0x14);
    /// An unreliable datagram, as connection management sends them.
    pub const DATAGRAM: Self = Self(0x64);

    /// A request of a reliable connection that is not served: an atomic one, or one that is reserved. It is refused, while what is of other services is dropped (IBTA §9.9.3).
    pub const fn is_refused(self) -> bool {
        matches!(self, Self::COMPARE_SWAP | Self::FETCH_ADD | Self(0x15 | 0x18..=0x1f))
    }

    /// The headers that follow, or none for an operation that this crate does not speak (other services, congestion notices). What follows a request that is
    /// [refused](Self::is_refused) is not looked at.
    pub const fn extension(self) -> Option<Extension> {
        Some(match self {
            Self::SEND_FIRST
            | Self::SEND_MIDDLE
            | Self::SEND_LAST
            | Self::SEND_ONLY
            | Self::WRITE_MIDDLE
            | Self::WRITE_LAST
            | Self::READ_RESPONSE_MIDDLE => Extension::None,
            Self::SEND_LAST_IMMEDIATE | Self::SEND_ONLY_IMMEDIATE | Self::WRITE_LAST_IMMEDIATE => {
                Extension::Immediate
            }
            Self::WRITE_FIRST | Self::WRITE_ONLY | Self::READ_REQUEST => Extension::Memory,
            Self::WRITE_ONLY_IMMEDIATE => Extension::MemoryImmediate,
            Self::READ_RESPONSE_FIRST
            | Self::READ_RESPONSE_LAST
            | Self::READ_RESPONSE_ONLY
            | Self::ACKNOWLEDGE => Extension::Acknowledge,
            Self::SEND_LAST_INVALIDATE | Self::SEND_ONLY_INVALIDATE => Extension::Invalidate,
            Self::DATAGRAM => Extension::Datagram,
            _ if self.is_refused() => Extension::None,
            _ => return None,
        })
    }
}

/// Which headers follow the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// None.
    None,
    /// DETH.
    Datagram,
    /// RETH.
    Memory,
    /// RETH and immediate data.
    MemoryImmediate,
    /// AETH.
    Acknowledge,
    /// Immediate data.
    Immediate,
    /// IETH.
    Invalidate,
}
