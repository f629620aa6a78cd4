//! The log: events of all cores, written by a thread of its own, so that no core ever waits for whoever reads it.
//!
//! A core puts an event into a bounded queue, or drops and counts it. The writer lets each peer have a few lines of a kind in a second and
//! tells how many more there were; so a hostile peer neither floods the log nor hides what others do. What the server says of its configuration is never left out.

mod filter;
mod limiter;
mod limits;
mod line;

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use host::{Event, Journal, Kind, Level};

pub use filter::{Filter, FilterError};
use limiter::{Limiter, Verdict};
use limits::{DRAIN_TIME, KEPT, QUEUED, WINDOW};
pub use line::Format;

/// What the cores and the writer share.
#[derive(Debug, Default)]
struct Shared {
    /// Events that found the queue full.
    dropped: AtomicU64,
    /// Those of them that are written all the same, before what is in the queue.
    kept: Mutex<Vec<Event>>,
}

impl Shared {
    /// An event has found the queue full.
    fn handle_full(&self, event: Event) {
        if limiter::is_unlimited(&event) {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < KEPT {
                return kept.push(event);
            }
        }
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    fn take_kept(&self) -> Vec<Event> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A journal that writes lines.
#[derive(Debug)]
pub struct Log {
    filter: RwLock<Filter>,
    sender: Mutex<Option<SyncSender<Event>>>,
    shared: Arc<Shared>,
    over: Mutex<Receiver<()>>,
}

/// Where lines go, and how they look.
pub struct Output {
    /// The stream; an error of its own is nobody's to hear.
    pub stream: Box<dyn Write + Send>,
    /// How a line looks.
    pub format: Format,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("format", &self.format).finish_non_exhaustive()
    }
}

impl Log {
    /// A log of what the filter lets through.
    pub fn start(filter: Filter, output: Output) -> Arc<Self> {
        let (sender, events) = mpsc::sync_channel(QUEUED);
        let (tell, over) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let writer =
            Writer { output, shared: Arc::clone(&shared), limiter: Limiter::new(Instant::now()), told: 0 };
        std::thread::spawn(move || {
            writer.run(&events);
            // Nobody waits any more when the log takes too long.
            let _unheard = tell.send(());
        });
        Arc::new(Self {
            filter: RwLock::new(filter),
            sender: Mutex::new(Some(sender)),
            shared,
            over: Mutex::new(over),
        })
    }

    /// Lets through what `filter` says, from the next event on.
    pub(crate) fn set_filter(&self, filter: Filter) {
        *self.filter.write().unwrap_or_else(PoisonError::into_inner) = filter;
    }

    /// Takes no more, and waits until what was taken is written, or for a moment if nobody reads it.
    pub fn finish(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _written = self.over.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(DRAIN_TIME);
    }
}

impl Journal for Log {
    fn record(&self, event: Event) {
        if !self.wants(event.kind, event.level) {
            return;
        }
        // Held for the time of a push; only events contend for it.
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(TrySendError::Full(event))) = sender.as_ref().map(|sender| sender.try_send(event)) {
            self.shared.handle_full(event);
        }
    }

    fn wants(&self, kind: Kind, level: Level) -> bool {
        self.filter.read().unwrap_or_else(PoisonError::into_inner).lets(kind, level)
    }
}

/// The thread's part.
struct Writer {
    output: Output,
    shared: Arc<Shared>,
    limiter: Limiter,
    /// Drops that were told.
    told: u64,
}

impl Writer {
    fn run(mut self, events: &Receiver<Event>) {
        loop {
            let received = if self.owes() {
                events.recv_timeout(WINDOW)
            } else {
                events.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match received {
                Ok(event) => self.take(Instant::now(), &event),
                Err(RecvTimeoutError::Timeout) => self.settle(Instant::now()),
                Err(RecvTimeoutError::Disconnected) => return self.settle(Instant::now() + 2 * WINDOW),
            }
        }
    }

    /// True while something is to be told that no event brings along.
    fn owes(&self) -> bool {
        self.limiter.suppresses() || self.shared.dropped.load(Ordering::Relaxed) != self.told
    }

    fn take(&mut self, now: Instant, event: &Event) {
        self.settle(now);
        if self.limiter.judge(event) == Verdict::Write {
            self.write(event);
        }
    }

    /// Tells what was kept, and what was left out once its second is over.
    fn settle(&mut self, now: Instant) {
        for event in self.shared.take_kept() {
            self.write(&event);
        }
        for event in self.limiter.settle(now) {
            self.write(&event);
        }
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        if dropped != self.told {
            let text =
                format!("{} events came faster than they could be written and are lost", dropped - self.told);
            self.told = dropped;
            self.write(&Event::new(Kind::Configuration, text));
        }
    }

    fn write(&mut self, event: &Event) {
        let text = line::line(self.output.format, event);
        // Whoever closed the log does not want to know.
        let _unheard =
            self.output.stream.write_all(text.as_bytes()).and_then(|()| self.output.stream.flush());
    }
}

/// How long [`Log::finish`] waits at most, for whoever plans the end of a process.
pub const LONGEST_DRAIN: Duration = DRAIN_TIME;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// A stream that keeps what was written.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(filter: &str, format: Format, events: &[Event]) -> Vec<String> {
        let paper = Paper::default();
        let log = Log::start(filter.parse().unwrap(), Output { stream: Box::new(paper.clone()), format });
        for event in events {
            log.record(event.clone());
        }
        log.finish();
        let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn peer() -> SocketAddr {
        "192.0.2.7:40000".parse().unwrap()
    }

