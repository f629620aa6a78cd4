//! What the controller has in hand: what is served now, what is being closed, and the ways to the cores.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use engine::{ControlEvent, Generation, Message};
use host::{Event, Journal, Kind, Postbox, StateError};
use ibverbs::SystemAdapters;
use reactor::ListenerControl;
use volume::VolumeId;

use super::ids::Ids;
use super::plan::{ClosingVolume, OpenVolume, Situation};
use super::reloads::Reloads;
use super::report;
use crate::accounts::Accounts;
use crate::config::Config;
use crate::control_input::{ControlInput, Ticket};
use crate::departures::Departures;
use crate::exports::{Exported, OpenPortal, Opened};
use crate::fresh::Fresh;
use crate::log::Log;
use crate::nfs_state::NfsState;
use crate::serving_core::Cores;
use crate::shares::OpenedShare;
use crate::state::States;

/// How often a volume is told of that takes its time to be closed.
const STILL_CLOSING: Duration = Duration::from_mins(1);

/// What is served. It changes as a whole.
#[derive(Debug, Default)]
pub(super) struct Current {
    pub(super) generation: Generation,
    /// `None` until something is served.
    pub(super) config: Option<Config>,
    pub(super) accounts: Accounts,
    /// In the order of the configuration.
    pub(super) opened: Vec<Opened>,
    /// In the order of the configuration.
    pub(super) shares: Vec<OpenedShare>,
    /// Why volumes are left out.
    pub(super) missing: Vec<String>,
    /// In the order of the configuration.
    pub(super) portals: Vec<OpenPortal>,
    pub(super) exported: Vec<Exported>,
}

/// A volume that was taken out, and of which a core may still have a queue.
#[derive(Debug)]
pub(super) struct Retiring {
    pub(super) opened: Opened,
    since: Instant,
    told: Instant,
}

/// A change cannot go on: the server stops, or an event loop has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interrupted;

/// The controller's ways to the rest of the process.
pub(super) struct Links {
    pub(super) inbox: Receiver<ControlInput>,
    pub(super) tell: Sender<ControlInput>,
    pub(super) cores: Arc<Cores>,
    pub(super) postbox: Arc<dyn Postbox<Message>>,
    pub(super) listeners: ListenerControl,
    pub(super) adapters: SystemAdapters,
    pub(super) log: Arc<Log>,
    pub(super) departures: Arc<Departures>,
}

/// What the controller has in hand.
pub(super) struct Context {
    pub(super) links: Links,
    pub(super) states: States,
    pub(super) ids: Ids,
    pub(super) current: Current,
    pub(super) reloads: Reloads,
    pub(super) retiring: BTreeMap<VolumeId, Retiring>,
    /// Shares that were taken out, and of which a core may still have a queue.
    pub(super) retiring_shares: BTreeMap<VolumeId, OpenedShare>,
    /// NFS' own state, once it was served.
    pub(super) nfs: Option<NfsState>,
    /// Volumes that were served until the end, and are flushed.
    pub(super) secured: BTreeSet<VolumeId>,
    /// Files that were made for what is served since the last change.
    pub(super) fresh: Vec<Fresh>,
    pub(super) is_stop_asked: bool,
    pub(super) is_reload_asked: bool,
    /// Event loops that have ended.
    pub(super) ended: usize,
    next_ticket: u64,
    /// Tickets before it were given up.
    first_valid: u64,
    /// Openings whose outcome came while the change that asked for them was at something else.
    outcomes: VecDeque<ControlInput>,
}

impl Context {
    /// Nothing is served yet.
    pub(super) fn new(links: Links, states: States) -> Self {
        Self {
            links,
            states,
            ids: Ids::default(),
            current: Current::default(),
            reloads: Reloads::default(),
            retiring: BTreeMap::new(),
            retiring_shares: BTreeMap::new(),
            nfs: None,
            secured: BTreeSet::new(),
            fresh: Vec::new(),
            is_stop_asked: false,
            is_reload_asked: false,
            ended: 0,
            next_ticket: 0,
            first_valid: 0,
            outcomes: VecDeque::new(),
        }
    }

    pub(super) fn record(&self, event: Event) {
        self.links.log.record(event);
    }

