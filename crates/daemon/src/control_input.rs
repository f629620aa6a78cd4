//! What the controller hears of: signals, and what becomes of what it has asked the cores for.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use engine::{ControlEvent, ControlObserver};
use linerate::PreparedOpening;
use volume::{OpenError, Volume};

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

/// Hears what becomes of catalogues and volumes, and passes it on.
#[derive(Debug)]
pub(crate) struct EngineEvents(pub(crate) Sender<ControlInput>);

impl ControlObserver for EngineEvents {
    fn observe(&self, event: ControlEvent) {
        // Nobody listens any more only when the server ends.
        let _unheard = self.0.send(ControlInput::Engine(event));
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
