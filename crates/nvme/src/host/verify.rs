//! Verifying blocks: by the Verify command, or, at a controller without it (Linux' nvmet), by reading them
//! (NVM Command Set §3.2.5).

use buf::Buf;
use protocol::Instant;
use volume::{Durability, Extent, Outcome, Tag, VolumeErrorKind};

use super::command_table::{HostCommand, ReadTarget, VerifyRead};
use super::entry::{block, moving};
use super::fabric_transport::{CommandCapsule, FabricTransport};
use super::queue::HostQueue;
use crate::limits::BLOCKS_PER_COMMAND;
use crate::opcode::nvm;
use crate::status::Status;

impl<T: FabricTransport> HostQueue<T> {
    /// Begins to verify an extent.
    pub(super) fn start_verify(&mut self, now: Instant, tag: Tag, extent: Extent) {
        if !(1..=BLOCKS_PER_COMMAND).contains(&extent.blocks) {
            return self.refuse_length(tag, extent, None);
        }
        match self.remote() {
            Some(remote) if remote.verifies => {
                let entry = block(extent, Durability::Cached).encode(nvm::VERIFY, remote.nsid);
                self.send(now, HostCommand::Plain { tag }, CommandCapsule::bare(entry));
            }
            _ => self.read_piece(now, tag, extent),
        }
    }

    /// Reads the first piece of what is left to verify.
    fn read_piece(&mut self, now: Instant, tag: Tag, left: Extent) {
        let Some(remote) = self.remote() else { return };
        let nsid = remote.nsid;
        let (blocks, length) = remote.piece(left.blocks);
        let piece = Extent::new(left.start, blocks);
        let rest = Extent::new(left.start.saturating_add(blocks), left.blocks.saturating_sub(blocks));
        let entry = moving(block(piece, Durability::Cached).encode(nvm::READ, nsid), length);
        let target = ReadTarget::new(Buf::zeroed(length), length);
        let command = HostCommand::Verify(VerifyRead { tag, target, rest });
        self.send(now, command, CommandCapsule::bare(entry));
    }

    /// A piece was read, or could not be.
    pub(super) fn verified(&mut self, now: Instant, status: Status, read: &VerifyRead) {
        let VerifyRead { tag, ref target, rest } = *read;
        if !status.is_success() {
            self.complete(tag, status);
        } else if target.received != target.length || target.damaged {
            self.answer(tag, Err(VolumeErrorKind::Media));
        } else if rest.blocks == 0 {
            self.answer(tag, Ok(Outcome::Done));
        } else {
            self.read_piece(now, tag, rest);
        }
    }
}
