//! Cuts a volume into chunks, and learns by allocation queries which of them are holes, so that nobody reads those.

use std::collections::VecDeque;

use volume::{Extent, Outcome, VolumeErrorKind};

use super::copy_end::CopyEnd;
use super::piece::{Content, Fed, Piece, Span};
use crate::limits::{QUERY_BYTES, RUNS_AHEAD};

/// How a volume is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// The first byte.
    pub(crate) from: u64,
    /// The byte after the last; what lies beyond the volume's end counts as a hole.
    pub(crate) to: u64,
    /// The most bytes in a chunk that has data.
    pub(crate) chunk: u64,
    /// The most bytes in a chunk that is a hole.
    pub(crate) hole: u64,
    /// Bytes to whose multiples holes are narrowed.
    pub(crate) unit: u64,
    /// A byte that no chunk reaches across.
    pub(crate) border: u64,
    /// Whether to ask for holes at all.
    pub(crate) sparse: bool,
}

/// Bytes up to `end`, all with data or all without.
#[derive(Debug, Clone, Copy)]
struct Run {
    end: u64,
    mapped: bool,
}

/// Whether queries are of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Query {
    Off,
    Idle,
    Asked,
}

/// The chunks of a volume, in order.
#[derive(Debug)]
pub(crate) struct Map {
    cut: Cut,
    block: u64,
    /// The volume's end.
    end: u64,
    next: u64,
    runs: VecDeque<Run>,
    /// Up to here it is known what is a hole.
    known: u64,
    query: Query,
}

impl Map {
    /// Cuts a volume.
    pub(crate) fn new(volume: &CopyEnd, cut: Cut) -> Self {
        let asks = cut.sparse && volume.features.contains(volume::Features::ALLOCATION);
        Self {
            cut,
            block: volume.block,
            end: volume.bytes,
            next: cut.from,
            runs: VecDeque::new(),
            known: cut.from / cut.unit * cut.unit,
            query: if asks { Query::Idle } else { Query::Off },
        }
    }

    /// Bytes in all.
    pub(crate) const fn total(&self) -> u64 {
        self.cut.to - self.cut.from
    }

    /// The next chunk.
    pub(crate) fn next(&mut self) -> Fed {
        if self.next >= self.cut.to {
            return Fed::End;
        }
        let Some(Run { end, mapped }) = self.run() else { return Fed::Later };
        let most = if mapped { self.cut.chunk } else { self.cut.hole };
        let mut end = end.min(self.next.saturating_add(most)).min(self.cut.to);
        if self.next < self.cut.border {
            end = end.min(self.cut.border);
        }
        let span = Span { at: self.next, len: end - self.next };
        self.next = end;
        Fed::Piece(Piece { span, content: if mapped { Content::Volume } else { Content::Hole } })
    }

    /// The run that the next chunk belongs to.
    fn run(&mut self) -> Option<Run> {
        if self.next >= self.end {
            return Some(Run { end: u64::MAX, mapped: false });
        }
        while self.runs.front().is_some_and(|run| run.end <= self.next) {
            self.runs.pop_front();
        }
        let rest = Run { end: self.end, mapped: true };
        self.runs.front().copied().or_else(|| (self.query == Query::Off).then_some(rest))
    }

    /// What to ask the volume now, if anything.
    pub(crate) fn query(&self) -> Option<Extent> {
        let end = self.end.min(self.cut.to).min(self.known.saturating_add(QUERY_BYTES));
        let wanted = self.query == Query::Idle && self.runs.len() < RUNS_AHEAD && self.known < end;
        let first = self.known / self.block;
        wanted.then(|| Extent::new(first, end.div_ceil(self.block) - first))
    }

    /// The question has been sent.
    pub(crate) fn asked(&mut self) {
        self.query = Query::Asked;
    }

