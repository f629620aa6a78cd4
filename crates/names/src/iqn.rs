//! iSCSI names: `iqn.`, `eui.` and `naa.` (RFC 7143 §4.2.7).

use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::parse::parse_by_read;
use crate::piece::{Fault, Piece};

/// The longest iSCSI name in bytes (RFC 7143 §4.2.7.1).
const LONGEST: usize = 223;
const REMEDY: &str = "write a name such as iqn.2026-11.org.example:disk, eui.02004567A425678D or \
                      naa.52004567BA64678D";

/// An iSCSI name, in lower case as names are compared (RFC 3722 folds case).
///
/// The underscore, which RFC 3722 forbids, is accepted: initiators in the field have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Iqn(String);

impl Iqn {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let lower = piece.text.to_lowercase();
        if lower.len() > LONGEST {
            let problem = format!("the name has {} bytes, of {LONGEST} allowed", lower.len());
            return Err(piece.fault(problem, "use a shorter name"));
        }
        if let Some((index, letter)) = piece.text.char_indices().find(|(_, letter)| !allowed(*letter)) {
            let problem = format!("{letter:?} does not belong in an iSCSI name");
            return Err(piece.from(index).fault(problem, "use letters, digits, '-', '.' and ':'"));
        }
        let name = Piece { text: &lower, at: piece.at };
        if let Some(rest) = name.strip_prefix("iqn.") {
            check_authority(rest, REMEDY)?;
        } else if let Some(digits) = name.strip_prefix("eui.") {
            check_digits(digits, &[16])?;
        } else if let Some(digits) = name.strip_prefix("naa.") {
            check_digits(digits, &[16, 32])?;
        } else {
            return Err(piece.fault("an iSCSI name begins with iqn., eui. or naa.", REMEDY));
        }
        Ok(Self(lower))
    }
}

fn allowed(letter: char) -> bool {
    letter.is_alphanumeric() || "-.:_".contains(letter)
}

/// Checks `yyyy-mm.domain[:anything]`, which begins an `iqn.` and an `nqn.` alike.
pub(crate) fn check_authority(rest: Piece<'_>, remedy: &str) -> Result<(), Fault> {
    let date = rest.first(7);
    let dated = date.text.split_once('-').is_some_and(|(year, month)| {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        year.len() == 4 && digits(year) && digits(month) && ("01"..="12").contains(&month)
    });
    if !dated {
        return Err(rest.fault("a year and month, yyyy-mm, must follow", remedy));
    }
    let Some(after) = rest.from(date.text.len()).strip_prefix(".") else {
        return Err(rest.from(date.text.len()).fault("a '.' and a reversed domain must follow", remedy));
    };
    let domain = after.split_once(':').map_or(after, |(domain, _)| domain);
    let labels = !domain.text.is_empty() && domain.text.split('.').all(|label| !label.is_empty());
    if !labels {
        return Err(after.fault("the reversed domain is empty or has an empty part", remedy));
    }
    Ok(())
}

fn check_digits(digits: Piece<'_>, lengths: &[usize]) -> Result<(), Fault> {
    let hex = digits.text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hex && lengths.contains(&digits.text.len()) {
        return Ok(());
    }
    Err(digits.fault(format!("{lengths:?} hexadecimal digits must follow"), REMEDY))
}

impl fmt::Display for Iqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Iqn {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

parse_by_read!(Iqn, "iSCSI name");

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn the_examples_of_the_standard_are_names() {
        for text in [
            "iqn.2001-04.com.example:storage:diskarrays-sn-a8675309",
            "iqn.2001-04.com.example",
            "iqn.1991-05.com.microsoft:host_1",
            "eui.02004567a425678d",
            "naa.52004567ba64678d",
            "naa.62004567ba64678d0123456789abcdef",
        ] {
            assert_eq!(text.parse::<Iqn>().unwrap().to_string(), text);
        }
        assert_eq!("IQN.2001-04.Com.Example:A".parse::<Iqn>().unwrap().as_str(), "iqn.2001-04.com.example:a");
    }

    #[test]
    fn what_is_no_name_is_refused_where_it_stops() {
        let long = "iqn.2001-04.com.example:".to_string() + &"x".repeat(200);
        let bad = [
            ("", 0),
            ("disk", 0),
            ("iqn.", 4),
            ("iqn.2001-13.com", 4),
            ("iqn.2001-4.com", 4),
            ("iqn.2001-04", 11),
            ("iqn.2001-04.", 12),
            ("iqn.2001-04.com..example", 12),
            ("iqn.2001-04.com.example:a b", 25),
            ("iqn.2001-04.com.example/a", 23),
            ("eui.02004567", 4),
            ("naa.zz004567ba64678d", 4),
            (long.as_str(), 0),
        ];
        for (text, at) in bad {
            assert_eq!(text.parse::<Iqn>().unwrap_err().position(), at, "{text}");
        }
    }
}
