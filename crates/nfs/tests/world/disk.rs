//! The file system behind the server: in memory, with what was not durable lost in a crash (`filesystem::Memory`).

use std::sync::Arc;
use std::task::Waker;

use buf::{Buf, Pool};
use filesystem::{
    CoreId, CreateHow, Credentials, FileHandle, FileSystem, FileSystemQueue, Memory, MemoryOptions, Name,
    Operation, Outcome, QueueContext, Request, SetAttributes, Stability, Tag,
};
use protocol::Instant;

/// A queue of the file system.
pub fn queue(memory: &Memory, pool: &Pool) -> Box<dyn FileSystemQueue> {
    let context = QueueContext::new(CoreId(0), Waker::noop().clone(), pool.clone());
    memory.open_queue(&context).unwrap()
}

/// Carries one request out, as user 0.
fn ask(memory: &Memory, operation: Operation) -> Outcome {
    let context = QueueContext::without_pool(CoreId(0), Waker::noop().clone());
    let mut queue = memory.open_queue(&context).unwrap();
    let request = Request { tag: Tag(0), credentials: Arc::new(Credentials::of(0, 0)), operation };
    queue.submit(Instant::ZERO, request).unwrap();
    let mut done = Vec::new();
    queue.poll(Instant::ZERO, &mut done);
    done.pop().unwrap().outcome().unwrap()
}

fn name(file: usize) -> Name {
    Name::new(format!("f{file}").as_bytes()).unwrap()
}

/// A file system with so many files, durable and of so many bytes.
pub fn make(seed: u64, files: usize, bytes: usize) -> Memory {
    let memory = Memory::new(MemoryOptions { root_mode: 0o777, seed, ..MemoryOptions::default() });
    for file in 0..files {
        let how = Box::new(CreateHow::Guarded(SetAttributes::mode(0o666)));
        let create = Operation::Create { directory: memory.root(), name: name(file), how, open: None };
        let Outcome::Created(created) = ask(&memory, create) else { panic!("a file is made") };
        let data = buf::SharedBuf::from(vec![0; bytes]).into();
        let file = created.object.handle.into();
        ask(&memory, Operation::Write { file, offset: 0, data, stability: Stability::FileSync });
    }
    memory
}

/// The handle of a file.
pub fn handle(memory: &Memory, file: usize) -> FileHandle {
    let lookup = Operation::Lookup { directory: memory.root(), name: name(file) };
    let Outcome::Found(object) = ask(memory, lookup) else { panic!("the file is there") };
    object.handle
}

/// The number that stands at a place of a file.
pub fn value(memory: &Memory, file: usize, offset: u64) -> u64 {
    let file = handle(memory, file).into();
    let Outcome::Data { data, .. } = ask(memory, Operation::Read { file, offset, into: Buf::zeroed(8) })
    else {
        panic!("the place is read")
    };
    number(&data.into_one())
}

/// The number that data begins with.
pub fn number(data: &[u8]) -> u64 {
    u64::from_be_bytes(data[..8].try_into().unwrap())
}
