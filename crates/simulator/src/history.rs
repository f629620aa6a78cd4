//! The checker for lost writes: what every piece of a volume may hold, given what was submitted and acknowledged.
//!
//! The contract (`volume`): no order holds between requests that are under way together. A request that ended before another
//! began is older. A durable write that was acknowledged, and any write that was acknowledged before an acknowledged flush
//! began, is *secure*.
//!
//! * A **read** returns a version that was begun before the read ended, and that no acknowledged version replaced before
//!   the read began.
//! * After a **power cut** a piece holds a version that no *secure* version had replaced: the last secure one, or any younger one,
//!   acknowledged or not.
//! * What a server answered before its power was cut may be heard of after that, if datagrams carry it ([`History::with_late_answers`]). Such an acknowledgement promises no more
//!   than one that came before the cut.
//! * A version is whole: every piece holds one version's bytes and nothing else. A piece is what the disk below writes all or
//!   nothing, a sector; a longer block may be torn between its pieces as long as it is not secure.
//! * A write that ended in an error may have changed any of its pieces. One whose end is not known (a lost connection) may
//!   still change them, until the other side has died.
//!
//! Every piece of every write carries the write's number and the piece's own, so that a misplaced piece is seen as well.

use std::fmt;

use volume::Durability;

use crate::limits::VERSIONS;

/// Numbers a write within a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriteId(usize);

/// The moment at which a flush or a read began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Began(u64);

/// What a write puts into its pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Bytes that name the write: see [`History::fill`].
    Named,
    /// Zeros: discard and write zeroes.
    Zeros,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteEnd {
    /// It was acknowledged.
    Done,
    /// It failed; each of its pieces holds the old or the new bytes.
    Failed,
    /// Nobody knows, and it may still happen.
    Unknown,
}

struct Write {
    content: Content,
    durability: Durability,
    began: u64,
    ended: Option<u64>,
    acknowledged: bool,
    secure: bool,
}

#[derive(Clone, Copy)]
struct Version {
    write: usize,
    /// It was found here after a cut, which makes it secure.
    found: bool,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which piece.
    pub piece: u64,
    /// What it holds.
    pub holds: String,
    /// What it may hold.
    pub allowed: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "piece {} holds {}, allowed: {}", self.piece, self.holds, self.allowed.join(", "))
    }
}

impl std::error::Error for Violation {}

/// Everything that was asked of a volume, and what was promised.
pub struct History {
    piece: usize,
    pieces: Vec<Vec<Version>>,
    writes: Vec<Write>,
    /// Acknowledged and not secure.
    exposed: Vec<usize>,
    /// Acknowledged, and told as maybe lost by a flush that failed: no later flush makes them secure.
    disowned: Vec<usize>,
    /// Acknowledged, not secure, and maybe lost in a power cut of which nobody was told yet.
    doubtful: Vec<usize>,
    /// When the reads began that are under way: what was replaced since may still be their answer.
    reading: Vec<u64>,
    /// A flush that fails excuses nothing: whoever asked knows, others do not.
    strict: bool,
    /// Answers of a server may come after its end.
    late_answers: bool,
    /// When the power was last cut while requests were under way.
    cut: u64,
    now: u64,
}

/// Bytes in which a piece names its write and itself; repeated to the piece's end.
const STAMP: usize = 16;

#[derive(PartialEq, Eq)]
enum Seen {
    Zeros,
    Named(u64, u64),
    Mixed,
}

impl History {
    /// A volume of `pieces` pieces of `piece` bytes (a multiple of 16) each, all zeros and secure.
    pub fn new(pieces: usize, piece: usize) -> Self {
        let zeros = Write {
            content: Content::Zeros,
            durability: Durability::Durable,
            began: 0,
            ended: Some(0),
            acknowledged: true,
            secure: true,
        };
        let first = vec![Version { write: 0, found: true }];
        Self {
            piece,
            pieces: vec![first; pieces],
            writes: vec![zeros],
            exposed: Vec::new(),
            disowned: Vec::new(),
            doubtful: Vec::new(),
            reading: Vec::new(),
            strict: false,
            late_answers: false,
            cut: 0,
            now: 0,
        }
    }

