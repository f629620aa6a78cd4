//! Files on the ring and on the file threads: every case runs on each.
#![allow(clippy::unwrap_used, reason = "tests")]

mod toy;

use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::time::Duration;

use buf::{Buf, BufList, SharedBuf};
use host::{
    BlockDone, BlockFile, BlockKind, BlockOperation, BlockQueue, BlockRequest, IoError, OpenMode,
    OpenOptions, Service, Storage,
};
use protocol::Instant;
use reactor::{Cluster, Config, Driver, Files};
use toy::in_time;

macro_rules! on_both_drivers {
    ($($name:ident),* $(,)?) => {
        mod uring { $(#[test] fn $name() { super::in_time(|| super::$name(super::Driver::Uring)); })* }
        mod epoll { $(#[test] fn $name() { super::in_time(|| super::$name(super::Driver::Epoll)); })* }
    };
}

on_both_drivers!(
    what_is_written_is_read,
    holes_are_punched_zeroed_and_found,
    many_operations_are_under_way_at_once,
    many_operations_on_memory_are_done_in_turns,
    a_read_beyond_the_end_is_an_error,
    a_write_beyond_what_a_file_can_hold_is_refused,
    writing_what_is_open_for_reading_fails,
    direct_io_moves_aligned_blocks,
    an_abandoned_queue_does_no_harm,
);

/// Runs a list of batches on a core: each batch is submitted at once, and its completions end up in `done`.
struct Batches {
    queue: Box<dyn BlockQueue>,
    left: std::vec::IntoIter<Vec<BlockOperation>>,
    open: usize,
    done: Vec<Vec<BlockDone>>,
    finished: bool,
}

impl Service for Batches {
    type Message = ();
    fn accept(&mut self, _: Instant, _: host::Accepted) -> Result<Box<dyn host::Endpoint>, host::Refusal> {
        Err(host::Refusal("no"))
    }
    fn handle_message(&mut self, _: Instant, (): ()) {}
    fn turn(&mut self, _: Instant, _: &mut Vec<host::EndpointId>) {
        let mut done = Vec::new();
        self.queue.poll(&mut done);
        self.open -= done.len();
        if let Some(last) = self.done.last_mut() {
            last.extend(done);
        }
        if self.open > 0 {
            return;
        }
        let Some(batch) = self.left.next() else {
            self.finished = true;
            return;
        };
        self.done.push(Vec::new());
        for (tag, operation) in (0..).zip(batch) {
            self.queue.submit(BlockRequest { tag, operation }).unwrap();
            self.open += 1;
        }
    }
    fn handle_gone(&mut self, _: Instant, _: host::EndpointId) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        self.finished
    }
}

fn run(driver: Driver, file: &Arc<dyn BlockFile>, batches: Vec<Vec<BlockOperation>>) -> Vec<Vec<BlockDone>> {
    let cluster = Cluster::<()>::new(1, Config { driver, ..Config::default() }).unwrap();
    let core = cluster.into_cores().pop().unwrap();
    let mut service = core
        .run(|world| {
            let queue = file.open_queue(world.waker.clone()).unwrap();
            Batches { queue, left: batches.into_iter(), open: 0, done: Vec::new(), finished: false }
        })
        .unwrap();
    for batch in &mut service.done {
        batch.sort_by_key(|done| done.tag);
    }
    service.done
}

fn create(path: &std::path::Path, size: u64) -> Arc<dyn BlockFile> {
    open(path, OpenOptions { size: Some(size), ..OpenOptions::default() }).unwrap()
}

fn open(path: &std::path::Path, options: OpenOptions) -> Result<Arc<dyn BlockFile>, IoError> {
    Files.open(path.to_str().unwrap(), options)
}

/// Pieces whose bytes never repeat, so that a transfer that is resumed at a wrong place shows.
fn pieces(lengths: &[usize], seed: u8) -> BufList {
    let mut list = BufList::new();
    let mut number = u64::from(seed) + 1;
    for len in lengths {
        let piece: Vec<u8> = std::iter::repeat_with(|| {
            // xorshift64
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            number.to_le_bytes()[3]
        })
        .take(*len)
        .collect();
        list.push(SharedBuf::from(piece));
    }
    list
}

fn flat(list: &BufList) -> Vec<u8> {
    let mut bytes = vec![0; list.len()];
    list.copy_to(&mut bytes);
    bytes
}

fn read(offset: u64, len: usize) -> BlockOperation {
    BlockOperation::Read { offset, into: Buf::zeroed(len) }
}

fn write(offset: u64, data: &BufList, durable: bool) -> BlockOperation {
    BlockOperation::Write { offset, data: data.clone(), durable }
}

fn what_is_written_is_read(driver: Driver) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let file = create(&path, 1 << 20);
    assert_eq!(file.info().kind, BlockKind::File);
    assert_eq!((file.info().size, file.info().alignment), (1 << 20, 1));
    let (one, many) = (pieces(&[5000], 1), pieces(&vec![100; 1500], 2));
    let batches = vec![
        vec![write(10, &one, false), write(20_000, &many, true), write(0, &BufList::new(), false)],
        vec![BlockOperation::Flush],
        vec![read(10, 5000), read(20_000, 150_000), read(0, 10), read(5, 0)],
    ];
    let done = run(driver, &file, batches);
    assert!(done.iter().flatten().all(|done| done.result.is_ok()), "{done:?}");
    assert!(done[2][0].data.as_deref() == Some(&flat(&one)[..]));
    assert!(done[2][1].data.as_deref() == Some(&flat(&many)[..]));
    assert_eq!(done[2][2].data.as_deref(), Some(&[0; 10][..]));
    let mut bytes = vec![0; 150_000];
    std::fs::File::open(&path).unwrap().read_exact_at(&mut bytes, 20_000).unwrap();
    assert!(bytes == flat(&many));
}

fn holes_are_punched_zeroed_and_found(driver: Driver) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let file = create(&path, 1 << 20);
    let data = pieces(&[1 << 20], 3);
    let hole = BlockOperation::Discard { offset: 262_144, len: 262_144 };
    let zero = BlockOperation::Zero { offset: 786_432, len: 4096 };
    let seek = |offset| BlockOperation::Seek { offset };
    let batches = vec![
        vec![write(0, &data, false)],
        vec![hole, zero],
        vec![read(0, 1 << 20), seek(0), seek(262_144), seek(300_000), seek(524_288)],
    ];
    let done = run(driver, &file, batches);
    if file.info().can_discard {
        assert_eq!(done[1][0].result, Ok(()));
        let bytes = done[2][0].data.as_deref().unwrap();
        assert!(bytes[..262_144] == flat(&data)[..262_144]);
        assert!(bytes[262_144..524_288].iter().all(|byte| *byte == 0));
        assert!(bytes[524_288..786_432] == flat(&data)[524_288..786_432]);
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 <= (1 << 20) - 262_144 + 65_536);
        assert_eq!(done[2][1].run, Some((262_144, true)));
        assert_eq!(done[2][2].run, Some((262_144, false)));
        assert_eq!(done[2][3].run, Some((224_288, false)));
        assert!(matches!(done[2][4].run, Some((_, true))));
    }
    if file.info().can_zero {
        assert_eq!(done[1][1].result, Ok(()));
        assert!(done[2][0].data.as_deref().unwrap()[786_432..790_528].iter().all(|byte| *byte == 0));
    }
    assert_eq!(file.info().size, 1 << 20);
}

