//! The one error of this crate, and the one way in which it is worded.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

use crate::piece::Fault;
use crate::redact::holds_secret;

/// What to do about a secret that stands where none may.
pub(crate) const REMEDY: &str = "secrets never stand in a URL: put it in a file and name that with chap_secret_file=, or in an \
                                 environment variable and name that with chap_secret_env=";

/// Why a text is not the name that it should be: what was read, where it stopped making sense, why, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError {
    what: &'static str,
    text: String,
    at: usize,
    problem: String,
    remedy: String,
}

impl NameError {
    pub(crate) fn new(what: &'static str, text: &str, fault: Fault) -> Self {
        let at = text.char_indices().take_while(|(index, _)| *index < fault.at).count();
        let (problem, remedy) = if fault.secret || !holds_secret(text) {
            (fault.problem, fault.remedy)
        } else {
            // What is wrong besides might repeat a part of it.
            ("it holds a secret".to_owned(), REMEDY.to_owned())
        };
        let hidden = fault.secret || holds_secret(text);
        let text = if hidden { "(not shown: it holds a secret)".to_owned() } else { text.to_owned() };
        Self { what, text, at, problem, remedy }
    }

    /// Where in the text the error begins, in characters from zero.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// What is wrong there.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// What to write instead.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, text, at, problem, remedy } = self;
        // A text that is wrong as a whole is told once.
        if *at == 0 && problem.strip_prefix('"').and_then(|rest| rest.strip_prefix(text.as_str())).is_some() {
            return write!(f, "{problem}; {remedy}");
        }
        write!(f, "{what} \"{text}\": at character {}: {problem}; {remedy}", at + 1)
    }
}

impl core::error::Error for NameError {}
