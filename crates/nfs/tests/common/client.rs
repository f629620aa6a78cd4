//! A client of version 4, as far as a test needs one: a client ID, a session, and one slot.

use nfs::v4::operation::OpNumber;
use nfs::v4::{ClientId, SessionId, Stateid, Status};

use super::compound::{Caller, CompoundCall, Op, Results};
use super::{Bench, op};

/// A client with a session, and one slot that it uses.
#[derive(Clone)]
pub struct Client {
    pub id: ClientId,
    pub session: SessionId,
    pub slot: u32,
    pub sequence: u32,
    pub cache: bool,
    pub caller: Caller,
    pub peer: usize,
    pub minor: u32,
}

impl Client {
    /// Establishes a client and a session, and says that it reclaims nothing.
    pub fn new(bench: &mut Bench, name: &str) -> Self {
        let peer = bench.connect();
        Self::on(bench, peer, name)
    }

    pub fn on(bench: &mut Bench, peer: usize, name: &str) -> Self {
        let mut client = Self::establish(bench, peer, name, 1);
        let mut results = client.call(bench, &[op::reclaim_complete(false)]);
        results.sequence().ok(OpNumber::RECLAIM_COMPLETE).end();
        client
    }

    pub fn establish(bench: &mut Bench, peer: usize, name: &str, verifier: u8) -> Self {
        let caller = Caller::User(1000);
        let call = CompoundCall::of(&[op::exchange_id(name.as_bytes(), verifier, 0)]);
        let mut results = bench.call(peer, &call, caller);
        results.ok(OpNumber::EXCHANGE_ID);
        let (id, sequence) = (ClientId(results.get::<u64>()), results.get::<u32>());
        let call = CompoundCall::of(&[op::create_session(id, sequence, 8)]);
        let mut results = bench.call(peer, &call, caller);
        results.ok(OpNumber::CREATE_SESSION);
        let session = SessionId(results.get());
        Self { id, session, slot: 0, sequence: 0, cache: false, caller, peer, minor: 2 }
    }

    /// A COMPOUND behind the next SEQUENCE.
    pub fn compound(&mut self, operations: &[Op]) -> CompoundCall {
        self.sequence += 1;
        self.compound_again(operations)
    }

    /// The same with the last sequence ID.
    pub fn compound_again(&self, operations: &[Op]) -> CompoundCall {
        let mut call = CompoundCall::new();
        call.minor = self.minor;
        let Op(sequence) = op::sequence(self.session, self.sequence, self.slot, 7, self.cache);
        call.add(&sequence);
        for Op(write) in operations {
            call.add(write);
        }
        call
    }

    pub fn call(&mut self, bench: &mut Bench, operations: &[Op]) -> Results {
        let call = self.compound(operations);
        bench.call(self.peer, &call, self.caller)
    }

    /// Calls, and says only what it came to.
    pub fn status(&mut self, bench: &mut Bench, operations: &[Op]) -> Status {
        self.call(bench, operations).status
    }

    /// The handle of a path below the root.
    pub fn handle(&mut self, bench: &mut Bench, path: &[&str]) -> Vec<u8> {
        let mut operations = vec![op::putrootfh()];
        operations.extend(path.iter().map(|name| op::lookup(name)));
        operations.push(op::getfh());
        let mut results = self.call(bench, &operations);
        assert_eq!(results.status, Status::OK, "{path:?}");
        results.sequence().ok(OpNumber::PUTROOTFH);
        for _ in path {
            results.ok(OpNumber::LOOKUP);
        }
        results.ok(OpNumber::GETFH).opaque()
    }

    /// Opens a file in `/data`, made if it is not there; its stateid and handle.
    pub fn open(
        &mut self,
        bench: &mut Bench,
        name: &str,
        access: u32,
        deny: u32,
    ) -> Result<(Stateid, Vec<u8>), Status> {
        let root = self.handle(bench, &["data"]);
        let mut results = self.call(
            bench,
            &[
                op::putfh(&root),
                op::open(b"owner", access, deny, op::How::Unchecked(None), op::Claim::Null(name)),
                op::getfh(),
            ],
        );
        if results.status != Status::OK {
            return Err(results.status);
        }
        results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::OPEN);
        let stateid = results.stateid();
        results.read(|reader| {
            reader.bool()?;
            reader.u64()?;
            reader.u64()?;
            reader.u32()?;
            reader.array::<u32>(8)?;
            reader.u32()
        });
        Ok((stateid, results.ok(OpNumber::GETFH).opaque()))
    }
}
