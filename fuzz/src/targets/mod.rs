//! The targets, by crate.

pub mod config;
pub mod iscsi;
pub mod iscsi_pdu;
pub mod iscsi_peer;
pub mod iscsi_text;
pub mod iser;
pub mod iwarp;
pub mod names;
pub mod nbd;
pub mod nfs;
pub mod nfs_client;
pub mod nvme;
pub mod nvme_pdu;
pub mod nvme_peer;
pub mod nvme_rdma;
pub mod nvme_structures;
pub mod roce;
pub mod roce_endpoint;
pub mod rpc;
pub mod scsi;
pub mod virtio;

use ::volume::{Completion, Operation, Outcome, Request};

/// Answers a request at once, with zeros for a read.
fn answer(request: Request) -> Completion {
    let outcome = match request.operation {
        Operation::Read { mut into, .. } => {
            into.fill(0);
            Outcome::Data(into.freeze().into())
        }
        _ => Outcome::Done,
    };
    Completion { tag: request.tag, result: Ok(outcome) }
}

/// The most chunks that one input is cut into.
const MOST_CHUNKS: usize = 64;

/// Cuts an input into chunks of a size that its first byte picks, so that every boundary is met.
fn chunks(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (size, rest) = match bytes.split_first() {
        Some((&0, rest)) => (rest.len().max(1), rest),
        Some((&size, rest)) => (usize::from(size).max(rest.len() / MOST_CHUNKS).max(1), rest),
        None => (1, bytes),
    };
    rest.chunks(size)
}
