//! What runs on a core until every volume is open, and then becomes the engine's core.
//!
//! A volume of another machine is opened over connections, and those live on an event loop: so core 0 opens the volumes once it runs,
//! and the other cores wait for it. Nothing is served before everything could be opened.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use engine::{Catalogue, Core, EngineConfig, Message};
use host::{Accepted, Endpoint, EndpointId, Event, Kind, Level, Refusal, Service, World};
use linerate::Opening;
use protocol::Instant;
use volume::Volume;

use crate::config::VolumeEntry;
use crate::exports::{Opened, volume_id};
use crate::fresh::Fresh;
use crate::loss;
use crate::randomness;
use crate::retired::Retired;
use crate::state::{Before, States};

/// The core that opens the volumes.
const OPENER: u16 = 0;

/// What is told while the cores begin.
#[derive(Debug)]
pub(crate) enum News {
    /// A core serves, or why it cannot.
    Core(Result<(), String>),
    /// A signal asks to stop.
    Asked,
}

/// Hears of the beginning.
pub(crate) type Started = Sender<News>;

/// Makes the catalogue of the opened volumes.
pub(crate) type Compose = Box<dyn Fn(&[Opened]) -> anyhow::Result<Catalogue> + Send + Sync>;

/// What the cores have in common while they start.
pub(crate) struct Start {
    volumes: Vec<VolumeEntry>,
    states: States,
    compose: Compose,
    engine: Arc<EngineConfig>,
    ready: OnceLock<Ready>,
    /// Why volumes are left out.
    missing: Mutex<Vec<String>>,
    /// Files that this start has made.
    fresh: Mutex<Vec<Fresh>>,
    waiting: Mutex<Vec<Waker>>,
    /// Cores without connections that are flushing for the last time, or have.
    closing: AtomicUsize,
    /// The volumes that have come to their end.
    retired: Arc<Retired>,
}

/// Everything is open.
struct Ready {
    opened: Vec<Opened>,
    catalogue: Catalogue,
}

impl Start {
    /// These volumes are to be opened, with what is kept of them; `compose` is called with them then. Whoever comes before is recorded in the journal.
    pub(crate) fn new(
        volumes: Vec<VolumeEntry>,
        states: States,
        (compose, engine): (Compose, EngineConfig),
        retired: Arc<Retired>,
    ) -> Arc<Self> {
        Arc::new(Self {
            volumes,
            states,
            compose,
            engine: Arc::new(engine),
            ready: OnceLock::new(),
            missing: Mutex::default(),
            fresh: Mutex::default(),
            waiting: Mutex::default(),
            closing: AtomicUsize::new(0),
            retired,
        })
    }

    /// What was opened; nothing until a core has said that it serves.
    pub(crate) fn opened(&self) -> &[Opened] {
        self.ready.get().map_or(&[], |ready| &ready.opened)
    }

    /// How many cores have no connection left.
    pub(crate) fn closing(&self) -> usize {
        self.closing.load(Ordering::SeqCst)
    }

    /// The volumes that all cores have flushed after their last request.
    pub(crate) fn secured(&self) -> Vec<&Opened> {
        let opened = self.opened().iter().enumerate();
        opened
            .filter(|(index, _)| self.retired.is_secured(volume_id(*index)))
            .map(|(_, entry)| entry)
            .collect()
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        lock(&self.waiting)
    }

    /// A line for each volume that is not served.
    pub(crate) fn missing(&self) -> Vec<String> {
        let line = |why: &String| format!("{why}; the others are served without it");
        lock(&self.missing).iter().map(line).collect()
    }

    /// What the beginning came to. Unless everybody serves, files that were made for it are removed.
    pub(crate) fn ended(&self, begun: anyhow::Result<bool>) -> anyhow::Result<bool> {
        if !matches!(begun, Ok(true)) {
            lock(&self.fresh).drain(..).for_each(|file| file.remove());
        }
        begun
    }

    /// Goes on without a volume that may be left out; otherwise says why nothing can be served.
    fn leave_out(&self, entry: &VolumeEntry, why: String) -> Result<(), String> {
        if !entry.nofail {
            return Err(why);
        }
        self.engine.journal.record(Event::new(Kind::Configuration, why.clone()).at(Level::Error));
        lock(&self.missing).push(why);
        Ok(())
    }

    /// What is kept of a volume that is open: it is this process's from now on.
    fn keep(&self, found: Found) -> Result<Opened, String> {
        let Found { entry, before, volume } = found;
        let (name, mut entropy) = (&entry.name, randomness::source()());
        let mut kept = States::keep(&entry, before, &mut *entropy).map_err(|error| format!("{error:#}"))?;
        loss::watch(name, &*volume, &kept.state, &self.engine.journal)
            .and_then(|()| kept.begin(&mut *entropy))
            .map_err(|error| format!("the volume {name:?} cannot be served: {error:#}"))?;
        Ok(Opened::new(&entry, volume, kept))
    }

