//! A core that sleeps unless something keeps it awake.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Wake, Waker};
use std::time::Duration;

use host::{
    BlockFile, CoreIndex, Dialer, Endpoint, EndpointId, IoError, OpenOptions, Polled, Postbox, Service,
    Storage, WatchEndpoint, World,
};
use protocol::Instant;
use volume::UsedVolumes;

use super::slow::Slow;
use crate::vhost::ring::RingPlan;
use crate::vhost::service::{CoreService, Message, News, Plan, RingId};

/// Turns that a core may take while nothing happens outside: some for each request that there can be.
const MOST_TURNS: usize = 20_000;
/// How long the volume and everybody's requests may take at most.
const LONGEST: Duration = Duration::from_mins(1);

thread_local! {
    /// What the core looks at by itself.
    static POLLED: RefCell<Vec<Weak<dyn Polled>>> = const { RefCell::new(Vec::new()) };
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// A world of one core, in which nothing but memory is shared with anybody.
struct Nothing(AtomicU32);

impl Dialer for Nothing {
    fn dial(&self, _peer: std::net::SocketAddr, _endpoint: Box<dyn Endpoint>) -> EndpointId {
        unreachable!("nobody dials")
    }

    fn watch(&self, _descriptor: OwnedFd, _endpoint: Box<dyn WatchEndpoint>) -> EndpointId {
        EndpointId(u64::from(self.0.fetch_add(1, Ordering::Relaxed)))
    }

    fn poll_memory(&self, polled: &Rc<dyn Polled>) -> bool {
        POLLED.with_borrow_mut(|all| all.push(Rc::downgrade(polled)));
        true
    }

    fn wake(&self, _endpoint: EndpointId) {}

    fn waker(&self, _endpoint: EndpointId) -> Waker {
        Waker::noop().clone()
    }
}

impl Storage for Nothing {
    fn open(&self, _path: &str, _options: OpenOptions) -> Result<Arc<dyn BlockFile>, IoError> {
        unreachable!("nobody opens files")
    }
}

impl Postbox<Message> for Nothing {
    fn post(&self, _core: CoreIndex, _message: Message) {}

    fn cores(&self) -> CoreIndex {
        2
    }
}

/// The core.
pub(super) struct Core {
    service: CoreService,
    pub(super) now: Instant,
    flag: Arc<Flag>,
    news: Receiver<News>,
    rings: u32,
}

/// Everything that is still to be looked at.
fn polled() -> Vec<Rc<dyn Polled>> {
    POLLED.with_borrow_mut(|all| {
        all.retain(|one| one.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    })
}

impl Core {
    /// One that serves a volume.
    pub(super) fn new(volume: &Slow, memory: usize) -> Self {
        POLLED.with_borrow_mut(Vec::clear);
        let flag = Arc::new(Flag::default());
        let nothing = Arc::new(Nothing(AtomicU32::new(0)));
        let world = World {
            // Not the first, which opens volumes by their URLs.
            core: 1,
            storage: Arc::clone(&nothing) as Arc<dyn Storage>,
            dialer: Arc::clone(&nothing) as Arc<dyn Dialer>,
            postbox: nothing,
            waker: Waker::from(Arc::clone(&flag)),
        };
        let (tell, news) = channel();
        let plan = Plan { urls: Vec::new(), read_only: false, memory };
        let mut core =
            Self { service: CoreService::new(plan, world, tell), now: Instant::ZERO, flag, news, rings: 0 };
        core.tell(Message::Volumes(UsedVolumes::new(vec![Arc::new(volume.clone())])));
        assert!(matches!(core.news.try_recv(), Ok(News::Serving(Ok(_)))));
        core
    }

    fn tell(&mut self, message: Message) {
        self.service.handle_message(self.now, message);
        self.wake();
        self.run();
    }

    /// Serves a ring.
    pub(super) fn start(&mut self, plan: RingPlan, kick: OwnedFd) -> RingId {
        self.rings += 1;
        let (ring, (done, heard)) = (RingId(self.rings), channel());
        self.tell(Message::Start { ring, plan: Box::new(plan), kick, done });
        assert!(heard.try_recv().is_ok(), "there is memory for a queue");
        ring
    }

    /// Serves a ring no longer: it ends once nothing of it is under way.
    pub(super) fn stop(&mut self, ring: RingId) {
        let (done, heard) = channel();
        self.tell(Message::Stop { ring, done });
        let end = self.now + LONGEST;
        while heard.try_recv().is_err() {
            assert!(self.now < end, "a ring that is to stop ends");
            self.run_for(1_000_000);
        }
    }

    /// Somebody has notified it.
    pub(super) fn wake(&self) {
        self.flag.0.store(true, Ordering::Release);
    }

    fn is_due(&self) -> bool {
        self.service.poll_timeout().is_some_and(|when| when <= self.now)
    }

    /// Turns until nothing keeps it awake.
    fn run(&mut self) {
        for _ in 0..MOST_TURNS {
            let looks = polled();
            // Each is asked, as each may have to wake it.
            let has_news = looks.iter().fold(false, |any, one| any | one.has_news());
            if !self.flag.0.swap(false, Ordering::AcqRel) && !has_news && !self.is_due() {
                let stays = looks.iter().fold(false, |any, one| any | one.begin_sleep());
                if !stays {
                    return;
                }
            }
            for one in &looks {
                one.end_sleep();
            }
            self.service.turn(self.now, &mut Vec::new());
        }
        panic!("the core turns in vain, and never sleeps");
    }

    /// Lets so many nanoseconds pass.
    pub(super) fn run_for(&mut self, nanos: u64) {
        let end = self.now + Duration::from_nanos(nanos);
        loop {
            self.run();
            let next = self.service.poll_timeout().filter(|when| *when < end);
            let Some(next) = next else { break };
            self.now = next;
        }
        self.now = end;
    }

    /// Ends everything.
    pub(super) fn shut_down(mut self) {
        self.tell(Message::Shutdown);
        let end = self.now + LONGEST;
        while !self.service.is_finished() {
            assert!(self.now < end, "it finishes");
            self.run_for(1_000_000);
        }
        let flushed = self.news.try_iter().any(|news| matches!(news, News::Flushed(0, Ok(()))));
        assert!(flushed, "it has flushed at the end");
    }
}
