//! Where two lists of memory differ.

use buf::BufList;

/// The first byte in which the lists differ; `None` if one begins with the other.
pub(crate) fn first_difference(one: &BufList, two: &BufList) -> Option<usize> {
    let mut left = one.pieces().iter().map(|piece| &**piece);
    let mut right = two.pieces().iter().map(|piece| &**piece);
    let (mut here, mut there): (&[u8], &[u8]) = (&[], &[]);
    let mut at = 0;
    loop {
        if here.is_empty() {
            here = left.next()?;
        }
        if there.is_empty() {
            there = right.next()?;
        }
        let len = here.len().min(there.len());
        let (part, rest) = here.split_at(len);
        let (other, other_rest) = there.split_at(len);
        if part != other {
            return part.iter().zip(other).position(|(one, two)| one != two).map(|offset| at + offset);
        }
        (here, there) = (rest, other_rest);
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use buf::SharedBuf;

    use super::*;

    fn list(pieces: &[&[u8]]) -> BufList {
        let mut list = BufList::new();
        for piece in pieces {
            list.push(SharedBuf::from(piece.to_vec()));
        }
        list
    }

    #[test]
    fn the_first_difference_is_found_across_pieces() {
        let one = list(&[b"abc", b"defg"]);
        for (other, difference) in [
            (list(&[b"abcdefg"]), None),
            (list(&[b"a", b"bcde", b"fg"]), None),
            (list(&[b"ab", b"cdXfg"]), Some(4)),
            (list(&[b"Xbcdefg"]), Some(0)),
            (list(&[b"abcdef", b"X"]), Some(6)),
            (list(&[]), None),
        ] {
            assert_eq!(first_difference(&one, &other), difference, "{other:?}");
        }
    }
}
