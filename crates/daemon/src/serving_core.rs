//! What runs on each core: the engine's core, which begins with nothing to serve, and on core 0 beside it what opens volumes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use engine::{Catalogue, Core, EngineConfig, Message};
use host::{Accepted, DatagramEndpoint, Endpoint, EndpointId, OpenSocket, Refusal, Service, World};
use protocol::Instant;
use volume::{CoreId, QueueContext};

use crate::control_input::{ControlInput, CoreLife};
use crate::openings::{Opener, Openings};

/// The core that opens volumes.
const OPENER: u16 = 0;

/// What the cores have in common.
#[derive(Debug)]
pub(crate) struct Cores {
    pub(crate) engine: Arc<EngineConfig>,
    pub(crate) openings: Arc<Openings>,
    /// Cores that stop and have no connection left: they flush for the last time, or have.
    pub(crate) closing: AtomicUsize,
}

/// One core's service.
pub(crate) struct ServingCore {
    /// `None` if it could not begin.
    core: Option<Box<Core>>,
    opener: Option<Opener>,
    cores: Arc<Cores>,
    /// It is counted among those without connections.
    is_counted: bool,
    _life: CoreLife,
}

impl ServingCore {
    /// A core that serves nothing yet. `tell` hears of volumes that it has opened, and of its end.
    pub(crate) fn new(
        cores: Arc<Cores>,
        world: World<Message>,
        tell: Sender<ControlInput>,
        life: CoreLife,
    ) -> Self {
        let (number, waker) = (world.core, world.waker.clone());
        // It has no volume whose queue it could fail to open.
        let core = Core::new(Arc::clone(&cores.engine), Catalogue::default(), world).ok().map(Box::new);
        let opener = (number == OPENER).then(|| {
            let context = match &core {
                Some(core) => QueueContext::new(CoreId(number), waker, core.pool().clone()),
                None => QueueContext::without_pool(CoreId(number), waker),
            };
            Opener::new(Arc::clone(&cores.openings), context, tell)
        });
        Self { core, opener, cores, is_counted: false, _life: life }
    }

    /// Lets the controller know once the core stops and has no connection left.
    fn count_closing(&mut self) {
        if !self.is_counted && self.core.as_ref().is_some_and(|core| core.is_closing()) {
            self.is_counted = true;
            self.cores.closing.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Service for ServingCore {
    type Message = Message;

    fn accept(&mut self, now: Instant, accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        match &mut self.core {
            Some(core) => core.accept(now, accepted),
            None => Err(Refusal("nothing is served")),
        }
    }

    fn open_socket(&mut self, now: Instant, socket: OpenSocket) -> Option<Box<dyn DatagramEndpoint>> {
        self.core.as_mut()?.open_socket(now, socket)
    }

    fn handle_socket_gone(&mut self, now: Instant, socket: EndpointId) {
        if let Some(core) = &mut self.core {
            core.handle_socket_gone(now, socket);
        }
    }

    fn handle_shortage(&mut self, code: i32) {
        if let Some(core) = &mut self.core {
            core.handle_shortage(code);
        }
    }

    fn handle_message(&mut self, now: Instant, message: Message) {
        if let Some(core) = &mut self.core {
            core.handle_message(now, message);
        }
        self.count_closing();
    }

    fn turn(&mut self, now: Instant, ready: &mut Vec<EndpointId>) {
        if let Some(opener) = &mut self.opener {
            opener.turn(now);
        }
        if let Some(core) = &mut self.core {
            core.turn(now, ready);
        }
        self.count_closing();
    }

    fn handle_gone(&mut self, now: Instant, endpoint: EndpointId) {
        if let Some(core) = &mut self.core {
            core.handle_gone(now, endpoint);
        }
        self.count_closing();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let core = self.core.as_ref().and_then(|core| core.poll_timeout());
        let opener = self.opener.as_ref().and_then(Opener::poll_timeout);
        [core, opener].into_iter().flatten().min()
    }

    fn expects_work(&self) -> bool {
        self.core.as_ref().is_some_and(|core| core.expects_work())
    }

    fn is_finished(&self) -> bool {
        self.core.as_ref().is_none_or(|core| core.is_finished())
    }
}