fn many_operations_are_under_way_at_once(driver: Driver) {
    let folder = tempfile::tempdir().unwrap();
    let file = create(&folder.path().join("disk"), 4 << 20);
    let writes =
        (0..1000_u64).map(|number| write(number * 4096, &pieces(&[4096], number.to_le_bytes()[0]), false));
    let reads = (0..1000_u64).map(|number| read(number * 4096, 4096));
    let done = run(driver, &file, vec![writes.collect(), reads.collect()]);
    for (number, done) in (0..1000_u64).zip(&done[1]) {
        assert!(
            done.data.as_deref() == Some(&flat(&pieces(&[4096], number.to_le_bytes()[0]))[..]),
            "{number}"
        );
    }
}

/// More than one turn does by itself.
fn many_operations_on_memory_are_done_in_turns(driver: Driver) {
    const LEN: usize = 100_000;
    let memory = rustix::fs::memfd_create("volume", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&memory));
    let file = create(path.as_ref(), 100 * LEN as u64);
    let data: Vec<BufList> = (0..100).map(|seed| pieces(&[60_000, 40_000], seed)).collect();
    let places = || (0..).step_by(LEN);
    let mut writes: Vec<_> =
        places().zip(&data).map(|(offset, data)| write(offset, data, offset % 3 == 0)).collect();
    writes.push(BlockOperation::Flush);
    let reads: Vec<_> = places().take(100).map(|offset| read(offset, LEN)).collect();
    let done = run(driver, &file, vec![writes, reads]);
    assert_eq!(done[0].len(), 101);
    assert!(done[0].iter().all(|done| done.result == Ok(())));
    for (done, data) in done[1].iter().zip(&data) {
        assert_eq!(done.result, Ok(()));
        assert_eq!(done.data.as_deref(), Some(&*flat(data)));
    }
}

