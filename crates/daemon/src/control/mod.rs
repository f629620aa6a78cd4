//! The controller: the only author of what is served. It runs on the thread that began the server, which may block, while the event loops never
//! do.
//!
//! A server begins with nothing to serve, and applies its configuration as it applies each later one: files, secrets and state are looked at
//! here, volumes opened by core 0, sockets bound, and all of it shown by all cores or by none (docs/decisions/0021-a-catalogue-that-is-replaced.md).

mod apply;
mod bind;
mod context;
mod ids;
mod plan;
mod reloads;
mod report;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use engine::Message;
use host::Postbox;
use ibverbs::SystemAdapters;
use reactor::{ListenerControl, Stopper};

pub(crate) use self::apply::Checked;
use self::apply::{Failure, Outcome, apply};
use self::context::{Context, Current, Links, keep_mark};
use crate::config::Config;
use crate::control_input::ControlInput;
use crate::departures::Departures;
use crate::exports::{OpenPortal, Opened};
use crate::help::PortalPlace;
use crate::log::Log;
use crate::serving_core::Cores;
use crate::shares::OpenedShare;
use crate::state::States;

/// How long connections get to end by themselves when the process is asked to stop.
const GRACE: Duration = Duration::from_secs(5);
/// How long the flush that follows the last connection may take: what a page cache holds of a slow disk, and less than service managers wait.
const FLUSH: Duration = Duration::from_mins(1);

/// An event loop's thread.
pub(crate) type CoreThread = JoinHandle<std::io::Result<()>>;

/// What the controller is given of the process that it controls.
pub(crate) struct Process {
    pub(crate) inbox: Receiver<ControlInput>,
    pub(crate) tell: Sender<ControlInput>,
    pub(crate) cores: Arc<Cores>,
    pub(crate) threads: Vec<CoreThread>,
    pub(crate) postbox: Arc<dyn Postbox<Message>>,
    pub(crate) listeners: ListenerControl,
    pub(crate) adapters: SystemAdapters,
    pub(crate) stopper: Stopper,
    pub(crate) log: Arc<Log>,
    pub(crate) departures: Arc<Departures>,
}

/// What a stop waits for.
#[derive(Debug, Clone, Copy)]
struct Stopping {
    /// When whoever is still there is cut off.
    due: Instant,
    /// All connections are gone, and the volumes are being flushed.
    flushes: bool,
}

/// The controller.
pub(crate) struct Controller {
    context: Context,
    threads: Vec<CoreThread>,
    stopper: Stopper,
    stopping: Option<Stopping>,
}

impl Controller {
    /// Controls a process that serves nothing yet.
    pub(crate) fn new(process: Process, states: States) -> Self {
        let Process { inbox, tell, cores, threads, postbox, listeners, adapters, stopper, log, departures } =
            process;
        let links = Links { inbox, tell, cores, postbox, listeners, adapters, log, departures };
        Self { context: Context::new(links, states), threads, stopper, stopping: None }
    }

    /// Serves the first configuration; false if a signal asks to stop before it does.
    pub(crate) fn begin(&mut self, config: Checked) -> Result<bool> {
        match apply(&mut self.context, config) {
            Ok(_) => Ok(true),
            Err(Failure::Interrupted) if self.context.ended == 0 => Ok(false),
            Err(Failure::Interrupted) => {
                self.give_up()?;
                bail!("an event loop ended before it began")
            }
            Err(Failure::Invalid(problems)) => {
                bail!(problems.into_iter().next().unwrap_or_default())
            }
        }
    }

    /// Serves another configuration in place of the present one, or says in the log why not. True if it is served.
    pub(crate) fn reload(&mut self, load: impl FnOnce() -> Result<Config>) -> bool {
        let checked = load().map_err(|error| vec![format!("{error:#}")]).and_then(Checked::new);
        let before = self.context.links.departures.counts();
        let outcome = checked.map_err(Failure::Invalid).and_then(|next| apply(&mut self.context, next));
        let generation = self.context.current.generation;
        let reloads = &mut self.context.reloads;
        match &outcome {
            Ok(Outcome::Applied(_)) => {
                reloads.handle_applied(Instant::now(), generation, before);
            }
            Ok(Outcome::Unchanged) => reloads.unchanged += 1,
            Err(Failure::Invalid(_)) => reloads.refused += 1,
            Err(Failure::Interrupted) => {}
        }
        match outcome {
            Ok(Outcome::Applied(event)) => {
                self.context.record(event);
                return true;
            }
            Ok(Outcome::Unchanged) => self.context.record(report::unchanged(generation)),
            Err(Failure::Invalid(problems)) => {
                for problem in &problems {
                    self.context.record(report::refused(generation, problem));
                }
            }
            Err(Failure::Interrupted) => {}
        }
        false
    }

    /// What has become of reloads, if there were any.
    pub(crate) fn reloads_line(&self) -> Option<String> {
        self.context.reloads.line(self.context.links.departures.counts())
    }

    /// The volumes that are served.
    pub(crate) fn opened(&self) -> &[Opened] {
        &self.context.current.opened
    }

    /// The shares that are served.
    pub(crate) fn shares(&self) -> &[OpenedShare] {
        &self.context.current.shares
    }

    /// Where it listens.
    pub(crate) fn portals(&self) -> Vec<PortalPlace> {
        let place = |OpenPortal { entry, address, socket, .. }: &OpenPortal| PortalPlace {
            kind: entry.kind(),
            address: *address,
            udp: socket.map(|socket| socket.local),
        };
        self.context.current.portals.iter().map(place).collect()
    }

    /// A line for each volume that is not served.
    pub(crate) fn missing(&self) -> Vec<String> {
        let line = |why: &String| format!("{why}; the others are served without it");
        self.context.current.missing.iter().map(line).collect()
    }

