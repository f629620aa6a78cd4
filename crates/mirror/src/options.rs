//! The options of `mirror=[…]?…`.

use std::time::Duration;

use names::{ByteSize, CompositeSource, Span};
use volume::OpenError;

use crate::limits::{LEGS, RATE, SMALLEST_REGION, TIMEOUT};

const NAMES: [&str; 10] = [
    "copies",
    "slab",
    "spares",
    "prefer",
    "rate",
    "timeout",
    "degraded",
    "takeover",
    "unfenced",
    "overwrite",
];

/// Bytes of a slab, unless `slab=` says otherwise.
const SLAB: u64 = 1 << 30;

/// What the URL asks for.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// Members that hold each block; all if not given.
    pub(crate) copies: Option<u64>,
    /// Bytes of a slab.
    pub(crate) slab: u64,
    /// How many of the last legs are spares.
    pub(crate) spares: usize,
    /// The leg that is read first, counted from 0; local ones first if not given.
    pub(crate) prefer: Option<usize>,
    /// Bytes a second that are resynchronised.
    pub(crate) rate: u64,
    pub(crate) timeout: Duration,
    /// Go on though legs are missing that may have newer data.
    pub(crate) degraded: bool,
    /// Take reservations away from whoever has them.
    pub(crate) takeover: bool,
    /// Use legs of other machines that have no reservations.
    pub(crate) unfenced: bool,
    /// Write over legs that are no mirror's yet though they hold data.
    pub(crate) overwrite: bool,
}

impl Options {
    /// The options of a mirror's URL, or what is wrong with them.
    pub(crate) fn of(source: &CompositeSource) -> Result<Self, OpenError> {
        if let Some(problem) = source.unknown_option(&NAMES) {
            return Err(OpenError::new(problem));
        }
        let size = |name: &str, usual| match source.option(name) {
            None => Ok(usual),
            Some(text) => text.parse::<ByteSize>().map(|ByteSize(bytes)| bytes).map_err(wrong(name)),
        };
        let flag = |name: &str| match source.option(name) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(other) => Err(OpenError::new(format!("{name}={other}: write {name}=1 or {name}=0"))),
        };
        let number = |name: &str| match source.option(name) {
            None => Ok(None),
            Some(text) => text.parse::<usize>().map(Some).map_err(|_| {
                OpenError::new(format!("{name}={text}: write a number, of volumes in the brackets"))
            }),
        };
        let timeout = match source.option("timeout") {
            None => TIMEOUT,
            Some(text) => text.parse::<Span>().map(|Span(span)| span).map_err(wrong("timeout"))?,
        };
        let options = Self {
            copies: number("copies")?.map(wire::widen),
            slab: size("slab", SLAB)?,
            spares: number("spares")?.unwrap_or(0),
            // Zero is refused with what is beyond the last one.
            prefer: number("prefer")?.map(|counted| counted.wrapping_sub(1)),
            rate: size("rate", RATE)?,
            timeout,
            degraded: flag("degraded")?,
            takeover: flag("takeover")?,
            unfenced: flag("unfenced")?,
            overwrite: flag("overwrite")?,
        };
        options.check(source.children.len())?;
        Ok(options)
    }

    fn check(&self, legs: usize) -> Result<(), OpenError> {
        let members = wire::widen(legs.saturating_sub(self.spares));
        let problem = if legs > LEGS {
            format!("a mirror has {LEGS} legs at most")
        } else if members == 0 {
            format!("spares={}: at least one volume must hold data", self.spares)
        } else if self.copies.is_some_and(|copies| !(1..=members).contains(&copies)) {
            format!("copies= is a number from 1 to {members}, the volumes that hold data")
        } else if self.prefer.is_some_and(|leg| wire::widen(leg) >= members) {
            format!(
                "prefer= is a number from 1 to {members}, the place of a volume that holds data in the brackets: spares come last, and hold none"
            )
        } else if !self.slab.is_multiple_of(SMALLEST_REGION) || self.slab == 0 {
            "slab= is a multiple of 1M".to_owned()
        } else if self.rate == 0 {
            "rate= is at least 1 byte a second".to_owned()
        } else if self.timeout.is_zero() {
            "timeout= is longer than nothing: no leg answers at once".to_owned()
        } else {
            return Ok(());
        };
        Err(OpenError::new(problem))
    }
}

fn wrong(name: &str) -> impl Fn(names::NameError) -> OpenError {
    let name = name.to_owned();
    move |error| OpenError::new(format!("{name}=: {error}"))
}

#[cfg(test)]
mod tests {
    use names::{Source, VolumeUrl};

    use super::*;

    fn options(query: &str) -> Result<Options, String> {
        let url: VolumeUrl = format!("mirror=[ram:1G,ram:1G,ram:1G]{query}").parse().unwrap();
        let Source::Composite(source) = url.source else { panic!("no composite") };
        Options::of(&source).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_given_is_usual() {
        let usual = options("").unwrap();
        assert_eq!((usual.copies, usual.slab, usual.spares, usual.rate), (None, SLAB, 0, RATE));
        assert_eq!((usual.timeout, usual.degraded, usual.takeover), (TIMEOUT, false, false));
        assert_eq!((usual.prefer, usual.unfenced, usual.overwrite), (None, false, false));
        let all = "?copies=1&slab=4M&spares=1&rate=100M&timeout=2s&degraded=1&takeover=1&prefer=2&unfenced=1&overwrite=1";
        let all = options(all).unwrap();
        assert_eq!((all.prefer, all.unfenced, all.overwrite), (Some(1), true, true));
        assert_eq!((all.copies, all.slab, all.spares, all.rate), (Some(1), 4 << 20, 1, 100 << 20));
        assert_eq!((all.timeout, all.degraded, all.takeover), (Duration::from_secs(2), true, true));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_remedy() {
        for (query, told) in [
            ("?copys=2", "did you mean copies?"),
            ("?copies=4", "from 1 to 3"),
            ("?copies=3&spares=1", "from 1 to 2"),
            ("?spares=3", "must hold data"),
            ("?slab=1000", "multiple of 1M"),
            ("?prefer=0", "from 1 to 3"),
            ("?prefer=4", "from 1 to 3"),
            ("?prefer=3&spares=1", "spares come last"),
            ("?prefer=first", "write a number"),
            ("?overwrite=yes", "write overwrite=1 or overwrite=0"),
            ("?rate=fast", "rate=:"),
            ("?rate=0", "at least 1 byte"),
            ("?timeout=5", "timeout=:"),
            ("?timeout=0", "longer than nothing"),
            ("?degraded=yes", "write degraded=1 or degraded=0"),
            ("?spares=few", "write a number"),
        ] {
            let error = options(query).unwrap_err();
            assert!(error.contains(told), "{query}: {error}");
        }
    }
}
