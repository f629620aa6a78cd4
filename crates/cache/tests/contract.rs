//! The contract suite on caches by URL: over memory, over themselves, over slow and failing volumes, with several queues.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::task::Waker;

use buf::Pool;
use cache::CacheOpener;
use names::{BlockSize, Source, VolumeUrl};
use protocol::{Instant, SeededEntropy};
use volume::contract::{self, FakeWorld, Options, World};
use volume::{CoreId, Extent, OpenError, Opener, Openers, PreparedOpen, QueueContext, Ram, Ready, Volume};

fn fake() -> Box<dyn World> {
    Box::new(FakeWorld::new())
}

/// Opens `ram:`.
struct RamOpener;

impl Opener for RamOpener {
    fn schemes(&self) -> &'static [&'static str] {
        &["ram"]
    }

    fn prepare(&self, url: &VolumeUrl, _openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        let Source::Ram(ram) = &url.source else { return Err(OpenError::new("no memory")) };
        let block = ram.block.map_or(512, BlockSize::bytes);
        Ok(Box::new(Ready::new(Arc::new(Ram::new(ram.size.0, block)?))))
    }
}

fn open(url: &str) -> Result<Arc<dyn Volume>, OpenError> {
    let cache = CacheOpener { entropy: Arc::new(|| Box::new(SeededEntropy::new(5))) };
    let openers = Openers::new().with(Arc::new(RamOpener)).with(Arc::new(cache));
    let prepared = openers.prepare(&url.parse().unwrap())?;
    let context = QueueContext::new(CoreId(0), Waker::noop().clone(), Pool::new(1 << 20));
    let mut opening = prepared.begin(&context);
    let mut now = Instant::ZERO;
    for _ in 0..10_000 {
        if let Some(opened) = opening.poll(now) {
            return opened;
        }
        now = opening.poll_timeout().unwrap_or(now);
    }
    panic!("{url} is never open");
}

fn assert_keeps(url: &str, options: Options) {
    let volume = open(url).unwrap();
    if let Err(violation) = contract::check(&volume, &options, &fake) {
        panic!("{url} breaks {violation}");
    }
    assert_eq!(volume.last_error(), None, "{url}");
}

const MODES: [&str; 4] = [
    "mode=through",
    "mode=back",
    "mode=through&admit=always&line=4K&bypass=0",
    "mode=back&line=4K&bypass=0&dirty=10&idle=1ms",
];

#[test]
fn a_cache_keeps_the_contract() {
    for mode in MODES {
        for seed in 1..3 {
            assert_keeps(&format!("cache=[ram:2M,ram:24M]?{mode}"), Options { seed, ..Options::default() });
        }
    }
}

#[test]
fn a_cache_of_large_blocks_keeps_the_contract() {
    for mode in MODES {
        assert_keeps(&format!("cache=[ram:2M?block=512,ram:24M?block=4096]?{mode}"), Options::default());
        assert_keeps(&format!("cache=[ram:2M?block=4096,ram:24M?block=4096]?{mode}"), Options::default());
    }
}

#[test]
fn a_cache_that_is_larger_than_what_it_caches_keeps_the_contract() {
    for mode in MODES {
        assert_keeps(&format!("cache=[ram:8M,ram:1M]?{mode}"), Options::default());
    }
}

#[test]
fn a_cache_over_a_cache_keeps_the_contract() {
    for mode in MODES {
        assert_keeps(
            &format!("cache=[ram:1M,cache=[ram:2M,ram:16M]?{mode}]?{mode}"),
            Options { steps: 200, ..Options::default() },
        );
        assert_keeps(
            &format!("cache=[cache=[ram:1M,ram:2M]?{mode},ram:16M]?{mode}"),
            Options { steps: 200, ..Options::default() },
        );
    }
}

#[test]
fn a_cache_over_slow_volumes_keeps_the_contract() {
    for mode in MODES {
        for volumes in [
            "delay=100us,jitter=300us+ram:2M,delay=1ms,jitter=5ms,seed=4+ram:24M",
            "delay=2ms,jitter=5ms+ram:2M,ram:24M",
        ] {
            assert_keeps(&format!("cache=[{volumes}]?{mode}"), Options { steps: 200, ..Options::default() });
        }
    }
}

#[test]
fn reads_that_fail_give_their_memory_back() {
    let bad = Extent::new(40, 3);
    for mode in MODES {
        let url = format!("cache=[ram:2M,fail=1/1,on=read,kind=media,blocks=40-42+ram:24M]?{mode}");
        let volume = open(&url).unwrap();
        if let Err(violation) = contract::check_medium_errors(&volume, bad, &Options::default(), &fake) {
            panic!("{url} breaks {violation}");
        }
    }
}

#[test]
fn a_fast_volume_that_fails_is_left_and_the_contract_kept() {
    for rate in ["1/50", "1/100", "1/300"] {
        let url = format!("cache=[fail={rate}+ram:2M,ram:24M]?mode=through&admit=always&bypass=0");
        let volume = open(&url).unwrap();
        if let Err(violation) = contract::check(&volume, &Options::default(), &fake) {
            panic!("{url} breaks {violation}");
        }
        assert!(volume.last_error().is_some_and(|error| error.contains("nothing is lost")), "{url}");
        assert_eq!(volume.path(), volume::PathState::Degraded { missing: 1 });
    }
}

#[test]
fn what_cannot_be_a_cache_is_refused() {
    for (url, text) in [
        ("cache=[ram:1M]", "a cache has two volumes, and here are 1"),
        ("cache=[ram:1M,ram:1M]?mode=sideways", "write through or back"),
        ("cache=[ram:1M?block=4096,ram:1M]", "open the fast one with block=512"),
        ("cache=[readonly+ram:1M,ram:1M]", "must be writable"),
        ("cache=[ram:1M,readonly+ram:1M]?mode=back", "nothing can be written back"),
        ("cache=[fail=1/1+ram:1M,ram:1M]", "fails while the cache is opened"),
        ("cache=[ram:1M,disk:1M]", "disk"),
    ] {
        let refused = match url.parse::<VolumeUrl>() {
            Ok(_) => open(url).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(refused.contains(text), "{url}: {refused}");
    }
}
