//! Zeroing blocks: by Write Zeroes commands, or, where the controller refuses them, by writing zeros. Linux' nvmet offers the command
//! for any namespace and refuses it for a file whose file system cannot zero a range (NVM Command Set §3.2.8).

use alloc::boxed::Box;
use alloc::vec;

use buf::{BufList, SharedBuf};
use protocol::Instant;
use volume::{Extent, Outcome, Tag, VolumeErrorKind};

use super::command_table::{HostCommand, WriteSource, ZeroMethod, Zeroes, ZeroesCommand};
use super::entry::{block, moving};
use super::fabric_transport::{CommandCapsule, FabricTransport};
use super::queue::HostQueue;
use crate::limits::BLOCKS_PER_COMMAND;
use crate::opcode::nvm;
use crate::sgl::SglDescriptor;
use crate::status::Status;
use crate::width::to_field;

impl Zeroes {
    /// What is left when the first blocks are done.
    const fn after(mut self, blocks: u64) -> Self {
        let start = self.left.start.saturating_add(blocks);
        self.left = Extent::new(start, self.left.blocks.saturating_sub(blocks));
        self
    }
}

impl<T: FabricTransport> HostQueue<T> {
    /// The next command of a write zeroes, or its end.
    pub(super) fn send_zeroes(&mut self, now: Instant, tag: Tag, zeroes: Zeroes) {
        if zeroes.left.blocks == 0 {
            return self.answer(tag, Ok(Outcome::Done));
        }
        if self.zero_method == ZeroMethod::Write {
            return self.send_zeros(now, tag, zeroes);
        }
        let nsid = self.remote().map_or(0, |remote| remote.nsid);
        let blocks = zeroes.left.blocks.min(BLOCKS_PER_COMMAND);
        let mut command = block(Extent::new(zeroes.left.start, blocks), zeroes.durability);
        command.deallocate = zeroes.deallocate;
        let entry = command.encode(nvm::WRITE_ZEROES, nsid);
        let command = HostCommand::WriteZeroes(ZeroesCommand { tag, zeroes, blocks });
        self.send(now, command, CommandCapsule::bare(entry));
    }

    /// A Write Zeroes command has ended.
    pub(super) fn zeroed(&mut self, now: Instant, status: Status, command: ZeroesCommand) {
        let ZeroesCommand { tag, zeroes, blocks } = command;
        if status.is_success() {
            self.send_zeroes(now, tag, zeroes.after(blocks));
        } else if status.to_volume() == VolumeErrorKind::Unsupported {
            self.zero_method = ZeroMethod::Write;
            self.send_zeros(now, tag, zeroes);
        } else {
            self.complete(tag, status);
        }
    }

    /// Writes zeros to the first blocks of what is left.
    fn send_zeros(&mut self, now: Instant, tag: Tag, zeroes: Zeroes) {
        let Some(remote) = self.remote() else { return };
        let nsid = remote.nsid;
        let (blocks, length) = remote.piece(zeroes.left.blocks);
        let data = BufList::from(SharedBuf::from(vec![0; length]));
        let entry = block(Extent::new(zeroes.left.start, blocks), zeroes.durability).encode(nvm::WRITE, nsid);
        let mut entry = moving(entry, length);
        let rest = Box::new(zeroes.after(blocks));
        let (source, data) = if self.capsule_data.takes(length) {
            entry.dptr = SglDescriptor::in_capsule(to_field(length));
            (WriteSource::new(BufList::new()), data)
        } else {
            (WriteSource::new(data), BufList::new())
        };
        self.send(now, HostCommand::ZeroWrite { tag, source, rest }, CommandCapsule { entry, data });
    }
}