    /// Every way in which a connection may end, and every error of a volume, makes one line with peer and reason.
    #[test]
    fn one_line_for_each_kind_of_event() {
        for kind in Kind::ALL {
            for format in [Format::Text, Format::Json] {
                let event = Event {
                    volume: Some("second".into()),
                    ..Event::new(kind, "the reason").from_peer(peer())
                };
                let lines = written("debug", format, &[event]);
                assert_eq!(lines.len(), 1, "{kind:?}: {lines:?}");
                for part in [kind.word(), kind.level().word(), "192.0.2.7:40000", "the reason", "second"] {
                    assert!(lines[0].to_lowercase().contains(part), "{kind:?} without {part}: {lines:?}");
                }
            }
        }
    }

    #[test]
    fn what_the_filter_leaves_out_is_not_written() {
        let events = Kind::ALL.map(|kind| Event::new(kind, "x").from_peer(peer()));
        let count = |filter: &str| written(filter, Format::Text, &events).len();
        assert_eq!(count("off"), 0);
        assert_eq!(count("debug"), Kind::ALL.len());
        let errors = Kind::ALL.iter().filter(|kind| kind.level() == Level::Error).count();
        assert_eq!(count("error"), errors);
        assert_eq!(count("error,login=info"), errors + 1);
    }

    #[test]
    fn a_flood_of_one_peer_is_counted_and_hides_nobody_else() {
        let hostile = Event::new(Kind::Violation, "noise").from_peer("198.51.100.1:1".parse().unwrap());
        let mut events = vec![hostile; QUEUED / 2];
        events.push(Event::new(Kind::Violation, "another peer's").from_peer(peer()));
        let lines = written("info", Format::Text, &events);
        assert!(lines.len() < 60, "{} lines", lines.len());
        assert!(lines.iter().any(|line| line.contains("another peer's")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("more like this")), "{lines:?}");
    }

    /// Who asks for a reload hears what became of it, however much else is told.
    #[test]
    fn a_flood_hides_no_outcome_of_a_reload() {
        let flood = |kind: Kind, count| std::iter::repeat_n(Event::new(kind, "noise"), count);
        let outcome =
            |number: usize| Event::new(Kind::Configuration, format!("outcome {number}!")).at(Level::Info);
        let mut events: Vec<Event> = flood(Kind::Ended, 400).collect();
        events.extend((0..50).map(outcome));
        let lines = written("info", Format::Text, &events);
        for number in 0..50 {
            assert!(
                lines.iter().any(|line| line.contains(&format!("outcome {number}!"))),
                "{number}: {lines:?}"
            );
        }
    }

    /// A stream whose first write waits until it is let go.
    struct Held {
        paper: Paper,
        go: Receiver<()>,
    }

    impl Write for Held {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _let_go = self.go.recv();
            self.paper.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_outcome_of_a_reload_that_finds_the_queue_full_is_written() {
        let (release, go) = mpsc::channel();
        let paper = Paper::default();
        let stream = Box::new(Held { paper: paper.clone(), go });
        let log = Log::start("info".parse().unwrap(), Output { stream, format: Format::Text });
        for _ in 0..QUEUED * 2 {
            log.record(Event::new(Kind::Io, "noise"));
        }
        log.record(Event::new(Kind::Configuration, "the outcome"));
        drop(release);
        log.finish();
        let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("the outcome"), "{text}");
    }

    /// A reader that never reads: cores go on, and what was lost is counted.
    #[test]
    fn a_log_that_nobody_reads_holds_nobody_up() {
        struct Stuck(Receiver<()>);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                let _over = self.0.recv();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (release, stuck) = mpsc::channel();
        let stream = Box::new(Stuck(stuck));
        let log = Log::start("info".parse().unwrap(), Output { stream, format: Format::Text });
        for _ in 0..QUEUED * 2 {
            log.record(Event::new(Kind::Io, "x"));
        }
        assert!(log.shared.dropped.load(Ordering::Relaxed) >= u64::try_from(QUEUED).unwrap() - 1);
        drop(release);
        log.finish();
    }
}
