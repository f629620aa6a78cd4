//! Copies a volume or a stream onto a volume, many chunks at a time, and can read it back to compare.
//!
//! Holes of the source are not read, and what is zero is not sent as data, unless that is what the caller wants.

use std::io::Read;

use buf::SharedBuf;
use volume::{Features, OpenError};

use crate::control::Effort;
use crate::error::DataErrorCause;
use crate::job::JobContext;
use crate::limits::{CHUNK, HOLE};
use crate::stream::Inlet;
use crate::walk::{
    Answer, Ask, Content, CopyEnd, Cut, Feed, Map, NamedVolume, Piece, Span, Step, Visit, Walk, WalkPlan,
    Walked,
};
use crate::zeros::{Zeros, is_zero};

/// Whether the target is read back and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// No.
    No,
    /// Each chunk, after it was written.
    Yes,
}

/// How to copy.
#[derive(Debug, Clone, Copy)]
pub struct CopyPlan {
    /// Whether to read the target back.
    pub verify: Verify,
    /// Leave holes of the source unread, and release the target's space where there are zeros. Without it everything is read
    /// and written.
    pub sparse: bool,
    /// How much goes on side by side.
    pub effort: Effort,
}

impl Default for CopyPlan {
    fn default() -> Self {
        Self { verify: Verify::No, sparse: true, effort: Effort::default() }
    }
}

/// What came of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyResult {
    /// Bytes from the source's beginning that the target now holds: all of them, unless the copy was stopped.
    pub bytes: u64,
    /// Of these, how many were zeros and not sent as data.
    pub zeros: u64,
    /// Of the zeros, how many were holes and not even read.
    pub holes: u64,
    /// It was stopped before its end.
    pub stopped: bool,
}

/// What a copy is made from.
pub(crate) enum Origin<'a> {
    /// A volume.
    Volume(NamedVolume<'a>),
    /// A stream.
    Stream(Box<dyn Read + Send>),
}

/// What is done with a chunk of a copy.
pub(crate) struct Copy {
    plan: CopyPlan,
    target: usize,
    target_name: String,
    target_bytes: u64,
    target_block: u64,
    target_zeroes: bool,
    zeros: Zeros,
    zeroed: u64,
    holes: u64,
}

/// What a chunk waits for.
#[derive(Debug)]
pub(crate) enum Note {
    Reading,
    /// With what to expect when it is read back.
    Writing(Option<SharedBuf>),
    ReadingBack(SharedBuf),
}

impl Copy {
    /// A copy onto a volume of this name.
    pub(crate) fn onto(
        target: NamedVolume<'_>,
        from: Origin<'_>,
        plan: CopyPlan,
        context: JobContext<'_>,
    ) -> Result<Walk<Self>, OpenError> {
        let target = CopyEnd::open(target, plan.effort.connections, context.waker)?;
        let mut visit = Self {
            plan,
            target: 0,
            target_name: target.name.clone(),
            target_bytes: target.bytes,
            target_block: target.block,
            target_zeroes: plan.sparse
                && target.features.contains(Features::WRITE_ZEROES)
                && target.max_discard >= CHUNK,
            zeros: Zeros::new(),
            zeroed: 0,
            holes: 0,
        };
        let window = plan.effort.chunks;
        match from {
            Origin::Stream(stream) => {
                let chunk = (CHUNK.min(target.max_transfer) / target.block).max(1) * target.block;
                let inlet = Inlet::new(stream, chunk, context.waker);
                let inlet = inlet
                    .map_err(|error| OpenError::new(format!("no thread can read the stream: {error}")))?;
                let route = WalkPlan { ends: vec![target], feed: Feed::Stream(inlet), window };
                Ok(Walk::new(visit, route, context))
            }
            Origin::Volume(source) => {
                let source = CopyEnd::open(source, plan.effort.connections, context.waker)?;
                let map = Map::new(&source, visit.cut(&source, &target)?);
                visit.target = 1;
                let route = WalkPlan { ends: vec![source, target], feed: Feed::Volume(map), window };
                Ok(Walk::new(visit, route, context))
            }
        }
    }

