//! Putting a configuration in place of the one that is served: what is new is opened and bound first, then the cores are asked, and only when all of them serve
//! it is what is gone closed. Whatever fails on the way is undone, and what was served stays as it is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use engine::{Catalogue, ConnectionLimits, ControlEvent, Generation, Message};
use host::{Event, Kind, Level, ListenerId, Storage};
use linerate::PreparedOpening;
use names::{Host, Source, VolumeUrl};
use reactor::{DatagramSockets, Files, Listener};
use volume::Volume;

use super::bind::{bind, bind_adapter, bind_sockets};
use super::context::{Context, Current, Interrupted};
use super::ids::VOLUMES;
use super::plan::ApplyPlan;
use super::report::{self, Change};
use crate::accounts::Accounts;
use crate::config::{Config, Protocol, Transport, VolumeEntry};
use crate::control_input::{ControlInput, Ticket};
use crate::exports::{self, BoundSocket, Exported, OpenPortal, Opened, Wanted};
use crate::fresh::Fresh;
use crate::nfs_state::NfsState;
use crate::prepare::prepare;
use crate::shares::OpenedShare;
use crate::state::{Before, States};
use crate::{descriptors, loss, randomness};

/// The core that catalogues are proposed to.
const COORDINATOR: u16 = 0;

/// A configuration without mistakes of its own, and the secrets that it names.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(super) config: Config,
    accounts: Accounts,
    warnings: Vec<String>,
}

impl Checked {
    /// The configuration, or all that is wrong with it.
    pub(crate) fn new(config: Config) -> Result<Self, Vec<String>> {
        let (accounts, findings) = prepare(&config);
        let warnings = findings.warnings;
        if findings.problems.is_empty() {
            Ok(Self { config, accounts, warnings })
        } else {
            Err(findings.problems)
        }
    }
}

/// What became of a configuration.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is served, and this is to be told.
    Applied(Event),
    /// It was served already.
    Unchanged,
}

/// Why a configuration is not served.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Invalid(Vec<String>),
    Interrupted,
}

impl Failure {
    fn because(why: impl Into<String>) -> Self {
        Self::Invalid(vec![why.into()])
    }
}

impl From<Interrupted> for Failure {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// Serves a configuration.
pub(super) fn apply(context: &mut Context, next: Checked) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let plan = ApplyPlan::between(&context.situation(), &next.config).map_err(Failure::Invalid)?;
    let mut draft = Draft::default();
    match draft.complete(context, &plan, &next) {
        Ok(Some(generation)) => {
            let change = draft.install(context, next, generation);
            Ok(Outcome::Applied(report::applied(generation, begun.elapsed(), &change)))
        }
        Ok(None) => {
            context.current.missing = draft.missing;
            Ok(Outcome::Unchanged)
        }
        Err(failure) => {
            draft.undo(context);
            Err(failure)
        }
    }
}

/// A volume that is open, of which nothing is kept yet.
struct Found {
    entry: VolumeEntry,
    before: Before,
    volume: Arc<dyn Volume>,
}

/// An opening that is under way.
struct Awaited {
    entry: VolumeEntry,
    before: Before,
}

/// What was made for a configuration that is not served yet.
#[derive(Default)]
struct Draft {
    bound: Vec<(ListenerId, Listener)>,
    /// Sockets for datagrams, which portals share.
    sockets: Vec<(BoundSocket, DatagramSockets)>,
    /// Ports of adapters that no core has taken.
    ports: Vec<ListenerId>,
    /// All portals of the configuration.
    portals: Vec<OpenPortal>,
    /// Files that were made.
    fresh: Vec<Fresh>,
    awaited: BTreeMap<Ticket, Awaited>,
    found: Vec<Found>,
    /// New volumes that are ready to be served.
    added: Vec<Opened>,
    /// New shares.
    added_shares: Vec<OpenedShare>,
    /// All shares that are to be served.
    shares: Vec<OpenedShare>,
    /// Why others are left out.
    missing: Vec<String>,
    /// All volumes that are to be served.
    opened: Vec<Opened>,
    exported: Vec<Exported>,
}

