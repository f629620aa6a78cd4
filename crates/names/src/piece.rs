//! A part of a text that knows where it stands, so that every error can say where it is.

use alloc::string::String;

/// What is wrong at a byte of the text that is being read.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) problem: String,
    pub(crate) remedy: String,
    /// The text holds a secret and must not be repeated.
    pub(crate) secret: bool,
}

impl Fault {
    /// The same fault, in a text whose content must not be repeated.
    pub(crate) fn hiding(mut self) -> Self {
        self.secret = true;
        self
    }
}

/// A part of a text and the byte at which it begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl<'a> Piece<'a> {
    pub(crate) const fn whole(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// What stands before and after the first `mark`.
    pub(crate) fn split_once(self, mark: char) -> Option<(Self, Self)> {
        let (before, after) = self.text.split_once(mark)?;
        let at = self.at + before.len() + mark.len_utf8();
        Some((Self { text: before, at: self.at }, Self { text: after, at }))
    }

    /// What stands after `prefix`, if it is there.
    pub(crate) fn strip_prefix(self, prefix: &str) -> Option<Self> {
        let text = self.text.strip_prefix(prefix)?;
        Some(Self { text, at: self.at + prefix.len() })
    }

    /// What stands before `suffix`, if it is there.
    pub(crate) fn strip_suffix(self, suffix: &str) -> Option<Self> {
        Some(Self { text: self.text.strip_suffix(suffix)?, at: self.at })
    }

    /// The part from byte `from` on; nothing if that is not the beginning of a character.
    pub(crate) fn from(self, from: usize) -> Self {
        Self { text: self.text.get(from..).unwrap_or_default(), at: self.at + from }
    }

    /// The first `len` bytes; nothing if a character does not end there.
    pub(crate) fn first(self, len: usize) -> Self {
        Self { text: self.text.get(..len).unwrap_or_default(), at: self.at }
    }

    /// The parts between marks.
    pub(crate) fn split(self, mark: char) -> impl Iterator<Item = Self> {
        let mut rest = Some(self);
        core::iter::from_fn(move || {
            let piece = rest?;
            let Some((before, after)) = piece.split_once(mark) else { return rest.take() };
            rest = Some(after);
            Some(before)
        })
    }

    pub(crate) fn fault(self, problem: impl Into<String>, remedy: impl Into<String>) -> Fault {
        Fault { at: self.at, problem: problem.into(), remedy: remedy.into(), secret: false }
    }

    /// A number in decimal digits only, of any unsigned type.
    pub(crate) fn number<T: core::str::FromStr>(self) -> Option<T> {
        let digits = !self.text.is_empty() && self.text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| self.text.parse().ok()).flatten()
    }
}
