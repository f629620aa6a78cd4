//! What runs on each core: opens the volumes (the first core), accepts clients, and at the end flushes once more.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use buf::Pool;
use host::{Accepted, Endpoint, EndpointId, Refusal, Service, World};
use names::VolumeUrl;
use protocol::Instant;
use volume::{CoreId, Geometry, Leaving, QueueContext, UsedVolumes, VolumeErrorKind};

use super::connection::Connection;
use super::endpoint::ClientEndpoint;
use super::export::Export;
use super::hub::Hub;
use super::limits::PENDING_SHARE;
use crate::limits::CONNECTIONS;
use crate::openings::{Openings, Unopened};

/// What is sent to the cores.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    /// The volumes are open.
    Volumes(UsedVolumes),
    /// End all connections in good order, flush, finish.
    Shutdown,
}

/// What a core reports.
#[derive(Debug)]
pub(crate) enum News {
    /// It serves volumes of these shapes, or why it cannot.
    Serving(Result<Vec<Geometry>, Unopened>),
    /// A signal asks to stop, sent before anything is served.
    Asked,
    /// What the last flush of a volume came to.
    Flushed(usize, Result<(), VolumeErrorKind>),
}

/// What all cores are given.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The volume of each listener.
    pub(crate) urls: Vec<VolumeUrl>,
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
    /// The last flushes are under way.
    Flushing,
    /// All is done.
    Over,
}

/// A volume as a core serves it.
struct Served {
    hub: Rc<Hub>,
    export: Arc<Export>,
    flush: LastFlush,
}

/// How far the last flush of a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastFlush {
    Open,
    UnderWay,
    Over,
}

impl Served {
    /// One more step of the last flush; what it came to, once.
    fn flush(&mut self, now: Instant) -> Option<Result<(), VolumeErrorKind>> {
        if self.flush == LastFlush::Open {
            if self.export.is_read_only() {
                self.flush = LastFlush::Over;
            } else if self.hub.flush(now) {
                self.flush = LastFlush::UnderWay;
            }
        }
        let result = self.hub.flushed().filter(|_| self.flush == LastFlush::UnderWay)?;
        self.flush = LastFlush::Over;
        Some(result)
    }
}

/// One core's service.
pub(crate) struct CoreService {
    plan: Plan,
    world: World<Message>,
    /// Memory for the connections, and for what the volume can do without.
    pool: Pool,
    tell: Sender<News>,
    opening: Option<Openings>,
    /// By their listeners.
    serving: Vec<Served>,
    /// Dropping the last handle of a remote volume logs out of its target.
    volumes: UsedVolumes,
    /// What no core uses any more, while it is left in order.
    leaving: Option<Leaving>,
    end: End,
}

impl CoreService {
    /// A core that opens the volumes, if it is the first, or waits for them.
    pub(crate) fn new(plan: Plan, world: World<Message>, tell: Sender<News>) -> Self {
        let pool = Pool::new(plan.memory);
        let opening = (world.core == 0).then(|| Openings::begin(plan.urls.iter(), &world, &pool));
        let (serving, volumes) = (Vec::new(), UsedVolumes::default());
        Self { plan, world, pool, tell, opening, serving, volumes, leaving: None, end: End::Open }
    }

    fn tell(&self, news: News) {
        // Nobody listens only while the process ends.
        let _unheard = self.tell.send(news);
    }

    fn fail(&mut self, unopened: Unopened) {
        self.tell(News::Serving(Err(unopened)));
        self.end = End::Over;
    }

    /// Begins to serve the open volumes.
    fn serve(&mut self, used: UsedVolumes) {
        let mut shapes = Vec::new();
        for (number, (volume, url)) in used.volumes().iter().zip(&self.plan.urls).enumerate() {
            let pool = self.pool.clone();
            let context = QueueContext::new(CoreId(self.world.core), self.world.waker.clone(), pool.clone());
            let queue = match volume.open_queue(&context) {
                Ok(queue) => queue,
                Err(error) => return self.fail(Unopened { number, error }),
            };
            let export = Export {
                description: url.to_string(),
                geometry: volume.geometry(),
                limits: volume.limits(),
                features: volume.features(),
                read_only: self.plan.read_only,
            };
            shapes.push(export.geometry);
            let hub = Rc::new(Hub::new(pool, queue));
            self.serving.push(Served { hub, export: Arc::new(export), flush: LastFlush::Open });
        }
        self.tell(News::Serving(Ok(shapes)));
        self.volumes = used;
    }

