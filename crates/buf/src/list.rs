//! A sequence of shared pieces that becomes one vectored transfer.

use smallvec::SmallVec;

use crate::shared::SharedBuf;

/// Pieces of memory in order. One piece, as the usual read or write has, needs no allocation; room for more would be moved
/// about with every request.
#[derive(Debug, Clone, Default)]
pub struct BufList {
    pieces: SmallVec<[SharedBuf; 1]>,
    len: usize,
}

impl BufList {
    /// No pieces.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes in all pieces.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a piece at the end; an empty one is passed over.
    pub fn push(&mut self, piece: SharedBuf) {
        if !piece.is_empty() {
            self.len += piece.len();
            self.pieces.push(piece);
        }
    }

    /// Adds the pieces of another list at the end.
    pub fn append(&mut self, more: Self) {
        if self.is_empty() {
            *self = more;
        } else {
            more.into_pieces().for_each(|piece| self.push(piece));
        }
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[SharedBuf] {
        &self.pieces
    }

    /// The pieces themselves, in order: who is done with a list passes on what it holds, instead of counting it once more.
    pub fn into_pieces(self) -> impl Iterator<Item = SharedBuf> {
        self.pieces.into_iter()
    }

    /// All bytes in one piece: the only one, or else a copy of all.
    #[must_use]
    pub fn into_one(mut self) -> SharedBuf {
        match self.pieces.pop() {
            Some(only) if self.pieces.is_empty() => only,
            Some(last) => {
                self.pieces.push(last);
                let mut whole = Vec::with_capacity(self.len);
                self.pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
                SharedBuf::from(whole)
            }
            None => SharedBuf::from_static(&[]),
        }
    }

    /// The part of the list from `offset` for `len` bytes, sharing the memory.
    ///
    /// # Panics
    /// When the part does not lie within the list.
    #[must_use]
    pub fn part(&self, mut offset: usize, mut len: usize) -> Self {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "a part beyond the list");
        let mut part = Self::new();
        for piece in &self.pieces {
            if len == 0 {
                break;
            }
            if offset >= piece.len() {
                offset -= piece.len();
                continue;
            }
            let take = len.min(piece.len() - offset);
            part.push(piece.slice(offset..offset + take));
            offset = 0;
            len -= take;
        }
        part
    }

    /// Copies the whole list to the front of `target` and says how many bytes were copied: as many as fit.
    pub fn copy_to(&self, target: &mut [u8]) -> usize {
        let mut copied = 0;
        for piece in &self.pieces {
            let Some(room) = target.get_mut(copied..) else { break };
            let count = piece.len().min(room.len());
            room[..count].copy_from_slice(&piece[..count]);
            copied += count;
        }
        copied
    }
}

impl From<SharedBuf> for BufList {
    fn from(piece: SharedBuf) -> Self {
        let mut list = Self::new();
        list.push(piece);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pieces: &[&[u8]]) -> BufList {
        let mut list = BufList::new();
        for piece in pieces {
            list.push(SharedBuf::from(piece.to_vec()));
        }
        list
    }

    #[test]
    fn a_part_crosses_pieces_and_copies_whole() {
        let whole = list(&[b"abc", b"", b"defg", b"h"]);
        assert_eq!(whole.len(), 8);
        let part = whole.part(2, 5);
        let mut target = [0; 5];
        assert_eq!(part.copy_to(&mut target), 5);
        assert_eq!(&target, b"cdefg");
        assert_eq!(whole.part(8, 0).len(), 0);
        assert_eq!(&whole.into_one()[..], b"abcdefgh");
    }

    #[test]
    fn one_piece_is_not_copied() {
        let one = SharedBuf::from(vec![1, 2]);
        let place = one.as_ptr();
        assert_eq!(BufList::from(one).into_one().as_ptr(), place);
        assert!(BufList::new().into_one().is_empty());
    }
}
