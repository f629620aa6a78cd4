//! Real block devices: the contract suite, what the kernel says of them, and what direct I/O demands.
//!
//! `conformance/device/run.py` makes loop devices of several kinds, runs these tests on each, and lets the devices go.
//! What is on the device is overwritten.

use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Wake, Waker};

use host::{BlockFile, BlockKind, BlockOperation, BlockRequest, IoError, OpenMode, OpenOptions, Storage};
use reactor::{Driver, Files};
use volume::{Features, Volume};

use super::{Bridge, assert_keeps};

/// `EINVAL`.
const INVALID: IoError = IoError(22);

fn variable(name: &str) -> String {
    let missing = "is not set: conformance/device/run.py sets it";
    std::env::var(name).unwrap_or_else(|_| panic!("{name} {missing}"))
}

/// The device to test on.
fn path() -> String {
    variable("LINERATE_TEST_DEVICE")
}

fn volume(tail: &str) -> Arc<dyn Volume> {
    let storage: Arc<dyn Storage> = Arc::new(Files);
    backends::open(&format!("device:{}{tail}", path()).parse().unwrap(), &storage).unwrap()
}

/// Through the page cache, and past it.
const TAILS: [&str; 2] = ["", "?direct=0"];

#[test]
#[ignore = "needs a block device, and root to make one: conformance/device/run.py runs it"]
fn a_device_on_plain_threads_keeps_the_contract() {
    for tail in TAILS {
        assert_keeps(&volume(tail));
    }
}

fn assert_keeps_on_cores(driver: Driver) {
    for tail in TAILS {
        let bridge: Arc<dyn Volume> = Arc::new(Bridge::new(volume(tail), driver));
        assert_keeps(&bridge);
    }
}

#[test]
#[ignore = "needs a block device, and root to make one: conformance/device/run.py runs it"]
fn a_device_on_cores_with_epoll_keeps_the_contract() {
    assert_keeps_on_cores(Driver::Epoll);
}

#[test]
#[ignore = "needs a block device, and root to make one: conformance/device/run.py runs it"]
fn a_device_on_cores_with_the_best_driver_that_the_kernel_allows_keeps_the_contract() {
    assert_keeps_on_cores(Driver::Auto);
}

#[test]
#[ignore = "needs a block device, and root to make one: conformance/device/run.py runs it"]
fn a_device_is_as_large_as_the_kernel_says_in_its_own_sectors() {
    let (size, sector): (u64, u32) =
        (variable("LINERATE_TEST_SIZE").parse().unwrap(), variable("LINERATE_TEST_SECTOR").parse().unwrap());
    let volume = volume("");
    let geometry = volume.geometry();
    assert_eq!((geometry.bytes(), geometry.block_size), (size, sector));
    let offered = Features::DISCARD | Features::WRITE_ZEROES | Features::VOLATILE_CACHE;
    assert!(volume.features().contains(offered), "{:?}", volume.features());
}

struct Bell(mpsc::Sender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
    }
}

/// What reading `len` bytes at `offset` comes to.
fn read(file: &dyn BlockFile, offset: u64, len: usize) -> Result<(), IoError> {
    let (bell, rung) = mpsc::channel();
    let mut queue = file.open_queue(Waker::from(Arc::new(Bell(bell)))).unwrap();
    let into = buf::Pool::new(1 << 16).take(len).unwrap();
    queue.submit(BlockRequest { tag: 1, operation: BlockOperation::Read { offset, into } }).unwrap();
    rung.recv().unwrap();
    let mut done = Vec::new();
    queue.poll(&mut done);
    done.remove(0).result
}

#[test]
#[ignore = "needs a block device, and root to make one: conformance/device/run.py runs it"]
fn direct_reads_that_are_not_whole_sectors_are_refused_by_their_error() {
    let options = OpenOptions { mode: OpenMode::ReadWrite, direct: true, size: None };
    let file = Files.open(&path(), options).unwrap();
    let info = file.info();
    assert_eq!(info.kind, BlockKind::Device);
    assert!(info.alignment <= info.logical_block, "{info:?}");
    let sector = u64::from(info.logical_block);
    let len = usize::try_from(sector).unwrap();
    assert_eq!(read(&*file, sector, len), Ok(()));
    assert_eq!(read(&*file, sector / 2, len), Err(INVALID));
    assert_eq!(read(&*file, sector, len / 2), Err(INVALID));
}
