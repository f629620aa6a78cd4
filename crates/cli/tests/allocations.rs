//! The whole path allocates nothing per I/O: initiator, reactor, engine, target and volume in one process, counted together.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../reactor/tests/common/counting_allocator.rs"]
mod counting_allocator;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use daemon::{Config, PortalEntry, PortalKind, Protocol, Transport, VolumeEntry};
use linerate::{LoadPlan, Pattern};
use names::VolumeUrl;

/// Allocations that may fall between two looks at the counters without being any I/O's: timers, the looks themselves.
const BESIDE: u64 = 16;
/// I/Os between the looks, at least, for the count to mean anything.
const ENOUGH: u64 = 1000;

/// Allocations and I/Os between the load's second and last look.
fn count(url: &str, pattern: Pattern) -> (u64, u64) {
    let looks: Arc<Mutex<Vec<(u64, u64)>>> = Arc::new(Mutex::new(Vec::with_capacity(16)));
    let seen = Arc::clone(&looks);
    let plan = LoadPlan { pattern, runtime: Duration::from_secs(3), ..LoadPlan::default() };
    let url: VolumeUrl = url.parse().unwrap();
    let progress = Arc::new(move |_: Duration, completed: u64| {
        seen.lock().unwrap().push((counting_allocator::count(), completed));
    });
    let result =
        linerate::run_load(std::slice::from_ref(&url), plan, progress, linerate::Stop::new()).unwrap();
    assert_eq!(result.errors, 0, "{url}");
    let looks = looks.lock().unwrap();
    let (first, last) = (looks[1], looks[looks.len() - 1]);
    (last.0 - first.0, last.1 - first.1)
}

fn config() -> Config {
    let portal = |protocol, transport| {
        PortalEntry::at(PortalKind { protocol, transport }, "127.0.0.1:0".parse().unwrap())
    };
    Config {
        portals: vec![
            portal(Protocol::Iscsi, Transport::Tcp),
            portal(Protocol::Nvme, Transport::Tcp),
            portal(Protocol::Iscsi, Transport::Iwarp),
            portal(Protocol::Nvme, Transport::Iwarp),
        ],
        volumes: vec![VolumeEntry::alone("disk".to_owned(), "ram:16M".parse().unwrap())],
        ..Config::default()
    }
}

/// Waits until the server has written where it listens, and says how its volume is reached there.
fn urls(ready: &Path) -> [String; 4] {
    let text = loop {
        match std::fs::read_to_string(ready) {
            Ok(text) => break text,
            Err(_) => std::thread::yield_now(),
        }
    };
    let (target, subsystem) = ("iqn.2026-11.org.linerate:disk/0", "nqn.2026-11.org.linerate:disk/1");
    [
        ("iscsi ", "iscsi", target),
        ("nvme ", "nvme+tcp", subsystem),
        ("iser ", "iser", target),
        ("nvme-rdma ", "nvme+rdma", subsystem),
    ]
    .map(|(kind, scheme, name)| {
        let address = text.lines().find_map(|line| line.strip_prefix(kind)).unwrap().trim();
        format!("{scheme}://{address}/{name}")
    })
}

#[test]
fn nothing_is_allocated_for_an_io() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let place = ready.clone();
    let server = std::thread::spawn(move || {
        // The log runs, as it does for everybody; nothing of the steady state reaches it.
        let output = daemon::Output { stream: Box::new(std::io::sink()), format: daemon::Format::Text };
        daemon::serve(
            &config(),
            daemon::ServeOptions { ready_file: Some(&place), ..daemon::ServeOptions::default() },
            &|_| {},
            &daemon::Log::start(daemon::Filter::default(), output),
        )
    });
    for url in urls(&ready) {
        // The first pass gives every page of the RAM volume its memory.
        count(&url, Pattern::Write);
        for pattern in [Pattern::RandRead, Pattern::RandWrite] {
            let (allocations, ios) = count(&url, pattern);
            assert!(ios >= ENOUGH, "only {ios} I/Os on {url}");
            assert!(allocations <= BESIDE, "{allocations} allocations for {ios} I/Os, {pattern:?} on {url}");
        }
    }
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
    server.join().unwrap().unwrap();
}