    /// Bytes in a piece.
    pub fn piece(&self) -> usize {
        self.piece
    }

    /// How many pieces there are.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// A write of these pieces is about to be submitted.
    pub fn begin_write(
        &mut self,
        pieces: std::ops::Range<usize>,
        content: Content,
        durability: Durability,
    ) -> WriteId {
        let id = self.writes.len();
        let began = self.tick();
        self.writes.push(Write {
            content,
            durability,
            began,
            ended: None,
            acknowledged: false,
            secure: false,
        });
        for piece in pieces {
            self.forget_impossible(piece);
            if let Some(versions) = self.pieces.get_mut(piece) {
                versions.push(Version { write: id, found: false });
            }
        }
        WriteId(id)
    }

    /// The bytes that a named write puts into the pieces from `first` on.
    pub fn fill(&self, id: WriteId, first: usize, bytes: &mut [u8]) {
        for (index, piece) in bytes.chunks_mut(self.piece).enumerate() {
            let stamp = stamp(id.0 as u64, (first + index) as u64);
            for record in piece.chunks_mut(STAMP) {
                record.copy_from_slice(&stamp[..record.len()]);
            }
        }
    }

    /// A write has ended.
    pub fn end_write(&mut self, id: WriteId, how: WriteEnd) {
        let now = self.tick();
        let Some(write) = self.writes.get_mut(id.0) else { return };
        if how == WriteEnd::Unknown {
            return;
        }
        write.ended = Some(now);
        write.acknowledged = how == WriteEnd::Done;
        write.secure = write.acknowledged && write.durability == Durability::Durable;
        if write.acknowledged && !write.secure {
            if self.late_answers && write.began < self.cut {
                write.acknowledged = false;
                self.doubtful.push(id.0);
            } else {
                self.exposed.push(id.0);
            }
        }
    }

    /// A flush or a read is about to be submitted.
    pub fn begin(&mut self) -> Began {
        Began(self.tick())
    }

    /// A read is about to be submitted. It is under way until [`History::end_read`].
    pub fn begin_read(&mut self) -> Began {
        let began = self.begin();
        self.reading.push(began.0);
        began
    }

    /// A read has ended, whatever came of it.
    pub fn end_read(&mut self, began: Began) {
        self.reading.retain(|reading| *reading != began.0);
    }

    /// A flush was acknowledged: everything that was acknowledged before it began is secure.
    pub fn flushed(&mut self, began: Began) {
        let writes = &mut self.writes;
        // It has promised what may be gone, if that was acknowledged before.
        let exposed = &mut self.exposed;
        self.doubtful.retain(|&id| {
            let Some(write) = writes.get_mut(id) else { return false };
            let is_promised = write.ended.is_some_and(|ended| ended < began.0);
            if is_promised {
                write.acknowledged = true;
                exposed.push(id);
            }
            !is_promised
        });
        self.exposed.retain(|&id| {
            let Some(write) = writes.get_mut(id) else { return false };
            write.secure = write.ended.is_some_and(|ended| ended < began.0);
            !write.secure
        });
    }

    /// The power was cut at the other side, but what was under way goes on over another connection. Acknowledged writes that are not
    /// secure may be gone, which the next flush must tell by failing.
    pub fn power_lost(&mut self) {
        for id in self.exposed.iter().chain(&self.disowned) {
            if let Some(write) = self.writes.get_mut(*id) {
                write.acknowledged = false;
            }
        }
        self.disowned.clear();
        self.doubtful.append(&mut self.exposed);
        self.cut = self.tick();
    }

    /// Answers may come after the end of the server that gave them, as nobody takes datagrams back.
    #[must_use]
    pub fn with_late_answers(mut self) -> Self {
        self.late_answers = true;
        self
    }

