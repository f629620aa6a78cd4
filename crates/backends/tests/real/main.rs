//! Real files through the reactor's storage: the contract suite, sizes, and what opening refuses.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bridge;
mod device;
mod state;

use std::sync::Arc;

use bridge::Bridge;
use host::Storage;
use reactor::{Driver, Files};
use volume::Volume;
use volume::contract::{self, Options, RealWorld};

fn open(folder: &tempfile::TempDir, tail: &str) -> Result<Arc<dyn Volume>, volume::OpenError> {
    let storage: Arc<dyn Storage> = Arc::new(Files);
    let url = format!("file:{}/disk.img{tail}", folder.path().display());
    backends::open(&url.parse().unwrap(), &storage)
}

/// The file with these options, unless the file system cannot do direct I/O (tmpfs before Linux 6.6).
fn open_if_possible(folder: &tempfile::TempDir, tail: &str) -> Option<Arc<dyn Volume>> {
    match open(folder, tail) {
        Ok(volume) => Some(volume),
        Err(error) if tail.contains("direct") && error.to_string().contains("direct=0") => None,
        Err(error) => panic!("{error}"),
    }
}

fn assert_keeps(volume: &Arc<dyn Volume>) {
    let options = Options { steps: 200, ..Options::default() };
    if let Err(violation) = contract::check(volume, &options, &|| Box::new(RealWorld::new())) {
        panic!("{volume:?} breaks {violation}");
    }
}

const TAILS: [&str; 3] = ["?size=24M", "?size=24M&block=4096", "?size=24M&direct=1&block=4096"];

#[test]
fn files_on_plain_threads_keep_the_contract() {
    for tail in TAILS {
        let folder = tempfile::tempdir().unwrap();
        if let Some(volume) = open_if_possible(&folder, tail) {
            assert_keeps(&volume);
        }
    }
}

fn assert_keeps_on_cores(driver: Driver) {
    for tail in TAILS {
        let folder = tempfile::tempdir().unwrap();
        if let Some(volume) = open_if_possible(&folder, tail) {
            let bridge: Arc<dyn Volume> = Arc::new(Bridge::new(volume, driver));
            assert_keeps(&bridge);
        }
    }
}

#[test]
fn files_on_cores_with_epoll_keep_the_contract() {
    assert_keeps_on_cores(Driver::Epoll);
}

#[test]
fn files_on_cores_with_the_best_driver_that_the_kernel_allows_keep_the_contract() {
    assert_keeps_on_cores(Driver::Auto);
}

#[test]
fn a_file_is_grown_never_shrunk_and_missing_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(open(&folder, "").unwrap_err().to_string().contains("size="));
    for (tail, blocks) in [("?size=1M", 2048), ("?size=2M", 4096), ("?size=2M", 4096), ("", 4096)] {
        assert_eq!(open(&folder, tail).unwrap().geometry().blocks, blocks, "{tail}");
    }
    let refused = open(&folder, "?size=1M").unwrap_err().to_string();
    assert!(refused.contains("2097152 bytes already") && refused.contains("leave size= out"), "{refused}");
}