impl Draft {
    /// Makes everything, and has the cores serve it; `None` if it is what they serve already.
    fn complete(
        &mut self,
        context: &mut Context,
        plan: &ApplyPlan,
        next: &Checked,
    ) -> Result<Option<Generation>, Failure> {
        self.bind(context, plan, &next.config)?;
        self.open(context, &plan.added)?;
        self.open_shares(context, &next.config)?;
        let current = &context.current;
        let is_same = self.found.is_empty()
            && plan.removed.is_empty()
            && current.config.as_ref() == Some(&next.config)
            && current.accounts == next.accounts;
        if is_same {
            return Ok(None);
        }
        for warning in &next.warnings {
            context.record(Event::new(Kind::Configuration, warning.clone()));
        }
        self.keep(context)?;
        let catalogue = self.compose(context, plan, next)?;
        propose(context, catalogue).map(Some)
    }

    /// Listens where nothing listens yet.
    fn bind(&mut self, context: &mut Context, plan: &ApplyPlan, next: &Config) -> Result<(), Failure> {
        for (entry, kept) in next.portals.iter().zip(&plan.portals) {
            let kept = kept.and_then(|index| context.current.portals.get(index));
            let portal = if let Some(old) = kept {
                OpenPortal { entry: entry.clone(), ..old.clone() }
            } else if let Some(asked) = entry.udp() {
                let socket = self.bind_socket(context, asked)?;
                let address = SocketAddr::new(asked.ip(), entry.listen.port);
                OpenPortal { id: context.ids.listener(), entry: entry.clone(), address, socket: Some(socket) }
            } else if entry.transport == Transport::Rdma {
                let port = bind_adapter(entry).map_err(|error| Failure::because(error.to_string()))?;
                let (id, address) = (context.ids.listener(), port.local());
                // The core that takes it does so as soon as it serves the portal.
                context.links.adapters.offer(id, port);
                self.ports.push(id);
                OpenPortal { id, entry: entry.clone(), address, socket: None }
            } else {
                let listener = bind(entry, &context.current.portals)
                    .map_err(|error| Failure::because(error.to_string()))?;
                let (id, address) = (context.ids.listener(), listener.local());
                self.bound.push((id, listener));
                OpenPortal { id, entry: entry.clone(), address, socket: None }
            };
            self.portals.push(portal);
        }
        Ok(())
    }

    /// The socket at an address: one that there is, or a new one.
    fn bind_socket(&mut self, context: &mut Context, asked: SocketAddr) -> Result<BoundSocket, Failure> {
        let mut known =
            context.current.portals.iter().chain(&self.portals).filter_map(|portal| portal.socket);
        if let Some(socket) = known.find(|socket| socket.asked == asked) {
            return Ok(socket);
        }
        let cores = context.links.postbox.cores();
        let bound = bind_sockets(asked, cores).map_err(|error| Failure::because(error.to_string()))?;
        let socket = BoundSocket { id: context.ids.listener(), asked, local: bound.local() };
        self.sockets.push((socket, bound));
        Ok(socket)
    }

    /// Opens volumes: those of this machine one after the other, while those of others are on their way.
    fn open(&mut self, context: &mut Context, entries: &[VolumeEntry]) -> Result<(), Failure> {
        for entry in entries {
            context.catch_up();
            let before = match context.states.look(entry) {
                Ok(before) => before,
                Err(error) => {
                    self.leave_out(context, entry, format!("{error:#}"))?;
                    continue;
                }
            };
            self.fresh.extend(Fresh::of(&entry.url));
            let ticket = context.ticket();
            begin(context, ticket, &entry.url)?;
            self.awaited.insert(ticket, Awaited { entry: entry.clone(), before });
            while !is_remote(&entry.url.source) && self.awaited.contains_key(&ticket) {
                self.await_one(context)?;
            }
        }
        while !self.awaited.is_empty() {
            self.await_one(context)?;
        }
        let place = |found: &Found| entries.iter().position(|entry| entry.name == found.entry.name);
        self.found.sort_by_key(place);
        Ok(())
    }