    /// Waits until there is something for the caller to see to; `None` once all event loops have ended.
    pub(crate) fn wait(&mut self) -> Option<Asked> {
        loop {
            self.context.catch_up();
            // Looked at behind all that has come: once the last event loop has ended nothing more comes, and to wait for it would last until the grace is over.
            if self.context.ended >= self.threads.len() {
                return None;
            }
            let now = Instant::now();
            match self.stopping {
                Some(stopping) => self.hurry(stopping, now),
                None if self.context.ended > 0 => self.stopper.stop(),
                None if self.context.is_stop_asked => return Some(Asked::Stop),
                None if std::mem::take(&mut self.context.is_reload_asked) => return Some(Asked::Reload),
                None => {}
            }
            let closing = self.context.tell_closing(now);
            let parting = self.context.tell_parting(now);
            let due = self.stopping.map(|stopping| stopping.due);
            self.context.receive([closing, parting, due].into_iter().flatten().min());
        }
    }

    /// Asks all connections to end, and the event loops after them.
    pub(crate) fn stop(&mut self) {
        for core in 0..self.context.links.postbox.cores() {
            self.context.links.postbox.post(core, Message::Shutdown);
        }
        self.stopping = Some(Stopping { due: Instant::now() + GRACE, flushes: false });
    }

    /// Ends the event loops at once: what began is not to go on. Files that were made for it are removed, unless they hold something.
    pub(crate) fn give_up(&mut self) -> Result<()> {
        self.stopper.stop();
        let outcome = self.join();
        self.context.fresh.drain(..).for_each(|file| file.remove());
        outcome
    }

    /// Cuts off whoever is still connected after the grace. A last flush has longer: without it the clients must take what they wrote as lost.
    fn hurry(&mut self, stopping: Stopping, now: Instant) {
        if now < stopping.due {
            return;
        }
        let closing = self.context.links.cores.closing.load(Ordering::SeqCst);
        if !stopping.flushes && closing == self.threads.len() {
            self.stopping = Some(Stopping { due: now + FLUSH, flushes: true });
        } else {
            self.stopper.stop();
            self.stopping = Some(Stopping { due: now + FLUSH, ..stopping });
        }
    }

    /// Waits for all event loops, which have been told to end.
    pub(crate) fn join(&mut self) -> Result<()> {
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let outcome = thread.join().map_err(|_| anyhow!("an event loop panicked"));
            result = result.and(outcome.and_then(|outcome| outcome.context("an event loop failed")));
        }
        self.context.catch_up();
        result
    }

    /// Keeps the marks of what was flushed after the last request, for the next server; says which volumes were not. All event loops have ended.
    pub(crate) fn keep_marks(&self, say: &dyn Fn(&str)) {
        let Context { current: Current { opened, .. }, retiring, secured, .. } = &self.context;
        for entry in opened.iter().chain(retiring.values().map(|retiring| &retiring.opened)) {
            if let Err(error) = keep_mark(entry, secured.contains(&entry.id)) {
                say(&error.to_string());
            }
        }
    }
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Reload,
    Stop,
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use engine::EngineConfig;
    use reactor::Cluster;

    use super::*;
    use crate::control_input::EngineEvents;
    use crate::log::{Filter, Format, Output};
    use crate::openings::Openings;
    use crate::randomness;

    /// A controller of one event loop, which has ended, and what tells it so.
    fn controller() -> (Controller, Sender<ControlInput>) {
        let cluster: Cluster<Message> = Cluster::new(1, reactor::Config::default()).unwrap();
        let log =
            Log::start(Filter::default(), Output { stream: Box::new(io::sink()), format: Format::Text });
        let (tell, inbox) = mpsc::channel();
        let departures = Arc::new(Departures::default());
        let events = EngineEvents { tell: tell.clone(), departures: Arc::clone(&departures) };
        let engine = EngineConfig {
            pool_limit: 1 << 20,
            entropy: randomness::source(),
            adapters: Arc::new(host::NoAdapters),
            journal: Arc::clone(&log) as Arc<dyn host::Journal>,
            observer: Arc::new(events),
            roce: Arc::default(),
        };
        let process = Process {
            inbox,
            tell: tell.clone(),
            cores: Arc::new(Cores {
                engine: Arc::new(engine),
                openings: Arc::new(Openings::default()),
                closing: AtomicUsize::new(0),
            }),
            threads: vec![std::thread::spawn(|| Ok(()))],
            postbox: cluster.postbox(),
            listeners: cluster.control(),
            stopper: cluster.stopper(),
            adapters: SystemAdapters::default(),
            log,
            departures,
        };
        (Controller::new(process, States::new(&Config::default())), tell)
    }

    /// A volume of another machine may be open, or not to be opened, before the next one of the configuration is looked at.
    #[test]
    fn the_outcome_of_an_opening_waits_for_whoever_asked_for_it() {
        let (mut controller, tell) = controller();
        let context = &mut controller.context;
        let ticket = context.ticket();
        let result = Err(volume::OpenError::new("nobody is there"));
        tell.send(ControlInput::Opened { ticket, result }).unwrap();
        context.catch_up();
        tell.send(ControlInput::Stop).unwrap();
        let outcome = context.wait();
        assert!(matches!(outcome, Ok(ControlInput::Opened { ticket: found, .. }) if found == ticket));
    }

    #[test]
    fn a_stop_is_over_with_the_last_event_loop_whenever_it_is_heard_of() {
        let (mut controller, tell) = controller();
        controller.stop();
        tell.send(ControlInput::CoreEnded).unwrap();
        let begun = Instant::now();
        assert!(controller.wait().is_none());
        assert!(begun.elapsed() < GRACE, "it waited for what could not come any more");
    }
}
