//! What stands before the `+`: filters that delay, fail, slow down, count or protect.
//!
//! `delay=5ms,jitter=1ms,seed=7` · `fail=1%,kind=nospace,on=write` · `fail=1/100` · `limit=5000iops,200M/s` · `stats`
//! · `readonly`. Arguments are separated by commas; `on=` may stand several times.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use crate::duration::Span;
use crate::options::number;
use crate::piece::{Fault, Piece};
use crate::size::ByteSize;

/// Every filter.
pub(crate) const NAMES: [&str; 5] = ["delay", "fail", "limit", "stats", "readonly"];

/// What an operation of a volume is called in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// Discards.
    Discard,
    /// Write zeroes.
    Zero,
    /// Compare, and compare-and-write.
    Compare,
    /// Verify.
    Verify,
}

/// What a failing request ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FailKind {
    /// The medium cannot be read or written.
    #[default]
    Media,
    /// There is too much to do: the request may be made again.
    Busy,
    /// No space is left.
    NoSpace,
    /// Protection information does not match.
    Protection,
    /// No answer came in time.
    TimedOut,
    /// There is no path.
    Unreachable,
}

/// Parts per million in one per cent.
const PPM_PER_PERCENT: u32 = 10_000;
pub(crate) const OPERATIONS: &[(&str, OperationKind)] = &[
    ("read", OperationKind::Read),
    ("write", OperationKind::Write),
    ("flush", OperationKind::Flush),
    ("discard", OperationKind::Discard),
    ("zero", OperationKind::Zero),
    ("compare", OperationKind::Compare),
    ("verify", OperationKind::Verify),
];
pub(crate) const KINDS: &[(&str, FailKind)] = &[
    ("busy", FailKind::Busy),
    ("media", FailKind::Media),
    ("nospace", FailKind::NoSpace),
    ("protection", FailKind::Protection),
    ("timedout", FailKind::TimedOut),
    ("unreachable", FailKind::Unreachable),
];

/// How often requests fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailRate {
    /// This many in a million, drawn by the seed.
    PartsPerMillion(u32),
    /// Each so-manyth, counted per queue; at least 1.
    EveryNth(u64),
}

/// Completes requests later.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Delay {
    /// By at least this much.
    pub time: Span,
    /// By up to this much more, drawn by the seed.
    pub jitter: Span,
    /// Where the draws begin.
    pub seed: u64,
    /// Which operations; all if empty.
    pub on: Vec<OperationKind>,
}

/// Fails some requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fail {
    /// How many.
    pub rate: FailRate,
    /// With what.
    pub kind: FailKind,
    /// Which operations; all if empty.
    pub on: Vec<OperationKind>,
    /// Only requests that touch these blocks: the first, and how many.
    pub blocks: Option<(u64, u64)>,
    /// Where the draws begin.
    pub seed: u64,
}

/// Slows requests down to a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Limit {
    /// Requests in a second.
    pub iops: Option<u64>,
    /// Bytes in a second, read and written.
    pub bandwidth: Option<ByteSize>,
}

/// One filter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Filter {
    /// `delay=`
    Delay(Delay),
    /// `fail=`
    Fail(Fail),
    /// `limit=`
    Limit(Limit),
    /// `stats`
    Stats,
    /// `readonly`
    ReadOnly,
}

impl Filter {
    /// Reads the filter that `piece` begins with and gives what follows its `+`; `None` if it begins with none.
    pub(crate) fn read(piece: Piece<'_>) -> Result<Option<(Self, Piece<'_>)>, Fault> {
        let end = piece.text.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(piece.text.len());
        let (name, after) = (piece.first(end), piece.from(end));
        if !NAMES.contains(&name.text) {
            return Ok(None);
        }
        let Some((arguments, rest)) = after.split_once('+') else {
            let problem = format!("the filter {} stands before nothing", name.text);
            return Err(piece.fault(problem, "write a '+' and the URL that it filters after it"));
        };
        let filter = match name.text {
            "delay" => Self::Delay(Delay::read(values(name, arguments, "5ms")?)?),
            "fail" => Self::Fail(Fail::read(values(name, arguments, "1%")?)?),
            "limit" => Self::Limit(Limit::read(values(name, arguments, "1000iops,100M/s")?)?),
            other if !arguments.text.is_empty() => {
                return Err(arguments.fault(format!("{other} takes no arguments"), format!("write {other}+")));
            }
            "stats" => Self::Stats,
            _ => Self::ReadOnly,
        };
        Ok(Some((filter, rest)))
    }
}

