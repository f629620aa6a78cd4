//! Clients that do what comes to their mind, beside a model that knows what may never be (RFC 8881 §9.1, §9.7, §2.10.6).
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::ops::Range;

use common::{Bench, Client, op};
use nfs::v4::operation::OpNumber;
use nfs::v4::{Stateid, Status};
use proptest::prelude::*;

const CLIENTS: usize = 3;
const FILES: [&str; 2] = ["x", "y"];
/// Where ranges begin, and how long they are: less than this.
const BYTES: u8 = 8;
/// Where they end: before this.
const ENDS: usize = 16;

/// What somebody does.
#[derive(Debug, Clone)]
enum Step {
    Open {
        client: usize,
        file: usize,
        access: u32,
        deny: u32,
    },
    Close {
        client: usize,
        file: usize,
    },
    Downgrade {
        client: usize,
        file: usize,
        access: u32,
        deny: u32,
    },
    Lock {
        client: usize,
        file: usize,
        write: bool,
        offset: u8,
        length: u8,
    },
    Unlock {
        client: usize,
        file: usize,
        offset: u8,
        length: u8,
    },
    /// A connection ends; its client goes on by another.
    Reconnect {
        client: usize,
    },
}

/// The bytes of a range.
fn range_of(offset: u8, length: u8) -> Range<usize> {
    usize::from(offset)..usize::from(offset + length)
}

fn step() -> impl Strategy<Value = Step> {
    let (client, file) = (0..CLIENTS, 0..FILES.len());
    prop_oneof![
        3 => (client.clone(), file.clone(), 1..4_u32, 0..4_u32)
            .prop_map(|(client, file, access, deny)| Step::Open { client, file, access, deny: if deny == 3 { 0 } else { deny } }),
        2 => (client.clone(), file.clone()).prop_map(|(client, file)| Step::Close { client, file }),
        1 => (client.clone(), file.clone(), 1..4_u32, 0..4_u32)
            .prop_map(|(client, file, access, deny)| Step::Downgrade { client, file, access, deny }),
        4 => (client.clone(), file.clone(), any::<bool>(), 0..BYTES, 1..BYTES)
            .prop_map(|(client, file, write, offset, length)| Step::Lock { client, file, write, offset, length }),
        2 => (client.clone(), file, 0..BYTES, 1..BYTES)
            .prop_map(|(client, file, offset, length)| Step::Unlock { client, file, offset, length }),
        1 => client.prop_map(|client| Step::Reconnect { client }),
    ]
}

/// What one client has of one file, by what it was told.
#[derive(Default, Clone)]
struct Has {
    open: Option<Stateid>,
    access: u32,
    deny: u32,
    lock: Option<Stateid>,
    /// Of each byte: nothing, shared, exclusive.
    bytes: [u8; ENDS],
}

struct World {
    bench: Bench,
    clients: Vec<Client>,
    has: BTreeMap<(usize, usize), Has>,
    handles: Vec<Vec<u8>>,
}

impl World {
    fn new() -> Self {
        let mut bench = Bench::new();
        let mut clients: Vec<Client> =
            (0..CLIENTS).map(|number| Client::new(&mut bench, &format!("client {number}"))).collect();
        let handles = FILES.iter().map(|name| {
            let (stateid, handle) = clients[0].open(&mut bench, name, 3, 0).unwrap();
            assert_eq!(clients[0].status(&mut bench, &[op::putfh(&handle), op::close(stateid)]), Status::OK);
            let everybody = op::setattr(Stateid::ANONYMOUS, &op::Attributes::mode(0o666));
            assert_eq!(clients[0].status(&mut bench, &[op::putfh(&handle), everybody]), Status::OK);
            handle
        });
        let handles = handles.collect();
        Self { bench, clients, has: BTreeMap::new(), handles }
    }

    fn has(&mut self, client: usize, file: usize) -> &mut Has {
        self.has.entry((client, file)).or_default()
    }

    fn others(&self, client: usize, file: usize) -> Vec<Has> {
        let others = self.has.iter().filter(|((owner, at), _)| *owner != client && *at == file);
        others.map(|(_, has)| has.clone()).collect()
    }