    fn await_one(&mut self, context: &mut Context) -> Result<(), Failure> {
        let ControlInput::Opened { ticket, result } = context.wait()? else { return Ok(()) };
        let Some(Awaited { entry, before }) = self.awaited.remove(&ticket) else { return Ok(()) };
        match result {
            Ok(volume) => self.found.push(Found { entry, before, volume }),
            Err(error) => {
                let (name, url) = (&entry.name, &entry.url);
                let why = format!("the volume {name:?} cannot be opened: {url}: {error}");
                self.leave_out(context, &entry, why)?;
            }
        }
        Ok(())
    }

    /// Goes on without a volume that may be left out; otherwise says why nothing of the configuration can be served.
    fn leave_out(&mut self, context: &Context, entry: &VolumeEntry, why: String) -> Result<(), Failure> {
        if !entry.nofail {
            return Err(Failure::because(why));
        }
        context.record(Event::new(Kind::Configuration, why.clone()).at(Level::Error));
        self.missing.push(why);
        Ok(())
    }

    /// Reads, and keeps, what outlives the process of the volumes that were found: they are this process's from now on.
    fn keep(&mut self, context: &mut Context) -> Result<(), Failure> {
        for found in std::mem::take(&mut self.found) {
            let entry = found.entry.clone();
            let Some(id) = context.ids.volume() else {
                return Err(Failure::because(format!(
                    "the volume {:?} is one too many: a server serves {VOLUMES}; let another server serve some",
                    entry.name
                )));
            };
            match keep(context, found) {
                Ok(opened) => self.added.push(Opened { id, ..opened }),
                Err(error) => {
                    context.ids.release(id);
                    self.leave_out(context, &entry, format!("{error:#}"))?;
                }
            }
        }
        Ok(())
    }

    /// Opens shares that are new, and what NFS itself begins with.
    fn open_shares(&mut self, context: &mut Context, next: &Config) -> Result<(), Failure> {
        let told = |error: anyhow::Error| Failure::because(format!("{error:#}"));
        for entry in &next.shares {
            let name = &entry.name;
            let served = context.current.shares.iter().find(|share| share.entry.name == *name);
            if let Some(share) = served {
                if share.entry.url != entry.url {
                    return Err(Failure::because(format!(
                        "the share {name:?} cannot change from {} to {} while it is served: take it out, reload, and put it back, or restart",
                        share.entry.url, entry.url
                    )));
                }
                self.shares.push(share.moved(entry));
                continue;
            }
            if context.retiring_shares.values().any(|share| share.entry.name == *name) {
                return Err(Failure::because(format!(
                    "the share {name:?} is still being closed: requests wait for what it lies on; try again later"
                )));
            }
            let state = context.states.of_share(entry).map_err(told)?;
            let Some(id) = context.ids.volume() else {
                return Err(Failure::because(format!(
                    "the share {name:?} is one too many: a server serves {VOLUMES} volumes and shares; let another server serve some"
                )));
            };
            match OpenedShare::open(entry, id, state, &mut *randomness::source()()) {
                Ok(share) => {
                    self.added_shares.push(share.clone());
                    self.shares.push(share);
                }
                Err(error) => {
                    context.ids.release(id);
                    return Err(told(error));
                }
            }
        }
        if context.nfs.is_none() && next.portals.iter().any(|portal| portal.protocol == Protocol::Nfs) {
            let state = context.states.of_nfs(&next.portals).map_err(told)?;
            let links = (Arc::clone(&context.links.postbox), Arc::clone(&context.links.cores.engine.journal));
            context.nfs = Some(NfsState::begin(state, &mut *randomness::source()(), links).map_err(told)?);
        }
        Ok(())
    }