    /// What a plan begins with.
    pub(super) fn situation(&self) -> Situation<'_> {
        let Current { config, opened, .. } = &self.current;
        let entries = config.iter().flat_map(|config| &config.volumes);
        let open = entries.filter_map(|entry| {
            let opened = opened.iter().find(|opened| opened.name == entry.name)?;
            Some(OpenVolume { entry, identity: &opened.kept.identity })
        });
        let closing = self.retiring.values().map(|retiring| ClosingVolume {
            name: &retiring.opened.name,
            source: &retiring.opened.kept.source,
        });
        Situation {
            config: config.as_ref(),
            open: open.collect(),
            closing: closing.collect(),
            states_go_by_name: self.states.go_by_name(),
        }
    }

    /// A ticket for an opening.
    pub(super) fn ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        ticket
    }

    /// Gives up all openings that are under way.
    pub(super) fn give_up_openings(&mut self) {
        self.first_valid = self.next_ticket;
        self.outcomes.clear();
        self.links.cores.openings.give_up();
    }

    /// Waits for what a change under way asked for, and sees to everything else that comes.
    pub(super) fn wait(&mut self) -> Result<ControlInput, Interrupted> {
        loop {
            if self.is_interrupted() {
                return Err(Interrupted);
            }
            if let Some(outcome) = self.outcomes.pop_front() {
                return Ok(outcome);
            }
            // There is always a sender: the controller's own.
            let input = self.links.inbox.recv().map_err(|_| Interrupted)?;
            if let Some(answer) = self.note(input) {
                return Ok(answer);
            }
        }
    }

    /// Waits until something comes, or until `due`, and sees to it. There is no change under way.
    pub(super) fn receive(&mut self, due: Option<Instant>) {
        let inbox = &self.links.inbox;
        let input = match due {
            Some(due) => inbox.recv_timeout(due.saturating_duration_since(Instant::now())).ok(),
            None => inbox.recv().ok(),
        };
        let _of_no_use = input.and_then(|input| self.note(input));
    }

    /// Sees to what has come. Outcomes of openings are kept for [`wait`](Self::wait).
    pub(super) fn catch_up(&mut self) {
        while let Ok(input) = self.links.inbox.try_recv() {
            let noted = self.note(input);
            self.outcomes.extend(noted.filter(|input| matches!(input, ControlInput::Opened { .. })));
        }
    }

    /// True when a change under way is to end.
    pub(super) fn is_interrupted(&self) -> bool {
        self.is_stop_asked || self.ended > 0
    }

    /// Sees to what concerns the server as a whole; what a change waits for is given back.
    pub(super) fn note(&mut self, input: ControlInput) -> Option<ControlInput> {
        match input {
            ControlInput::Stop => self.is_stop_asked = true,
            ControlInput::Reload => self.is_reload_asked = true,
            ControlInput::CoreEnded => self.ended += 1,
            ControlInput::Engine(ControlEvent::Retired { id, secured, forced }) => {
                self.retire(id, secured, forced);
            }
            ControlInput::Prepared { ticket, prepared } if ticket.0 >= self.first_valid => {
                self.links.cores.openings.begin(ticket, *prepared);
            }
            ControlInput::Opened { ticket, .. } if ticket.0 >= self.first_valid => return Some(input),
            ControlInput::Engine(_) => return Some(input),
            // It was given up, and is closed here.
            ControlInput::Prepared { .. } | ControlInput::Opened { .. } => {}
        }
        None
    }

    /// A volume is served no more; its end is awaited.
    pub(super) fn begin_retiring(&mut self, opened: Opened) {
        let now = Instant::now();
        self.retiring.insert(opened.id, Retiring { opened, since: now, told: now });
    }

    /// Lets go of a share that no core has.
    pub(super) fn close_share(&mut self, share: OpenedShare) {
        let OpenedShare { id, filesystem, state, .. } = share;
        drop(filesystem);
        state.release();
        self.ids.release(id);
    }

    /// No core has a queue of the volume or the share any more.
    fn retire(&mut self, id: VolumeId, is_secured: bool, forced: u32) {
        if let Some(share) = self.retiring_shares.remove(&id) {
            let name = &share.entry.name;
            self.record(Event::new(
                Kind::Configuration,
                format!("the share {name:?} is not served any more"),
            ));
            return self.close_share(share);
        }
        let Some(Retiring { opened, since, .. }) = self.retiring.remove(&id) else {
            if is_secured {
                self.secured.insert(id);
            }
            return;
        };
        match keep_mark(&opened, is_secured) {
            Ok(()) => self.record(report::closed(&opened.name, since.elapsed(), forced)),
            Err(error) => self.record(Event::new(Kind::Configuration, error.to_string())),
        }
        self.close(opened);
    }

    /// Lets go of a volume that no core has: its file, its state and its name are free from here on.
    pub(super) fn close(&mut self, opened: Opened) {
        let Opened { id, name, volume, kept, .. } = opened;
        if Arc::strong_count(&volume) > 1 {
            let text = format!("the volume {name:?} is closed, and something in this process still holds it");
            self.record(Event::new(Kind::Configuration, text));
        }
        drop(volume);
        kept.state.release();
        self.ids.release(id);
    }

    /// Tells what has become of hosts that were asked to leave; when to look again.
    pub(super) fn tell_parting(&mut self, now: Instant) -> Option<Instant> {
        if let Some((generation, counts)) = self.reloads.poll(now, self.links.departures.counts()) {
            self.record(report::departed(generation, counts));
        }
        self.reloads.due()
    }

    /// Tells of volumes that take their time to be closed; when to look again.
    pub(super) fn tell_closing(&mut self, now: Instant) -> Option<Instant> {
        let mut lines = Vec::new();
        for retiring in self.retiring.values_mut().filter(|retiring| now >= retiring.told + STILL_CLOSING) {
            retiring.told = now;
            lines.push(report::still_closing(&retiring.opened.name, now.duration_since(retiring.since)));
        }
        for line in lines {
            self.record(line);
        }
        self.retiring.values().map(|retiring| retiring.told + STILL_CLOSING).min()
    }
}

/// A volume that the next server will not find marked as stopped in good order.
#[derive(Debug)]
pub(super) struct NotSecured {
    volume: String,
    /// Why its mark is not kept; `None` if the volume could not be flushed.
    cause: Option<StateError>,
}

impl fmt::Display for NotSecured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match &self.cause {
            None => "it could not be flushed".to_owned(),
            Some(error) => error.to_string(),
        };
        f.write_str(&report::not_secured(&self.volume, &why))
    }
}

impl std::error::Error for NotSecured {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as &(dyn std::error::Error + 'static))
    }
}

/// Keeps the mark of a volume that nobody uses any more, for the next server, if it is flushed.
pub(super) fn keep_mark(opened: &Opened, is_secured: bool) -> Result<(), NotSecured> {
    let kept = if is_secured { opened.kept.end() } else { Ok(false) };
    let cause = match kept {
        Ok(true) => return Ok(()),
        Ok(false) => None,
        Err(error) => Some(error),
    };
    Err(NotSecured { volume: opened.name.clone(), cause })
}
