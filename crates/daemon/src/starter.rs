//! What runs on a core until every volume is open, and then becomes the engine's core.
//!
//! A volume of another machine is opened over connections, and those live on an event loop: so core 0 opens the volumes once it runs,
//! and the other cores wait for it. Nothing is served before everything could be opened.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use engine::{Core, Message, Setup};
use host::{Accepted, Endpoint, EndpointId, Event, Journal, Kind, Refusal, Service, World};
use linerate::Opening;
use protocol::Instant;

use crate::config::VolumeEntry;
use crate::exports::Opened;
use crate::loss;
use crate::randomness;
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

/// Makes the export table of the opened volumes.
pub(crate) type Compose = Box<dyn Fn(&[Opened]) -> anyhow::Result<Setup> + Send + Sync>;

/// What the cores have in common while they start.
pub(crate) struct Start {
    volumes: Vec<VolumeEntry>,
    states: States,
    compose: Compose,
    journal: Arc<dyn Journal>,
    ready: OnceLock<Ready>,
    waiting: Mutex<Vec<Waker>>,
    /// Cores without connections that are flushing for the last time, or have.
    closing: AtomicUsize,
    /// What each core has secured that came to its end.
    secured: Mutex<Vec<Vec<bool>>>,
}

/// Everything is open.
struct Ready {
    opened: Vec<Opened>,
    setup: Arc<Setup>,
}

impl Start {
    /// These volumes are to be opened, with what is kept of them; `compose` is called with them then. Whoever comes before is told in the journal.
    pub(crate) fn new(
        volumes: Vec<VolumeEntry>,
        states: States,
        (compose, journal): (Compose, Arc<dyn Journal>),
    ) -> Arc<Self> {
        Arc::new(Self {
            volumes,
            states,
            compose,
            journal,
            ready: OnceLock::new(),
            waiting: Mutex::default(),
            closing: AtomicUsize::new(0),
            secured: Mutex::default(),
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

    /// The volumes that all cores have flushed after their last request, of so many cores.
    pub(crate) fn secured(&self, cores: usize) -> Vec<&Opened> {
        let secured = self.secured.lock().unwrap_or_else(PoisonError::into_inner);
        let everywhere = |index: usize| {
            secured.len() == cores && secured.iter().all(|core| core.get(index).copied().unwrap_or(false))
        };
        let opened = self.opened().iter().enumerate();
        opened.filter(|(index, _)| everywhere(*index)).map(|(_, entry)| entry).collect()
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets all cores serve what was opened.
    fn finish(&self, mut opened: Vec<Opened>) -> Result<(), String> {
        for entry in &mut opened {
            let begun = entry.kept.begin(&mut *randomness::source()());
            begun.map_err(|error| format!("the volume {:?} cannot be served: {error:#}", entry.name))?;
        }
        let setup = (self.compose)(&opened).map_err(|error| format!("{error:#}"))?;
        self.ready.get_or_init(|| Ready { opened, setup: Arc::new(setup) });
        self.wakers().drain(..).for_each(Waker::wake);
        Ok(())
    }
}

/// One core's service.
pub(crate) struct Starter {
    start: Arc<Start>,
    tell: Started,
    world: World<Message>,
    state: State,
    /// How far its stop is known to the others.
    told: Told,
}

/// What the others know of a core's stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    Closing,
    Secured,
}

enum State {
    /// Core 0: what is open, and what is being opened.
    Opening(Vec<Opened>, Option<(Box<Opening>, Before)>),
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
        let state = if opener { State::Opening(Vec::new(), None) } else { State::Waiting };
        // Nothing else wakes a core that has nothing to do yet.
        world.waker.wake_by_ref();
        Self { start, tell, world, state, told: Told::Nothing }
    }

    /// Opens one volume after the other; true once all are open.
    fn open(&mut self, now: Instant) -> Result<bool, String> {
        let State::Opening(opened, opening) = &mut self.state else { return Ok(true) };
        while let Some(entry) = self.start.volumes.get(opened.len()) {
            let (mut current, before) = if let Some(current) = opening.take() {
                current
            } else {
                let before = self.start.states.look(entry).map_err(|error| format!("{error:#}"))?;
                (Box::new(Opening::begin(&entry.url, &self.world)), before)
            };
            let Some(result) = current.poll(now) else {
                *opening = Some((current, before));
                return Ok(false);
            };
            let volume = result.map_err(|error| {
                format!("the volume {:?} cannot be opened: {}: {error}", entry.name, entry.url)
            })?;
            let kept = States::keep(entry, before, &mut *randomness::source()());
            let kept = kept.map_err(|error| format!("{error:#}"))?;
            loss::watch(&entry.name, &*volume, &kept.state, &self.start.journal)
                .map_err(|error| format!("{error:#}"))?;
            opened.push(Opened::new(entry, volume, kept));
        }
        let opened = std::mem::take(opened);
        self.state = State::Waiting;
        self.start.finish(opened)?;
        Ok(true)
    }

    /// Serves once everything is open.
    fn advance(&mut self, now: Instant) {
        let result = self.open(now).and_then(|_| match self.start.ready.get() {
            Some(ready) if matches!(self.state, State::Waiting) => {
                let core = Core::new(Arc::clone(&ready.setup), same(&self.world));
                let failure = core.failure().map(ToString::to_string);
                self.state = State::Serving(Box::new(core));
                failure.map_or(Ok(true), Err)
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
    /// Lets the others know how far the core's stop has come.
    fn tell_stop(&mut self) {
        let State::Serving(core) = &self.state else { return };
        if self.told == Told::Nothing && core.is_closing() {
            self.told = Told::Closing;
            self.start.closing.fetch_add(1, Ordering::SeqCst);
        }
        if self.told == Told::Closing
            && let Some(secured) = core.secured()
        {
            self.told = Told::Secured;
            self.start.secured.lock().unwrap_or_else(PoisonError::into_inner).push(secured);
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
        self.start.journal.record(Event::new(Kind::Rejected, refusal.0).from_peer(accepted.peer));
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
        self.tell_stop();
    }

    fn turn(&mut self, now: Instant, ready: &mut Vec<EndpointId>) {
        self.advance(now);
        if let State::Serving(core) = &mut self.state {
            core.turn(now, ready);
        }
        self.tell_stop();
    }

    fn handle_gone(&mut self, now: Instant, endpoint: EndpointId) {
        if let State::Serving(core) = &mut self.state {
            core.handle_gone(now, endpoint);
        }
        self.tell_stop();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Serving(core) => core.poll_timeout(),
            State::Opening(_, opening) => opening.as_ref().and_then(|(opening, _)| opening.poll_timeout()),
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
            State::Opening(..) | State::Waiting => false,
        }
    }
}
