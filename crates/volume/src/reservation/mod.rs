//! Persistent reservations: one truth per volume, for SCSI and NVMe alike.
//!
//! A registrant is a SCSI I_T nexus or an NVMe host; keys, types and the generation are neutral. `scsi` and
//! `nvme` map their commands to [`Command`] and their statuses from [`CommandError`]; the engine owns the
//! state ([`Reservations`]) on one core, and gives every connection the [`View`] that results from each change.
//! SPC-4 §5.13 and NVMe Base §8.1.22 describe the same model in two languages.

mod limits;
mod state;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

pub use limits::MAX_REGISTRATIONS;
pub use state::{Change, Reservations};

/// Who holds a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Registrant {
    /// A SCSI initiator port seen through a target port (SAM-5 §4.7: an I_T nexus).
    Nexus {
        /// The initiator port's name, such as `iqn.…,i,0x00023d000001` (RFC 7143 §4.4.4).
        initiator_port: Arc<str>,
        /// The target port's name, such as `iqn.…,t,0x0001`.
        target_port: Arc<str>,
        /// The target port's relative identifier (SPC-4 §7.8.6.8).
        relative_port: u16,
    },
    /// An NVMe host.
    Host {
        /// The host's identifier, 128 bits.
        identifier: [u8; 16],
        /// The host's qualified name.
        nqn: Arc<str>,
    },
}

/// What a reservation allows to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReservationType {
    /// Only the holder writes.
    WriteExclusive,
    /// Only the holder reads and writes.
    ExclusiveAccess,
    /// Only registrants write.
    WriteExclusiveRegistrants,
    /// Only registrants read and write.
    ExclusiveAccessRegistrants,
    /// Only registrants write, and all of them hold it.
    WriteExclusiveAll,
    /// Only registrants read and write, and all of them hold it.
    ExclusiveAccessAll,
}

impl ReservationType {
    /// Every type, in the order of their codes.
    pub const ALL: [Self; 6] = [
        Self::WriteExclusive,
        Self::ExclusiveAccess,
        Self::WriteExclusiveRegistrants,
        Self::ExclusiveAccessRegistrants,
        Self::WriteExclusiveAll,
        Self::ExclusiveAccessAll,
    ];

    /// True when every registrant holds the reservation.
    pub const fn is_all(self) -> bool {
        matches!(self, Self::WriteExclusiveAll | Self::ExclusiveAccessAll)
    }

    /// True when registrants have rights that others lack, so that they are told when it ends.
    pub const fn favours_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }
}

/// What a registrant asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Register, change or remove (new key zero) the key.
    Register {
        /// The registrant's key so far, zero if it has none; `None` to ignore it.
        key: Option<u64>,
        /// Its key from now on; zero unregisters.
        new_key: u64,
        /// Keep registrations across power loss (APTPL, PTPL); `None` leaves the setting.
        persist: Option<bool>,
    },
    /// Take the reservation.
    Reserve {
        /// The registrant's key.
        key: u64,
        /// What it is to allow.
        kind: ReservationType,
    },
    /// Give the reservation back; without holding it, a success that changes nothing.
    Release {
        /// The registrant's key.
        key: u64,
        /// Must be the type held.
        kind: ReservationType,
    },
    /// Remove every registration and the reservation.
    Clear {
        /// The registrant's key.
        key: u64,
    },
    /// Remove the registrations under another key, and take the reservation if they held it.
    Preempt {
        /// The registrant's key.
        key: u64,
        /// The key to remove; zero names all others of an all-registrants reservation.
        victim: u64,
        /// The type of the new reservation.
        kind: ReservationType,
        /// Abort the victims' requests too.
        abort: bool,
    },
}

/// Why a command was refused; nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandError {
    /// The key is not the registrant's, it is not registered, or somebody else's reservation is in the way.
    Conflict,
    /// The release named another type than the one held.
    WrongType,
    /// The command makes no sense: for instance a victim key of zero without an all-registrants reservation.
    Invalid,
    /// The limit of registrations is reached.
    Full,
}

/// What happened to a registrant because of somebody else's command: a unit attention, or a log page entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The reservation that it was subject to was released.
    Released,
    /// Its registration was removed by a preemption.
    Preempted,
    /// Its registration was removed by a clear.
    Cleared,
}

/// What a registrant, or somebody who is none, may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// May read.
    pub read: bool,
    /// May write.
    pub write: bool,
}

impl Access {
    /// No reservation is in the way.
    pub const FULL: Self = Self { read: true, write: true };
}

/// One registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Who.
    pub registrant: Registrant,
    /// With which key; never zero.
    pub key: u64,
}

/// The state after a change, shared read-only by all who check or report it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// Counts registrations, clears and preemptions (PRGENERATION, GEN).
    pub generation: u32,
    /// All registrations, in the order in which they were made.
    pub registrations: Vec<Registration>,
    /// The reservation: its type, and its holder unless all registrants hold it.
    pub reservation: Option<(ReservationType, Option<Registrant>)>,
    /// Registrations survive a loss of power.
    pub persist: bool,
}

impl View {
    /// The registrant's key.
    pub fn key_of(&self, registrant: &Registrant) -> Option<u64> {
        self.registrations.iter().find(|entry| entry.registrant == *registrant).map(|entry| entry.key)
    }

    /// True when `registrant` holds the reservation, alone or with all others.
    pub fn holds(&self, registrant: &Registrant) -> bool {
        match &self.reservation {
            None => false,
            Some((_, Some(holder))) => holder == registrant,
            Some((_, None)) => self.key_of(registrant).is_some(),
        }
    }

    /// What `registrant` may do.
    pub fn access(&self, registrant: &Registrant) -> Access {
        let Some((kind, _)) = self.reservation else { return Access::FULL };
        let registered = self.key_of(registrant).is_some();
        match kind {
            ReservationType::WriteExclusive => Access { read: true, write: self.holds(registrant) },
            ReservationType::ExclusiveAccess => {
                Access { read: self.holds(registrant), write: self.holds(registrant) }
            }
            ReservationType::WriteExclusiveRegistrants | ReservationType::WriteExclusiveAll => {
                Access { read: true, write: registered }
            }
            ReservationType::ExclusiveAccessRegistrants | ReservationType::ExclusiveAccessAll => {
                Access { read: registered, write: registered }
            }
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Conflict => {
                "the key is not registered here, or another registrant's reservation forbids it"
            }
            Self::WrongType => "the reservation is of another type",
            Self::Invalid => "the reservation command makes no sense in this state",
            Self::Full => "no more registrations fit",
        })
    }
}