    /// Lets all cores serve what was found.
    fn finish(&self, found: Vec<Found>) -> Result<(), String> {
        let mut opened = Vec::new();
        for found in found {
            let entry = found.entry.clone();
            match self.keep(found) {
                Ok(one) => opened.push(one),
                Err(why) => self.leave_out(&entry, why)?,
            }
        }
        if opened.is_empty() && !self.volumes.is_empty() {
            return Err(format!("no volume can be served: {}", lock(&self.missing).join("; ")));
        }
        let catalogue = (self.compose)(&opened).map_err(|error| format!("{error:#}"))?;
        self.ready.get_or_init(|| Ready { opened, catalogue });
        self.wakers().drain(..).for_each(Waker::wake);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A volume that is open, of which nothing is kept yet.
struct Found {
    entry: VolumeEntry,
    before: Before,
    volume: Arc<dyn Volume>,
}

/// How far core 0 is.
#[derive(Default)]
struct Progress {
    /// Volumes that are open or were left out.
    settled: usize,
    found: Vec<Found>,
    current: Option<(Box<Opening>, Before)>,
}

/// One core's service.
pub(crate) struct Starter {
    start: Arc<Start>,
    tell: Started,
    world: World<Message>,
    state: State,
    /// It is counted among those without connections.
    is_counted: bool,
}

enum State {
    /// Core 0.
    Opening(Progress),
    /// Another core.
    Waiting,
    Serving(Box<Core>),
    /// It cannot serve, and has said why.
    Over,
}

impl Starter {
    /// A core that begins.
    pub(crate) fn new(start: Arc<Start>, world: World<Message>, tell: Started) -> Self {
        let opener = world.core == OPENER;
        if !opener {
            start.wakers().push(world.waker.clone());
        }
        let state = if opener { State::Opening(Progress::default()) } else { State::Waiting };
        // Nothing else wakes a core that has nothing to do yet.
        world.waker.wake_by_ref();
        Self { start, tell, world, state, is_counted: false }
    }

    /// Opens one volume after the other; true once all are open.
    fn open(&mut self, now: Instant) -> Result<bool, String> {
        let State::Opening(progress) = &mut self.state else { return Ok(true) };
        while let Some(entry) = self.start.volumes.get(progress.settled) {
            if progress.current.is_none() {
                match self.start.states.look(entry) {
                    Ok(before) => {
                        lock(&self.start.fresh).extend(Fresh::of(&entry.url));
                        progress.current = Some((Box::new(Opening::begin(&entry.url, &self.world)), before));
                    }
                    Err(error) => self.start.leave_out(entry, format!("{error:#}"))?,
                }
            }
            if let Some((mut opening, before)) = progress.current.take() {
                match opening.poll(now) {
                    Some(Ok(volume)) => {
                        progress.found.push(Found { entry: entry.clone(), before, volume });
                    }
                    Some(Err(error)) => {
                        let (name, url) = (&entry.name, &entry.url);
                        let why = format!("the volume {name:?} cannot be opened: {url}: {error}");
                        self.start.leave_out(entry, why)?;
                    }
                    None => {
                        progress.current = Some((opening, before));
                        return Ok(false);
                    }
                }
            }
            progress.settled += 1;
        }
        let found = std::mem::take(&mut progress.found);
        self.state = State::Waiting;
        self.start.finish(found)?;
        Ok(true)
    }

    /// Serves once everything is open.
    fn advance(&mut self, now: Instant) {
        let result = self.open(now).and_then(|_| match self.start.ready.get() {
            Some(ready) if matches!(self.state, State::Waiting) => {
                let engine = Arc::clone(&self.start.engine);
                let core = Core::new(engine, ready.catalogue.clone(), same(&self.world));
                self.state = State::Serving(Box::new(core.map_err(|error| error.to_string())?));
                Ok(true)
            }
            _ => Ok(false),
        });
        let report = match result {
            Ok(false) => return,
            Ok(true) => Ok(()),
            Err(why) => {
                self.state = State::Over;
                Err(why)
            }
        };
        // Nobody listens any more only when another core has failed, which is then what is told.
        let _unheard = self.tell.send(News::Core(report));
    }
}

impl Starter {
    /// Lets the others know once the core stops and has no connection left.
    fn count_closing(&mut self) {
        let State::Serving(core) = &self.state else { return };
        if !self.is_counted && core.is_closing() {
            self.is_counted = true;
            self.start.closing.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A core's world again.
fn same(world: &World<Message>) -> World<Message> {
    World {
        core: world.core,
        storage: Arc::clone(&world.storage),
        dialer: Arc::clone(&world.dialer),
        postbox: Arc::clone(&world.postbox),
        waker: world.waker.clone(),
    }
}

impl Service for Starter {
    type Message = Message;

    fn accept(&mut self, now: Instant, accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        if let State::Serving(core) = &mut self.state {
            return core.accept(now, accepted);
        }
        let refusal = Refusal("the server is still opening its volumes");
        self.start.engine.journal.record(Event::new(Kind::Rejected, refusal.0).from_peer(accepted.peer));
        Err(refusal)
    }

    fn handle_shortage(&mut self, code: i32) {
        if let State::Serving(core) = &mut self.state {
            core.handle_shortage(code);
        }
    }

    fn handle_message(&mut self, now: Instant, message: Message) {
        match (&mut self.state, message) {
            (State::Serving(core), message) => core.handle_message(now, message),
            (_, Message::Shutdown) => self.state = State::Over,
            // Cores that serve already have nothing to tell one that does not.
            _ => {}
        }
        self.count_closing();
    }

    fn turn(&mut self, now: Instant, ready: &mut Vec<EndpointId>) {
        self.advance(now);
        if let State::Serving(core) = &mut self.state {
            core.turn(now, ready);
        }
        self.count_closing();
    }

    fn handle_gone(&mut self, now: Instant, endpoint: EndpointId) {
        if let State::Serving(core) = &mut self.state {
            core.handle_gone(now, endpoint);
        }
        self.count_closing();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Serving(core) => core.poll_timeout(),
            State::Opening(progress) => {
                progress.current.as_ref().and_then(|(opening, _)| opening.poll_timeout())
            }
            State::Waiting | State::Over => None,
        }
    }

    fn expects_work(&self) -> bool {
        matches!(&self.state, State::Serving(core) if core.expects_work())
    }

    fn is_finished(&self) -> bool {
        match &self.state {
            State::Serving(core) => core.is_finished(),
            State::Over => true,
            State::Opening(_) | State::Waiting => false,
        }
    }
}