    /// Takes the answer. A volume that cannot answer is read whole: if it cannot be read either, that will be said.
    pub(crate) fn answered(&mut self, result: &Result<Outcome, VolumeErrorKind>) {
        let Ok(Outcome::Allocation(told)) = result else {
            self.query = Query::Off;
            return;
        };
        self.query = Query::Idle;
        let told_end = told.extent.end().map_or(self.end, |end| end.saturating_mul(self.block)).min(self.end);
        let whole = |end: u64| if told_end == self.end { self.end } else { end };
        let narrowed = whole(told_end / self.cut.unit * self.cut.unit);
        let run = if !told.mapped && narrowed > self.known {
            Run { end: narrowed, mapped: false }
        } else {
            let widened = told_end.max(self.known + 1).next_multiple_of(self.cut.unit);
            Run { end: whole(widened).min(self.end), mapped: true }
        };
        self.known = run.end;
        self.runs.push_back(run);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use volume::{Allocation, Ram, Volume};

    use super::super::copy_end::NamedVolume;
    use super::*;

    fn map(cut: Cut) -> Map {
        let volume: Arc<dyn Volume> = Arc::new(Ram::new(100 << 10, 512).unwrap());
        let named = NamedVolume { volume: &volume, name: "ram".to_owned() };
        Map::new(&CopyEnd::open(named, 1, Waker::noop()).unwrap(), cut)
    }

    const CUT: Cut =
        Cut { from: 0, to: 100 << 10, chunk: 16 << 10, hole: 64 << 10, unit: 4096, border: 0, sparse: true };

    fn pieces(map: &mut Map) -> Vec<(u64, u64, bool)> {
        let mut pieces = Vec::new();
        while let Fed::Piece(piece) = map.next() {
            let data = matches!(piece.content, Content::Volume);
            pieces.push((piece.span.at, piece.span.len, data));
        }
        pieces
    }

    fn answer(map: &mut Map, blocks: u64, mapped: bool) {
        let asked = map.query().unwrap();
        map.asked();
        assert_eq!(map.query(), None, "one question at a time");
        let extent = Extent::new(asked.start, blocks);
        map.answered(&Ok(Outcome::Allocation(Allocation { extent, mapped })));
    }

    #[test]
    fn holes_are_narrowed_to_the_unit_and_data_is_widened() {
        let mut map = map(CUT);
        assert!(matches!(map.next(), Fed::Later));
        // 4.5 KiB of data become 8 KiB; the hole up to 91.5 KiB ends at 88 KiB.
        answer(&mut map, 9, true);
        answer(&mut map, 167, false);
        assert_eq!(map.known, 88 << 10);
        answer(&mut map, 24, true);
        assert_eq!(map.query(), None, "everything is known");
        assert_eq!(
            pieces(&mut map),
            [(0, 8192, true), (8192, 65536, false), (73728, 16384, false), (90112, 12288, true)]
        );
        assert!(matches!(map.next(), Fed::End));
    }

    #[test]
    fn a_hole_smaller_than_the_unit_is_data() {
        let mut map = map(CUT);
        answer(&mut map, 1, false);
        assert_eq!((map.known, map.runs[0].mapped), (4096, true));
    }

    #[test]
    fn a_volume_that_cannot_tell_is_read_whole() {
        let mut map = map(Cut { to: 20 << 10, ..CUT });
        map.asked();
        map.answered(&Err(VolumeErrorKind::Unsupported));
        assert_eq!(map.query(), None);
        assert_eq!(pieces(&mut map), [(0, 16384, true), (16384, 4096, true)]);
    }

    #[test]
    fn beyond_the_end_there_is_a_hole_and_no_chunk_crosses_a_border() {
        let mut map = map(Cut { to: 110 << 10, border: 90 << 10, chunk: 64 << 10, sparse: false, ..CUT });
        assert_eq!(
            pieces(&mut map),
            [(0, 65536, true), (65536, 26624, true), (92160, 10240, true), (102_400, 10240, false)]
        );
    }
}
