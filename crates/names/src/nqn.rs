//! NVMe qualified names (NVMe Base §4.7).

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::iqn::check_authority;
use crate::parse::parse_by_read;
use crate::piece::{Fault, Piece};
use crate::uuid::is_uuid;

/// The longest NQN in bytes, without its zero byte.
const LONGEST: usize = 223;
const UUID_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";
const REMEDY: &str = "write a name such as nqn.2026-11.org.example:disk or \
                      nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";

/// An NVMe qualified name. Case matters in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nqn(String);

impl Nqn {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        if piece.text.len() > LONGEST {
            let problem = format!("the name has {} bytes, of {LONGEST} allowed", piece.text.len());
            return Err(piece.fault(problem, "use a shorter name"));
        }
        let odd = piece.text.char_indices().find(|(_, letter)| letter.is_control() || letter.is_whitespace());
        if let Some((index, letter)) = odd {
            return Err(piece
                .from(index)
                .fault(format!("{letter:?} does not belong in an NQN"), "leave it out"));
        }
        let Some(rest) = piece.strip_prefix("nqn.") else {
            return Err(piece.fault("an NVMe qualified name begins with nqn.", REMEDY));
        };
        check_authority(rest, REMEDY)?;
        if let Some(uuid) = piece.strip_prefix(UUID_PREFIX)
            && !is_uuid(uuid.text)
        {
            return Err(uuid.fault("a UUID must follow", REMEDY));
        }
        Ok(Self(piece.text.to_owned()))
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Nqn {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

parse_by_read!(Nqn, "NVMe qualified name");

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn names_by_domain_and_by_uuid() {
        for text in [
            "nqn.2014-08.com.example:nvme.host.sys.xyz",
            "nqn.2014-08.org.nvmexpress.discovery",
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "nqn.2026-11.org.linerate:Disk/1",
        ] {
            assert_eq!(text.parse::<Nqn>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_name_is_refused_where_it_stops() {
        let long = "nqn.2014-08.com.example:".to_string() + &"x".repeat(200);
        let bad = [
            ("", 0),
            ("iqn.2014-08.com.example:a", 0),
            ("nqn.14-08.com.example:a", 4),
            ("nqn.2014-08", 11),
            ("nqn.2014-08.com.example:a b", 25),
            ("nqn.2014-08.org.nvmexpress:uuid:f81d4fae", 32),
            (long.as_str(), 0),
        ];
        for (text, at) in bad {
            assert_eq!(text.parse::<Nqn>().unwrap_err().position(), at, "{text}");
        }
        assert!(long[..223].parse::<Nqn>().is_ok());
    }
}
