//! What the user sees: results on standard output, errors and progress on standard error. What errors repeat of the user's own words
//! is shown without the secrets that may stand in them.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use names::redact;
use serde::Serialize;
use signal_hook::consts::SIGPIPE;
use signal_hook::low_level::emulate_default_handler;

use crate::watch;

/// Whoever read standard output has had enough, as `head` does. That is no failure: nobody is told.
#[derive(Debug)]
pub(crate) struct Unread;

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads standard output")
    }
}

impl std::error::Error for Unread {}

/// Prints an error with its causes, once, and gives the exit code `code`, or that of Ctrl-C if that was the reason. Where nobody reads on, the
/// process ends as others do: by SIGPIPE, without a word.
pub(crate) fn failed(error: &anyhow::Error, code: u8) -> ExitCode {
    if matches!(error.downcast_ref(), Some(linerate::Error::Stopped)) {
        remark(&format!("{error:#}"));
        return watch::stopped();
    }
    if error.downcast_ref::<Unread>().is_some() {
        // It ends the process; if it cannot, the exit code says as much.
        let _unable = emulate_default_handler(SIGPIPE);
    } else {
        remark(&format!("{error:#}"));
    }
    ExitCode::from(code)
}

/// Prints one line of result.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    bytes(format!("{text}\n").as_bytes())
}

/// Prints one value as a line of JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string(value)?)
}

/// Prints bytes of result.
pub(crate) fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Unread.into(),
        _ => anyhow::Error::new(error).context("standard output cannot be written"),
    })
}

/// Says something beside the result.
pub(crate) fn remark(text: &str) {
    // A closed standard error leaves nobody to tell it to.
    let _unheard = writeln!(std::io::stderr().lock(), "linerate: {}", redact(text));
}

/// Prints a line that is no result of its own, such as the totals behind data: where nobody hears it, nothing is lost.
pub(crate) fn print_to_stderr(text: &str) {
    // A closed standard error leaves nobody to tell it to.
    let _unheard = writeln!(io::stderr().lock(), "{}", redact(text));
}

/// Standard output for a stream of bytes, which remembers that nobody reads on.
#[derive(Debug, Default)]
pub(crate) struct Stream(Arc<AtomicBool>);

impl Stream {
    /// What will be true once nobody reads on.
    pub(crate) fn unread(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    fn seen<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            self.0.store(true, Ordering::SeqCst);
        }
        result
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.seen(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.seen(io::stdout().flush())
    }
}

/// The refusal of a value whose own error names it: clap would say before it what it says itself.
fn of_value(error: &clap::Error) -> Option<clap::Error> {
    let (Some(ContextValue::String(argument)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return None;
    };
    let why = std::error::Error::source(error)?.to_string();
    // A value with a secret is not shown by its error either.
    let names_it = why.contains(value.as_str()) || redact(value) != *value;
    let text = redact(&format!("{argument}: {why}\n\nFor more information, try '--help'.\n"));
    (error.kind() == ErrorKind::ValueValidation && names_it).then(|| clap::Error::raw(error.kind(), text))
}

/// A refused command line, which clap would repeat word by word.
pub(crate) fn refusal(mut error: clap::Error) -> clap::Error {
    if let Some(error) = of_value(&error) {
        return error;
    }
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