    fn act(&mut self, step: &Step) {
        match *step {
            Step::Open { client, file, access, deny } => self.open(client, file, access, deny),
            Step::Close { client, file } => {
                let Some(open) = self.has(client, file).open else { return };
                let close = [op::putfh(&self.handles[file]), op::close(open)];
                assert_eq!(self.clients[client].status(&mut self.bench, &close), Status::OK);
                *self.has(client, file) = Has::default();
            }
            Step::Downgrade { client, file, access, deny } => self.downgrade(client, file, access, deny),
            Step::Lock { client, file, write, offset, length } => {
                self.lock(client, file, write, (offset, length));
            }
            Step::Unlock { client, file, offset, length } => {
                let Some(lock) = self.has(client, file).lock else { return };
                let unlock = [op::putfh(&self.handles[file]), op::locku(lock, offset.into(), length.into())];
                let mut results = self.clients[client].call(&mut self.bench, &unlock);
                results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::LOCKU);
                let stateid = results.stateid();
                let has = self.has(client, file);
                has.lock = Some(stateid);
                has.bytes[range_of(offset, length)].fill(0);
            }
            Step::Reconnect { client } => {
                self.bench.end(self.clients[client].peer);
                self.clients[client].peer = self.bench.connect();
            }
        }
    }

    fn open(&mut self, client: usize, file: usize, access: u32, deny: u32) {
        let open =
            [op::putfh(&self.handles[file]), op::open(b"o", access, deny, op::How::NoCreate, op::Claim::Fh)];
        let mut results = self.clients[client].call(&mut self.bench, &open);
        let conflict = self
            .others(client, file)
            .iter()
            .any(|other| other.access & deny != 0 || other.deny & access != 0);
        if conflict {
            assert_eq!(results.status, Status::SHARE_DENIED);
            return;
        }
        assert_eq!(results.status, Status::OK, "{access} {deny}");
        results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::OPEN);
        let stateid = results.stateid();
        let has = self.has(client, file);
        has.open = Some(stateid);
        has.access |= access;
        has.deny |= deny;
    }

    fn downgrade(&mut self, client: usize, file: usize, access: u32, deny: u32) {
        let Some(open) = self.has(client, file).open else { return };
        let downgrade = [op::putfh(&self.handles[file]), op::downgrade(open, access, deny)];
        let mut results = self.clients[client].call(&mut self.bench, &downgrade);
        if results.status == Status::INVAL {
            return;
        }
        results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::OPEN_DOWNGRADE);
        let stateid = results.stateid();
        let has = self.has(client, file);
        assert_eq!((has.access | access, has.deny | deny), (has.access, has.deny), "no more than before");
        (has.open, has.access, has.deny) = (Some(stateid), access, deny);
    }

    fn lock(&mut self, client: usize, file: usize, write: bool, (offset, length): (u8, u8)) {
        let has = self.has(client, file).clone();
        let Some(open) = has.open else { return };
        let kind = if write { 2 } else { 1 };
        let lock = match has.lock {
            Some(lock) => op::lock(kind, offset.into(), length.into(), lock),
            None => op::lock_new(kind, offset.into(), length.into(), open, b"l"),
        };
        let mut results = self.clients[client].call(&mut self.bench, &[op::putfh(&self.handles[file]), lock]);
        let range = range_of(offset, length);
        if has.access & kind == 0 {
            assert_eq!(results.status, Status::OPENMODE);
            return;
        }
        let taken = |byte: &u8| *byte == 2 || (write && *byte == 1);
        let conflict =
            self.others(client, file).iter().any(|other| other.bytes[range.clone()].iter().any(taken));
        if conflict {
            assert_eq!(results.status, Status::DENIED);
            return;
        }
        results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::LOCK);
        let stateid = results.stateid();
        let has = self.has(client, file);
        has.lock = Some(stateid);
        has.bytes[range].fill(if write { 2 } else { 1 });
    }

    /// What may never be.
    fn check(&mut self) {
        for file in 0..FILES.len() {
            let all: Vec<Has> = (0..CLIENTS).map(|client| self.has(client, file).clone()).collect();
            for (one, other) in (0..CLIENTS).flat_map(|one| (0..one).map(move |other| (one, other))) {
                let (one, other) = (&all[one], &all[other]);
                assert_eq!((one.access & other.deny, one.deny & other.access), (0, 0));
                assert!(
                    one.bytes
                        .iter()
                        .zip(&other.bytes)
                        .all(|(one, other)| *one == 0 || *other == 0 || one + other == 2)
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is asked for: what is granted never conflicts, and what does not conflict is granted.
    #[test]
    fn no_two_conflicting_shares_or_locks(steps in proptest::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in &steps {
            world.act(step);
            world.check();
        }
    }

    /// Requests that come once, twice, late and by other connections are carried out once.
    #[test]
    fn requests_are_carried_out_once(choices in proptest::collection::vec((0..3_usize, 1..4_usize), 1..25)) {
        let mut bench = Bench::new();
        let mut client = Client::new(&mut bench, "one");
        let root = client.handle(&mut bench, &["data"]);
        let peers = [client.peer, bench.connect(), bench.connect()];
        client.cache = true;
        for (number, (peer, times)) in choices.iter().enumerate() {
            let call = client.compound(&[op::putfh(&root), op::create(2, &format!("dir {number}"))]);
            let mut first: Option<Vec<u8>> = None;
            for time in 0..*times {
                let answer = bench.call(peers[(peer + time) % 3], &call, client.caller);
                prop_assert_eq!(answer.status, Status::OK);
                let body = answer.raw()[4..].to_vec();
                prop_assert_eq!(&first.get_or_insert_with(|| body.clone()), &&mut body.clone());
            }
            prop_assert_eq!(bench.requests["make"], number + 1);
        }
    }
}
