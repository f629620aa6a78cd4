//! What Linerate's target tells of its cache volumes: asked by SIGHUP while it serves, read from its standard output.
//!
//! The target answers with a line for each volume that is a cache, as docs/howto/cache.md shows it to people. Its counts begin when the volume is opened,
//! so a load's share is the difference between two answers. Nothing is asked while a load runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lab_model::statistics::metric::{CACHE_DIRTY, CACHE_HITS, CACHE_MISSES};
use names::{Source, VolumeUrl};

use crate::machine::process::Running;

/// How long a target may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks for its answer.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// How an answer begins.
const CACHE: &str = "cache ";

/// Counters by the names of a result's `target_counters`.
pub type Counters = BTreeMap<String, f64>;

/// A target that has cache volumes, and where it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caches {
    /// The file of its standard output.
    stdout: PathBuf,
    /// Volumes that are caches; at least 1.
    volumes: usize,
}

impl Caches {
    /// Of a target whose `volumes` volumes all have this URL; `None` where they are no caches.
    pub(super) fn of(url: &str, volumes: usize, stdout: &Path) -> Option<Self> {
        let is_cache =
            matches!(&url.parse::<VolumeUrl>().ok()?.source, Source::Composite(made) if made.kind == "cache");
        (is_cache && volumes > 0).then(|| Self { stdout: stdout.to_owned(), volumes })
    }

    /// What they count now, together.
    pub(super) fn ask(&self, target: &mut Running) -> Result<Counters> {
        let mut answers = File::open(&self.stdout)
            .with_context(|| format!("the target's words in {} cannot be read", self.stdout.display()))?;
        let before = answers.seek(SeekFrom::End(0))?;
        target.hang_up()?;
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        loop {
            answers.seek(SeekFrom::Start(before))?;
            let mut text = String::new();
            answers.read_to_string(&mut text)?;
            if let Some(counted) = self.read(&text)? {
                return Ok(counted);
            }
            if !target.is_alive() {
                bail!("it ended when it was asked for its caches{}", target.last_words());
            }
            if Instant::now() > deadline {
                bail!("it does not tell of its caches when it is asked (SIGHUP): it said {text:?}");
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The sum over all volumes, once each has a whole line.
    fn read(&self, text: &str) -> Result<Option<Counters>> {
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let lines: Vec<&str> = whole.filter(|line| line.starts_with(CACHE)).collect();
        if lines.len() < self.volumes {
            return Ok(None);
        }
        let mut sum = Counters::new();
        for line in lines {
            let counted = parse(line)
                .with_context(|| format!("{line:?} tells of no cache as this version knows it"))?;
            for (name, count) in counted {
                *sum.entry(name.to_owned()).or_insert(0.0) += count;
            }
        }
        Ok(Some(sum))
    }
}

/// `cache NAME STATE: H of N reads hit (P %), … of … lines of … bytes in use, I came in and E made room, B requests went past, D bytes dirty, W bytes written
/// back`.
fn parse(line: &str) -> Option<[(&'static str, f64); 7]> {
    let (_, told) = line.split_once(": ")?;
    let parts: Vec<&str> = told.trim_end().split(", ").collect();
    let [reads, _, lines, past, dirty, back] = parts.as_slice() else { return None };
    let first = |part: &str| part.split(' ').next()?.parse::<f64>().ok();
    let hits = first(reads)?;
    let all = first(reads.split_once(" of ")?.1)?;
    Some([
        (CACHE_HITS, hits),
        (CACHE_MISSES, all - hits),
        ("cache_insertions", first(lines)?),
        ("cache_evictions", first(lines.split_once(" and ")?.1)?),
        ("cache_bypassed", first(past)?),
        (CACHE_DIRTY, first(dirty.strip_suffix(" bytes dirty")?)?),
        ("cache_written_back_bytes", first(back.strip_suffix(" bytes written back")?)?),
    ])
}

/// What was counted from an earlier answer to a later one. What is dirty is a level, not a count: it is the later one's.
pub fn since(later: &Counters, earlier: &Counters) -> Counters {
    let grown = |(name, count): (&String, &f64)| {
        let before = if name == CACHE_DIRTY { 0.0 } else { earlier.get(name).copied().unwrap_or_default() };
        (name.clone(), count - before)
    };
    later.iter().map(grown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "cache v0 working: 75 of 100 reads hit (75 %), 3 of 4 lines of 4096 bytes in use, 9 came in and 6 made room, 2 requests went \
                        past, 8192 bytes dirty, 4096 bytes written back\n";

    fn caches(volumes: usize) -> Caches {
        Caches { stdout: PathBuf::new(), volumes }
    }

    #[test]
    fn an_answer_is_whole_once_every_volume_has_its_line() {
        let two = [LINE, LINE].concat();
        let halved = two.trim_end();
        assert_eq!(caches(2).read(LINE).unwrap(), None);
        assert_eq!(caches(2).read(halved).unwrap(), None);
        let counted = caches(2).read(&format!("file v1 has grown\n{two}")).unwrap().unwrap();
        let told: Vec<(&str, f64)> = counted.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(
            told,
            [
                ("cache_bypassed", 4.0),
                ("cache_dirty_bytes", 16384.0),
                ("cache_evictions", 12.0),
                ("cache_hits", 150.0),
                ("cache_insertions", 18.0),
                ("cache_misses", 50.0),
                ("cache_written_back_bytes", 8192.0),
            ]
        );
        assert!(caches(1).read("cache v0 working: all is well\n").is_err());
    }

    #[test]
    fn counts_are_differences_and_what_is_dirty_is_not() {
        let of =
            |hits, dirty| Counters::from([(CACHE_HITS.to_owned(), hits), (CACHE_DIRTY.to_owned(), dirty)]);
        assert_eq!(since(&of(30.0, 4096.0), &of(10.0, 8192.0)), of(20.0, 4096.0));
    }

    #[test]
    fn caches_are_known_by_their_url() {
        let of = |url: &str| Caches::of(url, 1, Path::new("o")).is_some();
        assert!(of("cache=[delay=75us+ram:16M,ram:64M]?mode=back"));
        assert!(!of("ram:64M") && !of("mirror=[ram:16M,ram:16M]") && !of("cache"));
    }
}