fn a_read_beyond_the_end_is_an_error(driver: Driver) {
    let folder = tempfile::tempdir().unwrap();
    let file = create(&folder.path().join("disk"), 10_000);
    let done = run(driver, &file, vec![vec![read(8000, 4000), read(20_000, 1), read(8000, 2000)]]);
    let results: Vec<_> = done[0].iter().map(|done| done.result).collect();
    assert_eq!(results, [Err(IoError(libc::EIO)), Err(IoError(libc::EIO)), Ok(())]);
    assert!(done[0].iter().all(|done| done.data.is_some()), "the memory comes back, whatever the result");
}

fn a_write_beyond_what_a_file_can_hold_is_refused(driver: Driver) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let file = create(&path, 4096);
    let done = run(driver, &file, vec![vec![write(u64::MAX / 4, &pieces(&[4096], 1), false)]]);
    assert_eq!(done[0][0].result, Err(IoError(libc::EFBIG)));
}

fn writing_what_is_open_for_reading_fails(driver: Driver) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    drop(create(&path, 8192));
    let file = open(&path, OpenOptions { mode: OpenMode::ReadOnly, ..OpenOptions::default() }).unwrap();
    assert!(!file.info().can_discard && !file.info().can_zero);
    let done = run(driver, &file, vec![vec![write(0, &pieces(&[512], 1), false), read(0, 8192)]]);
    assert_eq!(done[0][0].result, Err(IoError(libc::EBADF)));
    assert_eq!(done[0][1].result, Ok(()));
}

fn direct_io_moves_aligned_blocks(driver: Driver) {
    // Beside the build's files, as the system's temporary folder may be in memory, which knows no direct I/O.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("disk");
    let options = OpenOptions { direct: true, size: Some(1 << 20), ..OpenOptions::default() };
    let file = match open(&path, options) {
        Err(IoError(libc::EINVAL)) => return,
        other => other.unwrap(),
    };
    let alignment = file.info().alignment;
    assert!(alignment.is_power_of_two() && alignment >= 4);
    let pool = buf::Pool::new(1 << 20);
    let mut block = pool.take(65_536).unwrap();
    block.fill(9);
    let into = pool.take(65_536).unwrap();
    let batches = vec![
        vec![BlockOperation::Write { offset: 65_536, data: block.freeze().into(), durable: true }],
        vec![BlockOperation::Read { offset: 65_536, into }],
    ];
    let done = run(driver, &file, batches);
    assert!(done[1][0].data.as_deref().unwrap().iter().all(|byte| *byte == 9));
}