    /// The catalogue of everything that is to be served.
    fn compose(&mut self, context: &Context, plan: &ApplyPlan, next: &Checked) -> Result<Catalogue, Failure> {
        let current = &context.current;
        for entry in &next.config.volumes {
            let volumes = if plan.kept.contains(&entry.name) { &current.opened } else { &self.added };
            let volume = volumes.iter().find(|opened| opened.name == entry.name);
            self.opened.extend(volume.map(|opened| opened.moved(entry)));
        }
        if self.opened.is_empty() && !next.config.volumes.is_empty() {
            let missing = self.missing.join("; ");
            return Err(Failure::because(format!("no volume can be served: {missing}")));
        }
        let told = |error: anyhow::Error| Failure::because(format!("{error:#}"));
        exports::check_distinct(&self.opened).map_err(told)?;
        let wanted = Wanted {
            config: &next.config,
            accounts: &next.accounts,
            opened: &self.opened,
            shares: &self.shares,
            nfs: context.nfs.as_ref(),
        };
        let generation = Generation(current.generation.0 + 1);
        self.exported =
            exports::export(wanted, &self.portals, &current.exported, generation).map_err(told)?;
        let limits = limits(context, &next.config);
        Ok(exports::catalogue(wanted, &self.exported, generation, limits))
    }

    /// The cores serve it: from here on it is what is served.
    fn install(self, context: &mut Context, next: Checked, generation: Generation) -> Change {
        let Checked { config, accounts, .. } = next;
        let Self { bound, sockets, portals, missing, opened, shares, exported, added, fresh, .. } = self;
        context.fresh = fresh;
        let is_new = |portal: &&OpenPortal| !context.current.portals.iter().any(|old| old.id == portal.id);
        let mut change = Change { opened: portals.iter().filter(is_new).count(), ..Change::default() };
        let listeners = &context.links.listeners;
        let bound = bound.into_iter().map(|(id, listener)| listeners.open(id, listener));
        let sockets = sockets.into_iter().map(|(socket, bound)| listeners.open_sockets(socket.id, bound));
        for error in bound.chain(sockets).filter_map(Result::err) {
            context.record(Event::new(Kind::Configuration, error.to_string()).at(Level::Error));
        }
        if let Some(filter) = config.daemon.log.clone() {
            context.links.log.set_filter(filter);
        }
        let (config, kept) = (Some(config), opened.len() - added.len());
        let next = Current { generation, config, accounts, opened, shares, missing, portals, exported };
        let before = std::mem::replace(&mut context.current, next);
        for old in before.portals {
            if context.current.portals.iter().any(|portal| portal.id == old.id) {
                continue;
            }
            change.closed += 1;
            let is_used = |socket| context.current.portals.iter().any(|portal| portal.socket == Some(socket));
            let unused = match old.socket {
                Some(socket) => Some(socket.id).filter(|_| !is_used(socket)),
                // Its core has closed the port of an adapter already.
                None => Some(old.id).filter(|_| old.entry.transport != Transport::Rdma),
            };
            if let Some(id) = unused {
                context.links.listeners.close(id);
            }
        }
        for old in before.shares {
            if !context.current.shares.iter().any(|share| share.id == old.id) {
                context.retiring_shares.insert(old.id, old);
            }
        }
        for old in before.opened {
            if !context.current.opened.iter().any(|opened| opened.id == old.id) {
                change.removed.push(old.name.clone());
                context.begin_retiring(old);
            }
        }
        Change { added: added.into_iter().map(|opened| opened.name).collect(), kept, ..change }
    }

