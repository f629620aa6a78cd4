//! What the user sees: results on standard output, errors and progress on standard error.

use std::io::Write;

/// Prints an error with its causes, once.
pub(crate) fn error(error: &anyhow::Error) {
    // A closed standard error leaves nothing to tell, and nobody to tell it to.
    let _unheard = writeln!(std::io::stderr().lock(), "linerate: {error:#}");
}

/// Prints one line of result.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Says something beside the result.
pub(crate) fn remark(text: &str) {
    // A closed standard error leaves nobody to tell it to.
    let _unheard = writeln!(std::io::stderr().lock(), "linerate: {text}");
}
