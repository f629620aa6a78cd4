//! What a protocol emits when it wants a request carried out.

use crate::{Epoch, Request, VolumeId};

/// A request on its way to a queue. Whatever else than a volume is served in a volume's place has requests `R` of its own.
#[derive(Debug)]
pub struct Submission<R = Request> {
    /// To what.
    pub volume: VolumeId,
    /// What it was judged by: a queue takes no request that was judged by another epoch than it has by then.
    pub epoch: Epoch,
    /// What is to be done.
    pub request: R,
}
