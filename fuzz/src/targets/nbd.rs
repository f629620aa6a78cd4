//! NBD: whatever a client may send to the server, before and after the negotiation.

use std::sync::Arc;

use attach::nbd::{Action, Connection, Export, Input};
use buf::Pool;
use protocol::pair::Half;
use protocol::{Connection as _, Ended, Instant};
use volume::{Allocation, Completion, Extent, Features, Geometry, Limits, Operation, Outcome};

use super::{answer, chunks};

/// What a client says that goes straight to the transmission, with structured replies and `base:allocation`.
pub const OPENING: &[u8] = b"\0\0\0\x03\
    IHAVEOPT\0\0\0\x08\0\0\0\0\
    IHAVEOPT\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation\
    IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0";

fn connection() -> Option<Half<Connection>> {
    let export = Export {
        description: String::new(),
        geometry: Geometry::of(1 << 20, 512).ok()?,
        limits: Limits { max_transfer: 4096, max_discard: 8, ..Limits::default() },
        features: Features::DISCARD | Features::WRITE_ZEROES | Features::ALLOCATION,
        read_only: false,
    };
    Some(Half::new(Connection::new(Arc::new(export), &Pool::new(64 << 20), Instant::ZERO)))
}

/// Every other block is a hole.
fn run(extent: Extent) -> Outcome {
    let extent = Extent::new(extent.start, extent.blocks.min(1));
    Outcome::Allocation(Allocation { extent, mapped: extent.start.is_multiple_of(2) })
}

fn serve(half: &mut Half<Connection>) {
    while let Some(Action::Submit(request)) = half.connection.poll_action() {
        let completion = match request.operation {
            Operation::QueryAllocation { extent } => Completion { tag: request.tag, result: Ok(run(extent)) },
            _ => answer(request),
        };
        half.connection.handle_input(Instant::ZERO, Input::Completion(completion));
    }
}

fn feed(half: &mut Half<Connection>, bytes: &[u8]) {
    for chunk in chunks(bytes) {
        half.receive(Instant::ZERO, chunk);
        serve(half);
        half.transmit(Instant::ZERO);
    }
    half.end(Instant::ZERO, Ended::ByPeer);
    serve(half);
}

/// A client from its first byte.
pub fn negotiation(bytes: &[u8]) {
    let Some(mut half) = connection() else { return };
    feed(&mut half, bytes);
}

/// A client that has negotiated.
pub fn transmission(bytes: &[u8]) {
    let Some(mut half) = connection() else { return };
    half.receive(Instant::ZERO, OPENING);
    half.transmit(Instant::ZERO);
    feed(&mut half, bytes);
}