    /// From now on a flush that fails excuses nothing: there are several users, and the others have not been told. No flush that
    /// succeeds later may leave out what was acknowledged before it.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// A flush has failed: whoever asked for it knows that what was acknowledged and is not secure may be lost, and writes it
    /// again if it matters.
    pub fn flush_failed(&mut self) {
        if !self.strict {
            self.disown();
        }
    }

    /// Everybody knows that what was acknowledged and is not secure may be lost.
    pub fn disown(&mut self) {
        self.doubtful.clear();
        self.disowned.append(&mut self.exposed);
    }

    /// The other side has died: nothing that was under way will happen any more.
    pub fn died(&mut self) {
        let now = self.tick();
        self.reading.clear();
        for write in &mut self.writes {
            write.ended.get_or_insert(now);
        }
    }

    /// A read that began at `began` has returned `bytes` from piece `first` on.
    pub fn check_read(&self, began: Began, first: usize, bytes: &[u8]) -> Result<(), Violation> {
        self.check(first, bytes, |version, write| {
            version.found || (write.acknowledged && write.ended.is_some_and(|ended| ended < began.0))
        })
    }

    /// After a power cut, and before anything else was written, `bytes` were found from piece `first` on. From now on they are
    /// what these pieces hold.
    pub fn check_after_cut(&mut self, first: usize, bytes: &[u8]) -> Result<(), Violation> {
        self.check(first, bytes, |version, write| version.found || write.secure)?;
        for (index, found) in bytes.chunks(self.piece).enumerate() {
            let write = match see(found) {
                Seen::Named(id, _) => usize::try_from(id).unwrap_or(0),
                Seen::Zeros | Seen::Mixed => 0,
            };
            if let Some(versions) = self.pieces.get_mut(first + index) {
                versions.clear();
                versions.push(Version { write, found: true });
            }
        }
        Ok(())
    }

    fn check(
        &self,
        first: usize,
        bytes: &[u8],
        replaces: impl Fn(&Version, &Write) -> bool,
    ) -> Result<(), Violation> {
        for (index, found) in bytes.chunks(self.piece).enumerate() {
            let piece = first + index;
            let seen = see(found);
            let possible = self.possible(piece, &replaces);
            let legal = possible.iter().any(|&id| self.appearance(id, piece) == seen);
            if !legal {
                let allowed = possible.iter().map(|&id| self.describe(id)).collect();
                return Err(Violation { piece: piece as u64, holds: self.describe_seen(&seen), allowed });
            }
        }
        Ok(())
    }

    /// The versions of a piece that no version counted by `replaces` is certainly younger than.
    fn possible(&self, piece: usize, replaces: &impl Fn(&Version, &Write) -> bool) -> Vec<usize> {
        let versions = self.pieces.get(piece).map(Vec::as_slice).unwrap_or_default();
        let with_writes =
            || versions.iter().filter_map(|version| Some((version, self.writes.get(version.write)?)));
        let newest = with_writes()
            .filter(|(version, write)| replaces(version, write))
            .map(|(version, write)| if version.found { 0 } else { write.began });
        let newest = newest.max().unwrap_or(0);
        let alive = with_writes().filter(|(version, write)| {
            let ended = if version.found { Some(0) } else { write.ended };
            ended.is_none_or(|ended| ended >= newest)
        });
        alive.map(|(version, _)| version.write).collect()
    }

    /// Drops what neither a read nor a cut can bring back.
    fn forget_impossible(&mut self, piece: usize) {
        if self.pieces.get(piece).is_some_and(|versions| versions.len() >= VERSIONS) {
            let oldest = self.reading.iter().copied().min();
            let before_reads =
                |write: &Write| write.ended.is_some_and(|ended| oldest.is_none_or(|oldest| ended < oldest));
            let replaces =
                |version: &Version, write: &Write| version.found || (write.secure && before_reads(write));
            let kept = self.possible(piece, &replaces);
            if let Some(versions) = self.pieces.get_mut(piece) {
                versions.retain(|version| kept.contains(&version.write));
            }
        }
    }