    /// All is done here: the last core leaves the volumes.
    fn leave(&mut self) {
        self.end = End::Over;
        self.serving.clear();
        let context = QueueContext::without_pool(CoreId(self.world.core), self.world.waker.clone());
        let volumes = std::mem::take(&mut self.volumes).let_go();
        self.leaving = Some(Leaving::begin(volumes, &context));
    }

    fn go_on_opening(&mut self, now: Instant) {
        let Some(result) = self.opening.as_mut().and_then(|opening| opening.poll(now)) else { return };
        self.opening = None;
        match result {
            Ok(volumes) => {
                let volumes = UsedVolumes::new(volumes);
                for core in 1..self.world.postbox.cores() {
                    self.world.postbox.post(core, Message::Volumes(volumes.clone()));
                }
                self.serve(volumes);
            }
            Err(unopened) => self.fail(unopened),
        }
    }

    /// Connections to all volumes.
    fn members(&self) -> usize {
        self.serving.iter().map(|served| served.hub.members()).sum()
    }

    /// After the last connection: one flush of each volume, so that what clients did not flush is not left to chance.
    fn go_on_ending(&mut self, now: Instant) {
        if self.end == End::Leaving && self.members() == 0 {
            self.end = End::Flushing;
        }
        if self.end != End::Flushing {
            return;
        }
        let mut is_over = true;
        for (number, served) in self.serving.iter_mut().enumerate() {
            if let Some(result) = served.flush(now) {
                // Nobody listens only while the process ends.
                let _unheard = self.tell.send(News::Flushed(number, result));
            }
            is_over &= served.flush == LastFlush::Over;
        }
        if is_over {
            // A queue of another machine's volume would connect anew once its connection ends, as all do then.
            self.leave();
        }
    }
}

impl Service for CoreService {
    type Message = Message;

    fn accept(&mut self, now: Instant, accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        let served = usize::try_from(accepted.listener.0).ok().and_then(|number| self.serving.get(number));
        let Some(Served { hub, export, .. }) = served else {
            return Err(Refusal("the volume is not open yet"));
        };
        if self.end != End::Open {
            return Err(Refusal("the adapter is stopping"));
        }
        hub.evict_oldest_pending(CONNECTIONS / PENDING_SHARE);
        if self.members() >= CONNECTIONS {
            return Err(Refusal("the limit of connections is reached"));
        }
        let connection = Connection::new(Arc::clone(export), &hub.pool, now);
        Ok(Box::new(ClientEndpoint::new(Rc::clone(hub), accepted.endpoint, connection)))
    }

    fn handle_message(&mut self, _now: Instant, message: Message) {
        match message {
            Message::Volumes(volumes) => self.serve(volumes),
            Message::Shutdown => {
                if self.end == End::Open {
                    self.end = End::Leaving;
                    self.opening = None;
                }
                self.serving.iter().for_each(|served| served.hub.notify_shutdown());
            }
        }
    }

    fn turn(&mut self, now: Instant, ready: &mut Vec<EndpointId>) {
        self.go_on_opening(now);
        self.serving.iter().for_each(|served| served.hub.poll(now, ready));
        self.go_on_ending(now);
        if self.end == End::Flushing {
            // A volume that answers at once has answered already.
            self.serving.iter().for_each(|served| served.hub.poll(now, ready));
            self.go_on_ending(now);
        }
        if self.leaving.as_mut().is_some_and(|leaving| leaving.poll(now)) {
            self.leaving = None;
        }
    }

    fn handle_gone(&mut self, _now: Instant, endpoint: EndpointId) {
        self.serving.iter().for_each(|served| served.hub.leave(endpoint));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let opening = self.opening.as_ref().and_then(Openings::poll_timeout);
        let serving = self.serving.iter().filter_map(|served| served.hub.poll_timeout());
        let leaving = self.leaving.as_ref().and_then(Leaving::poll_timeout);
        opening.into_iter().chain(serving).chain(leaving).min()
    }

    fn expects_work(&self) -> bool {
        self.serving.iter().any(|served| served.hub.is_busy())
    }

    fn is_finished(&self) -> bool {
        self.end == End::Over && self.leaving.is_none()
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
        let plan = Plan { urls: vec![url], read_only: false, memory: 1 << 20 };
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
