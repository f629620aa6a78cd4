//! A sequence of shared pieces that becomes one vectored transfer.

use crate::shared::SharedBuf;
use alloc::vec;
use alloc::vec::Vec;

/// Pieces of memory in order. One piece, as the usual read or write has, needs no allocation, and lies here as it is: a list is
/// moved about with every request.
#[derive(Debug, Clone)]
pub struct BufList(Pieces);

/// None and several are `Many`; no piece is empty.
#[derive(Debug, Clone)]
enum Pieces {
    One(SharedBuf),
    Many { pieces: Vec<SharedBuf>, len: usize },
}

impl BufList {
    /// No pieces.
    pub const fn new() -> Self {
        Self(Pieces::Many { pieces: Vec::new(), len: 0 })
    }

    /// No pieces, and room for as many as this.
    pub fn with_room(pieces: usize) -> Self {
        Self(Pieces::Many { pieces: Vec::with_capacity(pieces), len: 0 })
    }

    /// Lets go of all pieces. The room for several stays, so that a list that is filled again and again needs no allocation.
    pub fn clear(&mut self) {
        match &mut self.0 {
            Pieces::One(_) => *self = Self::new(),
            Pieces::Many { pieces, len } => {
                pieces.clear();
                *len = 0;
            }
        }
    }

    /// Bytes in all pieces.
    pub fn len(&self) -> usize {
        match &self.0 {
            Pieces::One(piece) => piece.len(),
            Pieces::Many { len, .. } => *len,
        }
    }

    /// True when there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a piece at the end; an empty one is passed over.
    pub fn push(&mut self, piece: SharedBuf) {
        if piece.is_empty() {
            return;
        }
        let has_room = matches!(&self.0, Pieces::Many { pieces, .. } if pieces.capacity() > 0);
        if self.is_empty() && !has_room {
            self.0 = Pieces::One(piece);
            return;
        }
        let len = self.len() + piece.len();
        let mut pieces = match core::mem::take(self).0 {
            Pieces::One(first) => vec![first],
            Pieces::Many { pieces, .. } => pieces,
        };
        pieces.push(piece);
        self.0 = Pieces::Many { pieces, len };
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
        match &self.0 {
            Pieces::One(piece) => core::slice::from_ref(piece),
            Pieces::Many { pieces, .. } => pieces,
        }
    }

    /// Bytes that no pool's limit counts, and that are not there anyway ([`SharedBuf::common`]): none where the last piece is a pool's buffer, or is
    /// kept by one in whose place the whole list was lent ([`Buf::lend`](crate::Buf::lend)).
    pub fn unpooled(&self) -> usize {
        match self.pieces().last() {
            Some(last) if !last.is_pooled() => {
                let foreign = self.pieces().iter().filter(|piece| piece.is_foreign());
                foreign.map(|piece| piece.len()).sum()
            }
            _ => 0,
        }
    }

    /// The pieces themselves, in order: who is done with a list passes on what it holds, instead of counting it once more.
    pub fn into_pieces(self) -> impl Iterator<Item = SharedBuf> {
        match self.0 {
            Pieces::One(piece) => IntoPieces::One(Some(piece)),
            Pieces::Many { pieces, .. } => IntoPieces::Many(pieces.into_iter()),
        }
    }

    /// All bytes in one piece: the only one, or else a copy of all.
    #[must_use]
    pub fn into_one(self) -> SharedBuf {
        match self.0 {
            Pieces::One(piece) => piece,
            Pieces::Many { mut pieces, .. } if pieces.len() == 1 => pieces.swap_remove(0),
            Pieces::Many { pieces, len } => {
                let mut whole = Vec::with_capacity(len);
                for piece in &pieces {
                    whole.extend_from_slice(piece);
                }
                SharedBuf::from(whole)
            }
        }
    }

