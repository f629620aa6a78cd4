//! What the kernel is asked for, and what becomes of its answer.
//!
//! Whether a flush or a durable write has reached the medium shows in no file afterwards, and a kernel moves less than it was asked
//! for when it likes. So this looks at the calls: at the ring's entries, at calls that a filter refuses, at a flush that goes to what
//! cannot be flushed.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use host::{BlockFile, BlockQueue, OpenOptions, Storage};
use io_uring::squeue::Entry;

use super::*;
use crate::core_local::{self, CoreLocal};
use crate::driver::{Driver, Ring, Wait};
use crate::file::Files;
use crate::locked_file::TMPFS;
use crate::polled_list::PolledList;
use crate::wakeup::{Sleeper, Wakeup};

const SIZE: u64 = 1 << 20;

/// A file's queue, on a core that starts nothing by itself.
struct Bench {
    local: Rc<CoreLocal>,
    queue: Box<dyn BlockQueue>,
    _file: Arc<dyn BlockFile>,
    _folder: tempfile::TempDir,
}

/// How an operation is carried out.
#[derive(Debug, Clone, Copy)]
enum On {
    Ring,
    Thread,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let options = OpenOptions { size: Some(SIZE), ..OpenOptions::default() };
        let file = Files.open(path.to_str().unwrap(), options).unwrap();
        let queue = file.open_queue(Waker::noop().clone()).unwrap();
        Self { local: Rc::default(), queue, _file: file, _folder: folder }
    }

    /// The operation that a request becomes.
    fn begin(&mut self, operation: BlockOperation) -> Box<FileOp> {
        let _guard = core_local::enter(Rc::clone(&self.local)).unwrap();
        self.queue.submit(BlockRequest { tag: 1, operation }).unwrap();
        self.local.files.borrow_mut().pop_back().unwrap()
    }

    fn carry_out(&mut self, on: On, mut op: Box<FileOp>) -> Result<(), IoError> {
        match on {
            On::Thread => {
                op.run();
                op.finish();
            }
            On::Ring => {
                let mut ring = Ring::new(64).unwrap();
                assert!(ring.file(op).is_none());
                assert!(self.done().is_none(), "it has not begun");
                let (wakeup, polled) = (Wakeup::new().unwrap(), PolledList::default());
                ring.wait(Wait::Forever, Duration::ZERO, Sleeper::new(&wakeup, &polled)).unwrap();
                ring.reap(&mut Vec::new());
            }
        }
        self.done().unwrap().result
    }

    fn done(&mut self) -> Option<BlockDone> {
        let mut done = Vec::new();
        self.queue.poll(&mut done);
        done.pop()
    }
}

/// What a submission queue entry asks for (`struct io_uring_sqe`).
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    opcode: u8,
    descriptor: i32,
    offset: u64,
    /// An address; of `fallocate` the length.
    address: u64,
    /// Bytes or pieces; of `fallocate` the mode.
    len: u32,
    /// Of the operation: `RWF_DSYNC`, `IORING_FSYNC_DATASYNC`.
    flags: u32,
}

fn asked(op: &mut FileOp) -> Asked {
    let entry = op.entry();
    // SAFETY: an entry is the 64 bytes of `struct io_uring_sqe`, of which any are plain numbers.
    let bytes = unsafe { std::mem::transmute::<Entry, [u8; 64]>(entry) };
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    Asked {
        opcode: bytes[0],
        descriptor: word(4).cast_signed(),
        offset: long(8),
        address: long(16),
        len: word(24),
        flags: word(28),
    }
}

fn data(len: usize) -> BufList {
    SharedBuf::from(protocol::pair::aperiodic(len, 3)).into()
}

fn write(durable: bool) -> BlockOperation {
    BlockOperation::Write { offset: 8192, data: data(4096), durable }
}

#[test]
fn the_ring_is_asked_for_what_was_promised() {
    let dsync = u32::try_from(libc::RWF_DSYNC).unwrap();
    let datasync = types::FsyncFlags::DATASYNC.bits();
    let mut bench = Bench::new();
    for (durable, flags) in [(false, 0), (true, dsync)] {
        let mut op = bench.begin(write(durable));
        let Asked { opcode, descriptor, offset, len, flags: found, .. } = asked(&mut op);
        assert_eq!((opcode, descriptor), (opcode::Writev::CODE, op.file.as_raw_fd()));
        assert_eq!((offset, len, found), (8192, 1, flags), "durable: {durable}");
    }
    let mut op = bench.begin(BlockOperation::Flush);
    let Asked { opcode, descriptor, flags, offset, len, .. } = asked(&mut op);
    assert_eq!((opcode, descriptor), (opcode::Fsync::CODE, op.flushes.as_raw_fd()));
    assert_eq!((flags, offset, len), (datasync, 0, 0), "the whole file");
    let (offset, len) = (4096, 8192);
    for (operation, mode) in [
        (BlockOperation::Discard { offset, len }, libc::FALLOC_FL_PUNCH_HOLE),
        (BlockOperation::Zero { offset, len }, libc::FALLOC_FL_ZERO_RANGE),
    ] {
        let mode = u32::try_from(mode | libc::FALLOC_FL_KEEP_SIZE).unwrap();
        let mut op = bench.begin(operation);
        let descriptor = op.file.as_raw_fd();
        let opcode = opcode::Fallocate::CODE;
        let expected = Asked { opcode, descriptor, offset, address: len, len: mode, flags: 0 };
        assert_eq!(asked(&mut op), expected);
    }
}

