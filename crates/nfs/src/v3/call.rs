//! A call while its bytes arrive: its arguments, its data, and what tells it from another.

use buf::Buf;
use rpc::xdr::{Decoder, Error, Reader, Step};

use super::procedure::{Decoded, Number, Procedure};
use crate::v4::Principal;

/// A call of version 3.
#[derive(Debug)]
pub struct Call {
    number: Number,
    xid: u32,
    principal: Principal,
    procedure: Option<Procedure>,
    bytes: usize,
    payload: usize,
    sum: u32,
}

impl Call {
    /// Nothing is read yet of a call with this number of RPC's, by this caller.
    pub fn new(number: Number, xid: u32, principal: Principal) -> Self {
        Self { number, xid, principal, procedure: None, bytes: 0, payload: 0, sum: 0 }
    }

    /// Which procedure.
    pub fn number(&self) -> Number {
        self.number
    }

    /// RPC's number of the call.
    pub fn xid(&self) -> u32 {
        self.xid
    }

    /// Who calls.
    pub fn principal(&self) -> Principal {
        self.principal
    }

    /// CRC-32C of the arguments without data.
    pub fn sum(&self) -> u32 {
        self.sum
    }

    /// Bytes of the arguments.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// True if nothing was read.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes of them that lie in memory of the pool: data to be written.
    pub fn payload_len(&self) -> usize {
        self.payload
    }

    /// The procedure, once it is read.
    pub fn into_procedure(self) -> Option<Procedure> {
        self.procedure
    }

    /// A piece of a WRITE's data.
    pub fn payload(&mut self, piece: Buf) {
        self.bytes = self.bytes.saturating_add(piece.len());
        self.payload = self.payload.saturating_add(piece.len());
        if let Some(Procedure::Write(write)) = &mut self.procedure {
            write.data.push(piece);
        }
    }
}

impl Decoder for Call {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        if self.procedure.is_some() {
            return Ok(Step::End);
        }
        let before = reader.rest();
        let Decoded { procedure, step } = Procedure::decode(self.number, reader)?;
        let read = before.len().saturating_sub(reader.remaining());
        self.sum = wire::crc32c(before.get(..read).unwrap_or_default());
        self.bytes = self.bytes.saturating_add(read);
        self.procedure = Some(procedure);
        Ok(step)
    }
}
