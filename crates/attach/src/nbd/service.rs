//! What runs on each core: opens the volume (the first core), accepts clients, and at the end flushes once more.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use buf::Pool;
use host::{Accepted, Endpoint, EndpointId, Refusal, Service, World};
use linerate::CoreOpening;
use names::VolumeUrl;
use protocol::Instant;
use volume::{CoreId, Geometry, OpenError, QueueContext, Volume, VolumeErrorKind};

use super::connection::Connection;
use super::endpoint::ClientEndpoint;
use super::export::Export;
use super::hub::Hub;
use super::limits::PENDING_SHARE;
use crate::limits::CONNECTIONS;

/// What is sent to the cores.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    /// The volume is open.
    Volume(Arc<dyn Volume>),
    /// End all connections in good order, flush, finish.
    Shutdown,
}

/// What a core reports.
#[derive(Debug)]
pub(crate) enum News {
    /// It serves a volume of this shape, or why it cannot.
    Serving(Result<Geometry, OpenError>),
    /// A signal asks to stop, sent before anything is served.
    Asked,
    /// What the last flush came to.
    Flushed(Result<(), VolumeErrorKind>),
}

/// What all cores are given.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) url: VolumeUrl,
    pub(crate) read_only: bool,
    /// Bytes of data buffers of each core.
    pub(crate) memory: usize,
}

/// How far the end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Not asked for.
    Open,
    /// Connections are taking their leave.
    Leaving,
    /// The last flush is under way.
    Flushing,
    /// All is done.
    Over,
}

/// One core's service.
pub(crate) struct CoreService {
    plan: Plan,
    world: World<Message>,
    /// Memory for the connections, and for what the volume can do without.
    pool: Pool,
    tell: Sender<News>,
    opening: Option<CoreOpening>,
    serving: Option<(Rc<Hub>, Arc<Export>)>,
    /// Dropping the last handle of a remote volume logs out of its target.
    volume: Option<Arc<dyn Volume>>,
    end: End,
}

impl CoreService {
    /// A core that opens the volume, if it is the first, or waits for it.
    pub(crate) fn new(plan: Plan, world: World<Message>, tell: Sender<News>) -> Self {
        let pool = Pool::new(plan.memory);
        let opening = (world.core == 0).then(|| CoreOpening::begin(&plan.url, &world, &pool));
        Self { plan, world, pool, tell, opening, serving: None, volume: None, end: End::Open }
    }

    fn tell(&self, news: News) {
        // Nobody listens only while the process ends.
        let _unheard = self.tell.send(news);
    }

    fn fail(&mut self, error: OpenError) {
        self.tell(News::Serving(Err(error)));
        self.end = End::Over;
    }

    /// Begins to serve the open volume.
    fn serve(&mut self, volume: Arc<dyn Volume>) {
        let pool = self.pool.clone();
        let context = QueueContext::new(CoreId(self.world.core), self.world.waker.clone(), pool.clone());
        let queue = match volume.open_queue(&context) {
            Ok(queue) => queue,
            Err(error) => return self.fail(error),
        };
        let export = Export {
            description: self.plan.url.to_string(),
            geometry: volume.geometry(),
            limits: volume.limits(),
            features: volume.features(),
            read_only: self.plan.read_only,
        };
        self.tell(News::Serving(Ok(export.geometry)));
        let hub = Rc::new(Hub::new(pool, queue));
        self.serving = Some((hub, Arc::new(export)));
        self.volume = Some(volume);
    }

    fn go_on_opening(&mut self, now: Instant) {
        let Some(result) = self.opening.as_mut().and_then(|opening| opening.poll(now)) else { return };
        self.opening = None;
        match result {
            Ok(volume) => {
                for core in 1..self.world.postbox.cores() {
                    self.world.postbox.post(core, Message::Volume(Arc::clone(&volume)));
                }
                self.serve(volume);
            }
            Err(error) => self.fail(error),
        }
    }