    fn appearance(&self, id: usize, piece: usize) -> Seen {
        match self.writes.get(id).map(|write| write.content) {
            Some(Content::Named) => Seen::Named(id as u64, piece as u64),
            _ => Seen::Zeros,
        }
    }

    fn describe(&self, id: usize) -> String {
        let Some(write) = self.writes.get(id) else { return format!("unknown write {id}") };
        let state = match (write.secure, write.acknowledged, write.ended) {
            (true, ..) => "secure",
            (_, true, _) => "acknowledged",
            (.., None) => "under way",
            _ => "failed",
        };
        let zeros = if write.content == Content::Zeros { " of zeros" } else { "" };
        format!("write {id}{zeros} ({state})")
    }

    fn describe_seen(&self, seen: &Seen) -> String {
        match *seen {
            Seen::Zeros => "zeros".to_owned(),
            Seen::Mixed => "parts of several writes, or none of ours".to_owned(),
            Seen::Named(id, piece) => {
                format!("{} of piece {piece}", self.describe(wire::index(id)))
            }
        }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("writes", &self.writes.len()).finish_non_exhaustive()
    }
}

fn stamp(id: u64, piece: u64) -> [u8; STAMP] {
    let mut stamp = [0; STAMP];
    let (front, back) = stamp.split_at_mut(STAMP / 2);
    front.copy_from_slice(&id.to_le_bytes());
    back.copy_from_slice(&piece.to_le_bytes());
    stamp
}

