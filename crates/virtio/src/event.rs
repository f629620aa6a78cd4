//! When a side wants to be notified (VIRTIO 1.2 §2.7.10, §2.8.10): always, never, or once an index has come.

/// Whether an index that a side waits for lies among those from `old` (already told) up to before `new`. All are modulo 2¹⁶ (§2.7.7.2).
pub fn has_come(awaited: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(awaited).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_come_once_it_is_behind_the_newest() {
        for base in [0_u16, 1000, 65_530] {
            let at = |steps: u16| base.wrapping_add(steps);
            assert!(has_come(at(0), at(1), at(0)), "the next one");
            assert!(!has_come(at(1), at(1), at(0)), "one later");
            assert!(has_come(at(5), at(10), at(3)));
            assert!(!has_come(at(2), at(10), at(3)), "told before");
            assert!(!has_come(at(7), at(7), at(7)), "nothing is new");
        }
    }
}
