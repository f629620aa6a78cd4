//! What a call is about: whoever takes its answer finds there where it belongs.

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// A step of the set-up, or of the leave, outside a slot: EXCHANGE_ID, CREATE_SESSION, BIND_CONN_TO_SESSION, DESTROY_SESSION, DESTROY_CLIENTID.
    Outside,
    /// Such a step in a slot.
    Step(SlotUse),
    /// A slot whose fate is not known, from a connection before.
    Settle(SlotUse),
    /// A sign of life.
    Ping(SlotUse),
    /// How large the file is.
    Look(SlotUse),
    /// A part of a request, by its place among the transfers.
    Part(SlotUse, usize),
}

/// A slot, and the sequence ID that it is used with (RFC 8881 §2.10.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotUse {
    pub(super) slot: u32,
    pub(super) sequence: u32,
}

impl Subject {
    /// True where the answer has what operations on an open file answer.
    pub(super) fn is_short(self) -> bool {
        match self {
            Self::Settle(_) | Self::Ping(_) | Self::Look(_) | Self::Part(..) => true,
            Self::Outside | Self::Step(_) => false,
        }
    }

    /// The slot, if it has one.
    pub(super) fn slot(self) -> Option<SlotUse> {
        match self {
            Self::Outside => None,
            Self::Step(of) | Self::Settle(of) | Self::Ping(of) | Self::Look(of) | Self::Part(of, _) => {
                Some(of)
            }
        }
    }
}