fn see(piece: &[u8]) -> Seen {
    if piece.iter().all(|&byte| byte == 0) {
        return Seen::Zeros;
    }
    let Some((first, _)) = piece.split_first_chunk::<STAMP>() else { return Seen::Mixed };
    if piece.chunks(STAMP).any(|record| record != first) {
        return Seen::Mixed;
    }
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let (id, own) = first.split_at(STAMP / 2);
    Seen::Named(number(id), number(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(history: &History, id: WriteId, piece: usize) -> Vec<u8> {
        let mut bytes = vec![0; history.piece()];
        history.fill(id, piece, &mut bytes);
        bytes
    }

    fn write(history: &mut History, durability: Durability) -> (WriteId, Vec<u8>) {
        let id = history.begin_write(1..2, Content::Named, durability);
        let bytes = bytes(history, id, 1);
        (id, bytes)
    }

    #[test]
    fn what_a_read_under_way_may_return_is_not_forgotten() {
        let mut history = History::new(2, 32);
        let began = history.begin_read();
        for _ in 0..2 * VERSIONS {
            let (id, _) = write(&mut history, Durability::Durable);
            history.end_write(id, WriteEnd::Done);
        }
        assert!(history.check_read(began, 1, &[0; 32]).is_ok(), "none had replaced the zeros when it began");
        history.end_read(began);
        let (_, newest) = write(&mut history, Durability::Durable);
        assert!(history.check_read(began, 1, &[0; 32]).is_err(), "they are forgotten since");
        assert!(history.check_read(began, 1, &newest).is_ok());
    }

    #[test]
    fn an_acknowledged_write_may_be_lost_until_it_is_flushed() {
        let mut history = History::new(4, 512);
        let (id, new) = write(&mut history, Durability::Cached);
        history.end_write(id, WriteEnd::Done);
        let zeros = vec![0; 512];
        assert!(history.check(1, &zeros, |v, w| v.found || w.secure).is_ok());
        let flush = history.begin();
        history.flushed(flush);
        let lost = history.check_after_cut(1, &zeros).unwrap_err();
        assert_eq!(lost.to_string(), "piece 1 holds zeros, allowed: write 1 (secure)");
        assert!(history.check_after_cut(1, &new).is_ok());
    }

    #[test]
    fn a_flush_covers_only_what_was_acknowledged_before_it_began() {
        let mut history = History::new(4, 512);
        let (id, _) = write(&mut history, Durability::Cached);
        let flush = history.begin();
        history.end_write(id, WriteEnd::Done);
        history.flushed(flush);
        assert!(history.check_after_cut(1, &[0; 512]).is_ok());
    }

    #[test]
    fn a_durable_write_replaces_only_what_had_ended_before_it_began() {
        let mut history = History::new(4, 512);
        let (old, old_bytes) = write(&mut history, Durability::Cached);
        history.end_write(old, WriteEnd::Done);
        let (beside, beside_bytes) = write(&mut history, Durability::Cached);
        let (durable, _) = write(&mut history, Durability::Durable);
        history.end_write(durable, WriteEnd::Done);
        history.end_write(beside, WriteEnd::Failed);
        assert!(history.check_after_cut(1, &old_bytes).is_err());
        assert!(history.check_after_cut(1, &beside_bytes).is_ok());
    }

    #[test]
    fn torn_and_misplaced_pieces_are_seen() {
        let mut history = History::new(4, 512);
        let (_, mut torn) = write(&mut history, Durability::Cached);
        torn[300..].fill(0);
        assert!(history.check_after_cut(1, &torn).is_err());
        let id = history.begin_write(1..3, Content::Named, Durability::Cached);
        let misplaced = bytes(&history, id, 2);
        assert!(history.check_after_cut(1, &misplaced).is_err());
    }

    #[test]
    fn a_read_sees_what_was_acknowledged_before_it_began_or_anything_younger() {
        let mut history = History::new(4, 512);
        let (id, new) = write(&mut history, Durability::Cached);
        let early = history.begin();
        history.end_write(id, WriteEnd::Done);
        let late = history.begin();
        assert!(history.check_read(early, 1, &[0; 512]).is_ok());
        assert!(history.check_read(late, 1, &[0; 512]).is_err());
        assert!(history.check_read(late, 1, &new).is_ok());
    }

    #[test]
    fn what_was_found_after_a_cut_stays() {
        let mut history = History::new(4, 512);
        let (id, new) = write(&mut history, Durability::Cached);
        history.end_write(id, WriteEnd::Done);
        history.died();
        assert!(history.check_after_cut(1, &[0; 512]).is_ok());
        assert!(history.check_after_cut(1, &new).is_err(), "a lost write does not come back");
    }

    #[test]
    fn an_answer_that_comes_after_a_cut_promises_nothing_before_a_flush_that_began_after_it() {
        let may_be_gone = |history: &mut History| {
            let began = history.begin();
            history.check_read(began, 1, &[0; 512]).is_ok()
        };
        for (mut history, expected) in
            [(History::new(4, 512), false), (History::new(4, 512).with_late_answers(), true)]
        {
            let (id, _) = write(&mut history, Durability::Cached);
            let before = history.begin();
            history.power_lost();
            history.end_write(id, WriteEnd::Done);
            assert_eq!(may_be_gone(&mut history), expected);
            history.flushed(before);
            assert_eq!(may_be_gone(&mut history), expected, "that flush began before the answer");
            let after = history.begin();
            history.flushed(after);
            assert!(!may_be_gone(&mut history), "that one has promised it");
        }
    }

    #[test]
    fn a_write_of_unknown_end_stays_possible_until_the_other_side_died() {
        let mut history = History::new(4, 512);
        let (lost, late) = write(&mut history, Durability::Cached);
        history.end_write(lost, WriteEnd::Unknown);
        let (id, _) = write(&mut history, Durability::Durable);
        history.end_write(id, WriteEnd::Done);
        let began = history.begin();
        assert!(history.check_read(began, 1, &late).is_ok());
        history.died();
        let (id, _) = write(&mut history, Durability::Durable);
        history.end_write(id, WriteEnd::Done);
        assert!(history.check_after_cut(1, &late).is_err());
    }
}