/// What stands after the `=` of a filter that needs it.
fn values<'a>(name: Piece<'a>, arguments: Piece<'a>, example: &str) -> Result<Piece<'a>, Fault> {
    arguments.strip_prefix("=").filter(|values| !values.text.is_empty()).ok_or_else(|| {
        arguments
            .fault(format!("{} needs a value", name.text), format!("write it as {}={example}+", name.text))
    })
}

fn named<T: Copy>(value: Piece<'_>, list: &[(&str, T)]) -> Result<T, Fault> {
    let found = list.iter().find(|(name, _)| *name == value.text).map(|(_, item)| *item);
    found.ok_or_else(|| {
        let names: Vec<_> = list.iter().map(|(name, _)| *name).collect();
        value.fault(format!("\"{}\" is not known", value.text), format!("write one of {}", names.join(", ")))
    })
}

fn name_of<T: PartialEq>(item: &T, list: &[(&'static str, T)]) -> &'static str {
    list.iter().find(|(_, other)| other == item).map_or("", |(name, _)| name)
}

/// The key and value of a further argument.
fn pair<'a>(argument: Piece<'a>, owner: &str, allowed: &str) -> Result<(Piece<'a>, Piece<'a>), Fault> {
    argument.split_once('=').ok_or_else(|| {
        argument
            .fault(format!("\"{}\" is no argument of {owner}", argument.text), format!("it has {allowed}"))
    })
}

fn no_such(key: Piece<'_>, owner: &str, allowed: &str) -> Fault {
    key.fault(format!("{owner} has no argument \"{}\"", key.text), format!("it has {allowed}"))
}

fn add_operation(on: &mut Vec<OperationKind>, value: Piece<'_>) -> Result<(), Fault> {
    on.push(named(value, OPERATIONS)?);
    on.sort_unstable();
    on.dedup();
    Ok(())
}

impl Delay {
    fn read(values: Piece<'_>) -> Result<Self, Fault> {
        const ALLOWED: &str = "jitter=, seed= and on=";
        let mut delay = Self::default();
        for (index, argument) in values.split(',').enumerate() {
            if index == 0 {
                delay.time = Span::read(argument)?;
                continue;
            }
            let (key, value) = pair(argument, "delay", ALLOWED)?;
            match key.text {
                "jitter" => delay.jitter = Span::read(value)?,
                "seed" => delay.seed = number(value, &0)?,
                "on" => add_operation(&mut delay.on, value)?,
                _ => return Err(no_such(key, "delay", ALLOWED)),
            }
        }
        Ok(delay)
    }
}

impl FailRate {
    fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let bad = || piece.fault(format!("\"{}\" is not a rate", piece.text), "write 1%, 0.5% or 1/100");
        if let Some(nth) = piece.strip_prefix("1/") {
            return Ok(Self::EveryNth(nth.number::<u64>().filter(|nth| *nth > 0).ok_or_else(bad)?));
        }
        let percent = piece.strip_suffix("%").ok_or_else(bad)?;
        let (whole, fraction) = percent.split_once('.').map_or((percent, None), |(a, b)| (a, Some(b)));
        let mut parts =
            whole.number::<u32>().and_then(|whole| whole.checked_mul(PPM_PER_PERCENT)).ok_or_else(bad)?;
        if let Some(fraction) = fraction {
            let digits = fraction.text.len();
            let places =
                u32::try_from(digits).ok().filter(|places| (1..=4).contains(places)).ok_or_else(bad)?;
            let fraction = fraction.number::<u32>().ok_or_else(bad)? * 10_u32.pow(4 - places);
            parts = parts.saturating_add(fraction);
        }
        Some(Self::PartsPerMillion(parts)).filter(|_| parts <= 100 * PPM_PER_PERCENT).ok_or_else(bad)
    }
}

impl fmt::Display for FailRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EveryNth(nth) => write!(f, "1/{nth}"),
            Self::PartsPerMillion(parts) => {
                let (whole, rest) = (parts / PPM_PER_PERCENT, parts % PPM_PER_PERCENT);
                if rest == 0 { write!(f, "{whole}%") } else { write!(f, "{whole}.{rest:04}%") }
            }
        }
    }
}

