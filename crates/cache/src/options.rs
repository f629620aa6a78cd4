//! What `cache=[…]?…` can be told.

use core::time::Duration;

use names::{ByteSize, CompositeSource, Span};
use volume::{CacheMode, OpenError};

use crate::admission::Admission;
use crate::limits::{BYPASS, DIRTY_PERCENT, IDLE, LINE};

/// The names of all options.
pub(crate) const NAMES: [&str; 7] = ["mode", "line", "admit", "bypass", "dirty", "idle", "leave"];

/// How a cache works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// When a write is acknowledged.
    pub mode: CacheMode,
    /// Bytes of a line, a power of two; `None` takes what the fast volume was formatted with, or 64 KiB.
    pub line: Option<u64>,
    /// Which lines get in.
    pub admission: Admission,
    /// Bytes of a sequential stream from which it goes past the cache; zero for never.
    pub bypass: u64,
    /// Percent of all lines, 1 to 100, that may be dirty before write-back goes on beside requests.
    pub dirty: u64,
    /// How long nobody must have asked for anything before all that is dirty is written back.
    pub idle: Duration,
    /// What is dirty stays so when the cache is left in order, and is not written back before.
    pub keeps_dirty: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: CacheMode::default(),
            line: None,
            admission: Admission::default(),
            bypass: BYPASS,
            dirty: DIRTY_PERCENT,
            idle: IDLE,
            keeps_dirty: false,
        }
    }
}

impl Options {
    /// Bytes of a line where nothing else says it.
    pub(crate) fn line_or_default(&self) -> u64 {
        self.line.unwrap_or(LINE)
    }

    /// What a URL says.
    pub(crate) fn read(url: &CompositeSource) -> Result<Self, OpenError> {
        if let Some(problem) = url.unknown_option(&NAMES) {
            return Err(OpenError::new(problem));
        }
        let mut options = Self::default();
        if let Some(mode) = url.option("mode") {
            options.mode = match mode {
                "through" => CacheMode::Through,
                "back" => CacheMode::Back,
                other => return Err(refused("mode", other, "write through or back")),
            };
        }
        if let Some(admit) = url.option("admit") {
            options.admission = match admit {
                "second" => Admission::Second,
                "always" => Admission::Always,
                other => return Err(refused("admit", other, "write second or always")),
            };
        }
        let size = |name| match url.option(name) {
            Some("0") => Ok(Some(0)),
            Some(text) => match text.parse::<ByteSize>() {
                Ok(ByteSize(bytes)) => Ok(Some(bytes)),
                Err(error) => Err(refused(name, text, &error.to_string())),
            },
            None => Ok(None),
        };
        options.line = size("line")?;
        options.bypass = size("bypass")?.unwrap_or(BYPASS);
        if let Some(text) = url.option("dirty") {
            let percent = text.strip_suffix('%').unwrap_or(text).parse::<u64>();
            options.dirty = match percent {
                Ok(percent @ 1..=100) => percent,
                _ => return Err(refused("dirty", text, "write percent of all lines, from 1 to 100")),
            };
        }
        if let Some(text) = url.option("idle") {
            let span = text.parse::<Span>();
            options.idle = span.map_err(|error| refused("idle", text, &error.to_string()))?.0;
        }
        if let Some(leave) = url.option("leave") {
            options.keeps_dirty = match leave {
                "clean" => false,
                "dirty" => true,
                other => return Err(refused("leave", other, "write clean or dirty")),
            };
        }
        Ok(options)
    }
}

fn refused(name: &str, value: &str, remedy: &str) -> OpenError {
    OpenError::new(format!("cache= cannot have {name}={value}: {remedy}"))
}

#[cfg(test)]
mod tests {
    use names::{Source, VolumeUrl};

    use super::*;

    fn read(options: &str) -> Result<Options, OpenError> {
        let url: VolumeUrl = format!("cache=[ram:1M,ram:1M]{options}").parse().unwrap();
        let Source::Composite(composite) = url.source else { panic!("no composite") };
        Options::read(&composite)
    }

    #[test]
    fn every_option_is_read() {
        assert_eq!(read(""), Ok(Options::default()));
        let all = read("?mode=back&line=16K&admit=always&bypass=0&dirty=20%25&idle=5s&leave=dirty").unwrap();
        let expected = Options {
            mode: CacheMode::Back,
            line: Some(16 << 10),
            admission: Admission::Always,
            bypass: 0,
            dirty: 20,
            idle: Duration::from_secs(5),
            keeps_dirty: true,
        };
        assert_eq!(all, expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for (options, text) in [
            ("?mode=sideways", "mode=sideways: write through or back"),
            ("?dirty=0", "from 1 to 100"),
            ("?line=nothing", "line=nothing"),
            ("?idle=5", "idle=5"),
            ("?leave=it", "leave=it: write clean or dirty"),
            ("?lines=4K", "did you mean line?"),
        ] {
            let error = read(options).unwrap_err().to_string();
            assert!(error.contains(text), "{options}: {error}");
        }
    }
}
