//! The client of names against the server of this crate, without a network: what is made is looked up, listed and removed, with more asked than there are slots.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use common::Bench;
use nfs::client::names::{
    NameOperation, NamesAction, NamesConfig, NamesInput, NamesOutcome, NamesReady, ObjectHandle,
};
use nfs::client::{TcpNames, Versions, connect};
use nfs::v4::{Status, Verifier};
use protocol::pair::Half;
use protocol::{Connection, Ended};
use rpc::message::AuthSysToSend;

/// `nfs_ftype4`.
const REGULAR: Option<u32> = Some(1);
const DIRECTORY: Option<u32> = Some(2);

struct World {
    bench: Bench,
    client: Half<TcpNames>,
    peer: usize,
    ready: Option<NamesReady>,
    done: BTreeMap<u64, Result<NamesOutcome, Status>>,
    failed: Option<String>,
    next: u64,
}

fn config(path: &[&str]) -> NamesConfig {
    NamesConfig {
        path: path.iter().map(|name| name.as_bytes().to_vec()).collect(),
        versions: Versions::Newest,
        user: Arc::new(AuthSysToSend::new("host", 1000, 1000, &[])),
        owner: b"client of names".to_vec(),
        verifier: Verifier(*b"start 01"),
        command_time: Duration::from_secs(30),
    }
}

impl World {
    fn new(path: &[&str]) -> Self {
        let mut bench = Bench::new();
        let peer = bench.connect();
        let client = Half::new(connect(bench.now, config(path), 100));
        let mut world =
            Self { bench, client, peer, ready: None, done: BTreeMap::new(), failed: None, next: 0 };
        world.run();
        world
    }

    fn run(&mut self) {
        loop {
            let out = self.client.transmit(self.bench.now);
            self.bench.receive(self.peer, &out);
            let back = self.bench.transmit(self.peer);
            // In pieces, so that an answer ends anywhere.
            for piece in back.chunks(61) {
                self.client.receive(self.bench.now, piece);
            }
            while let Some(action) = self.client.connection.poll_action() {
                match action {
                    NamesAction::Ready(ready) => self.ready = Some(ready),
                    NamesAction::Done(number, outcome) => {
                        assert!(self.done.insert(number, outcome).is_none(), "{number} ends once");
                    }
                    NamesAction::Failed { reason } => self.failed = Some(reason),
                }
            }
            if out.is_empty() && back.is_empty() {
                return;
            }
        }
    }

    fn submit(&mut self, operation: NameOperation) -> u64 {
        self.next += 1;
        self.client.connection.handle_input(self.bench.now, NamesInput::Do(self.next, operation));
        self.next
    }

    fn ask(&mut self, operation: NameOperation) -> Result<NamesOutcome, Status> {
        let number = self.submit(operation);
        self.run();
        self.done.remove(&number).unwrap()
    }

    fn base(&self) -> ObjectHandle {
        self.ready.as_ref().unwrap().directory.clone()
    }

    fn make_directory(&mut self, parent: &ObjectHandle, name: &str) -> ObjectHandle {
        let operation =
            NameOperation::MakeDirectory { parent: parent.clone(), name: name.as_bytes().to_vec() };
        let Ok(NamesOutcome::Directory(handle)) = self.ask(operation) else { panic!("{name} is not made") };
        handle
    }

    fn kind(&mut self, parent: &ObjectHandle, name: &str) -> Result<Option<u32>, Status> {
        let operation = NameOperation::Look { parent: parent.clone(), name: name.as_bytes().to_vec() };
        self.ask(operation).map(|outcome| match outcome {
            NamesOutcome::Seen(seen) => seen.kind,
            other => panic!("{other:?}"),
        })
    }
}

fn remove(parent: &ObjectHandle, name: &str) -> NameOperation {
    NameOperation::Remove { parent: parent.clone(), name: name.as_bytes().to_vec() }
}

