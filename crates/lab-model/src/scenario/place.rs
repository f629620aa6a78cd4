//! Where on an axis a claim or a figure speaks: at a value, or in a range of numbers such as `4k..` or `2k..1m`.
//!
//! "Line rate from 4 KB up" is about every size from 4 KB on. With one value for it a claim would speak of the easiest size or of
//! the hardest one.

/// Units of numeric axes, longer ones before those that end like them: times in ns, rates in bit/s, sizes in bytes as fio counts.
const UNITS: [(&str, f64); 10] = [
    ("Gbit", 1e9),
    ("Mbit", 1e6),
    ("kbit", 1e3),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("%", 0.01),
    ("k", 1024.0),
    ("m", 1_048_576.0),
    ("g", 1_073_741_824.0),
];

/// What a value of a numeric axis is worth: `512`, `4k`, `1m`, `100us`.
pub(crate) fn size(text: &str) -> Option<f64> {
    let unit = UNITS.iter().find_map(|(unit, worth)| Some((text.strip_suffix(unit)?, *worth)));
    let (digits, worth) = unit.unwrap_or((text, 1.0));
    Some(digits.trim().parse::<f64>().ok()? * worth)
}

/// Whether a value of an axis lies at `at`: it is that value, or a number in that range, ends included.
pub fn lies(value: &str, at: &str) -> bool {
    let Some((from, to)) = at.split_once("..") else { return value == at };
    let Some(value) = size(value) else { return false };
    let end = |text: &str, open: f64| if text.is_empty() { Some(open) } else { size(text) };
    let ends = end(from, f64::NEG_INFINITY).zip(end(to, f64::INFINITY));
    ends.is_some_and(|(from, to)| (from..=to).contains(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_ends_and_what_is_no_number_lies_in_none() {
        let within = |at: &str| -> Vec<&str> {
            ["512", "2k", "4k", "1m", "none"].into_iter().filter(|value| lies(value, at)).collect()
        };
        assert_eq!(within("4k"), ["4k"]);
        assert_eq!(within("2k..1m"), ["2k", "4k", "1m"]);
        assert_eq!(within("..2k"), ["512", "2k"]);
        assert_eq!(within("4k.."), ["4k", "1m"]);
        assert_eq!(within("none"), ["none"]);
        assert_eq!(within("few.."), [] as [&str; 0]);
    }
}
