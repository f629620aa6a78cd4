//! Adds to a failure what its volumes know of their way: "no path to the volume" helps nobody who does not know why.

use std::sync::Arc;

use volume::Volume;

use crate::check::CheckError;
use crate::error::DataError;
use crate::inspect::Inspection;
use crate::load::LoadResult;

/// What a job comes to, if it can be a failure that wants a reason.
pub(crate) trait Explain {
    /// Adds the reason to a failure; a success stays what it is.
    fn explain(&mut self, trouble: &str);
}

impl<T> Explain for Result<T, DataError> {
    fn explain(&mut self, trouble: &str) {
        if let Err(error) = self {
            error.why = with(&error.why, trouble);
        }
    }
}

impl<T> Explain for Result<T, CheckError> {
    fn explain(&mut self, trouble: &str) {
        if let Err(error) = self {
            error.0 = with(&error.0, trouble);
        }
    }
}

/// Its first failure has a text.
impl Explain for LoadResult {
    fn explain(&mut self, trouble: &str) {
        if let Some(error) = &mut self.first_error {
            error.why = with(&error.why, trouble);
        }
    }
}

/// Looking at an open volume does not fail.
impl Explain for Inspection {
    fn explain(&mut self, _trouble: &str) {}
}

fn with(what: &str, trouble: &str) -> String {
    format!("{what} (last trouble on the way to the volume: {trouble})")
}

/// Explains a job's end by what its volumes have met.
pub(crate) fn explained<T: Explain>(mut output: T, volumes: &[Arc<dyn Volume>]) -> T {
    if let Some(trouble) = volumes.iter().find_map(|volume| volume.trouble()) {
        output.explain(&trouble);
    }
    output
}
