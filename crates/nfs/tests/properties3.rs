//! Version 3 beside a model: names, files and what is repeated; and bytes that make no sense.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod v3;

use std::collections::BTreeMap;

use common::Bench;
use nfs::v3::Status;
use nfs::v3::procedure::Number;
use proptest::prelude::*;
use v3::{
    MOUNT, Mounted, NFS, USER, Wanted, create, link, mkdir, object, place, read, readdir, setattr, write,
};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const LONGEST: usize = 64;

/// What somebody does with names of one directory.
#[derive(Debug, Clone)]
enum Step {
    Create { name: usize, guarded: bool, cut: bool },
    Mkdir(usize),
    Remove(usize),
    Rmdir(usize),
    Rename(usize, usize),
    Link(usize, usize),
    Write { name: usize, offset: usize, data: Vec<u8>, stable: u32 },
    Resize { name: usize, size: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        4 => (name(), any::<bool>(), any::<bool>()).prop_map(|(name, guarded, cut)| Step::Create { name, guarded, cut }),
        2 => name().prop_map(Step::Mkdir),
        2 => name().prop_map(Step::Remove),
        2 => name().prop_map(Step::Rmdir),
        4 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => (name(), name()).prop_map(|(from, to)| Step::Link(from, to)),
        6 => (name(), 0..LONGEST, proptest::collection::vec(any::<u8>(), 0..20), 0..3_u32)
            .prop_map(|(name, offset, data, stable)| Step::Write { name, offset, data, stable }),
        2 => (name(), 0..LONGEST).prop_map(|(name, size)| Step::Resize { name, size }),
    ]
}

/// What a name leads to: a file by its number, or a directory, which stays empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    File(usize),
    Directory(usize),
}

/// What has to be there.
#[derive(Default)]
struct Model {
    names: BTreeMap<&'static str, Node>,
    files: BTreeMap<usize, Vec<u8>>,
    last: usize,
}

impl Model {
    fn node(&self, name: usize) -> Option<Node> {
        self.names.get(NAMES[name]).copied()
    }

    fn insert(&mut self, name: usize, node: Node) {
        self.names.insert(NAMES[name], node);
    }

    fn new_number(&mut self) -> usize {
        self.last += 1;
        self.last
    }

    fn take(&mut self, name: usize) {
        self.names.remove(NAMES[name]);
        let names = &self.names;
        self.files.retain(|file, _| names.values().any(|node| *node == Node::File(*file)));
    }

    fn links(&self, file: usize) -> usize {
        self.names.values().filter(|node| **node == Node::File(file)).count()
    }

    /// Carries a step out, and says what it comes to.
    fn act(&mut self, step: &Step) -> Status {
        match *step {
            Step::Create { name, guarded, cut } => match self.node(name) {
                None => {
                    let file = self.new_number();
                    self.files.insert(file, Vec::new());
                    self.insert(name, Node::File(file));
                    Status::OK
                }
                Some(Node::File(file)) if !guarded => {
                    if cut {
                        self.files.insert(file, Vec::new());
                    }
                    Status::OK
                }
                Some(_) => Status::EXIST,
            },
            Step::Mkdir(name) => {
                if self.node(name).is_some() {
                    return Status::EXIST;
                }
                let directory = Node::Directory(self.new_number());
                self.insert(name, directory);
                Status::OK
            }
            Step::Remove(name) => match self.node(name) {
                None => Status::NOENT,
                Some(Node::Directory(_)) => Status::ISDIR,
                Some(Node::File(_)) => {
                    self.take(name);
                    Status::OK
                }
            },
            Step::Rmdir(name) => match self.node(name) {
                None => Status::NOENT,
                Some(Node::File(_)) => Status::NOTDIR,
                Some(Node::Directory(_)) => {
                    self.take(name);
                    Status::OK
                }
            },
            Step::Rename(from, to) => match (self.node(from), self.node(to)) {
                (None, _) => Status::NOENT,
                (Some(one), Some(other)) if one == other => {
                    // A directory is not moved into itself by its own name, and two names of one file stay.
                    Status::OK
                }
                (Some(Node::File(_)), Some(Node::Directory(_))) => Status::ISDIR,
                (Some(Node::Directory(_)), Some(Node::File(_))) => Status::NOTDIR,
                (Some(node), _) => {
                    self.names.remove(NAMES[from]);
                    self.insert(to, node);
                    let names = &self.names;
                    self.files.retain(|file, _| names.values().any(|node| *node == Node::File(*file)));
                    Status::OK
                }
            },
            Step::Link(from, to) => match (self.node(from), self.node(to)) {
                (Some(Node::Directory(_)), _) => Status::INVAL,
                (None, _) => Status::NOENT,
                (_, Some(_)) => Status::EXIST,
                (Some(node), None) => {
                    self.insert(to, node);
                    Status::OK
                }
            },
            Step::Write { name, offset, ref data, .. } => match self.node(name) {
                None => Status::NOENT,
                Some(Node::Directory(_)) => Status::INVAL,
                Some(Node::File(file)) => {
                    let content = self.files.get_mut(&file).unwrap();
                    if !data.is_empty() {
                        let end = offset + data.len();
                        content.resize(content.len().max(end), 0);
                        content[offset..end].copy_from_slice(data);
                    }
                    Status::OK
                }
            },
            Step::Resize { name, size } => match self.node(name) {
                None => Status::NOENT,
                Some(Node::Directory(_)) => Status::INVAL,
                Some(Node::File(file)) => {
                    self.files.get_mut(&file).unwrap().resize(size, 0);
                    Status::OK
                }
            },
        }
    }
}