impl Fail {
    fn read(values: Piece<'_>) -> Result<Self, Fault> {
        const ALLOWED: &str = "kind=, on=, blocks=FIRST-LAST and seed=";
        let mut fail = Self {
            rate: FailRate::PartsPerMillion(0),
            kind: FailKind::Media,
            on: Vec::new(),
            blocks: None,
            seed: 0,
        };
        for (index, argument) in values.split(',').enumerate() {
            if index == 0 {
                fail.rate = FailRate::read(argument)?;
                continue;
            }
            let (key, value) = pair(argument, "fail", ALLOWED)?;
            match key.text {
                "kind" => fail.kind = named(value, KINDS)?,
                "on" => add_operation(&mut fail.on, value)?,
                "blocks" => fail.blocks = Some(read_blocks(value)?),
                "seed" => fail.seed = number(value, &0)?,
                _ => return Err(no_such(key, "fail", ALLOWED)),
            }
        }
        Ok(fail)
    }
}

/// Reads `FIRST-LAST` as first and count.
fn read_blocks(value: Piece<'_>) -> Result<(u64, u64), Fault> {
    let ends = value.split_once('-').and_then(|(first, last)| {
        let (first, last) = (first.number::<u64>()?, last.number::<u64>()?);
        Some((first, last.checked_sub(first)?.checked_add(1)?))
    });
    ends.ok_or_else(|| {
        value.fault(format!("\"{}\" is not a range of blocks", value.text), "write FIRST-LAST, such as 0-7")
    })
}

impl Limit {
    fn read(values: Piece<'_>) -> Result<Self, Fault> {
        let mut limit = Self::default();
        for argument in values.split(',') {
            let twice = || argument.fault("the limit is given twice", "give it once");
            if let Some(count) = argument.strip_suffix("iops") {
                if limit.iops.replace(number(count, &1)?).is_some() {
                    return Err(twice());
                }
            } else if let Some(size) = argument.strip_suffix("/s") {
                let size = Some(ByteSize::read(size)?).filter(|size| size.0 > 0);
                let size =
                    size.ok_or_else(|| argument.fault("nothing would move", "write more than zero"))?;
                if limit.bandwidth.replace(size).is_some() {
                    return Err(twice());
                }
            } else {
                let problem = format!("\"{}\" is not a limit", argument.text);
                return Err(argument.fault(problem, "write 1000iops, 100M/s or both with a comma"));
            }
        }
        Ok(limit)
    }
}

fn write_on(f: &mut fmt::Formatter<'_>, on: &[OperationKind]) -> fmt::Result {
    on.iter().try_for_each(|kind| write!(f, ",on={}", name_of(kind, OPERATIONS)))
}

fn write_seed(f: &mut fmt::Formatter<'_>, seed: u64) -> fmt::Result {
    if seed == 0 { Ok(()) } else { write!(f, ",seed={seed}") }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stats => f.write_str("stats"),
            Self::ReadOnly => f.write_str("readonly"),
            Self::Delay(delay) => {
                write!(f, "delay={}", delay.time)?;
                if delay.jitter != Span::default() {
                    write!(f, ",jitter={}", delay.jitter)?;
                }
                write_seed(f, delay.seed)?;
                write_on(f, &delay.on)
            }
            Self::Fail(fail) => {
                write!(f, "fail={}", fail.rate)?;
                if fail.kind != FailKind::Media {
                    write!(f, ",kind={}", name_of(&fail.kind, KINDS))?;
                }
                write_on(f, &fail.on)?;
                if let Some((first, count)) = fail.blocks {
                    write!(f, ",blocks={first}-{}", first + (count - 1))?;
                }
                write_seed(f, fail.seed)
            }
            Self::Limit(Limit { iops, bandwidth }) => {
                f.write_str("limit=")?;
                let comma = if iops.is_some() && bandwidth.is_some() { "," } else { "" };
                iops.map_or(Ok(()), |iops| write!(f, "{iops}iops{comma}"))?;
                bandwidth.map_or(Ok(()), |size| write!(f, "{size}/s"))
            }
        }
    }
}
