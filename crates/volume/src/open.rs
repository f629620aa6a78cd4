//! Opening volumes by URL, in two halves: what may block is done on any thread, and what belongs to an event loop on a core.
//!
//! Whoever knows a scheme is an [`Opener`]; [`Openers`] has one for each. A volume that is made of others prepares those through the same openers, so it
//! needs to know nothing of them.

use std::fmt;
use std::sync::Arc;

use names::{Filter, Source, VolumeUrl};
use protocol::Instant;

use crate::filter::apply_filters;
use crate::open_error::OpenStage;
use crate::{OpenError, QueueContext, Volume};

/// A volume, or why it cannot be opened.
pub type Opened = Result<Arc<dyn Volume>, OpenError>;

/// Opens the volumes of some schemes.
pub trait Opener: Send + Sync {
    /// Which schemes: what stands before the colon, or the kind of a volume that consists of others.
    fn schemes(&self) -> &'static [&'static str];

    /// Does everything that may block: names are looked up, secrets read, files opened. Not to be called on a core's thread that serves. Filters are put
    /// on by [`Openers`]; an opener looks at them only where it matters how the source is opened, as for reading alone.
    fn prepare(&self, url: &VolumeUrl, openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError>;
}

/// A volume of which everything that may block is done.
pub trait PreparedOpen: Send {
    /// Does the rest, on the calling core.
    fn begin(self: Box<Self>, context: &QueueContext) -> Box<dyn Opening>;
}

/// A volume that is being opened on a core.
pub trait Opening {
    /// The volume or why it could not be opened, once that is known; asked again it answers nothing. To be asked when the context's waker is woken and
    /// when [`Opening::poll_timeout`] has come.
    fn poll(&mut self, now: Instant) -> Option<Opened>;

    /// When to ask again even if nothing wakes the core.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// What was opened while it was prepared: nothing is left to do on a core.
pub struct Ready(Option<Opened>);

impl Ready {
    /// This volume.
    pub fn new(volume: Arc<dyn Volume>) -> Self {
        Self(Some(Ok(volume)))
    }

    /// No volume.
    pub fn failed(error: OpenError) -> Self {
        Self(Some(Err(error)))
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ready")
    }
}

impl PreparedOpen for Ready {
    fn begin(self: Box<Self>, _context: &QueueContext) -> Box<dyn Opening> {
        self
    }
}

impl Opening for Ready {
    fn poll(&mut self, _now: Instant) -> Option<Opened> {
        self.0.take()
    }
}

/// The openers of a program, one for each scheme.
#[derive(Clone, Default)]
pub struct Openers(Vec<Arc<dyn Opener>>);

impl fmt::Debug for Openers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Openers").field(&self.schemes()).finish()
    }
}

impl Openers {
    /// No opener yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more; of two for the same scheme the later one counts.
    #[must_use]
    pub fn with(mut self, opener: Arc<dyn Opener>) -> Self {
        self.0.insert(0, opener);
        self
    }

    fn schemes(&self) -> Vec<&'static str> {
        let mut schemes: Vec<_> = self.0.iter().rev().flat_map(|opener| opener.schemes()).copied().collect();
        schemes.dedup();
        schemes
    }

    /// Does everything that may block before the volume of `url`, with its filters, can be opened.
    pub fn prepare(&self, url: &VolumeUrl) -> Result<Box<dyn PreparedOpen>, OpenError> {
        let scheme = match &url.source {
            Source::Composite(composite) => composite.kind.as_str(),
            source => source.scheme(),
        };
        let opener = self.0.iter().find(|opener| opener.schemes().contains(&scheme)).ok_or_else(|| {
            let known = self.schemes().join(", ");
            OpenError::new(format!("there is no {scheme} volume in this program, which knows {known}"))
                .at(OpenStage::Scheme)
        })?;
        let inner = opener.prepare(url, self)?;
        if url.filters.is_empty() {
            return Ok(inner);
        }
        Ok(Box::new(Filtered { filters: url.filters.clone(), inner }))
    }
}

/// A volume that gets filters once it is open.
struct Filtered<T> {
    filters: Vec<Filter>,
    inner: T,
}

impl PreparedOpen for Filtered<Box<dyn PreparedOpen>> {
    fn begin(self: Box<Self>, context: &QueueContext) -> Box<dyn Opening> {
        let Self { filters, inner } = *self;
        Box::new(Filtered { filters, inner: inner.begin(context) })
    }
}

impl Opening for Filtered<Box<dyn Opening>> {
    fn poll(&mut self, now: Instant) -> Option<Opened> {
        Some(self.inner.poll(now)?.map(|volume| apply_filters(&self.filters, volume)))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }
}