fn an_abandoned_queue_does_no_harm(driver: Driver) {
    struct Abandon(Option<Box<dyn BlockQueue>>);
    impl Service for Abandon {
        type Message = ();
        fn accept(
            &mut self,
            _: Instant,
            _: host::Accepted,
        ) -> Result<Box<dyn host::Endpoint>, host::Refusal> {
            Err(host::Refusal("no"))
        }
        fn handle_message(&mut self, _: Instant, (): ()) {}
        fn turn(&mut self, _: Instant, _: &mut Vec<host::EndpointId>) {
            let Some(mut queue) = self.0.take() else { return };
            for tag in 0..100 {
                queue.submit(BlockRequest { tag, operation: read(0, 1 << 20) }).unwrap();
            }
        }
        fn handle_gone(&mut self, _: Instant, _: host::EndpointId) {}
        fn poll_timeout(&self) -> Option<Instant> {
            None
        }
        fn is_finished(&self) -> bool {
            self.0.is_none()
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = create(&folder.path().join("disk"), 1 << 20);
    let cluster = Cluster::<()>::new(1, Config { driver, ..Config::default() }).unwrap();
    let core = cluster.into_cores().pop().unwrap();
    core.run(|world| Abandon(Some(file.open_queue(world.waker.clone()).unwrap()))).unwrap();
}

#[test]
fn paths_of_the_wrong_kind_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let some = OpenOptions { size: Some(4096), ..OpenOptions::default() };
    assert_eq!(open(folder.path(), some).unwrap_err(), IoError(libc::EISDIR));
    assert_eq!(open(&missing, OpenOptions::default()).unwrap_err(), IoError(libc::ENOENT));
    assert_eq!(open(std::path::Path::new("/dev/null"), some).unwrap_err(), IoError(libc::ENOTBLK));
    let reading = OpenOptions { mode: OpenMode::ReadOnly, ..some };
    assert_eq!(open(&missing, reading).unwrap_err(), IoError(libc::ENOENT));
    drop(create(&missing, 4096));
    assert_eq!(open(&missing, some).unwrap().info().size, 4096);
    let larger = OpenOptions { size: Some(8192), ..reading };
    assert_eq!(open(&missing, larger).unwrap_err(), IoError(libc::ENOSPC));
    assert_eq!(create(&missing, 100).info().size, 4096);
    assert_eq!(create(&missing, 10_000).info().size, 10_000);
}

struct Bell(mpsc::SyncSender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.try_send(());
    }
}

#[test]
fn a_queue_outside_a_core_works_on_the_file_threads() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(&folder.path().join("disk"), 4096);
    let (bell, heard) = mpsc::sync_channel(1);
    let mut queue = file.open_queue(Waker::from(Arc::new(Bell(bell)))).unwrap();
    queue.submit(BlockRequest { tag: 7, operation: read(0, 4096) }).unwrap();
    heard.recv_timeout(Duration::from_secs(20)).unwrap();
    let mut done = Vec::new();
    queue.poll(&mut done);
    assert_eq!((done[0].tag, done[0].result), (7, Ok(())));
}

#[test]
fn a_queue_that_is_dropped_with_unseen_completions_lets_its_file_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let file = create(&path, 4096);
    let (bell, heard) = mpsc::sync_channel(1);
    let mut queue = file.open_queue(Waker::from(Arc::new(Bell(bell)))).unwrap();
    queue.submit(BlockRequest { tag: 7, operation: read(0, 4096) }).unwrap();
    heard.recv_timeout(Duration::from_secs(20)).unwrap();
    drop(queue);
    drop(file);
    assert!(open(&path, OpenOptions::default()).is_ok(), "nobody has it open any more");
}

#[test]
fn a_file_that_is_in_use_is_refused_to_a_second_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let first = create(&path, 4096);
    let again = open(&path, OpenOptions::default());
    assert_eq!(again.err(), Some(IoError(rustix::io::Errno::AGAIN.raw_os_error())));
    let reader = open(&path, OpenOptions { mode: host::OpenMode::ReadOnly, ..OpenOptions::default() });
    assert!(reader.is_ok(), "reading disturbs nobody");
    drop(first);
    assert!(open(&path, OpenOptions::default()).is_ok());
}