/// Two connections of one client: what is sent by one is sometimes sent again by the other.
struct World {
    bench: Bench,
    one: Mounted,
    other: Mounted,
    model: Model,
}

impl World {
    fn new() -> Self {
        let mut bench = v3::bench();
        let (one, other) = (Mounted::new(&mut bench, "/data"), Mounted::new(&mut bench, "/data"));
        Self { bench, one, other, model: Model::default() }
    }

    fn handle(&mut self, name: usize) -> Option<Vec<u8>> {
        let arguments = place(&self.one.root, NAMES[name]);
        let mut reply = self.one.call(&mut self.bench, Number::LOOKUP, &arguments);
        assert_eq!(reply.status == Status::OK, self.model.node(name).is_some(), "{}", NAMES[name]);
        (reply.status == Status::OK).then(|| reply.opaque())
    }

    /// The call of a step; nothing if what it needs is not there.
    fn call(&mut self, step: &Step) -> Option<(Number, Vec<u8>)> {
        let root = self.one.root.clone();
        Some(match *step {
            Step::Create { name, guarded, cut } => {
                let wanted = if cut { Wanted::size(0) } else { Wanted::default() };
                (Number::CREATE, create(&root, NAMES[name], guarded.into(), wanted))
            }
            Step::Mkdir(name) => (Number::MKDIR, mkdir(&root, NAMES[name])),
            Step::Remove(name) => (Number::REMOVE, place(&root, NAMES[name])),
            Step::Rmdir(name) => (Number::RMDIR, place(&root, NAMES[name])),
            Step::Rename(from, to) => (Number::RENAME, v3::rename((&root, NAMES[from]), (&root, NAMES[to]))),
            Step::Link(from, to) => (Number::LINK, link(&self.handle(from)?, &root, NAMES[to])),
            Step::Write { name, offset, ref data, stable } => {
                (Number::WRITE, write(&self.handle(name)?, offset as u64, stable, data))
            }
            Step::Resize { name, size } => {
                (Number::SETATTR, setattr(&self.handle(name)?, Wanted::size(size as u64), None))
            }
        })
    }

    fn act(&mut self, step: &Step, twice: bool) {
        let call = self.call(step);
        let expected = self.model.act(step);
        let Some((number, arguments)) = call else {
            assert_eq!(expected, Status::NOENT);
            return;
        };
        let reply = self.one.call(&mut self.bench, number, &arguments);
        assert_eq!(reply.status, expected, "{step:?}");
        if twice && number.is_once() {
            self.other.xid = self.one.xid;
            assert_eq!(self.other.again(&mut self.bench, number, &arguments).bytes, reply.bytes, "{step:?}");
        }
        if expected != Status::OK {
            reply.failure(number);
        }
    }

    /// Everything is as the model has it.
    fn check(&mut self) {
        let root = self.one.root.clone();
        let list = readdir(&root, 0, [0; 8], Some(8192), 8192);
        let page = self.one.ok(&mut self.bench, Number::READDIRPLUS, &list).page(true);
        assert!(page.eof);
        let mut told: Vec<String> = page.entries[2..].iter().map(|entry| entry.name.clone()).collect();
        told.sort_unstable();
        assert_eq!(told, self.model.names.keys().copied().collect::<Vec<_>>());
        for entry in &page.entries[2..] {
            let (handle, attributes) = (entry.handle.as_ref().unwrap(), entry.attributes.unwrap());
            match self.model.names[entry.name.as_str()] {
                Node::Directory(_) => assert_eq!((attributes.kind, attributes.links), (2, 2)),
                Node::File(file) => {
                    let content = &self.model.files[&file];
                    let links = self.model.links(file);
                    assert_eq!((attributes.kind, attributes.links as usize), (1, links), "{}", entry.name);
                    assert_eq!(attributes.size, content.len() as u64);
                    assert_eq!(&self.one.content(&mut self.bench, handle), content);
                }
            }
        }
    }
}

