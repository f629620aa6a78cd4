//! Why something could not be opened.

use alloc::string::String;
use alloc::sync::Arc;
use core::error::Error;
use core::fmt;

/// What was being done when opening failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OpenStage {
    /// Looking for somebody who knows the URL's scheme.
    Scheme,
    /// Looking up the name of a machine.
    Name,
    /// Reading a secret.
    Secret,
    /// Reaching another machine, and everything that it has to say.
    Connection,
    /// Opening what is on this machine, or looking at its shape.
    #[default]
    Volume,
}

/// Why a volume or a queue could not be opened: what was wrong, where, and what to do, for the user to read.
#[derive(Debug, Clone)]
pub struct OpenError {
    stage: OpenStage,
    text: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl OpenError {
    /// The error that says `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self { stage: OpenStage::default(), text: text.into(), source: None }
    }

    /// The same, met while that was being done.
    #[must_use]
    pub fn at(self, stage: OpenStage) -> Self {
        Self { stage, ..self }
    }

    /// The same, because of that error, which the text has said already.
    #[must_use]
    pub fn because(self, source: impl Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Arc::new(source)), ..self }
    }

    /// What was being done.
    pub fn stage(&self) -> OpenStage {
        self.stage
    }
}

/// Two errors are the same if they say the same.
impl PartialEq for OpenError {
    fn eq(&self, other: &Self) -> bool {
        (self.stage, &self.text) == (other.stage, &other.text)
    }
}

impl Eq for OpenError {}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
