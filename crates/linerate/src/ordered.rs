//! A volume read from one end to the other, in order: into a sum, or out to a stream.

use std::io::Write;
use std::task::Waker;

use volume::OpenError;

use crate::checksum::Sum;
use crate::control::Effort;
use crate::error::DataErrorCause;
use crate::job::JobContext;
use crate::limits::CHUNK;
use crate::stream::{Outgoing, Outlet};
use crate::walk::{
    Answer, Ask, Content, CopyEnd, Cut, Feed, Map, NamedVolume, Piece, Span, Step, Visit, Walk, WalkPlan,
    Walked,
};
use crate::zeros::Zeros;

/// Where the bytes go, in order.
pub(crate) trait Sink {
    /// What the job is called in messages.
    const JOB: &'static str;
    /// What comes of it.
    type Output;

    /// Takes the next bytes, or gives them back while it is behind.
    fn put(&mut self, bytes: Outgoing) -> Result<Option<Outgoing>, DataErrorCause>;

    /// True once everything has arrived.
    fn close(&mut self) -> Result<bool, DataErrorCause>;

    /// The result.
    fn finish(&mut self, walked: Walked, holes: u64) -> Self::Output;
}

/// Which bytes of a volume, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    /// The first byte.
    pub(crate) offset: u64,
    /// How many; to the end if not given.
    pub(crate) length: Option<u64>,
    /// Leave holes unread.
    pub(crate) sparse: bool,
    /// How much goes on side by side.
    pub(crate) effort: Effort,
}

/// What is done with a chunk.
pub(crate) struct Ordered<S> {
    sink: S,
    holes: u64,
}

/// What a chunk waits for.
#[derive(Debug)]
pub(crate) enum Note {
    Reading,
    Ready(Outgoing),
}

/// Reads `range` of a volume into `sink`.
pub(crate) fn read<S: Sink>(
    volume: NamedVolume<'_>,
    range: Range,
    sink: S,
    context: JobContext<'_>,
) -> Result<Walk<Ordered<S>>, OpenError> {
    let source = CopyEnd::open(volume, range.effort.connections, context.waker)?;
    let to = range.length.map_or(Some(source.bytes), |length| range.offset.checked_add(length));
    let Some(to) = to.filter(|to| *to <= source.bytes && range.offset <= *to) else {
        return Err(OpenError::new(format!(
            "it has {} bytes; the bytes from {} on that were asked for do not lie within it",
            source.bytes, range.offset
        )));
    };
    let cut = Cut {
        from: range.offset,
        to,
        chunk: (CHUNK.min(source.max_transfer) / source.block).max(1) * source.block,
        hole: CHUNK,
        unit: source.block,
        // Chunks behind the first whole block have the blocks' alignment: none needs more memory than its own.
        border: range.offset.next_multiple_of(source.block),
        sparse: range.sparse,
    };
    let map = Map::new(&source, cut);
    let visit = Ordered { sink, holes: 0 };
    let plan = WalkPlan { ends: vec![source], feed: Feed::Volume(map), window: range.effort.chunks };
    Ok(Walk::new(visit, plan, context))
}

impl<S: Sink> Visit for Ordered<S> {
    const JOB: &'static str = S::JOB;
    type Note = Note;
    type Output = S::Output;

    fn begin(&mut self, piece: Piece) -> Result<Step<Note>, DataErrorCause> {
        Ok(match piece.content {
            Content::Volume => Step::Ask(Ask::Read.to(0), Note::Reading),
            Content::Hole => {
                self.holes += piece.span.len;
                Step::Turn(Note::Ready(Outgoing::Zeros(piece.span.len)))
            }
            Content::Here(data) => Step::Turn(Note::Ready(Outgoing::Data(data))),
        })
    }

    fn answered(&mut self, _span: Span, _note: Note, answer: Answer) -> Result<Step<Note>, DataErrorCause> {
        match answer {
            Answer::Data(data) => Ok(Step::Turn(Note::Ready(Outgoing::Data(data)))),
            _ => Err(DataErrorCause::NoData),
        }
    }

    fn turn(&mut self, _span: Span, note: Note) -> Result<Option<Note>, DataErrorCause> {
        match note {
            Note::Ready(bytes) => Ok(self.sink.put(bytes)?.map(Note::Ready)),
            Note::Reading => Ok(None),
        }
    }

    fn settle(&mut self) -> Result<bool, DataErrorCause> {
        self.sink.close()
    }

    fn finish(&mut self, walked: Walked) -> S::Output {
        self.sink.finish(walked, self.holes)
    }
}

/// What came of reading a volume out to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportResult {
    /// Bytes that the stream took.
    pub bytes: u64,
    /// Of these, how many were holes and not read.
    pub holes: u64,
    /// It was stopped before its end.
    pub stopped: bool,
}

impl Outlet {
    /// A stream's thread, or why there is none.
    pub(crate) fn open(stream: Box<dyn Write + Send>, waker: &Waker) -> Result<Self, OpenError> {
        Self::new(stream, waker)
            .map_err(|error| OpenError::new(format!("no thread can write the stream: {error}")))
    }
}

impl Sink for Outlet {
    const JOB: &'static str = "copy";
    type Output = ExportResult;

    fn put(&mut self, bytes: Outgoing) -> Result<Option<Outgoing>, DataErrorCause> {
        Ok(self.put(bytes)?)
    }

    fn close(&mut self) -> Result<bool, DataErrorCause> {
        Ok(self.close()?)
    }

    fn finish(&mut self, walked: Walked, holes: u64) -> ExportResult {
        ExportResult { bytes: walked.bytes, holes, stopped: walked.stopped }
    }
}

/// What came of summing: the sum in hexadecimal digits, and how many bytes it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChecksumResult {
    /// Hexadecimal digits.
    pub digits: String,
    /// Bytes that were summed: fewer than asked for if it was stopped.
    pub bytes: u64,
    /// It was stopped before its end.
    pub stopped: bool,
}

/// A sum of what passes by.
pub(crate) struct Summing {
    pub(crate) sum: Sum,
    pub(crate) zeros: Zeros,
}

impl Sink for Summing {
    const JOB: &'static str = "checksum";
    type Output = ChecksumResult;

    fn put(&mut self, bytes: Outgoing) -> Result<Option<Outgoing>, DataErrorCause> {
        match bytes {
            Outgoing::Data(data) => self.sum.update(&data),
            // A hole has no more bytes than a chunk.
            Outgoing::Zeros(count) => self.sum.update(&self.zeros.first(count)),
        }
        Ok(None)
    }

    fn close(&mut self) -> Result<bool, DataErrorCause> {
        Ok(true)
    }

    fn finish(&mut self, walked: Walked, _holes: u64) -> ChecksumResult {
        ChecksumResult { digits: self.sum.digits(), bytes: walked.bytes, stopped: walked.stopped }
    }
}
