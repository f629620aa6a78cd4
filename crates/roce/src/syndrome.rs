//! What an acknowledgement says of the packets before it (IBTA §9.7.5.2).

use core::time::Duration;

/// What an acknowledgement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syndrome {
    /// All has come.
    Ack(Credits),
    /// No receive is posted: try again after that time.
    ReceiverNotReady(Timer),
    /// The packet is refused.
    Nak(Nak),
}

/// Receives that are posted, by their code of five bits (IBTA §9.7.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credits(u8);

/// How long to wait for a receive, by its code of five bits (IBTA §9.7.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer(u8);

/// Why a packet is refused (IBTA §9.7.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nak {
    /// A packet before it is missing.
    Sequence,
    /// The operation is not one that the queue pair takes.
    InvalidRequest,
    /// The memory is not open to it.
    RemoteAccess,
    /// The receiver failed.
    RemoteOperational,
}

const KIND_SHIFT: u32 = 5;
const VALUE: u8 = 0b1_1111;

impl Credits {
    /// The receiver does not count its receives.
    pub const UNLIMITED: Self = Self(VALUE);

    /// How many; none where the receiver does not count.
    pub const fn get(self) -> Option<u32> {
        match self.0 {
            VALUE => None,
            code @ 0..=1 => Some(code as u32),
            // Each even code doubles the one before the last; the odd one behind it is half as much again.
            code if code % 2 == 0 => Some(1 << (code / 2)),
            code => Some(3 << ((code - 3) / 2)),
        }
    }
}

impl Timer {
    /// The shortest of the times, 10 µs.
    pub const SHORTEST: Self = Self(1);
    /// The time that we ask a peer to wait for a receive, 640 µs: a consumer posts the next one in its next turn.
    pub const TURN: Self = Self(12);

    /// The time.
    pub const fn duration(self) -> Duration {
        const HUNDREDTHS: [u32; 32] = [
            65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
            2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 49_152,
        ];
        Duration::from_micros(HUNDREDTHS[(self.0 & VALUE) as usize] as u64 * 10)
    }
}

impl Syndrome {
    /// Its byte.
    pub const fn encode(self) -> u8 {
        match self {
            Self::Ack(Credits(code)) => code,
            Self::ReceiverNotReady(Timer(code)) => (1 << KIND_SHIFT) | code,
            Self::Nak(nak) => (3 << KIND_SHIFT) | nak.encode(),
        }
    }

    /// What a byte says; none for reserved values.
    pub const fn decode(byte: u8) -> Option<Self> {
        let value = byte & VALUE;
        match byte >> KIND_SHIFT {
            0 => Some(Self::Ack(Credits(value))),
            1 => Some(Self::ReceiverNotReady(Timer(value))),
            3 => match Nak::decode(value) {
                Some(nak) => Some(Self::Nak(nak)),
                None => None,
            },
            _ => None,
        }
    }
}

impl Nak {
    const fn encode(self) -> u8 {
        match self {
            Self::Sequence => 0,
            Self::InvalidRequest => 1,
            Self::RemoteAccess => 2,
            Self::RemoteOperational => 3,
        }
    }

    const fn decode(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Sequence,
            1 => Self::InvalidRequest,
            2 => Self::RemoteAccess,
            3 => Self::RemoteOperational,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_that_means_something_comes_back() {
        let known = (0..=u8::MAX).filter(|byte| {
            let syndrome = Syndrome::decode(*byte);
            assert!(syndrome.is_none_or(|syndrome| syndrome.encode() == *byte), "{byte:#x}");
            syndrome.is_some()
        });
        assert_eq!(known.count(), 32 + 32 + 4);
    }

    #[test]
    fn golden_vectors_of_credits_and_times() {
        let credits = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 31].map(|code| Credits(code).get());
        let counts = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32_768].map(Some);
        assert_eq!(credits[..11], counts);
        assert_eq!(credits[11], None, "not counted");
        assert_eq!(Timer::SHORTEST.duration(), Duration::from_micros(10));
        assert_eq!(Timer::TURN.duration(), Duration::from_micros(640));
        assert_eq!(Timer(0).duration(), Duration::from_micros(655_360));
        assert_eq!(Timer(31).duration(), Duration::from_micros(491_520));
    }
}
