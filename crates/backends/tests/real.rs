//! Real files through the reactor's storage: the contract suite, sizes, and what opening refuses.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use host::Storage;
use reactor::Files;
use volume::Volume;
use volume::contract::{self, Options, RealWorld};

fn open(folder: &tempfile::TempDir, tail: &str) -> Result<Arc<dyn Volume>, volume::OpenError> {
    let storage: Arc<dyn Storage> = Arc::new(Files);
    let url = format!("file:{}/disk.img{tail}", folder.path().display());
    backends::open(&url.parse().unwrap(), &storage)
}

fn assert_keeps(tail: &str) {
    let folder = tempfile::tempdir().unwrap();
    let volume = match open(&folder, tail) {
        Ok(volume) => volume,
        // Some file systems (tmpfs before Linux 6.6) have no direct I/O.
        Err(error) if tail.contains("direct") && error.to_string().contains("direct=0") => return,
        Err(error) => panic!("{error}"),
    };
    let options = Options { steps: 200, ..Options::default() };
    if let Err(violation) = contract::check(&volume, &options, &|| Box::new(RealWorld::new())) {
        panic!("file:disk.img{tail} breaks {violation}");
    }
}

#[test]
fn buffered_files_keep_the_contract() {
    assert_keeps("?size=24M");
    assert_keeps("?size=24M&block=4096");
}

#[test]
fn files_with_direct_io_keep_the_contract() {
    assert_keeps("?size=24M&direct=1&block=4096");
}

#[test]
fn a_file_is_grown_never_shrunk_and_missing_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(open(&folder, "").unwrap_err().to_string().contains("size="));
    for (tail, blocks) in [("?size=1M", 2048), ("?size=2M", 4096), ("?size=1M", 4096), ("", 4096)] {
        assert_eq!(open(&folder, tail).unwrap().geometry().blocks, blocks, "{tail}");
    }
}