/// A kernel that moves `moved` of the bytes that it was asked for has moved no more, and the rest follows from there.
#[test]
fn what_was_done_in_part_goes_on_where_it_stopped() {
    const LEN: usize = 4096;
    let mut bench = Bench::new();
    for moved in [1, 512, LEN - 1] {
        let (count, rest) = (i32::try_from(moved).unwrap(), u32::try_from(LEN - moved).unwrap());
        for durable in [false, true] {
            let mut op = bench.begin(write(durable));
            let before = asked(&mut op);
            let start = op.vectors[0].iov_base;
            assert!(!op.advance(count), "{moved} of {LEN} bytes are not all");
            let after = asked(&mut op);
            assert_eq!(after, Asked { offset: 8192 + moved as u64, ..before }, "as durable as before");
            let [vector] = op.vectors[..] else { panic!("one piece, of which a part is left") };
            assert_eq!(vector.iov_base.addr() - start.addr(), moved);
            assert_eq!(vector.iov_len, LEN - moved);
            assert!(op.advance(rest.cast_signed()), "now they are");
            assert_eq!(op.take_done().result, Ok(()));
        }
        let mut op = bench.begin(BlockOperation::Read { offset: 0, into: Buf::zeroed(LEN) });
        let before = asked(&mut op);
        assert!(!op.advance(count), "{moved} of {LEN} bytes are not all");
        let address = before.address + moved as u64;
        assert_eq!(asked(&mut op), Asked { offset: moved as u64, address, len: rest, ..before });
        assert!(op.advance(0), "the file ends there");
        let done = op.take_done();
        assert_eq!(
            (done.result, done.data.is_some()),
            (Err(IoError(libc::EIO)), true),
            "its memory comes back"
        );
    }
}

#[test]
fn an_answer_that_is_an_error_ends_nothing_well() {
    let (offset, len) = (0, 4096);
    let into = || Buf::zeroed(4096);
    let operations: [(&str, &dyn Fn() -> BlockOperation); 6] = [
        ("read", &|| BlockOperation::Read { offset, into: into() }),
        ("write", &|| write(false)),
        ("durable write", &|| write(true)),
        ("discard", &|| BlockOperation::Discard { offset, len }),
        ("zero", &|| BlockOperation::Zero { offset, len }),
        ("flush", &|| BlockOperation::Flush),
    ];
    for (name, operation) in operations {
        for error in [libc::EIO, libc::ENOSPC, libc::EINVAL, libc::ECANCELED] {
            let mut op = Bench::new().begin(operation());
            assert!(op.advance(-error), "{name}: {error}");
            let done = op.take_done();
            assert_eq!(done.result, Err(IoError(error)), "{name}");
            assert_eq!(done.data.is_some(), name == "read", "{name}: what a read was given comes back");
        }
        for error in [libc::EINTR, libc::EAGAIN] {
            let mut op = Bench::new().begin(operation());
            let again = !op.advance(-error);
            assert_eq!(again, name != "flush", "{name}: a flush is never asked for again");
        }
    }
}

#[test]
fn a_flush_asks_the_system_and_tells_what_it_says() {
    for on in [On::Ring, On::Thread] {
        let mut bench = Bench::new();
        let op = bench.begin(BlockOperation::Flush);
        assert_eq!(bench.carry_out(on, op), Ok(()), "{on:?}");
        // What cannot be flushed says so, to the flush that asks it, and to all later ones: the system tells it once.
        let mut op = bench.begin(BlockOperation::Flush);
        let sound = std::mem::replace(&mut op.flushes, Arc::new(rustix::pipe::pipe().unwrap().0));
        assert_eq!(
            bench.carry_out(on, op),
            Err(IoError(libc::EINVAL)),
            "{on:?}: it goes to its own description"
        );
        let mut op = bench.begin(BlockOperation::Flush);
        op.flushes = sound;
        assert_eq!(
            bench.carry_out(on, op),
            Err(IoError(libc::EINVAL)),
            "{on:?}: what a flush has lost is lost"
        );
    }
}

