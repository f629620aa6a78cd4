//! The adapter's own processors: how many event loops, and where they run.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use linerate::ClientConfig;
use reactor::{Config, Congestion, Driver};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Processors by number, as in `1,2` or `1-3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(pub Vec<usize>);

impl FromStr for CpuList {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || format!("{text:?} is not a list of processors: write numbers and ranges, such as 1,2 or 4-7");
        let mut cpus = Vec::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first: usize = first.parse().with_context(wrong)?;
            let last: usize = last.parse().with_context(wrong)?;
            if last < first || last >= CpuSet::MAX_CPU {
                bail!(wrong());
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}

/// How many cores the adapter uses, and how it uses them.
#[derive(Debug, Clone, Default)]
pub struct Cores {
    /// Event loops; one for each processor of `cpus` unless this says otherwise, or one.
    pub count: Option<u16>,
    /// Processors that the whole process is bound to, so that its work can be distinguished from the application's.
    pub cpus: Option<CpuList>,
    /// How long a core that expects work looks for it before it sleeps; `None` for what suits the machine.
    pub spin: Option<Duration>,
    /// TCP congestion control of the connections.
    pub congestion: Congestion,
    /// Which mechanism of the kernel moves the bytes.
    pub driver: Driver,
}

impl Cores {
    /// How many event loops.
    pub fn count(&self) -> u16 {
        let bound = self.cpus.as_ref().map_or(1, |cpus| cpus.0.len());
        self.count.unwrap_or_else(|| wire::saturate::<u16>(bound)).max(1)
    }

    /// Binds the calling thread, and so every thread that it starts from now on.
    pub(crate) fn bind(&self) -> Result<()> {
        let Some(cpus) = &self.cpus else { return Ok(()) };
        let mut set = CpuSet::new();
        cpus.0.iter().for_each(|cpu| set.set(*cpu));
        sched_setaffinity(None, &set).with_context(|| {
            format!("this process cannot be bound to the processors {:?}: are they there?", cpus.0)
        })
    }

    /// The same for a client's event loops.
    pub(crate) fn client(&self) -> ClientConfig {
        ClientConfig {
            cores: self.count(),
            cpus: self.cpus.as_ref().map(|cpus| cpus.0.clone()).unwrap_or_default(),
            spin: self.spin,
            congestion: self.congestion,
            driver: self.driver,
            ..ClientConfig::default()
        }
    }

    /// The same for the event loops.
    pub(crate) fn reactor(&self) -> Config {
        let usual = Config::default();
        Config {
            driver: self.driver,
            spin: self.spin.unwrap_or(usual.spin),
            congestion: self.congestion,
            pin: self.cpus.is_some(),
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        for (text, cpus) in [("0", vec![0]), ("1,2", vec![1, 2]), ("4-6,1,5", vec![1, 4, 5, 6])] {
            assert_eq!(text.parse::<CpuList>().unwrap().0, cpus, "{text}");
        }
        for text in ["", "a", "3-1", "1,", "99999"] {
            let error = text.parse::<CpuList>().unwrap_err().to_string();
            assert!(error.contains("not a list of processors"), "{error}");
        }
    }

    #[test]
    fn there_is_a_loop_for_each_processor() {
        let cpus = Some(CpuList(vec![0, 1, 2]));
        assert_eq!(Cores::default().count(), 1);
        assert_eq!(Cores { cpus: cpus.clone(), ..Cores::default() }.count(), 3);
        assert_eq!(Cores { cpus, count: Some(2), ..Cores::default() }.count(), 2);
    }
}
