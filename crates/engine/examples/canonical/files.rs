//! A file system in memory with one file, as a server of NFS has it.

use std::sync::Arc;
use std::task::Waker;

use engine::{Catalogue, ClientRecords, ListenerRole, Message, NfsPortal, NfsStart, ServedFiles};
use filesystem::{
    CoreId, CreateHow, Credentials, FileSystem, Memory, MemoryOptions, Name, Operation, QueueContext,
    Request, SetAttributes, Tag, Time,
};
use host::Postbox;
use nfs::server::ServerIdentity;
use nfs::server::exports::{ClientRule, Export, Exports, FileSystemId, Grant, Squash, Writes};
use nfs::state::stable::StableChange;
use protocol::Instant;
use volume::{OpenError, VolumeId};

use crate::wire::Mail;

/// The export and the file.
pub(crate) const PATH: &str = "data/disk";
/// Size of the file, in bytes: what a full queue of the longest I/Os goes over.
const SIZE: u64 = 4 << 20;

/// Keeps nothing, and says at once that it is kept.
#[derive(Debug)]
struct Records(Arc<Mail>);

impl ClientRecords for Records {
    fn change(&self, change: StableChange) {
        self.0.post(0, Message::NfsRecord(change.client(), Ok(())));
    }
}

/// A server of the file alone.
pub(crate) fn catalogue(mail: &Arc<Mail>) -> Result<Catalogue, OpenError> {
    let told = |what: &str| OpenError::new(format!("the file system in memory: {what}"));
    let memory = Memory::new(MemoryOptions { root_mode: 0o777, ..MemoryOptions::default() });
    make(&memory).ok_or_else(|| told("its file is not made"))?;
    let export = Export {
        id: 1,
        path: vec![b"data".to_vec()],
        filesystem: FileSystemId(0),
        root: memory.root(),
        limits: memory.limits(),
        features: memory.features(),
        rules: vec![ClientRule::everybody(Grant { squash: Squash::Nobody, ..Grant::new(Writes::Allowed) })],
    };
    let exports = Exports::new(vec![export], Time { seconds: 1, nanos: 0 });
    let exports = exports.map_err(|error| told(&format!("{error:?}")))?;
    let identity = ServerIdentity { owner: b"owner".to_vec(), scope: b"scope".to_vec() };
    let portal = NfsPortal { exports: Arc::new(exports), identity };
    let keeper = Arc::new(Records(Arc::clone(mail))) as Arc<dyn ClientRecords>;
    Ok(Catalogue {
        files: vec![ServedFiles {
            id: VolumeId::new(0, 0),
            name: "data".into(),
            filesystem: Arc::new(memory),
        }],
        nfs: Some(Arc::new(NfsStart { boot: 1, records: Vec::new(), keeper })),
        ..Catalogue::first([], vec![ListenerRole::Nfs(Arc::new(portal))])
    })
}

/// Makes the file, with every page of it.
fn make(memory: &Memory) -> Option<()> {
    let context = QueueContext::without_pool(CoreId(0), Waker::noop().clone());
    let mut queue = memory.open_queue(&context).ok()?;
    let how = Box::new(CreateHow::Guarded(SetAttributes {
        mode: Some(0o666),
        size: Some(SIZE),
        ..SetAttributes::default()
    }));
    let name = Name::new(b"disk").ok()?;
    let operation = Operation::Create { directory: memory.root(), name, how, open: None };
    let credentials = Arc::new(Credentials::of(0, 0));
    queue.submit(Instant::ZERO, Request { tag: Tag(0), credentials, operation }).ok()?;
    let mut done = Vec::new();
    queue.poll(Instant::ZERO, &mut done);
    done.pop()?.result.ok().map(|_| ())
}
