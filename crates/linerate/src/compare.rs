//! Compares two volumes byte by byte, and counts what differs. Where one is longer, its tail is compared with zeros.

use buf::SharedBuf;
use volume::{Features, OpenError};

use crate::control::Effort;
use crate::error::DataErrorCause;
use crate::job::JobContext;
use crate::limits::CHUNK;
use crate::walk::{
    Answer, Ask, Content, CopyEnd, Cut, Feed, Map, NamedVolume, Piece, Span, Step, Visit, Walk, WalkPlan,
    Walked,
};
use crate::zeros::{Zeros, is_zero};

/// What came of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompareResult {
    /// The sizes of both volumes.
    pub sizes: (u64, u64),
    /// Bytes from the beginning that were compared: the larger size, unless the comparison was stopped.
    pub bytes: u64,
    /// The first byte that differs.
    pub first: Option<u64>,
    /// How many bytes differ.
    pub differing: u64,
    /// In how many runs of neighbouring bytes.
    pub runs: u64,
    /// It was stopped before its end.
    pub stopped: bool,
}

/// What is done with a chunk.
pub(crate) struct Compare {
    sizes: (u64, u64),
    second_maps: bool,
    zeros: Zeros,
    tally: Tally,
}

/// What is known of a chunk. `None` in place of data stands for zeros.
#[derive(Debug)]
pub(crate) enum Note {
    First,
    /// The first is a hole; is the second one too?
    Mapping,
    Second(Option<SharedBuf>),
    Compared(Option<SharedBuf>, Option<SharedBuf>),
}

/// Differences so far, counted in order.
#[derive(Debug, Default)]
struct Tally {
    first: Option<u64>,
    differing: u64,
    runs: u64,
    /// Where the last run ended.
    end: Option<u64>,
}

impl Tally {
    fn add(&mut self, at: u64, one: &[u8], two: &[u8]) {
        if one == two {
            return;
        }
        let places = (at..).zip(one.iter().zip(two)).filter(|(_, (one, two))| one != two);
        for (place, _) in places {
            self.first.get_or_insert(place);
            self.differing += 1;
            self.runs += u64::from(self.end != Some(place));
            self.end = Some(place + 1);
        }
    }
}

impl Compare {
    /// A comparison of two volumes.
    pub(crate) fn of(
        one: NamedVolume<'_>,
        two: NamedVolume<'_>,
        effort: Effort,
        context: JobContext<'_>,
    ) -> Result<Walk<Self>, OpenError> {
        let one = CopyEnd::open(one, effort.connections, context.waker)?;
        let two = CopyEnd::open(two, effort.connections, context.waker)?;
        let unit = one.block.max(two.block);
        let border = one.bytes.min(two.bytes);
        // Room for the blocks around chunks that begin within one, behind the end of the shorter volume.
        let slack = if border.is_multiple_of(unit) { 0 } else { unit };
        let most = CHUNK.min(one.max_transfer).min(two.max_transfer).saturating_sub(slack);
        let chunk = (most / unit * unit).max(one.block.min(two.block));
        let cut =
            Cut { from: 0, to: one.bytes.max(two.bytes), chunk, hole: chunk, unit, border, sparse: true };
        let map = Map::new(&one, cut);
        let visit = Self {
            sizes: (one.bytes, two.bytes),
            second_maps: two.features.contains(Features::ALLOCATION),
            zeros: Zeros::new(),
            tally: Tally::default(),
        };
        let plan = WalkPlan { ends: vec![one, two], feed: Feed::Volume(map), window: effort.chunks };
        Ok(Walk::new(visit, plan, context))
    }

    /// The first volume's bytes are known; the second's come next, if it is as long.
    fn second(&self, span: Span, first: Option<SharedBuf>) -> Step<Note> {
        if span.at >= self.sizes.1 {
            return Step::Turn(Note::Compared(first, None));
        }
        Step::Ask(Ask::Read.to(1), Note::Second(first))
    }
}

impl Visit for Compare {
    const JOB: &'static str = "comparison";
    type Note = Note;
    type Output = CompareResult;

    fn begin(&mut self, piece: Piece) -> Result<Step<Note>, DataErrorCause> {
        Ok(match piece.content {
            Content::Hole if self.second_maps && piece.span.at < self.sizes.1 => {
                Step::Ask(Ask::Map.to(1), Note::Mapping)
            }
            Content::Hole => self.second(piece.span, None),
            Content::Here(data) => self.second(piece.span, Some(data)),
            Content::Volume => Step::Ask(Ask::Read.to(0), Note::First),
        })
    }

    fn answered(&mut self, span: Span, note: Note, answer: Answer) -> Result<Step<Note>, DataErrorCause> {
        match (note, answer) {
            (Note::First, Answer::Data(data)) => Ok(self.second(span, Some(data))),
            (Note::Mapping, Answer::Hole) => Ok(Step::Turn(Note::Compared(None, None))),
            (Note::Mapping, _) => Ok(self.second(span, None)),
            (Note::Second(first), Answer::Data(data)) => Ok(Step::Turn(Note::Compared(first, Some(data)))),
            _ => Err(DataErrorCause::NoData),
        }
    }

    fn turn(&mut self, span: Span, note: Note) -> Result<Option<Note>, DataErrorCause> {
        let Note::Compared(one, two) = note else { return Ok(None) };
        match (&one, &two) {
            (None, None) => {}
            (Some(one), Some(two)) => self.tally.add(span.at, one, two),
            (Some(data), None) | (None, Some(data)) if is_zero(data) => {}
            (Some(data), None) | (None, Some(data)) => {
                self.tally.add(span.at, data, self.zeros.all());
            }
        }
        Ok(None)
    }

    fn finish(&mut self, walked: Walked) -> CompareResult {
        CompareResult {
            sizes: self.sizes,
            bytes: walked.bytes,
            first: self.tally.first,
            differing: self.tally.differing,
            runs: self.tally.runs,
            stopped: walked.stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_go_on_across_chunks() {
        let mut tally = Tally::default();
        tally.add(0, &[1, 1, 0, 1], &[0, 1, 0, 0]);
        assert_eq!((tally.first, tally.differing, tally.runs), (Some(0), 2, 2));
        tally.add(4, &[1, 1], &[0, 1]);
        assert_eq!((tally.differing, tally.runs), (3, 2), "bytes 3 and 4 are one run");
        tally.add(6, &[5; 8], &[5; 8]);
        tally.add(14, &[1], &[0]);
        assert_eq!((tally.first, tally.differing, tally.runs), (Some(0), 4, 3));
    }
}