#[test]
fn what_is_made_is_found_listed_and_removed() {
    const FILES: u64 = 600;
    let mut world = World::new(&["data"]);
    let base = world.base();
    assert_eq!(world.ready.as_ref().unwrap().minor, 2);
    let folder = world.make_directory(&base, "folder");
    assert_eq!(world.kind(&base, "folder"), Ok(DIRECTORY));
    // More at a time than the session has slots.
    assert!(FILES > u64::from(world.ready.as_ref().unwrap().slots));
    for number in 0..FILES {
        let name = format!("file.{number}").into_bytes();
        world.submit(NameOperation::Create { parent: folder.clone(), name });
    }
    world.run();
    let made: Vec<_> = std::mem::take(&mut world.done).into_values().collect();
    for outcome in made {
        let Ok(NamesOutcome::Open(open)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(world.ask(NameOperation::Close(open)), Ok(NamesOutcome::Done));
    }
    assert_eq!(world.kind(&folder, "file.7"), Ok(REGULAR));
    assert_eq!(world.kind(&folder, "file.600"), Err(Status::NOENT));
    let (mut from, mut names, mut answers) = (None, 0, 0);
    loop {
        let listing = NameOperation::List { directory: folder.clone(), from };
        let Ok(NamesOutcome::Listed(listed)) = world.ask(listing) else { panic!("no listing") };
        (names, answers, from) = (names + u64::from(listed.entries), answers + 1, Some(listed));
        if listed.at_end {
            break;
        }
    }
    assert!(names == FILES && answers > 1, "{names} names in {answers} answers");
    let (mut from, mut told) = (None, std::collections::BTreeSet::new());
    loop {
        let listing = NameOperation::Entries { directory: folder.clone(), from };
        let Ok(NamesOutcome::Entries(entries, listed)) = world.ask(listing) else { panic!("no entries") };
        assert_eq!(u64::from(listed.entries), entries.len() as u64);
        for entry in entries {
            assert_eq!((entry.kind, entry.size), (REGULAR, Some(0)));
            assert!(entry.modified.is_some() && told.insert(entry.name), "each is told once");
        }
        from = Some(listed);
        if listed.at_end {
            break;
        }
    }
    let made = (0..FILES).map(|number| format!("file.{number}").into_bytes());
    assert!(told.into_iter().eq(made.collect::<std::collections::BTreeSet<_>>()));
    assert_eq!(world.ask(remove(&base, "folder")), Err(Status::NOTEMPTY));
    for number in 0..FILES {
        assert_eq!(world.ask(remove(&folder, &format!("file.{number}"))), Ok(NamesOutcome::Done));
    }
    assert_eq!(world.ask(remove(&base, "folder")), Ok(NamesOutcome::Done));
    assert_eq!(world.kind(&base, "folder"), Err(Status::NOENT));
}

#[test]
fn a_file_is_made_once() {
    let mut world = World::new(&["data"]);
    let create = NameOperation::Create { parent: world.base(), name: b"one".to_vec() };
    assert!(matches!(world.ask(create.clone()), Ok(NamesOutcome::Open(_))));
    assert_eq!(world.ask(create), Err(Status::EXIST));
}

#[test]
fn who_leaves_leaves_nothing() {
    let mut world = World::new(&["data"]);
    world.client.connection.handle_input(world.bench.now, NamesInput::Disconnect);
    world.run();
    assert!(world.client.connection.poll_close().is_some() && world.failed.is_none());
    assert!(world.bench.stable.is_empty(), "the client is destroyed");
}

#[test]
fn a_path_that_is_not_there_and_a_lost_connection_are_told() {
    let world = World::new(&["data", "absent"]);
    let said = world.failed.unwrap();
    assert!(said.contains("/data/absent") && said.contains("check the path"), "{said}");
    let mut world = World::new(&["data"]);
    world.submit(remove(&world.base(), "x"));
    world.client.end(world.bench.now, Ended::ByPeer);
    world.run();
    assert_eq!(world.failed.as_deref(), Some("the connection has ended"));
}
