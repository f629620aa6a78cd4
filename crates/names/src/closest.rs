//! What somebody may have meant who wrote a word that is not known.

use alloc::vec::Vec;

/// The most letters by which a word may differ from what was meant.
const MOST_EDITS: usize = 2;

/// The word of `known` that `word` is nearest to, if it is near enough to have been meant.
pub(crate) fn closest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let near = known.iter().map(|other| (edits(word, other), *other));
    let (count, found) = near.min_by_key(|(count, _)| *count)?;
    // A word of three letters that differs in two of them is another word.
    (count <= MOST_EDITS && count * 2 < found.chars().count().max(word.chars().count())).then_some(found)
}

/// Letters to insert, remove or replace to come from one word to the other (Levenshtein's distance).
fn edits(one: &str, two: &str) -> usize {
    let mut row: Vec<usize> = (0..=two.chars().count()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut diagonal = line;
        let mut left = line.saturating_add(1);
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, other) in row.iter_mut().skip(1).zip(two.chars()) {
            let replaced = diagonal.saturating_add(usize::from(letter != other));
            diagonal = *cell;
            left = replaced.min(diagonal.saturating_add(1)).min(left.saturating_add(1));
            *cell = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (one, two, count) in
            [("", "", 0), ("ram", "rum", 1), ("", "abc", 3), ("kitten", "sitting", 3), ("delay", "dealy", 2)]
        {
            assert_eq!((edits(one, two), edits(two, one)), (count, count), "{one} {two}");
        }
    }

    #[test]
    fn only_what_is_near_is_meant() {
        let known = ["null", "ram", "file", "device", "iscsi", "nvme+tcp"];
        assert_eq!(closest("rum", &known), Some("ram"));
        assert_eq!(closest("iscs", &known), Some("iscsi"));
        assert_eq!(closest("http", &known), None);
        assert_eq!(closest("tape", &known), None);
        assert_eq!(closest("", &known), None);
    }
}
