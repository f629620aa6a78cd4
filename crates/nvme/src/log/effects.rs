//! Commands supported and effects (LID 05h; NVMe Base §5.1.12.1.6).

use alloc::vec;
use alloc::vec::Vec;

const SUPPORTED: u32 = 1 << 0;
const CHANGES_BLOCKS: u32 = 1 << 1;
/// I/O commands follow 256 admin commands.
const IO_COMMANDS: usize = 256;
const SIZE: usize = 4096;

/// An I/O command that is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoCommand {
    /// Its opcode.
    pub opcode: u8,
    /// It changes blocks (LBCC).
    pub changes_blocks: bool,
}

impl IoCommand {
    /// A command that changes no blocks.
    pub const fn new(opcode: u8) -> Self {
        Self { opcode, changes_blocks: false }
    }

    /// A command that changes blocks.
    pub const fn changing(opcode: u8) -> Self {
        Self { opcode, changes_blocks: true }
    }
}

/// The page for the given admin and I/O commands.
pub fn effects(admin: &[u8], io: &[IoCommand]) -> Vec<u8> {
    let mut page = vec![0; SIZE];
    for &opcode in admin {
        put(&mut page, usize::from(opcode), SUPPORTED);
    }
    for &IoCommand { opcode, changes_blocks } in io {
        let effect = SUPPORTED | (u32::from(changes_blocks) * CHANGES_BLOCKS);
        put(&mut page, usize::from(opcode).saturating_add(IO_COMMANDS), effect);
    }
    page
}

fn put(page: &mut [u8], index: usize, effect: u32) {
    if let Some(entry) = page.chunks_exact_mut(4).nth(index) {
        entry.copy_from_slice(&effect.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let page = effects(&[0x06], &[IoCommand::changing(0x01), IoCommand::new(0x02)]);
        assert_eq!(&page[24..28], &[1, 0, 0, 0]);
        assert_eq!(&page[1024..1036], &[0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(page.len(), 4096);
    }
}
