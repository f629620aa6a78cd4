//! What a volume's requests ask of a server, and what it answers, whatever version carries them: READ, WRITE, COMMIT, DEALLOCATE (RFC 1813 §3.3, RFC 8881 §18, RFC 7862 §15.4).

use buf::{Buf, BufList};

use crate::v4::Verifier;

/// What is to be done next for a request.
#[derive(Debug)]
pub(super) enum Ask {
    /// READ, into memory that goes with the call.
    Read { offset: u64, count: u32 },
    /// WRITE, of memory that is not copied.
    Write { offset: u64, stable: Stable, data: BufList },
    /// COMMIT of everything.
    Commit,
    /// DEALLOCATE; only where the server has it.
    Deallocate { offset: u64, length: u64 },
}

/// How durable a WRITE is to be (RFC 1813 §3.3.7, RFC 8881 §18.32: `stable_how`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stable {
    /// UNSTABLE: a COMMIT follows.
    Unstable,
    /// FILE_SYNC.
    FileSync,
}

impl Stable {
    /// The number on the wire.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Unstable => 0,
            Self::FileSync => 2,
        }
    }
}

/// What WRITE answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteAnswer {
    /// Bytes that were written.
    pub(super) count: u32,
    /// `stable_how`: how durable they are at least.
    pub(super) committed: u32,
}

/// What READ answers beside its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadAnswer {
    pub(super) at_end: bool,
    pub(super) length: usize,
}

/// What a call for a request was answered with.
#[derive(Debug, Default)]
pub(super) struct DataAnswer {
    pub(super) reading: Option<ReadAnswer>,
    pub(super) payload: Option<Buf>,
    pub(super) written: Option<WriteAnswer>,
    /// Of WRITE or COMMIT.
    pub(super) verifier: Option<Verifier>,
}

impl DataAnswer {
    /// Bytes that were read or written.
    pub(super) fn moved(&self) -> u64 {
        let written = self.written.map_or(0, |written| written.count.into());
        self.reading.map_or(written, |reading| wire::saturate(reading.length))
    }

    /// Takes a piece of a READ's data.
    pub(super) fn add_payload(&mut self, piece: Buf) {
        match &mut self.payload {
            None => self.payload = Some(piece),
            // RDMA may bring it in pieces; the first has room for all, if it is the memory that was named.
            Some(first) => append(first, &piece),
        }
    }
}

/// Adds a piece to the end of the first.
fn append(first: &mut Buf, piece: &Buf) {
    let (start, end) = (first.len(), first.len().saturating_add(piece.len()));
    if end <= first.capacity() {
        first.set_len(end);
        if let Some(room) = first.get_mut(start..end) {
            room.copy_from_slice(piece);
        }
    }
}