    fn cut(&self, source: &CopyEnd, target: &CopyEnd) -> Result<Cut, OpenError> {
        if target.bytes < source.bytes {
            return Err(OpenError::new(format!(
                "it has {} bytes, fewer than the {} of {}; copy onto a volume that is at least as large",
                target.bytes, source.bytes, source.name
            )));
        }
        let unit = source.block.max(target.block);
        if !source.bytes.is_multiple_of(unit) {
            return Err(OpenError::new(format!(
                "the {} bytes of {} are no whole number of its blocks of {unit} bytes; copy onto a volume with smaller blocks",
                source.bytes, source.name
            )));
        }
        let chunk = (CHUNK.min(source.max_transfer).min(target.max_transfer) / unit * unit).max(unit);
        let far = (HOLE.min(target.max_discard) / unit * unit).max(unit);
        // What is read back or sent as data must fit into memory.
        let hole = if self.target_zeroes && self.plan.verify == Verify::No { far } else { chunk.min(far) };
        Ok(Cut { from: 0, to: source.bytes, chunk, hole, unit, border: 0, sparse: self.plan.sparse })
    }

    fn write(&mut self, span: Span, data: Option<SharedBuf>) -> Result<Step<Note>, DataErrorCause> {
        let data = data.map(|data| self.whole_blocks(span, data)).transpose()?;
        let empty = data.as_ref().is_none_or(|data| self.plan.sparse && is_zero(data));
        let expected = data.clone().unwrap_or_else(|| self.zeros.first(span.len));
        let ask = if empty && self.target_zeroes {
            self.zeroed += span.len;
            Ask::Zero
        } else {
            Ask::Write(data.unwrap_or_else(|| self.zeros.first(span.len)))
        };
        let expected = (self.plan.verify == Verify::Yes).then_some(expected);
        Ok(Step::Ask(ask.to(self.target), Note::Writing(expected)))
    }

    /// A stream's end may lie within a block, which is filled with zeros.
    fn whole_blocks(&self, span: Span, data: SharedBuf) -> Result<SharedBuf, DataErrorCause> {
        if span.at + span.len > self.target_bytes {
            let volume = self.target_name.clone();
            return Err(DataErrorCause::StreamTooLong { volume, bytes: self.target_bytes });
        }
        let missing = span.len.next_multiple_of(self.target_block) - span.len;
        if missing == 0 {
            return Ok(data);
        }
        let mut filled = data.to_vec();
        filled.resize(filled.len() + usize::try_from(missing).unwrap_or(0), 0);
        Ok(SharedBuf::from(filled))
    }
}

impl Visit for Copy {
    const JOB: &'static str = "copy";
    type Note = Note;
    type Output = CopyResult;

    fn flushes(&self) -> Option<usize> {
        Some(self.target)
    }

    fn begin(&mut self, piece: Piece) -> Result<Step<Note>, DataErrorCause> {
        match piece.content {
            Content::Volume => Ok(Step::Ask(Ask::Read.to(0), Note::Reading)),
            Content::Here(data) => self.write(piece.span, Some(data)),
            Content::Hole => {
                self.holes += piece.span.len;
                self.write(piece.span, None)
            }
        }
    }

    fn answered(&mut self, span: Span, note: Note, answer: Answer) -> Result<Step<Note>, DataErrorCause> {
        match (note, answer) {
            (Note::Reading, Answer::Data(data)) => self.write(span, Some(data)),
            (Note::Writing(None), _) => Ok(Step::Done),
            (Note::Writing(Some(data)), _) => {
                Ok(Step::Ask(Ask::Read.to(self.target), Note::ReadingBack(data)))
            }
            (Note::ReadingBack(data), Answer::Data(read)) => {
                match data.iter().zip(read.iter()).position(|(ours, theirs)| ours != theirs) {
                    None => Ok(Step::Done),
                    Some(at) => Err(DataErrorCause::Differs {
                        volume: self.target_name.clone(),
                        at: span.at + at as u64,
                    }),
                }
            }
            (Note::Reading | Note::ReadingBack(_), _) => Err(DataErrorCause::NoData),
        }
    }

    fn finish(&mut self, walked: Walked) -> CopyResult {
        CopyResult { bytes: walked.bytes, zeros: self.zeroed, holes: self.holes, stopped: walked.stopped }
    }
}