    /// The part of the list from `offset` for `len` bytes, sharing the memory.
    ///
    /// # Panics
    /// When the part does not lie within the list.
    #[must_use]
    pub fn part(&self, mut offset: usize, mut len: usize) -> Self {
        let whole = self.len();
        if (offset, len) == (0, whole) {
            return self.clone();
        }
        assert!(offset.checked_add(len).is_some_and(|end| end <= whole), "a part beyond the list");
        let mut part = Self::new();
        for piece in self.pieces() {
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
        for piece in self.pieces() {
            let Some(room) = target.get_mut(copied..) else { break };
            let count = piece.len().min(room.len());
            room[..count].copy_from_slice(&piece[..count]);
            copied += count;
        }
        copied
    }
}

/// See [`BufList::into_pieces`].
enum IntoPieces {
    One(Option<SharedBuf>),
    Many(alloc::vec::IntoIter<SharedBuf>),
}

impl Iterator for IntoPieces {
    type Item = SharedBuf;

    fn next(&mut self) -> Option<SharedBuf> {
        match self {
            Self::One(piece) => piece.take(),
            Self::Many(pieces) => pieces.next(),
        }
    }
}

impl Default for BufList {
    fn default() -> Self {
        Self::new()
    }
}

impl From<SharedBuf> for BufList {
    fn from(piece: SharedBuf) -> Self {
        if piece.is_empty() { Self::new() } else { Self(Pieces::One(piece)) }
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
    fn what_is_lent_in_place_of_a_pools_buffer_counts_as_that_buffer_only() {
        let pool = crate::Pool::new(64 << 20);
        let (page, size) = (SharedBuf::from(vec![0; 65_536]), 3 * 65_536);
        let mut lent = BufList::from(page.clone());
        lent.push(page.clone());
        assert_eq!(lent.unpooled(), 2 * 65_536, "nothing of a pool keeps it");
        lent.push(pool.take(size).unwrap().lend(page, None));
        assert_eq!((lent.len(), lent.unpooled()), (size, 0));
        assert_eq!(BufList::from(pool.take(512).unwrap().freeze()).unpooled(), 0);
        assert_eq!(BufList::new().unpooled(), 0);
    }

    #[test]
    fn a_list_is_no_larger_than_a_vector_and_its_length() {
        assert_eq!(size_of::<BufList>(), size_of::<(Vec<SharedBuf>, usize)>());
    }

    #[test]
    fn a_list_that_was_let_go_of_keeps_its_room() {
        let mut reused = BufList::with_room(2);
        for (first, second) in [(b"ab", b"cd"), (b"ef", b"gh")] {
            reused.push(SharedBuf::from(first.to_vec()));
            let Pieces::Many { pieces, .. } = &reused.0 else { panic!("a table") };
            let table = pieces.as_ptr();
            reused.push(SharedBuf::from(second.to_vec()));
            assert_eq!(reused.len(), 4);
            assert_eq!(reused.pieces().as_ptr(), table, "no other table");
            reused.clear();
            assert!(reused.is_empty() && reused.pieces().is_empty());
        }
        reused.push(SharedBuf::from(b"one".to_vec()));
        let own = reused.pieces()[0].as_ptr();
        assert_eq!(reused.into_one().as_ptr(), own, "one piece is not copied");
        let mut single = BufList::from(SharedBuf::from(b"x".to_vec()));
        single.clear();
        assert!(single.is_empty());
    }

    #[test]
    fn what_is_there_anyway_and_what_a_pool_counts_are_not_counted_again() {
        let mut whole = list(&[b"abc"]);
        whole.push(crate::Pool::new(4096).take(512).unwrap().freeze());
        whole.push(SharedBuf::common(vec![0; 4096]).slice(..100));
        whole.push(SharedBuf::from_static(b"static"));
        assert_eq!((whole.len(), whole.unpooled()), (3 + 100 + 6 + 512, 3));
    }

    #[test]
    fn one_piece_is_not_copied() {
        let one = SharedBuf::from(vec![1, 2]);
        let place = one.as_ptr();
        assert_eq!(BufList::from(one).into_one().as_ptr(), place);
        assert!(BufList::new().into_one().is_empty());
    }
}