    /// After the last connection: one flush, so that what clients did not flush is not left to chance.
    fn go_on_ending(&mut self, now: Instant) {
        let Some((hub, export)) = &self.serving else {
            if self.end == End::Leaving {
                self.end = End::Over;
            }
            return;
        };
        if self.end == End::Leaving && hub.members() == 0 {
            if export.is_read_only() {
                return self.finish();
            }
            if hub.flush(now) {
                self.end = End::Flushing;
            }
        }
        if self.end == End::Flushing
            && let Some(result) = hub.flushed()
        {
            self.tell(News::Flushed(result));
            self.finish();
        }
    }

    /// Lets go of the queue: one of another machine's volume would connect anew once its connection ends, as all do then.
    fn finish(&mut self) {
        (self.end, self.serving) = (End::Over, None);
    }
}

impl Service for CoreService {
    type Message = Message;

    fn accept(&mut self, now: Instant, accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        let Some((hub, export)) = &self.serving else { return Err(Refusal("the volume is not open yet")) };
        if self.end != End::Open {
            return Err(Refusal("the adapter is stopping"));
        }
        hub.evict_oldest_pending(CONNECTIONS / PENDING_SHARE);
        if hub.members() >= CONNECTIONS {
            return Err(Refusal("the limit of connections is reached"));
        }
        let connection = Connection::new(Arc::clone(export), &hub.pool, now);
        Ok(Box::new(ClientEndpoint::new(Rc::clone(hub), accepted.endpoint, connection)))
    }

    fn handle_message(&mut self, _now: Instant, message: Message) {
        match message {
            Message::Volume(volume) => self.serve(volume),
            Message::Shutdown => {
                if self.end == End::Open {
                    self.end = End::Leaving;
                    self.opening = None;
                }
                if let Some((hub, _)) = &self.serving {
                    hub.notify_shutdown();
                }
            }
        }
    }

    fn turn(&mut self, now: Instant, ready: &mut Vec<EndpointId>) {
        self.go_on_opening(now);
        if let Some((hub, _)) = &self.serving {
            hub.poll(now, ready);
        }
        self.go_on_ending(now);
        if let (End::Flushing, Some((hub, _))) = (self.end, &self.serving) {
            // A volume that answers at once has answered already.
            hub.poll(now, ready);
            self.go_on_ending(now);
        }
    }

    fn handle_gone(&mut self, _now: Instant, endpoint: EndpointId) {
        if let Some((hub, _)) = &self.serving {
            hub.leave(endpoint);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let opening = self.opening.as_ref().and_then(CoreOpening::poll_timeout);
        let serving = self.serving.as_ref().and_then(|(hub, _)| hub.poll_timeout());
        opening.into_iter().chain(serving).min()
    }

    fn expects_work(&self) -> bool {
        self.serving.as_ref().is_some_and(|(hub, _)| hub.is_busy())
    }

    fn is_finished(&self) -> bool {
        self.end == End::Over
    }
}

impl std::fmt::Debug for CoreService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CoreService").field("end", &self.end).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use reactor::{Cluster, Config};
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// A secret that nobody has written yet blocks whoever reads it. The limit only turns a hang into a failure.
    #[test]
    fn an_opening_that_blocks_does_not_hold_up_the_core() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        mknodat(CWD, &secret, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let target = "iscsi://127.0.0.1:1/iqn.2026-11.org.linerate:a/0?chap_user=u&chap_secret_file=";
        let url = format!("{target}{}", secret.display()).parse().unwrap();
        let plan = Plan { url, read_only: false, memory: 1 << 20 };
        let cluster = Cluster::new(1, Config::default()).unwrap();
        let postbox = cluster.postbox();
        let (tell, news) = channel();
        let core = cluster.into_cores().pop().unwrap();
        let thread = core.spawn(move |world| CoreService::new(plan, world, tell)).unwrap();
        // This waits until the opening has begun to read.
        let blocked = File::options().write(true).open(&secret).unwrap();
        postbox.post(0, Message::Shutdown);
        let heard = news.recv_timeout(Duration::from_mins(1)).map(drop);
        drop(blocked);
        assert_eq!(heard, Err(RecvTimeoutError::Disconnected), "the core ends, and says nothing");
        thread.join().unwrap().unwrap();
    }
}
