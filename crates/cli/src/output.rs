//! What the user sees: results on standard output, errors and progress on standard error. What errors repeat of the user's own words
//! is shown without the secrets that may stand in them.

use std::io::Write;

use clap::error::{ContextKind, ContextValue};
use names::redact;

/// Prints an error with its causes, once.
pub(crate) fn error(error: &anyhow::Error) {
    // A closed standard error leaves nothing to tell, and nobody to tell it to.
    let _unheard = writeln!(std::io::stderr().lock(), "linerate: {}", redact(&format!("{error:#}")));
}

/// Prints one line of result.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Says something beside the result.
pub(crate) fn remark(text: &str) {
    // A closed standard error leaves nobody to tell it to.
    let _unheard = writeln!(std::io::stderr().lock(), "linerate: {}", redact(text));
}

/// A refused command line, which clap would repeat word by word.
pub(crate) fn refusal(mut error: clap::Error) -> clap::Error {
    let hide = |value: &ContextValue| match value {
        ContextValue::String(text) => Some(ContextValue::String(redact(text))),
        ContextValue::Strings(texts) => {
            Some(ContextValue::Strings(texts.iter().map(|text| redact(text)).collect()))
        }
        _ => None,
    };
    let hidden: Vec<(ContextKind, ContextValue)> =
        error.context().filter_map(|(kind, value)| Some((kind, hide(value)?))).collect();
    for (kind, value) in hidden {
        error.insert(kind, value);
    }
    error
}
