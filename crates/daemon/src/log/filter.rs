//! What is written: a level, and other levels for some kinds, such as `warn,login=debug`.

use std::fmt;
use std::str::FromStr;

use host::{Kind, Level};

/// Which events are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// The least important level that is written; `None` writes nothing.
    usual: Option<Level>,
    kinds: Vec<(Kind, Option<Level>)>,
}

impl Default for Filter {
    /// What operators want to know.
    fn default() -> Self {
        Self { usual: Some(Level::Info), kinds: Vec::new() }
    }
}

impl Filter {
    /// True when events of this kind and level are written.
    pub fn lets(&self, kind: Kind, level: Level) -> bool {
        let own = self.kinds.iter().rev().find(|(named, _)| *named == kind);
        own.map_or(self.usual, |(_, least)| *least).is_some_and(|least| level <= least)
    }
}

/// Why a text is no filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError(String);

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels: Vec<&str> = Level::ALL.iter().map(|level| level.word()).collect();
        let kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.word()).collect();
        write!(
            f,
            "log filter {:?}: write a level ({}, off), and KIND=LEVEL behind commas, such as warn,login=info; kinds are {}",
            self.0,
            levels.join(", "),
            kinds.join(", ")
        )
    }
}

impl std::error::Error for FilterError {}

/// The least important level that a word lets through; `None` for `off`.
fn level(word: &str) -> Result<Option<Level>, ()> {
    let level = Level::ALL.into_iter().find(|level| level.word() == word);
    if level.is_some() || word == "off" { Ok(level) } else { Err(()) }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let bad = || FilterError(text.to_owned());
        let mut filter = Self::default();
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None => filter.usual = level(part).map_err(|()| bad())?,
                Some((word, least)) => {
                    let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word).ok_or_else(bad)?;
                    filter.kinds.push((kind, level(least).map_err(|()| bad())?));
                }
            }
        }
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_for_all_and_for_some() {
        let lets = |text: &str, kind: Kind| text.parse::<Filter>().unwrap().lets(kind, kind.level());
        assert!(lets("info", Kind::Login) && !lets("info", Kind::Conflict));
        assert!(lets("off,io=error", Kind::Io) && !lets("off,io=error", Kind::NoSpace));
        assert!(!lets("debug,violation=off", Kind::Violation) && lets("debug,violation=off", Kind::Accepted));
        assert!(lets("login=debug", Kind::Refused), "the usual level is info");
        for bad in ["", "loud", "warn,", "login", "login=loud", "tea=info", "info login=debug"] {
            let error = bad.parse::<Filter>().unwrap_err().to_string();
            assert!(error.contains("off") && error.contains("timed-out"), "{bad}: {error}");
        }
    }
}
