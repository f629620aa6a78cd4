//! A call under way, of whichever program and version.

use rpc::xdr::Stream;

use super::context::Input;
use super::executor::{Connection, Running, Wait};
use super::exports::FileKey;
use super::held::HeldSlots;
use super::version3::{Mounting, Running as Procedure};
use crate::state::messages::Notice;
use crate::v4::ClientId;

/// A call under way.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "COMPOUND is the usual one: no memory of its own for each")]
pub(crate) enum Task {
    /// COMPOUND of version 4.
    Compound(Running),
    /// A procedure of version 3.
    Procedure(Procedure),
    /// A procedure of MOUNT.
    Mounting(Mounting),
}

/// How a call ends.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its answer.
    pub(crate) reply: Stream,
    /// What the group is told.
    pub(crate) notice: Option<Notice<FileKey>>,
}

impl Task {
    /// The session's client, once there is one.
    pub(crate) fn client(&self) -> Option<ClientId> {
        match self {
            Self::Compound(running) => running.client(),
            Self::Procedure(_) | Self::Mounting(_) => None,
        }
    }

    /// Bytes of arguments that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Compound(running) => running.bytes(),
            Self::Procedure(running) => running.bytes(),
            Self::Mounting(_) => 0,
        }
    }

    /// Bytes of them that are counted already, as they lie in memory of the pool.
    pub(crate) fn payload(&self) -> usize {
        match self {
            Self::Compound(running) => running.payload(),
            Self::Procedure(running) => running.payload(),
            Self::Mounting(_) => 0,
        }
    }

    /// Goes on until it waits or is finished. `input` is what it waited for.
    pub(crate) fn advance(&mut self, connection: &mut Connection<'_>, input: Option<Input>) -> Wait {
        match self {
            Self::Compound(running) => running.advance(connection, input),
            Self::Procedure(running) => running.advance(connection.shared, input),
            Self::Mounting(mounting) => mounting.advance(connection.shared, input),
        }
    }

    /// How it ends.
    pub(crate) fn finish(self, now: protocol::Instant, slots: &mut HeldSlots) -> Ended {
        match self {
            Self::Compound(running) => Ended { reply: running.finish(now, slots), notice: None },
            Self::Procedure(running) => {
                let (reply, notice) = running.finish();
                Ended { reply, notice }
            }
            Self::Mounting(mounting) => Ended { reply: mounting.finish(), notice: None },
        }
    }
}
