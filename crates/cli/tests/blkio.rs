//! libblkio's front end on the software adapter: a user of shared memory that nobody here wrote.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::blkio::{Blkio, Blkioq, MemoryRegion, ReqFlags};
use buf::{Buf, Pool};
use tempfile::tempdir;
use vhost_user::SharedMemory;
use vhost_user::sys::{MemoryListener, Span};

use common::{TIMEOUT, program, until};

const SIZE: u64 = 64 << 20;
const LENGTH: usize = 256 << 10;
const QUEUES: i32 = 3;

/// A running `linerate attach`, ended when it is dropped.
struct Adapter(Child);

impl Adapter {
    fn start(folder: &Path) -> Self {
        let words = ["attach", "ram:64M", "disk.sock", "--as", "vhost-user", "--ready-file", "ready"];
        let child = Command::new(program()).args(words).current_dir(folder).stdout(Stdio::null()).spawn();
        let adapter = Self(child.unwrap());
        until(|| folder.join("ready").exists().then_some(()));
        adapter
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The memory that there is.
#[derive(Default)]
struct Known(Mutex<BTreeMap<u64, Span>>);

impl MemoryListener for Known {
    fn added(&self, span: &Span) {
        self.0.lock().unwrap().insert(span.id, span.clone());
    }

    fn removed(&self, span: &Span) {
        self.0.lock().unwrap().remove(&span.id);
    }
}

/// Waits until so many requests have ended.
fn wait(queue: &mut Blkioq, requests: usize) {
    let mut done: Vec<_> = (0..requests).map(|_| MaybeUninit::uninit()).collect();
    let mut left = TIMEOUT;
    let count = queue.do_io(&mut done, requests, Some(&mut left), None).unwrap();
    assert_eq!(count, requests);
    assert!(left > Duration::ZERO);
}

/// What the device has there, in memory that held something else before.
fn read(queue: &mut Blkioq, start: u64, into: &mut Buf) -> Vec<u8> {
    into.fill(0xee);
    queue.read(start, into.as_mut_ptr(), into.len(), 1, ReqFlags::empty());
    wait(queue, 1);
    into.to_vec()
}

#[test]
fn libblkio_uses_every_queue() {
    let folder = tempdir().unwrap();
    let _adapter = Adapter::start(folder.path());
    let (memory, known) = (SharedMemory::default(), Arc::new(Known::default()));
    memory.listen(&(Arc::clone(&known) as Arc<dyn MemoryListener>));
    let pool = Pool::with_source(8 << 20, Arc::new(memory));
    let (mut data, mut back) = (pool.take(LENGTH).unwrap(), pool.take(LENGTH).unwrap());

    let mut device = Blkio::new("virtio-blk-vhost-user").unwrap();
    device.set_str("path", folder.path().join("disk.sock").to_str().unwrap()).unwrap();
    device.connect().unwrap();
    assert_eq!(device.get_u64("capacity").unwrap(), SIZE);
    device.set_i32("num-queues", QUEUES).unwrap();
    let mut queues = device.start().unwrap().queues;
    for Span { address, len, file, .. } in known.0.lock().unwrap().values() {
        let fd = file.as_raw_fd();
        let region = MemoryRegion { addr: *address, iova: 0, len: *len, fd, fd_offset: 0, flags: 0 };
        device.map_mem_region(&region).unwrap();
    }
    for (number, queue) in (1_u8..).zip(&mut queues) {
        let start = u64::from(number) * (1 << 20);
        data.fill(number);
        data[LENGTH - 1] = 0xaa;
        queue.write(start, data.as_ptr(), LENGTH, 0, ReqFlags::empty());
        wait(queue, 1);
        queue.flush(0, ReqFlags::empty());
        wait(queue, 1);
        assert!(read(queue, start, &mut back) == data[..], "queue {number}");
        queue.write_zeroes(start, 4096, 0, ReqFlags::empty());
        queue.discard(start + 8192, 4096, 0, ReqFlags::empty());
        wait(queue, 2);
        let after = read(queue, start, &mut back);
        assert!(after[..4096].iter().all(|byte| *byte == 0), "queue {number}");
        assert!(after[4096..8192] == data[4096..8192] && after[12_288..] == data[12_288..], "queue {number}");
    }
    // Several at a time, each on a block of its own.
    let queue = &mut queues[0];
    for block in 0..64_usize {
        let place = data[block * 4096..].as_mut_ptr();
        data[block * 4096] = u8::try_from(block).unwrap();
        queue.write(4096 * block as u64, place, 4096, block, ReqFlags::FUA);
    }
    wait(queue, 64);
    let back = read(queue, 0, &mut back);
    assert!((0..64).all(|block| usize::from(back[block * 4096]) == block));
}
