//! Options after a `?`: typed by whoever reads them, and never unknown.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::closest::closest;
use crate::duration::Span;
use crate::error::REMEDY;
use crate::percent;
use crate::piece::{Fault, Piece};

/// What stands before and after the question mark.
pub(crate) fn split_query(piece: Piece<'_>) -> (Piece<'_>, Option<Piece<'_>>) {
    piece.split_once('?').map_or((piece, None), |(path, query)| (path, Some(query)))
}

/// The options of one URL, decoded, each with its place.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    list: Vec<(Piece<'a>, String, Piece<'a>)>,
}

impl<'a> Options<'a> {
    /// Reads `key=value&…`; each key must be in `allowed`, once.
    pub(crate) fn read(query: Option<Piece<'a>>, owner: &str, allowed: &[&str]) -> Result<Self, Fault> {
        let check = |key: Piece<'a>| {
            if allowed.contains(&key.text) { Ok(()) } else { Err(unknown(key, owner, allowed)) }
        };
        query.map_or(Ok(Self { list: Vec::new() }), |query| Self::read_checked(query, check))
    }

    /// Reads `key=value&…` where others know which keys there are: each a word of a–z, once.
    pub(crate) fn read_any(query: Piece<'a>) -> Result<Self, Fault> {
        Self::read_checked(query, |key| {
            let is_word = !key.text.is_empty() && key.text.bytes().all(|byte| byte.is_ascii_lowercase());
            let problem = || format!("\"{}\" cannot be an option's name", key.text);
            if is_word { Ok(()) } else { Err(key.fault(problem(), "write a word of the letters a to z")) }
        })
    }

    fn read_checked(query: Piece<'a>, check: impl Fn(Piece<'a>) -> Result<(), Fault>) -> Result<Self, Fault> {
        let mut options = Self { list: Vec::new() };
        for part in query.split('&') {
            let Some((key, raw)) = part.split_once('=') else {
                return Err(part.fault(format!("\"{}\" is not an option", part.text), "write OPTION=VALUE"));
            };
            check(key)?;
            if options.list.iter().any(|(other, ..)| other.text == key.text) {
                return Err(key.fault(format!("{} is given twice", key.text), "give it once"));
            }
            options.list.push((key, percent::decode(raw)?, raw));
        }
        Ok(options)
    }

    /// The value of `key`, read by `read`, if the option is there.
    pub(crate) fn get<T>(
        &self,
        key: &str,
        read: impl Fn(Piece<'_>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let Some((_, value, raw)) = self.list.iter().find(|(name, ..)| name.text == key) else {
            return Ok(None);
        };
        read(Piece { text: value, at: raw.at }).map(Some)
    }

    /// The names and values, in order.
    pub(crate) fn into_pairs(self) -> Vec<(String, String)> {
        self.list.into_iter().map(|(name, value, _)| (name.text.into(), value)).collect()
    }

    /// Where `key` stands, if it is there.
    pub(crate) fn place(&self, key: &str) -> Option<Piece<'a>> {
        self.list.iter().find(|(name, ..)| name.text == key).map(|(name, ..)| *name)
    }
}

fn unknown(key: Piece<'_>, owner: &str, allowed: &[&str]) -> Fault {
    let problem = format!("{owner} has no option \"{}\"", key.text);
    if key.text.contains("secret") || key.text.contains("password") {
        return key.fault(problem, REMEDY).hiding();
    }
    let meant = closest(key.text, allowed).map(|meant| format!("did you mean {meant}? "));
    key.fault(problem, format!("{}it has {}", meant.unwrap_or_default(), allowed.join(", ")))
}

/// A flag: `1` or `0`.
pub(crate) fn flag(value: Piece<'_>) -> Result<bool, Fault> {
    match value.text {
        "1" => Ok(true),
        "0" => Ok(false),
        other => Err(value.fault(format!("\"{other}\" is neither 1 nor 0"), "write 1 for yes or 0 for no")),
    }
}

/// A duration above zero.
pub(crate) fn positive(value: Piece<'_>) -> Result<Span, Fault> {
    match Span::read(value)? {
        Span(duration) if duration.is_zero() => {
            Err(value.fault("the time is zero", "write one above zero, such as 30s"))
        }
        span => Ok(span),
    }
}

/// Any text but the empty one.
pub(crate) fn text(value: Piece<'_>) -> Result<String, Fault> {
    if value.text.is_empty() {
        return Err(value.fault("the value is empty", "write one, or leave the option out"));
    }
    Ok(value.text.to_string())
}

/// A whole number of at least `least`.
pub(crate) fn number<T: core::str::FromStr + PartialOrd + fmt::Display>(
    value: Piece<'_>,
    least: &T,
) -> Result<T, Fault> {
    let number = value.number::<T>().filter(|number| number >= least);
    number.ok_or_else(|| {
        let problem = format!("\"{}\" is not a number that fits here", value.text);
        value.fault(problem, format!("write a whole number of at least {least}"))
    })
}

/// Writes options as they are read: `?` before the first, `&` before the others.
pub(crate) struct Writer<'f, 'g> {
    f: &'f mut fmt::Formatter<'g>,
    mark: char,
}

impl<'f, 'g> Writer<'f, 'g> {
    pub(crate) fn new(f: &'f mut fmt::Formatter<'g>) -> Self {
        Self { f, mark: '?' }
    }

    /// Writes the option if it has a value.
    pub(crate) fn put(&mut self, key: &str, value: Option<impl fmt::Display>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        write!(self.f, "{}{key}=", self.mark)?;
        self.mark = '&';
        percent::encode(self.f, &value.to_string(), "&#")
    }

    /// Writes the flag if it is set.
    pub(crate) fn put_flag(&mut self, key: &str, value: bool) -> fmt::Result {
        self.put(key, value.then_some(1))
    }
}
