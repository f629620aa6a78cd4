//! Makes a part of a volume read as zeros, or releases its space.

use volume::{Features, OpenError};

use crate::control::Effort;
use crate::error::DataErrorCause;
use crate::job::JobContext;
use crate::limits::{CHUNK, HOLE};
use crate::walk::{
    Answer, Ask, CopyEnd, Cut, Feed, Map, NamedVolume, Piece, Span, Step, Visit, Walk, WalkPlan, Walked,
};
use crate::zeros::Zeros;

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
    zeros: Zeros,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Zero,
    Discard,
    Data,
}

impl Zero {
    /// Zeroes a part of a volume.
    pub(crate) fn on(
        volume: NamedVolume<'_>,
        plan: ZeroPlan,
        context: JobContext<'_>,
    ) -> Result<Walk<Self>, OpenError> {
        let target = CopyEnd::open(volume, plan.effort.connections, context.waker)?;
        let by = means(plan.means, target.features)?;
        let to = end(&plan, &target)?;
        let whole = |bytes: u64| (bytes / target.block).max(1) * target.block;
        let chunk =
            if by == By::Data { CHUNK.min(target.max_transfer) } else { HOLE.min(target.max_discard) };
        let cut = Cut {
            from: plan.offset,
            to,
            chunk: whole(chunk),
            hole: whole(chunk),
            unit: target.block,
            border: 0,
            sparse: false,
        };
        let map = Map::new(&target, cut);
        let visit = Self { by, zeros: Zeros::new() };
        let route = WalkPlan { ends: vec![target], feed: Feed::Volume(map), window: plan.effort.chunks };
        Ok(Walk::new(visit, route, context))
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
fn end(plan: &ZeroPlan, target: &CopyEnd) -> Result<u64, OpenError> {
    let to = plan.length.map_or(Some(target.bytes), |length| plan.offset.checked_add(length));
    let Some(to) = to.filter(|to| *to <= target.bytes && plan.offset <= *to) else {
        return Err(OpenError::new(format!(
            "it has {} bytes; the bytes from {} on that were to be zeroed do not lie within it",
            target.bytes, plan.offset
        )));
    };
    if !plan.offset.is_multiple_of(target.block) || !to.is_multiple_of(target.block) {
        return Err(OpenError::new(format!(
            "its blocks have {} bytes: offset and length must be multiples of that",
            target.block
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
            By::Data => Ask::Write(self.zeros.first(piece.span.len)),
        };
        Ok(Step::Ask(ask.to(0), ()))
    }

    fn answered(&mut self, _span: Span, (): (), _answer: Answer) -> Result<Step<()>, DataErrorCause> {
        Ok(Step::Done)
    }

    fn finish(&mut self, walked: Walked) -> ZeroResult {
        ZeroResult { bytes: walked.bytes, as_data: self.by == By::Data, stopped: walked.stopped }
    }
}