/// From here on the calling thread's durable writes fail with `EDOM`.
fn refuse_durable_writes() {
    /// Where `struct seccomp_data` has the call's number, and the low half of its sixth argument.
    const NUMBER: u32 = 0;
    const FLAGS: u32 = if cfg!(target_endian = "little") { 16 + 5 * 8 } else { 16 + 5 * 8 + 4 };
    let code = |bits: u32| u16::try_from(bits).unwrap();
    let load = |at| libc::sock_filter {
        code: code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS),
        jt: 0,
        jf: 0,
        k: at,
    };
    let test =
        |kind, k, jf| libc::sock_filter { code: code(libc::BPF_JMP | kind | libc::BPF_K), jt: 0, jf, k };
    let end = |k| libc::sock_filter { code: code(libc::BPF_RET | libc::BPF_K), jt: 0, jf: 0, k };
    let mut filter = [
        load(NUMBER),
        test(libc::BPF_JEQ, u32::try_from(libc::SYS_pwritev2).unwrap(), 3),
        load(FLAGS),
        test(libc::BPF_JSET, u32::try_from(libc::RWF_DSYNC).unwrap(), 1),
        end(libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EDOM).unwrap()),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let len = u16::try_from(filter.len()).unwrap();
    let program = libc::sock_fprog { len, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its instructions live until the calls return, and the kernel copies them.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, std::ptr::from_ref(&program))
    };
    assert_eq!(
        refused,
        0,
        "this test needs a kernel with seccomp filters: {}",
        std::io::Error::last_os_error()
    );
}

#[test]
fn a_file_thread_writes_durably_what_is_to_be_durable() {
    let on_its_own_thread = || {
        refuse_durable_writes();
        let mut bench = Bench::new();
        for (durable, result) in [(false, Ok(())), (true, Err(IoError(libc::EDOM)))] {
            let op = bench.begin(write(durable));
            assert_eq!(bench.carry_out(On::Thread, op), result, "durable: {durable}");
        }
    };
    std::thread::spawn(on_its_own_thread).join().unwrap();
}

#[test]
fn what_a_file_waits_for_is_known() {
    let memory = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let other = std::fs::File::open("/proc/version").unwrap();
    // As the nodes of disks, it is on a file system in memory.
    let device = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(rustix::fs::fstatfs(&device).unwrap().f_type, TMPFS);
    assert_ne!(Medium::of(&device, false), Medium::Memory);
    for direct in [false, true] {
        assert_eq!(Medium::of(&memory, direct), Medium::Memory);
    }
    assert_eq!((Medium::of(&other, false), Medium::of(&other, true)), (Medium::PageCache, Medium::Direct));
}

#[test]
fn only_reads_and_what_is_of_memory_are_done_at_once() {
    let mut bench = Bench::new();
    let (offset, len) = (0, 4096);
    for (operation, of_memory, cached) in [
        (BlockOperation::Read { offset, into: Buf::zeroed(4096) }, true, true),
        (write(false), true, false),
        (write(true), true, false),
        (BlockOperation::Flush, true, false),
        // Both may be long, whatever the file is on.
        (BlockOperation::Discard { offset, len }, false, false),
        (BlockOperation::Zero { offset, len }, false, false),
    ] {
        let mut op = bench.begin(operation);
        let mut ask = |medium| {
            op.medium = medium;
            (op.is_of_memory(), op.may_be_cached())
        };
        assert_eq!(ask(Medium::Memory), (of_memory, false));
        assert_eq!(ask(Medium::PageCache), (false, cached));
        assert_eq!(ask(Medium::Direct), (false, false));
    }
}

/// What the page cache does not give is left to whoever may wait, and what it gave is not read again.
#[test]
fn what_is_not_cached_is_read_by_whoever_may_wait() {
    let mut bench = Bench::new();
    let op = bench.begin(BlockOperation::Write { offset: 0, data: data(8192), durable: false });
    assert_eq!(bench.carry_out(On::Thread, op), Ok(()));
    let mut written = vec![0; 8192];
    data(8192).copy_to(&mut written);
    let read = || BlockOperation::Read { offset: 0, into: Buf::zeroed(8192) };
    // A file system that knows no reads without waiting gives nothing.
    let mut op = bench.begin(read());
    if !op.read_cached() {
        op.run();
    }
    assert_eq!(op.take_done().data.as_deref(), Some(&*written));
    // A part was there.
    let mut op = bench.begin(read());
    op.into.as_mut().unwrap()[..5000].copy_from_slice(&written[..5000]);
    assert!(!op.advance(5000));
    if !op.read_cached() {
        op.run();
    }
    assert_eq!((op.moved(), op.take_done().data.as_deref()), (8192, Some(&*written)));
    // Nothing is, of what cannot be read so.
    let mut op = bench.begin(read());
    op.file = OpFile::Plain(Arc::new(rustix::pipe::pipe().unwrap().0));
    assert!(!op.read_cached());
    assert_eq!((op.moved(), op.result), (0, Ok(())));
    // A file that ends within what was asked for is an error, as everywhere.
    let mut op = bench.begin(BlockOperation::Read { offset: SIZE - 1, into: Buf::zeroed(2) });
    if !op.read_cached() {
        op.run();
    }
    assert_eq!(op.take_done().result, Err(IoError(libc::EIO)));
}
