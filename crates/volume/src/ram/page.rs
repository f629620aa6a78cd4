//! One page's memory. A read may lend it, and what is lent never changes: it is copied before it is written while
//! somebody still holds it.

use std::ops::Range;

use buf::SharedBuf;

/// Bytes in a page: what one lock covers, and what a first write allocates.
pub(super) const PAGE: usize = 64 << 10;

/// What a page consists of.
#[derive(Debug, Default)]
pub(super) enum Page {
    /// It was never written, or given back: it reads as zeros.
    #[default]
    Hole,
    /// It was never lent, so nobody has to be asked before it is written.
    Own(Box<[u8]>),
    /// It was lent, and perhaps still is.
    Lent(SharedBuf),
}

impl Page {
    pub(super) const fn is_hole(&self) -> bool {
        matches!(self, Self::Hole)
    }

    /// The bytes, unless it is a hole.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Hole => None,
            Self::Own(bytes) => Some(bytes),
            Self::Lent(bytes) => Some(bytes),
        }
    }

    /// Gives a hole its memory, all zeros; false if it is none.
    pub(super) fn allocate(&mut self) -> bool {
        let hole = self.is_hole();
        if hole {
            *self = Self::Own(vec![0; PAGE].into_boxed_slice());
        }
        hole
    }

    /// A range of the page as it is now, for as long as the answer is held; `None` of a hole.
    pub(super) fn lend(&mut self, range: Range<usize>) -> Option<SharedBuf> {
        let bytes = match std::mem::take(self) {
            Self::Hole => return None,
            Self::Own(bytes) => SharedBuf::from(Vec::from(bytes)),
            Self::Lent(bytes) => bytes,
        };
        let lent = bytes.slice(range);
        *self = Self::Lent(bytes);
        Some(lent)
    }

    /// Lets `act` change the bytes, unless it is a hole. While somebody holds them, a copy is made for it; the answer is
    /// true then.
    pub(super) fn change(&mut self, act: impl FnOnce(&mut [u8])) -> bool {
        if let Self::Own(bytes) = self {
            act(bytes);
            return false;
        }
        let Self::Lent(bytes) = std::mem::take(self) else { return false };
        match bytes.try_unfreeze() {
            Ok(mut sole) => {
                act(&mut sole);
                *self = Self::Lent(sole.freeze());
                false
            }
            Err(held) => {
                let mut copy: Box<[u8]> = Box::from(&*held);
                act(&mut copy);
                *self = Self::Own(copy);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_does_not_change_and_what_is_not_is_changed_in_place() {
        let mut page = Page::default();
        assert!(page.lend(0..8).is_none() && page.allocate() && !page.allocate());
        assert!(!page.change(|bytes| bytes[5] = 1));
        let place = page.bytes().unwrap().as_ptr();
        let lent = page.lend(4..8).unwrap();
        assert!(page.change(|bytes| bytes[5] = 2), "somebody holds it");
        assert_eq!((lent[1], page.bytes().unwrap()[5]), (1, 2));
        let place_of_copy = page.bytes().unwrap().as_ptr();
        assert_ne!(place_of_copy, place);
        drop(page.lend(0..PAGE));
        assert!(!page.change(|bytes| bytes[5] = 3), "nobody holds it any more");
        assert_eq!((page.bytes().unwrap().as_ptr(), page.bytes().unwrap()[5]), (place_of_copy, 3));
    }
}