    /// Takes back all that was made.
    fn undo(self, context: &mut Context) {
        context.give_up_openings();
        let Self { added, added_shares, shares, fresh, opened, found, bound, sockets, ports, .. } = self;
        for id in ports {
            context.links.adapters.withdraw(id);
        }
        drop((opened, shares, found, bound, sockets));
        for share in added_shares {
            context.close_share(share);
        }
        for opened in added {
            // Nobody has used it: it is as clean as it was.
            if let Err(error) = opened.kept.end() {
                context.record(Event::new(Kind::Configuration, error.to_string()));
            }
            context.close(opened);
        }
        fresh.iter().for_each(Fresh::remove);
    }
}

fn is_remote(source: &Source) -> bool {
    matches!(source, Source::Iscsi(_) | Source::Nvme(_) | Source::Nfs(_))
}

/// Begins to open a volume: core 0 goes on once all is done that may block.
fn begin(context: &Context, ticket: Ticket, url: &VolumeUrl) -> Result<(), Failure> {
    let may_block = match &url.source {
        Source::Iscsi(remote) => matches!(remote.portal.host, Host::Name(_)),
        Source::Nvme(remote) => matches!(remote.portal.host, Host::Name(_)),
        Source::Nfs(remote) => matches!(remote.portal.host, Host::Name(_)),
        Source::Composite(_) => true,
        _ => false,
    };
    let prepare = |url: &VolumeUrl| PreparedOpening::new(url, &(Arc::new(Files) as Arc<dyn Storage>));
    if !may_block {
        context.links.cores.openings.begin(ticket, prepare(url));
        return Ok(());
    }
    // Looking a name up takes as long as it takes, and signals are heard meanwhile.
    let (tell, url) = (context.links.tell.clone(), url.clone());
    let thread = std::thread::Builder::new().name("name look-up".to_owned());
    let thread = thread.spawn(move || {
        let prepared = Box::new(prepare(&url));
        // Nobody listens any more only when the server ends.
        let _unheard = tell.send(ControlInput::Prepared { ticket, prepared });
    });
    thread.map(drop).map_err(|error| Failure::because(format!("no thread can look up a name: {error}")))
}

/// What is kept of a volume that is open: it is this process's from now on.
fn keep(context: &Context, found: Found) -> Result<Opened> {
    let Found { entry, before, volume } = found;
    let (name, state, mut entropy) = (&entry.name, before.state().clone(), randomness::source()());
    let kept = States::keep(&entry, before, &mut *entropy).and_then(|mut kept| {
        loss::watch(name, &*volume, &kept.state, &context.links.cores.engine.journal)
            .and_then(|()| kept.begin(&mut *entropy))
            .with_context(|| format!("the volume {name:?} cannot be served"))?;
        Ok(kept)
    });
    if kept.is_err() {
        state.release();
    }
    kept.map(|kept| Opened::new(&entry, volume, kept))
}

fn limits(context: &Context, config: &Config) -> ConnectionLimits {
    let cores = usize::from(config.daemon.cores.unwrap_or(1).max(1));
    let volumes = config.volumes.len();
    let connections = descriptors::connections(config.limits.connections, volumes, &*context.links.log);
    ConnectionLimits { per_core: connections.div_ceil(cores) }
}

/// Has all cores serve a catalogue. A signal to stop waits: they answer soon.
fn propose(context: &mut Context, catalogue: Catalogue) -> Result<Generation, Failure> {
    let generation = catalogue.generation;
    context.catch_up();
    if context.is_interrupted() {
        return Err(Failure::Interrupted);
    }
    context.links.postbox.post(COORDINATOR, Message::Propose(Arc::new(catalogue)));
    while context.ended == 0 {
        let Ok(input) = context.links.inbox.recv() else { break };
        match context.note(input) {
            Some(ControlInput::Engine(ControlEvent::Applied(applied))) if applied == generation => {
                return Ok(generation);
            }
            Some(ControlInput::Engine(ControlEvent::Rejected(refused, error))) if refused == generation => {
                return Err(Failure::because(error.to_string()));
            }
            _ => {}
        }
    }
    Err(Failure::Interrupted)
}
