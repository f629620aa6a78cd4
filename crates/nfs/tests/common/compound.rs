//! A COMPOUND of any bytes, and the answer to it.

use nfs::v4::operation::OpNumber;
use nfs::v4::{Stateid, StateidOther, Status};
use rpc::message::AuthSysToSend;
use rpc::xdr::{Reader, Writer};

/// Who calls.
#[derive(Clone, Copy)]
pub enum Caller {
    Nobody,
    User(u32),
}

/// A COMPOUND that is being written.
pub struct CompoundCall {
    pub tag: Vec<u8>,
    pub minor: u32,
    pub count: u32,
    pub operations: Vec<u8>,
}

impl CompoundCall {
    pub fn new() -> Self {
        Self { tag: b"tag".to_vec(), minor: 2, count: 0, operations: Vec::new() }
    }

    pub fn of(operations: &[Op]) -> Self {
        let mut call = Self::new();
        for Op(write) in operations {
            call.add(write);
        }
        call
    }

    pub fn add(&mut self, write: &dyn Fn(&mut Writer)) {
        let mut out = Writer::new();
        write(&mut out);
        self.operations.extend_from_slice(out.finish().bytes());
        self.count += 1;
    }

    /// The record, without its mark.
    pub fn record(&self, xid: u32, caller: Caller) -> Vec<u8> {
        let mut out = Writer::new();
        for word in [xid, 0, 2, 100_003, 4, 1] {
            out.u32(word);
        }
        match caller {
            Caller::Nobody => {
                out.u32(0);
                out.u32(0);
            }
            Caller::User(uid) => out.put(&AuthSysToSend::new("host", uid, uid, &[]).as_auth()),
        }
        out.u32(0);
        out.u32(0);
        out.opaque(&self.tag);
        out.u32(self.minor);
        out.u32(self.count);
        let mut bytes = out.finish().bytes().to_vec();
        bytes.extend_from_slice(&self.operations);
        bytes
    }
}

/// One operation, as a function that writes it.
pub struct Op(pub Box<dyn Fn(&mut Writer)>);

/// An answer, read from the front.
pub struct Results {
    bytes: Vec<u8>,
    at: usize,
    pub status: Status,
    pub count: u32,
}

impl Results {
    pub fn new(bytes: Vec<u8>) -> Self {
        let mut reader = Reader::new(&bytes[4..]);
        assert_eq!(reader.u32(), Ok(1), "a reply");
        assert_eq!(reader.u32(), Ok(0), "accepted");
        reader.u32().unwrap();
        reader.opaque(400).unwrap();
        assert_eq!(reader.u32(), Ok(0), "success");
        let status = Status(reader.u32().unwrap());
        assert_eq!(reader.opaque(1024).unwrap(), b"tag");
        let count = reader.u32().unwrap();
        let at = bytes.len() - reader.remaining();
        Self { bytes, at, status, count }
    }

    /// Reads with a function.
    pub fn read<T>(&mut self, read: impl FnOnce(&mut Reader<'_>) -> Result<T, rpc::xdr::Error>) -> T {
        let mut reader = Reader::new(&self.bytes[self.at..]);
        let value = read(&mut reader).unwrap();
        self.at = self.bytes.len() - reader.remaining();
        value
    }

    pub fn get<T: rpc::xdr::Decode>(&mut self) -> T {
        self.read(|reader| T::decode(reader))
    }

    /// The next result, which is of this operation: its status.
    pub fn next(&mut self, number: OpNumber) -> Status {
        assert_eq!(OpNumber(self.get::<u32>()), number);
        Status(self.get::<u32>())
    }

    /// The next result, which is a success without a body or with one that is read next.
    pub fn ok(&mut self, number: OpNumber) -> &mut Self {
        assert_eq!(self.next(number), Status::OK, "{}", number.name());
        self
    }

    pub fn sequence(&mut self) -> &mut Self {
        self.ok(OpNumber::SEQUENCE);
        self.get::<[u8; 16]>();
        for _ in 0..5 {
            self.get::<u32>();
        }
        self
    }

    pub fn stateid(&mut self) -> Stateid {
        let seqid = self.get::<u32>();
        Stateid { seqid, other: StateidOther(self.get()) }
    }

    pub fn opaque(&mut self) -> Vec<u8> {
        self.read(|reader| reader.opaque(1 << 21).map(<[u8]>::to_vec))
    }

    pub fn end(&self) {
        assert_eq!(self.at, self.bytes.len(), "bytes behind the last result");
    }

    pub fn raw(&self) -> &[u8] {
        &self.bytes
    }
}
