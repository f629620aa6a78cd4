//! Changed namespace list (LID 04h; NVMe Base §5.1.12.1.5).

use alloc::vec;
use alloc::vec::Vec;

use crate::limits::CHANGED_NAMESPACES;
use crate::sqe::ALL_NAMESPACES;

/// Namespaces that changed since the page was last read, in order; too many become "all".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedNamespaces(Vec<u32>);

impl ChangedNamespaces {
    /// Adds a namespace.
    pub fn add(&mut self, nsid: u32) {
        if let Err(index) = self.0.binary_search(&nsid) {
            self.0.insert(index, nsid);
        }
        if self.0.len() > CHANGED_NAMESPACES {
            self.0.clear();
            self.0.push(ALL_NAMESPACES);
        }
    }

    /// Forgets all, after the page was read.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The page.
    pub fn page(&self) -> Vec<u8> {
        let mut page = vec![0; 4 * CHANGED_NAMESPACES];
        for (target, nsid) in page.chunks_exact_mut(4).zip(&self.0) {
            target.copy_from_slice(&nsid.to_le_bytes());
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector_and_overflow() {
        let mut changed = ChangedNamespaces::default();
        for nsid in [3, 1, 3] {
            changed.add(nsid);
        }
        assert_eq!(&changed.page()[..12], &[1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        (0..1025).for_each(|nsid| changed.add(nsid));
        assert_eq!(&changed.page()[..8], &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        changed.clear();
        assert_eq!(changed.page(), vec![0; 4096]);
    }
}
