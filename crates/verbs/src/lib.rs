//! The contract of RDMA: what a queue pair does, whoever provides it.
//!
//! A consumer (iSER, NVMe/RDMA) posts [`WorkRequest`]s to a [`QueuePair`] and polls [`WorkCompletion`]s. It sends and receives messages, writes to and reads
//! from memory that its peer has registered, and registers memory of its own. A provider carries that out: software iWARP over a byte stream (RFC 5040),
//! software RoCEv2 over datagrams, an adapter by its driver. The words are those of RFC 5040 and of the InfiniBand specification, where they agree.
//!
//! Ownership is the permission here too. Memory that is posted or registered belongs to the queue pair until a completion gives it back, and *how* it is
//! registered says what the peer may do: a [`Buf`](buf::Buf), unique and writable, may be written to; a [`BufList`](buf::BufList), shared and immutable, may
//! be read ([`RegionMemory`]). No region is both, so no peer can change memory that is being sent.
//!
//! `docs/verbs-contract.md` has the promises; [`contract::check`] tests them on any provider. A [`RegionTable`] and a [`ReceiveQueue`] are the parts
//! that every software provider needs: steering tags, bounds and rights; receives in their order.
//!
//! Architecture invariant: nothing here knows a protocol, a transport or an operating system.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod consumer;
pub mod contract;
mod queue_pair;
mod receive_queue;
mod region;
mod setup;
mod work;

pub use consumer::Consumer;
pub use queue_pair::{EndReason, QueueLimits, QueuePair, QueuePairLimits, QueuePairState};
pub use receive_queue::{ReceivePlace, ReceiveQueue};
pub use region::{RegionError, RegionMemory, RegionTable, RemoteRegion, STag, TableFull};
pub use setup::{ConnectedQueuePair, ManagedQueuePair, PrivateData, SetupAnswer, SetupEvent};
pub use work::{PostError, Refusal, WorkCompletion, WorkDone, WorkError, WorkId, WorkMemory, WorkRequest};
