//! A world of two ends on one thread: a server's core, dialled streams, and memory in place of the network.
//!
//! It drives endpoints as the reactor does: placements are filled before the staging area, everything received is
//! processed before the turn, and one send takes what the turn made ready.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use engine::{Core, EngineConfig, Message};
use host::{
    Accepted, BlockFile, CoreIndex, Dialer, Endpoint, EndpointId, IoError, ListenerId, OpenOptions, Postbox,
    Service, Storage,
};
use protocol::{Instant, Placement, SeededEntropy, Transmit};
use volume::OpenError;

use crate::exports::{self, Protocol};

/// What one send carries at most, as the reactor has it.
const SEND_BYTES: usize = 1 << 20;
const SEND_PIECES: usize = 256;
/// The server's memory for data, in bytes.
const POOL: usize = 64 << 20;
const NOW: Instant = Instant::ZERO;

/// No files here.
struct Diskless;

impl Storage for Diskless {
    fn open(&self, _path: &str, _options: OpenOptions) -> Result<Arc<dyn BlockFile>, IoError> {
        Err(IoError(2))
    }
}

/// The one core's mailbox.
#[derive(Debug, Default)]
pub(crate) struct Mail(Mutex<VecDeque<Message>>);

impl Mail {
    fn take(&self) -> Option<Message> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Postbox<Message> for Mail {
    fn post(&self, _core: CoreIndex, message: Message) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
    }

    fn cores(&self) -> CoreIndex {
        1
    }
}

thread_local! {
    /// Endpoints that were dialled and not yet connected: they belong to the one thread there is.
    static DIALS: RefCell<Vec<Box<dyn Endpoint>>> = const { RefCell::new(Vec::new()) };
}

/// Notes what is dialled; the world connects it. Every endpoint has a turn in every round: none needs a wake.
struct Notes;

impl Dialer for Notes {
    fn dial(&self, _peer: SocketAddr, endpoint: Box<dyn Endpoint>) -> EndpointId {
        DIALS.with_borrow_mut(|dials| {
            dials.push(endpoint);
            EndpointId(dials.len() as u64)
        })
    }

    fn wake(&self, _endpoint: EndpointId) {}

    fn waker(&self, _endpoint: EndpointId) -> std::task::Waker {
        std::task::Waker::noop().clone()
    }
}

/// One end of a stream.
struct End {
    endpoint: Box<dyn Endpoint>,
    staged: Vec<u8>,
    placement: Option<(Placement, usize)>,
    send: Transmit,
}

impl End {
    fn new(endpoint: Box<dyn Endpoint>) -> Self {
        Self { endpoint, staged: Vec::new(), placement: None, send: Transmit::new(SEND_BYTES, SEND_PIECES) }
    }

    /// Takes what the other end sent, and a turn.
    fn receive(&mut self, bytes: &[u8]) {
        self.staged.extend_from_slice(bytes);
        let mut taken = 0;
        while let Some(count) = self.take(taken) {
            taken += count;
        }
        self.staged.drain(..taken);
        self.endpoint.turn(NOW);
    }

    /// Takes some of what is staged from `start` on; answers how much, or nothing if more must come first.
    fn take(&mut self, start: usize) -> Option<usize> {
        let bytes = &self.staged[start..];
        if self.placement.is_none() {
            self.placement = self.endpoint.take_placement().map(|placement| (placement, 0));
        }
        let Some((mut placement, filled)) = self.placement.take() else {
            let consumed =
                if self.endpoint.wants_bytes() { self.endpoint.handle_bytes(NOW, bytes) } else { 0 };
            return Some(consumed).filter(|consumed| *consumed > 0);
        };
        let count = (placement.len - filled).min(bytes.len());
        let from = placement.start + filled;
        placement.buf[from..from + count].copy_from_slice(&bytes[..count]);
        if filled + count < placement.len {
            self.placement = Some((placement, filled + count));
            return Some(count).filter(|count| *count > 0);
        }
        self.endpoint.handle_placed(NOW, placement);
        Some(count)
    }

