//! Numbers as other tools print them: with decimal commas, grouped digits, units, or not at all.

pub(super) use lab_model::statistics::number::real as float;

/// A finite number, if the cell holds one. The last of `.` and `,` is the decimal sign when both occur; a sign that occurs
/// several times groups digits; a single comma is a decimal comma, because none of the imported tools groups digits.
pub(super) fn number(cell: &str) -> Option<f64> {
    let bare: String = cell
        .trim()
        .trim_matches('"')
        .chars()
        .filter(|sign| !matches!(sign, ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}' | '\''))
        .collect();
    let bare = bare.strip_suffix('%').unwrap_or(&bare);
    if !bare.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '+' | '.' | ',')) {
        return None;
    }
    plain(bare).parse::<f64>().ok().filter(|value| value.is_finite())
}

/// With a decimal point and without groups.
fn plain(text: &str) -> String {
    let (commas, points) = (text.matches(',').count(), text.matches('.').count());
    match (commas, points) {
        (0, 0 | 1) => text.to_owned(),
        (0, _) => text.replace('.', ""),
        (1, 0) => text.replace(',', "."),
        (_, 0) => text.replace(',', ""),
        _ if text.rfind(',') > text.rfind('.') => text.replace('.', "").replace(',', "."),
        _ => text.replace(',', ""),
    }
}

/// A number that is not below zero.
pub(super) fn amount(cell: &str) -> Option<f64> {
    number(cell).filter(|value| *value >= 0.0)
}

/// A count: exact when it is written as an integer.
pub(super) fn count(cell: &str) -> Option<u64> {
    let bare = cell.trim().trim_matches('"');
    bare.parse().ok().or_else(|| amount(bare).map(whole))
}

/// The nearest count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float becomes an integer by saturation, and what is below zero becomes zero"
)]
pub(super) fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// `part` of `whole`; zero of nothing.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Bytes as fio writes sizes: `512`, `4k`, `1m`.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        b if b % (1 << 30) == 0 => format!("{}g", b >> 30),
        b if b % (1 << 20) == 0 => format!("{}m", b >> 20),
        b if b % (1 << 10) == 0 => format!("{}k", b >> 10),
        b => b.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_commas_and_groups_are_understood() {
        for (cell, value) in [
            ("1.5", 1.5),
            ("1,5", 1.5),
            ("1,234,567", 1_234_567.0),
            ("1.234.567", 1_234_567.0),
            ("1,234.5", 1234.5),
            ("1.234,5", 1234.5),
            ("1\u{a0}234,5", 1234.5),
            ("\"99.58%\"", 99.58),
            ("3.14841E+12", 3.148_41e12),
            ("-0.5", -0.5),
        ] {
            assert_eq!(number(cell), Some(value), "{cell}");
        }
        for cell in ["", "N/A", "-nan(ind)", "1.#INF", "inf", "NaN", "infinity", "-", "1e999"] {
            assert_eq!(number(cell), None, "{cell}");
        }
    }

    #[test]
    fn counts_keep_their_last_digit() {
        assert_eq!(count("9007199254740993"), Some(9_007_199_254_740_993));
        assert_eq!(count("12,0"), Some(12));
        assert_eq!(count("-4"), None);
        assert_eq!(whole(f64::INFINITY), u64::MAX);
    }

    #[test]
    fn sizes_are_fio_s() {
        assert_eq!(size(512), "512");
        assert_eq!(size(4096), "4k");
        assert_eq!(size(1 << 20), "1m");
        assert_eq!(size(1536), "1536");
    }
}
