//! A call to the peer, and the name of a call of the peer.

use alloc::sync::Arc;

use buf::Buf;
use smallvec::SmallVec;

use crate::message::{AuthSysToSend, OpaqueAuth, Procedure};
use crate::xdr::{Stream, padding};

/// Who calls.
#[derive(Debug, Clone, Default)]
pub enum Credential {
    /// AUTH_NONE.
    #[default]
    None,
    /// AUTH_SYS.
    Sys(Arc<AuthSysToSend>),
}

impl Credential {
    /// The credential as it is sent.
    pub fn as_auth(&self) -> OpaqueAuth<'_> {
        match self {
            Self::None => OpaqueAuth::NONE,
            Self::Sys(sys) => sys.as_auth(),
        }
    }
}

/// Memory for the payloads of results, in the order of the operations that give them.
#[derive(Debug, Default)]
pub struct Memory(SmallVec<[Buf; 1]>);

impl Memory {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the memory for the next payload, which may be shorter.
    pub fn push(&mut self, memory: Buf) {
        self.0.push(memory);
    }

    /// Takes the memory for the next payload.
    pub fn pop(&mut self) -> Option<Buf> {
        if self.0.is_empty() { None } else { Some(self.0.remove(0)) }
    }

    /// Puts back what was taken.
    pub(crate) fn put_back(&mut self, memory: Buf) {
        self.0.insert(0, memory);
    }

    /// Puts back, in front, what was passed over.
    pub(crate) fn put_back_all(&mut self, mut passed: Self) {
        core::mem::swap(self, &mut passed);
        self.append(passed);
    }

    /// Adds all of another's at the end.
    pub(crate) fn append(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Bytes that payloads take which fill it, with their padding.
    pub(crate) fn bytes(&self) -> usize {
        let padded = self.0.iter().map(|memory| memory.len().saturating_add(padding(memory.len())));
        padded.fold(0, usize::saturating_add)
    }

    /// How many payloads there may be.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Buf> for Memory {
    fn from(memory: Buf) -> Self {
        Self(SmallVec::from_buf([memory]))
    }
}

/// Names a call of the peer until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(crate) u32);

/// A call to the peer.
#[derive(Debug)]
pub struct Call<R> {
    /// What is called.
    pub procedure: Procedure,
    /// Who calls.
    pub credential: Credential,
    /// The arguments, written with [`Channel::writer`](crate::Channel::writer).
    pub arguments: Stream,
    /// What reads the results.
    pub results: R,
    /// Where their payloads go.
    pub memory: Memory,
    /// Bytes that the results have at most, payloads not counted: over RDMA, what does not fit into a message needs memory that is named with the call.
    pub results_limit: usize,
}
