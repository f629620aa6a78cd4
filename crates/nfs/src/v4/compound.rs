//! `COMPOUND4args`: read operation by operation while the bytes arrive (RFC 8881 §16.2).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use buf::Buf;
use rpc::xdr::{Decoder, Error, Reader, Step};
use wire::Crc32c;

use super::Principal;
use super::operation::{Decoded, OpNumber, Operation};
use crate::limits::{FINGERPRINT, OPERATIONS, TAG};
use crate::state::slot::Fingerprint;

/// The arguments of a COMPOUND.
#[derive(Debug)]
pub struct Compound {
    principal: Principal,
    header: Option<Header>,
    operations: VecDeque<Operation>,
    sum: Crc32c,
    bytes: usize,
    payload: usize,
    /// The operation that is being read: its arguments, or the data of a WRITE.
    reading: Option<OpNumber>,
    /// The last operation is a WRITE whose data, or what fills it up, has not come whole.
    unfilled: bool,
}

/// What stands before the operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The tag, which the answer repeats.
    pub tag: Vec<u8>,
    /// The minor version.
    pub minor: u32,
    /// How many operations there are.
    pub count: u32,
}

impl Compound {
    /// Nothing is read yet.
    pub fn new(principal: Principal) -> Self {
        Self {
            principal,
            header: None,
            operations: VecDeque::new(),
            sum: Crc32c::new(),
            bytes: 0,
            payload: 0,
            reading: None,
            unfilled: false,
        }
    }

    /// A piece of a WRITE's data.
    pub fn payload(&mut self, piece: Buf) {
        self.bytes = self.bytes.saturating_add(piece.len());
        self.payload = self.payload.saturating_add(piece.len());
        if let Some(Operation::Write(write)) = self.operations.back_mut() {
            write.data.push(piece);
        }
    }

    /// The bytes ended too early, or are no arguments: what was read before is carried out (RFC 8881 §16.2.3), if there is anything.
    pub fn give_up(&mut self) {
        if let Some(number) = self.reading.take() {
            if core::mem::take(&mut self.unfilled) {
                self.operations.pop_back();
            }
            self.operations.push_back(Operation::Undecodable(number));
        }
    }

    /// What stands before the operations, once it is read.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// The operations in order.
    pub fn operations(&mut self) -> &mut VecDeque<Operation> {
        &mut self.operations
    }

    /// Bytes of the request, without what RPC puts around it.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Bytes of it that lie in memory of the pool: data to be written.
    pub fn payload_len(&self) -> usize {
        self.payload
    }

    /// True if nothing was read.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Who sends it.
    pub fn principal(&self) -> Principal {
        self.principal
    }

    /// What tells it from another in the same slot.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint { len: self.bytes, sum: self.sum.finish(), principal: self.principal }
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        let Some(header) = &self.header else {
            let tag = reader.opaque(TAG)?.to_vec();
            let header = Header { tag, minor: reader.u32()?, count: reader.u32()? };
            let step =
                if header.count == 0 || !matches!(header.minor, 1 | 2) { Step::End } else { Step::Next };
            self.header = Some(header);
            return Ok(step);
        };
        let (minor, count) = (header.minor, header.count.min(OPERATIONS));
        let number = OpNumber(reader.u32()?);
        self.reading = Some(number);
        if !number.is_of(minor) {
            self.operations.push_back(Operation::Illegal);
            return Ok(Step::End);
        }
        let Decoded { operation, then } = Operation::decode(number, reader, self.principal)?;
        let last = matches!(operation, Operation::NotServed(_)) || self.operations.len() >= last_index(count);
        self.operations.push_back(operation);
        Ok(if last && then == Step::Next { Step::End } else { then })
    }
}

fn last_index(count: u32) -> usize {
    wire::index(count.into()).saturating_sub(1)
}

impl Decoder for Compound {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        // Whoever comes back has all of a payload.
        (self.reading, self.unfilled) = (None, false);
        // A WRITE that was the last, whose data has come.
        let all = self
            .header
            .as_ref()
            .is_some_and(|header| self.operations.len() > last_index(header.count.min(OPERATIONS)));
        if all {
            return Ok(Step::End);
        }
        let before = reader.rest();
        let result = self.read(reader);
        match result {
            Ok(step) => {
                self.unfilled = matches!(step, Step::Payload(_));
                if !self.unfilled {
                    self.reading = None;
                }
                let read = before.len().saturating_sub(reader.remaining());
                if self.bytes < FINGERPRINT {
                    self.sum.update(before.get(..read).unwrap_or_default());
                }
                self.bytes = self.bytes.saturating_add(read);
            }
            Err(Error::Truncated { .. }) => {}
            Err(_) => self.give_up(),
        }
        result
    }
}
