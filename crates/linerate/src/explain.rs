//! Adds to a job's failure what its volumes know of their way.

use std::sync::Arc;

use volume::Volume;

use crate::check::CheckError;
use crate::error::DataError;
use crate::inspect::Inspection;
use crate::last_error::LastError;
use crate::load::LoadResult;

/// What a job comes to, if it can be a failure that wants a reason.
pub(crate) trait Explain {
    /// Adds the reason to a failure; a success stays what it is.
    fn explain(&mut self, last_error: LastError);
}

impl<T> Explain for Result<T, DataError> {
    fn explain(&mut self, last_error: LastError) {
        if let Err(error) = self {
            error.last_error = last_error;
        }
    }
}

impl<T> Explain for Result<T, CheckError> {
    fn explain(&mut self, last_error: LastError) {
        if let Err(error) = self {
            error.last_error = last_error;
        }
    }
}

/// Its first failure has a text.
impl Explain for LoadResult {
    fn explain(&mut self, last_error: LastError) {
        if let Some(error) = &mut self.first_error {
            error.last_error = last_error;
        }
    }
}

/// Looking at an open volume does not fail.
impl Explain for Inspection {
    fn explain(&mut self, _last_error: LastError) {}
}

/// Explains a job's end by what its volumes have met.
pub(crate) fn explained<T: Explain>(mut output: T, volumes: &[Arc<dyn Volume>]) -> T {
    output.explain(LastError(volumes.iter().find_map(|volume| volume.last_error())));
    output
}