/// Arguments of some procedure that would do.
fn usual(number: u32, root: &[u8]) -> Vec<u8> {
    match Number(number) {
        Number::SETATTR => setattr(root, Wanted::mode(0o777), Some((1, 2))),
        Number::LOOKUP | Number::REMOVE | Number::RMDIR => place(root, "name"),
        Number::ACCESS => v3::access(root, 63),
        Number::READ | Number::COMMIT => read(root, 1, 2),
        Number::WRITE => write(root, 1, 0, b"some data"),
        Number::CREATE => create(root, "name", 1, Wanted::size(3)),
        Number::MKDIR => mkdir(root, "name"),
        Number::SYMLINK => v3::symlink(root, "name", "target"),
        Number::MKNOD => v3::mknod(root, "name", 7),
        Number::RENAME => v3::rename((root, "name"), (root, "other")),
        Number::LINK => link(root, root, "name"),
        Number::READDIR => readdir(root, 0, [0; 8], None, 4096),
        Number::READDIRPLUS => readdir(root, 0, [0; 8], Some(512), 4096),
        _ => object(root),
    }
}

/// Sends what may be anything. Whatever is answered, nothing is kept, and others are served.
fn survives(bench: &mut Bench, one: &mut Mounted, call: &[u8]) {
    let peer = bench.connect();
    bench.send_record(peer, call);
    let replies = bench.replies(peer);
    assert!(replies.len() <= 1);
    let upper = bench.upper(peer);
    assert_eq!((upper.under_way(), upper.held()), (0, 0));
    bench.end(peer);
    let root = one.root.clone();
    one.attributes(bench, &root);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Names and data are what was done to them, and what is sent twice is done once.
    #[test]
    fn a_directory_is_as_the_model_has_it(steps in proptest::collection::vec((step(), any::<bool>()), 1..60)) {
        let mut world = World::new();
        for (step, twice) in &steps {
            world.act(step, *twice);
            world.check();
        }
    }

    /// Arguments of nobody's making.
    #[test]
    fn any_bytes_may_come(calls in proptest::collection::vec((0..30_u32, any::<bool>(), proptest::collection::vec(any::<u8>(), 0..200)), 1..20)) {
        let mut bench = v3::bench();
        let mut one = Mounted::new(&mut bench, "/data");
        for (procedure, mount, bytes) in &calls {
            let program = if *mount { MOUNT } else { NFS };
            survives(&mut bench, &mut one, &v3::record(5, program, *procedure, USER, bytes));
        }
    }

    /// Arguments that were right, but for some bytes, or that end too early.
    #[test]
    fn calls_may_be_spoiled(
        procedure in 1..22_u32,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        more in proptest::collection::vec(any::<u8>(), 0..9),
    ) {
        let mut bench = v3::bench();
        let mut one = Mounted::new(&mut bench, "/data");
        let mut arguments = usual(procedure, &one.root);
        for (at, byte) in &changes {
            let at = at.index(arguments.len());
            arguments[at] = *byte;
        }
        if let Some(cut) = cut {
            arguments.truncate(cut.index(arguments.len()));
        }
        arguments.extend(more);
        survives(&mut bench, &mut one, &v3::record(5, NFS, procedure, USER, &arguments));
    }
}

/// Every front of every call: it ends within its arguments, and says so.
#[test]
fn arguments_that_end_too_early_are_garbage() {
    let mut bench = v3::bench();
    let one = Mounted::new(&mut bench, "/data");
    for procedure in 1..22 {
        let arguments = usual(procedure, &one.root);
        for end in 0..arguments.len() {
            bench.send_record(one.peer, &v3::record(5, NFS, procedure, USER, &arguments[..end]));
            let reply = bench.replies(one.peer).remove(&5).unwrap();
            // GARBAGE_ARGS
            assert_eq!(reply[20..], [0, 0, 0, 4], "{} cut at {end}", Number(procedure).name());
        }
    }
    assert_eq!(bench.requests.get("write"), None);
}

#[test]
fn what_is_not_served_is_told() {
    let mut bench = v3::bench();
    let one = Mounted::new(&mut bench, "/data");
    for (program, procedure, answer) in [
        ((100_003, 2), 0, vec![2, 3, 4]),
        ((100_005, 1), 0, vec![2, 3, 3]),
        ((100_005, 4), 0, vec![2, 3, 3]),
        ((100_021, 4), 0, vec![1]),
        ((100_000, 2), 3, vec![1]),
        (NFS, 22, vec![3]),
        (MOUNT, 6, vec![3]),
    ] {
        bench.send_record(one.peer, &v3::record(5, program, procedure, USER, &[]));
        let reply = bench.replies(one.peer).remove(&5).unwrap();
        let words: Vec<u32> =
            reply[20..].chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words, answer, "{program:?} {procedure}");
    }
}