    /// Gives `to` what is to be sent; false when there is nothing.
    fn send(&mut self, to: &mut Self, wire: &mut Vec<u8>) -> bool {
        self.send.clear();
        self.endpoint.poll_transmit(NOW, &mut self.send);
        let length = self.send.len();
        if length == 0 {
            return false;
        }
        wire.clear();
        for segment in self.send.segments() {
            wire.extend_from_slice(self.send.bytes(segment));
        }
        self.send.clear();
        self.endpoint.handle_transmitted(NOW, length);
        to.receive(wire);
        true
    }
}

/// A client's end of a stream, and the server's.
struct Stream {
    name: EndpointId,
    client: End,
    server: End,
}

/// A server and its clients.
pub(crate) struct World {
    core: Core,
    mail: Arc<Mail>,
    streams: Vec<Stream>,
    wire: Vec<u8>,
    ready: Vec<EndpointId>,
}

impl World {
    /// A server of a null volume, or of a file.
    pub(crate) fn new(protocol: Protocol) -> Result<Self, OpenError> {
        let config = EngineConfig {
            pool_limit: POOL,
            entropy: Arc::new(|| Box::new(SeededEntropy::new(1))),
            adapters: Arc::new(host::NoAdapters),
            journal: Arc::new(host::Silent),
            observer: Arc::new(host::Silent),
            roce: Arc::default(),
        };
        let mail = Arc::new(Mail::default());
        let outside = host::World {
            core: 0,
            storage: Arc::new(Diskless),
            dialer: Arc::new(Notes),
            postbox: Arc::clone(&mail) as Arc<dyn Postbox<Message>>,
            waker: Waker::noop().clone(),
        };
        let mut catalogue = protocol.catalogue(&mail)?;
        catalogue.listeners.iter_mut().for_each(|listening| listening.transport = protocol.transport());
        let core = Core::new(Arc::new(config), catalogue, outside);
        let core = core.map_err(|error| OpenError::new(error.to_string()))?;
        Ok(Self { core, mail, streams: Vec::new(), wire: Vec::new(), ready: Vec::new() })
    }

    /// What clients dial with.
    pub(crate) fn dialer() -> Arc<dyn Dialer> {
        Arc::new(Notes)
    }

    /// Lets both ends do what they can, once; false when nothing moved.
    pub(crate) fn run(&mut self) -> Result<bool, OpenError> {
        let mut moved = self.connect()?;
        for stream in &mut self.streams {
            stream.client.endpoint.turn(NOW);
            moved |= stream.client.send(&mut stream.server, &mut self.wire);
        }
        moved |= self.serve();
        for stream in &mut self.streams {
            moved |= stream.server.send(&mut stream.client, &mut self.wire);
        }
        Ok(moved)
    }

    fn connect(&mut self) -> Result<bool, OpenError> {
        let dials = DIALS.with_borrow_mut(std::mem::take);
        let any = !dials.is_empty();
        for mut client in dials {
            let name = EndpointId(self.streams.len() as u64);
            let (local, peer) = (exports::address(), exports::address());
            let accepted = Accepted { listener: ListenerId(0), endpoint: name, local, peer };
            let server = self.core.accept(NOW, accepted).map_err(|refusal| OpenError::new(refusal.0))?;
            client.handle_connected(NOW, local, peer);
            self.streams.push(Stream { name, client: End::new(client), server: End::new(server) });
        }
        Ok(any)
    }

    /// Lets the server's core work until nothing is left of what it was given.
    fn serve(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut quiet = true;
            while let Some(message) = self.mail.take() {
                self.core.handle_message(NOW, message);
                quiet = false;
            }
            self.core.turn(NOW, &mut self.ready);
            if quiet && self.ready.is_empty() {
                return any;
            }
            any = true;
            for name in self.ready.drain(..) {
                if let Some(stream) = self.streams.iter_mut().find(|stream| stream.name == name) {
                    stream.server.endpoint.turn(NOW);
                }
            }
        }
    }
}
