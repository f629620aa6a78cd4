//! Commands supported and effects (LID 05h; NVMe Base §5.1.12.1.6).

use alloc::vec;
use alloc::vec::Vec;

const SUPPORTED: u32 = 1 << 0;
const CHANGES_BLOCKS: u32 = 1 << 1;
/// I/O commands follow 256 admin commands.
const IO_COMMANDS: usize = 256;
const SIZE: usize = 4096;

/// The page for the given admin commands, and I/O commands with whether they change blocks.
pub fn effects(admin: &[u8], io: &[(u8, bool)]) -> Vec<u8> {
    let mut page = vec![0; SIZE];
    for &opcode in admin {
        put(&mut page, usize::from(opcode), SUPPORTED);
    }
    for &(opcode, writes) in io {
        let effect = SUPPORTED | (u32::from(writes) * CHANGES_BLOCKS);
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
        let page = effects(&[0x06], &[(0x01, true), (0x02, false)]);
        assert_eq!(&page[24..28], &[1, 0, 0, 0]);
        assert_eq!(&page[1024..1036], &[0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(page.len(), 4096);
    }
}
