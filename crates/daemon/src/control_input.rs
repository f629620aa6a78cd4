//! What the controller hears of: signals, and what becomes of what it has asked the cores for.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use engine::{ControlEvent, ControlObserver, Departure};
use linerate::PreparedOpening;
use volume::{OpenError, Volume};

use crate::departures::Departures;

/// Names an opening that was asked for. An answer to one that was given up fits no later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

/// Something that the controller hears of.
#[derive(Debug)]
pub(crate) enum ControlInput {
    /// A signal asks to stop.
    Stop,
    /// A signal asks to look at the configuration again.
    Reload,
    /// What may block of an opening is done.
    Prepared { ticket: Ticket, prepared: Box<PreparedOpening> },
    /// A volume is open, or cannot be opened.
    Opened { ticket: Ticket, result: Result<Arc<dyn Volume>, OpenError> },
    /// What became of a catalogue or a volume.
    Engine(ControlEvent),
    /// An event loop has ended, asked or not.
    CoreEnded,
}

/// Hears what becomes of catalogues, volumes and connections, and passes it on or counts it.
#[derive(Debug)]
pub(crate) struct EngineEvents {
    pub(crate) tell: Sender<ControlInput>,
    pub(crate) departures: Arc<Departures>,
}

impl ControlObserver for EngineEvents {
    fn observe(&self, event: ControlEvent) {
        // Nobody listens any more only when the server ends.
        let _unheard = self.tell.send(ControlInput::Engine(event));
    }

    fn observe_departure(&self, departure: Departure) {
        self.departures.count(departure);
    }
}

/// Tells that an event loop has ended when it is dropped, however it came to that.
#[derive(Debug)]
pub(crate) struct CoreLife(pub(crate) Sender<ControlInput>);

impl Drop for CoreLife {
    fn drop(&mut self) {
        let _unheard = self.0.send(ControlInput::CoreEnded);
    }
}
