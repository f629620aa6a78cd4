//! One job's volumes: requests in, completions out, on the thread that calls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate::{
    Buf, BufList, ClientConfig, Durability, Error, Extent, Foreign, Heap, Inline, InlineDone, Operation,
    Outcome, VolumeErrorKind, VolumeUrl, Wait,
};

use crate::memory::{Lent, Memory};

/// Requests that are sent together at the latest, while there are completions that fio has not fetched yet: fio fetches one
/// at a time and asks for the next request after each, and a system call for each would cost more than the request.
const BATCH: usize = 16;
/// How long to wait before looking again whether the memory of requests that have ended is free: they are few, and it soon is.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// `EINVAL`: the request does not fit the volume.
const INVALID: i32 = 22;
/// `EIO`: the volume failed.
const FAILED: i32 = 5;

/// What fio asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Fill the memory.
    Read,
    /// Write the memory; durable at its end if fio opened its files so (`sync=1`).
    Write {
        /// Force unit access.
        durable: bool,
    },
    /// Discard as many bytes as the memory has.
    Trim,
    /// Make writes durable.
    Sync,
}

/// A request of fio's.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// What to do.
    pub kind: Kind,
    /// On which of the session's volumes.
    pub disk: usize,
    /// Byte where it begins.
    pub offset: u64,
    /// Data, or room for it.
    pub memory: Memory,
    /// Comes back with the end.
    pub handle: usize,
}

/// What a volume demands of a request.
#[derive(Debug, Clone, Copy)]
struct Shape {
    block: u64,
    most: usize,
}

/// A request that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// fio's handle of it.
    pub handle: usize,
    /// The system's error number, 0 for success.
    pub error: i32,
}

/// Volumes that are open on the calling thread.
#[derive(Debug)]
pub struct Session {
    inline: Inline,
    shapes: Vec<Shape>,
    asked: Vec<Slot>,
    free: Vec<usize>,
    ended: Vec<InlineDone>,
    /// Slots whose requests have ended while somebody still holds their memory.
    lingering: Vec<usize>,
    /// Requests that have not been sent.
    stored: usize,
    ready: VecDeque<(usize, i32)>,
    fetched: Vec<Event>,
    complaint: Complaint,
}

/// A request's place.
#[derive(Debug, Default)]
struct Slot {
    ask: Option<Ask>,
    /// Held twice while somebody has the request's memory: a send that goes on although the answer has come, a connection
    /// that was lost while it received.
    count: Arc<()>,
    /// How it ended, and data that does not lie in fio's memory yet.
    end: Option<(i32, Option<BufList>)>,
}

/// Why the way to a volume was lost: fio has a number for it, people want the words, once.
#[derive(Debug, PartialEq, Eq)]
enum Complaint {
    None,
    Due(String),
    Made,
}

impl Session {
    /// Opens the volumes that `urls` names, separated by spaces. `spin` is how long to look for an answer before sleeping;
    /// `None` for what suits the machine.
    pub fn open(urls: &str, spin: Option<Duration>) -> Result<Self, String> {
        let urls: Vec<VolumeUrl> =
            urls.split_whitespace().map(|url| url.parse().map_err(tell)).collect::<Result<_, String>>()?;
        if urls.is_empty() {
            return Err("uri= is missing: name a volume, such as --uri=nvme+tcp://host/nqn.…/1".to_owned());
        }
        let mut inline = Inline::start(&ClientConfig { spin, ..ClientConfig::default() })
            .map_err(|error| tell_chain(&error))?;
        let mut shapes = Vec::new();
        for url in &urls {
            let disk = inline.open(url).map_err(|error| tell_chain(&error))?;
            let Some(volume) = inline.volume(disk) else { continue };
            let block = u64::from(volume.geometry().block_size);
            shapes.push(Shape { block, most: volume.limits().max_transfer as usize });
        }
        let (asked, free, ended) = (Vec::new(), Vec::new(), Vec::new());
        let (ready, fetched, lingering) = (VecDeque::new(), Vec::new(), Vec::new());
        let complaint = Complaint::None;
        Ok(Self { inline, shapes, asked, free, ended, lingering, stored: 0, ready, fetched, complaint })
    }

