//! Makes a part of a volume read as zeros, or releases its space.

use std::sync::Arc;
use std::task::Waker;

use buf::SharedBuf;
use volume::{Features, OpenError, Volume};

use crate::control::{Control, Effort};
use crate::error::DataErrorCause;
use crate::limits::{CHUNK, HOLE};
use crate::walk::{Answer, Ask, Cut, Feed, Map, Piece, Side, Span, Step, Visit, Walk, Walked};
use crate::zeros::zeros;

/// How to zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Means {
    /// Write zeroes where the volume can (its space may be released), otherwise write zeros as data.
    #[default]
    Zero,
    /// Only release the space. On a volume that offers discard, it then reads as zeros.
    Discard,
}

/// What to zero.
#[derive(Debug, Clone, Copy, Default)]
pub struct ZeroPlan {
    /// How.
    pub means: Means,
    /// The first byte; a whole number of blocks.
    pub offset: u64,
    /// How many bytes, a whole number of blocks; to the volume's end if not given.
    pub length: Option<u64>,
    /// How much goes on side by side.
    pub effort: Effort,
}

/// What came of zeroing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZeroResult {
    /// Bytes from the offset on that are zero now.
    pub bytes: u64,
    /// The zeros had to be sent as data: the volume has no better way.
    pub as_data: bool,
    /// It was stopped before its end.
    pub stopped: bool,
}

/// What is done with a chunk.
pub(crate) struct Zero {
    by: By,
    zeros: SharedBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Zero,
    Discard,
    Data,
}

impl Zero {
    /// Zeroes a part of a volume of this name.
    pub(crate) fn on(
        (volume, name): (&Arc<dyn Volume>, String),
        (plan, control): (ZeroPlan, Control),
        waker: &Waker,
    ) -> Result<Walk<Self>, OpenError> {
        let side = Side::open(name, volume, plan.effort.connections, waker)?;
        let by = means(plan.means, side.features)?;
        let to = end(&plan, &side)?;
        let whole = |bytes: u64| (bytes / side.block).max(1) * side.block;
        let chunk = if by == By::Data { CHUNK.min(side.max_transfer) } else { HOLE.min(side.max_discard) };
        let cut = Cut {
            from: plan.offset,
            to,
            chunk: whole(chunk),
            hole: whole(chunk),
            unit: side.block,
            border: 0,
            sparse: false,
        };
        let map = Map::new(&side, cut);
        let visit = Self { by, zeros: zeros() };
        Ok(Walk::new(visit, (vec![side], Feed::Volume(map)), (plan.effort.chunks, control), waker))
    }
}

fn means(means: Means, features: Features) -> Result<By, OpenError> {
    match means {
        _ if features.contains(Features::READ_ONLY) => Err(OpenError::new("it is read-only")),
        Means::Zero if features.contains(Features::WRITE_ZEROES) => Ok(By::Zero),
        Means::Zero => Ok(By::Data),
        Means::Discard if features.contains(Features::DISCARD) => Ok(By::Discard),
        Means::Discard => Err(OpenError::new(
            "it does not promise that discarded blocks read as zeros; zero it without discarding",
        )),
    }
}

/// The byte after the last, if the plan fits the volume.
fn end(plan: &ZeroPlan, side: &Side) -> Result<u64, OpenError> {
    let to = plan.length.map_or(Some(side.bytes), |length| plan.offset.checked_add(length));
    let Some(to) = to.filter(|to| *to <= side.bytes && plan.offset <= *to) else {
        return Err(OpenError::new(format!(
            "it has {} bytes; the bytes from {} on that were to be zeroed do not lie within it",
            side.bytes, plan.offset
        )));
    };
    if !plan.offset.is_multiple_of(side.block) || !to.is_multiple_of(side.block) {
        return Err(OpenError::new(format!(
            "its blocks have {} bytes: offset and length must be multiples of that",
            side.block
        )));
    }
    Ok(to)
}

impl Visit for Zero {
    const JOB: &'static str = "zeroing";
    type Note = ();
    type Output = ZeroResult;

    fn flushes(&self) -> Option<usize> {
        Some(0)
    }

    fn begin(&mut self, piece: Piece) -> Result<Step<()>, DataErrorCause> {
        let ask = match self.by {
            By::Zero => Ask::Zero,
            By::Discard => Ask::Discard,
            By::Data => {
                let len = usize::try_from(piece.span.len).unwrap_or(usize::MAX).min(self.zeros.len());
                Ask::Write(self.zeros.slice(..len))
            }
        };
        Ok(Step::Ask(0, ask, ()))
    }

    fn answered(&mut self, _span: Span, (): (), _answer: Answer) -> Result<Step<()>, DataErrorCause> {
        Ok(Step::Done)
    }

    fn finish(&mut self, walked: Walked) -> ZeroResult {
        ZeroResult { bytes: walked.bytes, as_data: self.by == By::Data, stopped: walked.stopped }
    }
}
