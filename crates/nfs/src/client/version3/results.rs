//! The answer to one call of version 3, read while its bytes arrive. The data of a READ goes straight into the memory that the call has named for it.

use buf::Buf;
use rpc::Body;
use rpc::xdr::{Decoder, Error, Reader, Step};

use crate::client::data::{DataAnswer, ReadAnswer, WriteAnswer};
use crate::v3::Status;
use crate::v3::procedure::Number;
use crate::v3::results::{Success, decode};

/// What a call is about: whoever takes its answer finds there where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// A step of opening.
    Step,
    /// A sign of life.
    Ping,
    /// How large the file is.
    Look,
    /// A part of a request, by its place among the transfers.
    Part(usize),
}

/// An answer.
#[derive(Debug)]
pub(super) struct Results {
    /// What was called, for whoever takes the answer.
    pub(super) subject: Subject,
    number: Number,
    /// Everything but data, once it is read.
    pub(super) outcome: Option<Result<Success, Status>>,
    pub(super) data: DataAnswer,
}

impl Results {
    /// The decoder of the answer to a procedure.
    pub(super) fn new(subject: Subject, number: Number) -> Self {
        Self { subject, number, outcome: None, data: DataAnswer::default() }
    }

    /// What was called.
    pub(super) fn number(&self) -> Number {
        self.number
    }

    /// Keeps what the volume's requests are answered with where they look for it.
    fn keep(&mut self, success: &Success) -> Result<Step, Error> {
        match *success {
            Success::Read { count, at_end, length } => {
                if wire::index(count.into()) != length {
                    return Err(Error::TooLong { length: count, maximum: length });
                }
                self.data.reading = Some(ReadAnswer { at_end, length });
                return Ok(Step::Payload(length));
            }
            Success::Written { count, committed, verifier } => {
                self.data.written = Some(WriteAnswer { count, committed });
                self.data.verifier = Some(verifier);
            }
            Success::Committed(verifier) => self.data.verifier = Some(verifier),
            _ => {}
        }
        Ok(Step::End)
    }
}

impl Decoder for Results {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        // NULL has none; and behind data nothing follows.
        if self.number == Number::NULL || self.outcome.is_some() {
            return Ok(Step::End);
        }
        let outcome = decode(self.number, reader)?;
        let step = match &outcome {
            Ok(success) => self.keep(success)?,
            Err(_) if self.number == Number::READ => Step::NoPayload,
            Err(_) => Step::End,
        };
        self.outcome = Some(outcome);
        Ok(step)
    }
}

impl Body for Results {
    fn payload(&mut self, piece: Buf) {
        self.data.add_payload(piece);
    }
}