    /// Memory for buffers, where the volumes reach it best.
    pub fn memory(&mut self, len: usize) -> Option<Box<dyn Foreign>> {
        let mut volumes = (0..self.shapes.len()).filter_map(|disk| self.inline.volume(disk));
        let source = volumes.find_map(|volume| volume.memory()).unwrap_or_else(|| Arc::new(Heap));
        source.obtain(len.next_power_of_two().max(4096))
    }

    /// Bytes of each volume.
    pub fn sizes(&mut self) -> Vec<u64> {
        let volumes = (0..self.shapes.len()).filter_map(|disk| self.inline.volume(disk));
        volumes.map(|volume| volume.geometry().bytes()).collect()
    }

    /// Takes a request, which goes out when completions are asked for; or says what is wrong with it.
    pub fn queue(&mut self, ask: Ask) -> Result<(), String> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.asked.push(Slot::default());
            self.asked.len() - 1
        });
        let operation = match self.operation(&ask, slot) {
            Ok(operation) => operation,
            Err(why) => {
                self.free.push(slot);
                return Err(why);
            }
        };
        self.asked[slot].ask = Some(ask);
        self.inline.submit(ask.disk, slot as u64, operation);
        self.stored += 1;
        Ok(())
    }

    fn operation(&self, ask: &Ask, slot: usize) -> Result<Operation, String> {
        let Some(shape) = self.shapes.get(ask.disk) else {
            return Err(format!("there is no volume {}: uri= names {}", ask.disk, self.shapes.len()));
        };
        let len = ask.memory.len();
        if !ask.offset.is_multiple_of(shape.block) || !(len as u64).is_multiple_of(shape.block) {
            return Err(format!(
                "{len} bytes at byte {} do not fit the volume's blocks of {}: set bs= to a multiple",
                ask.offset, shape.block
            ));
        }
        if len > shape.most && matches!(ask.kind, Kind::Read | Kind::Write { .. }) {
            return Err(format!(
                "{len} bytes are above the volume's limit of {}: set a smaller bs=",
                shape.most
            ));
        }
        let extent = Extent::new(ask.offset / shape.block, len as u64 / shape.block);
        let count = &self.asked[slot].count;
        let lent = || Buf::foreign(Box::new(Lent { memory: ask.memory, _count: Arc::clone(count) }));
        Ok(match ask.kind {
            Kind::Read => Operation::Read { extent, into: lent() },
            Kind::Write { durable } => Operation::Write {
                extent,
                data: BufList::from(lent().freeze()),
                durability: if durable { Durability::Durable } else { Durability::Cached },
            },
            Kind::Trim => Operation::Discard { extent },
            Kind::Sync => Operation::Flush,
        })
    }

    /// Waits until at least `least` requests have ended, or `limit` has passed, and says how many [`Self::event`] then
    /// tells of: at most `most`. A `least` of zero does not wait.
    pub fn fetch(&mut self, least: usize, most: usize, limit: Option<Duration>) -> Result<usize, String> {
        let enough = !self.ready.is_empty() && self.ready.len() >= least;
        if !enough || self.stored >= BATCH {
            self.wait(least, limit)?;
        }
        self.fetched.clear();
        let ready = self.ready.drain(..self.ready.len().min(most));
        self.fetched.extend(ready.map(|(handle, error)| Event { handle, error }));
        Ok(self.fetched.len())
    }

    /// Sends what is stored, and waits until `least` requests are ready or `limit` has passed.
    fn wait(&mut self, least: usize, limit: Option<Duration>) -> Result<(), String> {
        self.stored = 0;
        let end = limit.map(|span| Instant::now() + span);
        loop {
            let missing = self.ready.len() < least;
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let wait = match left {
                _ if !missing => Wait::No,
                // Memory is let go of without a word.
                _ if !self.lingering.is_empty() => {
                    Wait::For(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN)))
                }
                Some(left) => Wait::For(left),
                None => Wait::Forever,
            };
            self.inline.turn(wait).map_err(|error| tell_chain(&error))?;
            self.settle();
            if self.ready.len() >= least || left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
        }
    }

    fn settle(&mut self) {
        self.inline.take_done(&mut self.ended);
        self.note_lost_way();
        for done in self.ended.drain(..) {
            let Ok(slot) = usize::try_from(done.token) else { continue };
            let Some(place) = self.asked.get_mut(slot) else { continue };
            let Some(ask) = &place.ask else { continue };
            place.end = Some(match done.result {
                Ok(Outcome::Data(data)) => (0, ask.memory.take(data)),
                Ok(_) => (0, None),
                Err(kind) => (errno(kind), None),
            });
            self.lingering.push(slot);
        }
        self.report();
    }

    /// Reports what has ended and whose memory nobody holds any more: it is fio's again then.
    fn report(&mut self) {
        let Self { lingering, asked, ready, free, .. } = self;
        lingering.retain(|&slot| {
            let Some(place) = asked.get_mut(slot) else { return false };
            if Arc::strong_count(&place.count) > 1 {
                return true;
            }
            if let (Some(ask), Some((error, data))) = (place.ask.take(), place.end.take()) {
                if let Some(data) = data {
                    ask.memory.fill(&data);
                }
                ready.push_back((ask.handle, error));
            }
            free.push(slot);
            false
        });
    }

    fn note_lost_way(&mut self) {
        let lost = |done: &&InlineDone| {
            matches!(done.result, Err(VolumeErrorKind::Unreachable | VolumeErrorKind::TimedOut))
        };
        if self.complaint != Complaint::None {
            return;
        }
        let Some(done) = self.ended.iter().find(lost) else { return };
        if let Some(error) = self.inline.volume(done.disk).and_then(|volume| volume.last_error()) {
            self.complaint = Complaint::Due(format!("volume {}: {error}", done.disk));
        }
    }

    /// Why the way to a volume was lost, if that has happened and was not told yet.
    pub fn complaint(&mut self) -> Option<String> {
        match std::mem::replace(&mut self.complaint, Complaint::Made) {
            Complaint::Due(text) => Some(text),
            before => {
                self.complaint = before;
                None
            }
        }
    }

    /// One of the requests that the last [`Self::fetch`] counted.
    pub fn event(&self, index: usize) -> Option<Event> {
        self.fetched.get(index).copied()
    }
}

