//! Supported log pages (LID 00h; NVMe Base §5.1.12.1.1).

use alloc::vec;
use alloc::vec::Vec;

const SUPPORTED: u32 = 1 << 0;
const SIZE: usize = 1024;

/// The page that lists `pages`.
pub fn supported(pages: &[u8]) -> Vec<u8> {
    let mut page = vec![0; SIZE];
    for (lid, entry) in page.chunks_exact_mut(4).enumerate() {
        if pages.iter().any(|&page| usize::from(page) == lid) {
            entry.copy_from_slice(&SUPPORTED.to_le_bytes());
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let page = supported(&[0, 2]);
        assert_eq!(&page[..12], &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(page.len(), 1024);
    }
}
