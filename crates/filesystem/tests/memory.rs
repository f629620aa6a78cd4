//! The file system in memory: what it forgets when the power fails, and what it refuses when it is full.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::task::Waker;

use buf::{Buf, SharedBuf};
use filesystem::{
    CoreId, CreateHow, Credentials, FileErrorKind, FileHandle, FileSystem, FileSystemQueue, Memory,
    MemoryOptions, Name, Operation, Outcome, QueueContext, Request, SetAttributes, Stability, Tag,
    WriteVerifier,
};
use protocol::{Instant, SeededEntropy};

struct Bench {
    memory: Memory,
    queue: Box<dyn FileSystemQueue>,
}

impl Bench {
    fn new(options: MemoryOptions) -> Self {
        let memory = Memory::new(options);
        let context = QueueContext::without_pool(CoreId(0), Waker::noop().clone());
        let queue = memory.open_queue(&context).unwrap();
        Self { memory, queue }
    }

    fn run(&mut self, operation: Operation) -> Result<Outcome, FileErrorKind> {
        let request = Request { tag: Tag(1), credentials: Arc::new(Credentials::of(0, 0)), operation };
        self.queue.submit(Instant::ZERO, request).unwrap();
        let mut done = Vec::new();
        self.queue.poll(Instant::ZERO, &mut done);
        done.remove(0).outcome()
    }

    fn create(&mut self, name: &str) -> Result<FileHandle, FileErrorKind> {
        let (directory, name) = (self.memory.root(), Name::new(name.as_bytes()).unwrap());
        let how = Box::new(CreateHow::Guarded(SetAttributes::default()));
        match self.run(Operation::Create { directory, name, how, open: None })? {
            Outcome::Created(created) => Ok(created.object.handle),
            other => panic!("{other:?}"),
        }
    }

    fn write(
        &mut self,
        file: FileHandle,
        byte: u8,
        stability: Stability,
    ) -> Result<WriteVerifier, FileErrorKind> {
        let data = SharedBuf::from(vec![byte; 8192]).into();
        match self.run(Operation::Write { file: file.into(), offset: 0, data, stability })? {
            Outcome::Written { verifier, .. } => Ok(verifier),
            other => panic!("{other:?}"),
        }
    }

    fn read(&mut self, file: FileHandle) -> Vec<u8> {
        match self.run(Operation::Read { file: file.into(), offset: 0, into: Buf::zeroed(10_000) }).unwrap() {
            Outcome::Data { data, eof: true, .. } => data.into_one().to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_crash_loses_what_is_unstable_and_moves_the_verifier() {
    let mut lost = 0;
    for seed in 0..32 {
        let mut bench = Bench::new(MemoryOptions::default());
        let file = bench.create("file").unwrap();
        let safe = bench.create("safe").unwrap();
        bench.write(safe, 1, Stability::DataSync).unwrap();
        let before = bench.write(file, 1, Stability::Unstable).unwrap();
        bench.run(Operation::Commit { file: file.into(), offset: 0, count: 0 }).unwrap();
        assert_eq!(bench.write(file, 2, Stability::Unstable).unwrap(), before);
        bench.memory.crash(&mut SeededEntropy::new(seed));
        assert_eq!(bench.read(safe), vec![1; 8192]);
        let after = bench.read(file);
        assert_eq!(after.len(), 8192);
        assert!(after.iter().all(|byte| *byte == 1 || *byte == 2));
        lost += u32::from(after.contains(&1));
        assert_ne!(bench.write(file, 2, Stability::Unstable).unwrap(), before);
    }
    assert!((1..32).contains(&lost), "{lost}");
}

#[test]
fn bytes_and_objects_are_bounded() {
    let mut bench = Bench::new(MemoryOptions { bytes: 64 << 10, inodes: 4, ..MemoryOptions::default() });
    let files: Vec<FileHandle> = (0..3).map(|index| bench.create(&format!("file{index}")).unwrap()).collect();
    assert_eq!(bench.create("more"), Err(FileErrorKind::NoSpace));
    let written = files.iter().map(|file| bench.write(*file, 1, Stability::FileSync));
    assert_eq!(written.flatten().count(), 3);
    let file = files[0];
    let data = SharedBuf::from(vec![1; 60 << 10]).into();
    let full = bench.run(Operation::Write {
        file: file.into(),
        offset: 1 << 40,
        data,
        stability: Stability::Unstable,
    });
    assert_eq!(full.map(|_| ()), Err(FileErrorKind::NoSpace));
    assert_eq!(bench.read(file), vec![1; 8192], "nothing of a write that failed");
}