fn tell(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// An error with its causes.
fn tell_chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(one) = cause {
        text = format!("{text}: {one}");
        cause = one.source();
    }
    text
}

/// The system's number for an error. What the medium or the way to it did is `EIO`, which fio can be told to live with.
fn errno(kind: VolumeErrorKind) -> i32 {
    match kind {
        VolumeErrorKind::OutOfRange | VolumeErrorKind::Misaligned => INVALID,
        VolumeErrorKind::NoSpace => 28,
        VolumeErrorKind::ReadOnly => 30,
        VolumeErrorKind::Unsupported => 95,
        VolumeErrorKind::Cancelled => 125,
        VolumeErrorKind::TimedOut => 110,
        VolumeErrorKind::ReservationConflict => 52,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(kind: Kind, bytes: &mut [u8], (disk, offset, handle): (usize, u64, usize)) -> Ask {
        // SAFETY: each test waits for the end of its requests while the bytes live.
        let memory = unsafe { Memory::new(bytes.as_mut_ptr(), bytes.len()) };
        Ask { kind, disk, offset, memory, handle }
    }

    #[test]
    fn what_was_written_on_each_volume_is_read_into_the_memory_that_was_given() {
        let mut session = Session::open("ram:1M  stats+ram:2M?block=4096", None).unwrap();
        assert_eq!(session.sizes(), [1 << 20, 2 << 20]);
        let mut data = [vec![1_u8; 4096], vec![2; 4096]];
        for (disk, bytes) in data.iter_mut().enumerate() {
            session.queue(ask(Kind::Write { durable: disk == 1 }, bytes, (disk, 8192, disk))).unwrap();
        }
        assert_eq!(session.fetch(2, 8, None), Ok(2));
        let mut back = [vec![0; 4096], vec![0; 4096]];
        for (disk, bytes) in back.iter_mut().enumerate() {
            session.queue(ask(Kind::Read, bytes, (disk, 8192, 10 + disk))).unwrap();
        }
        assert_eq!(session.fetch(2, 1, None), Ok(1));
        assert_eq!(session.event(0), Some(Event { handle: 10, error: 0 }));
        assert_eq!(session.fetch(0, 8, None), Ok(1));
        assert_eq!(session.event(0), Some(Event { handle: 11, error: 0 }));
        assert_eq!(session.event(1), None);
        assert!(back == data);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_what_fails_has_its_number() {
        let mut session = Session::open("fail=1/1+ram:1M", None).unwrap();
        let mut bytes = vec![0; 4096];
        let text = session.queue(ask(Kind::Read, &mut bytes[..100], (0, 0, 0))).unwrap_err();
        assert!(text.contains("blocks of 512") && text.contains("set bs="), "{text}");
        assert!(session.queue(ask(Kind::Read, &mut bytes, (1, 0, 0))).is_err());
        session.queue(ask(Kind::Read, &mut bytes, (0, 0, 7))).unwrap();
        assert_eq!(session.fetch(1, 1, None), Ok(1));
        assert_eq!(session.event(0), Some(Event { handle: 7, error: FAILED }));
        session.queue(ask(Kind::Sync, &mut bytes[..0], (0, 0, 8))).unwrap();
        session.queue(ask(Kind::Trim, &mut bytes, (0, 1 << 20, 9))).unwrap();
        assert_eq!(session.fetch(2, 2, None), Ok(2));
    }

    #[test]
    fn what_has_ended_is_told_when_nobody_holds_its_memory() {
        let mut session = Session::open("ram:1M", Some(Duration::ZERO)).unwrap();
        let mut bytes = vec![0; 4096];
        session.queue(ask(Kind::Write { durable: false }, &mut bytes, (0, 0, 5))).unwrap();
        // As a send does that goes on although the answer has come.
        let held = Arc::clone(&session.asked[0].count);
        assert_eq!(session.fetch(0, 1, Some(Duration::from_millis(1))), Ok(0));
        assert_eq!(session.fetch(1, 1, Some(Duration::from_millis(1))), Ok(0));
        drop(held);
        assert_eq!(session.fetch(1, 1, None), Ok(1));
        assert_eq!(session.event(0), Some(Event { handle: 5, error: 0 }));
    }

    #[test]
    fn a_limit_of_time_ends_the_wait() {
        let mut session = Session::open("delay=60m+null:1M", Some(Duration::ZERO)).unwrap();
        let mut bytes = vec![0; 512];
        session.queue(ask(Kind::Read, &mut bytes, (0, 0, 1))).unwrap();
        assert_eq!(session.fetch(1, 1, Some(Duration::from_millis(1))), Ok(0));
        drop(session);
    }

    #[test]
    fn no_volume_and_no_url_are_told() {
        let refusal = |urls| Session::open(urls, None).unwrap_err();
        assert!(refusal(" ").contains("uri= is missing"));
        assert!(refusal("tape:0").contains("tape"));
        assert!(refusal("file:/nowhere/at.all").contains("/nowhere/at.all"));
    }
}
