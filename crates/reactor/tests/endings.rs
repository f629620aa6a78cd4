//! A loop that ends begins nothing more: whoever loses what it has by that, and begins anew, hears at once that this cannot be.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use host::{
    Accepted, DatagramEndpoint, Datagrams, Dialer, Endpoint, EndpointId, OpenSocket, Refusal, Service,
    SlotField, WatchEndpoint,
};
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use reactor::driver::Wait;
use reactor::{Cluster, Config, Driver};

/// The address of a peer that nobody must reach.
const NOWHERE: &str = "127.0.0.1:9";

/// How ends were heard, in their order.
type Heard = Rc<RefCell<Vec<Ended>>>;

/// Something that the loop has, of any kind.
struct Anything {
    heard: Heard,
    /// Begins one of each kind when it ends.
    begins_anew: Option<Arc<dyn Dialer>>,
    is_over: bool,
}

impl Anything {
    fn new(heard: &Heard) -> Self {
        Self { heard: Rc::clone(heard), begins_anew: None, is_over: false }
    }

    fn boxed(heard: &Heard) -> Box<Self> {
        Box::new(Self::new(heard))
    }

    fn end(&mut self, how: Ended) {
        self.heard.borrow_mut().push(how);
        self.is_over = true;
        if let Some(dialer) = self.begins_anew.take() {
            let (near, _far) = UnixStream::pair().unwrap();
            dialer.watch(OwnedFd::from(near), Self::boxed(&self.heard));
            dialer.dial(NOWHERE.parse().unwrap(), Self::boxed(&self.heard));
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            dialer.open_socket(any, SlotField { offset: 0, unnamed: 0 }, Self::boxed(&self.heard));
        }
    }
}

impl WatchEndpoint for Anything {
    fn handle_ready(&mut self, _: Instant) {}
    fn handle_timeout(&mut self, _: Instant) {}
    fn handle_ended(&mut self, _: Instant, how: Ended) {
        self.end(how);
    }
    fn turn(&mut self, _: Instant) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        self.is_over
    }
    fn expects_work(&self) -> bool {
        false
    }
}

impl DatagramEndpoint for Anything {
    fn handle_opened(&mut self, _: Instant, _: OpenSocket) {
        unreachable!("the loop ends");
    }
    fn handle_datagrams(&mut self, _: Instant, _: &Datagrams<'_>) {}
    fn handle_transmitted(&mut self, _: Instant) {}
    fn handle_timeout(&mut self, _: Instant) {}
    fn handle_retired(&mut self, _: Instant) {}
    fn handle_shutdown(&mut self, _: Instant) {}
    fn handle_ended(&mut self, _: Instant, how: Ended) {
        self.end(how);
    }
    fn turn(&mut self, _: Instant) {}
    fn poll_transmit(&mut self, _: Instant) -> Option<Datagrams<'_>> {
        None
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        self.is_over
    }
    fn expects_work(&self) -> bool {
        false
    }
}

impl Endpoint for Anything {
    fn staging(&self) -> usize {
        0
    }
    fn handle_bytes(&mut self, _: Instant, bytes: &[u8]) -> usize {
        bytes.len()
    }
    fn take_placement(&mut self) -> Option<Placement> {
        None
    }
    fn handle_placed(&mut self, _: Instant, _: Placement) {}
    fn handle_transmitted(&mut self, _: Instant, _: usize) {}
    fn handle_timeout(&mut self, _: Instant) {}
    fn handle_connected(&mut self, _: Instant, _: SocketAddr, _: SocketAddr) {
        unreachable!("the loop ends");
    }
    fn handle_ended(&mut self, _: Instant, how: Ended) {
        self.end(how);
    }
    fn turn(&mut self, _: Instant) {}
    fn poll_transmit(&mut self, _: Instant, _: &mut Transmit) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn wants_bytes(&mut self) -> bool {
        false
    }
    fn poll_close(&self) -> Option<CloseReason> {
        None
    }
    fn is_idle(&self) -> bool {
        self.is_over
    }
    fn expects_work(&self) -> bool {
        false
    }
}

/// A service that is finished when it is told so.
struct Telling(Rc<Cell<bool>>);

impl Service for Telling {
    type Message = ();
    fn accept(&mut self, _: Instant, _: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        Err(Refusal("no streams here"))
    }
    fn handle_message(&mut self, _: Instant, (): ()) {}
    fn turn(&mut self, _: Instant, _: &mut Vec<EndpointId>) {}
    fn handle_gone(&mut self, _: Instant, _: EndpointId) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        self.0.get()
    }
}

#[test]
fn what_begins_while_a_loop_ends_is_refused_and_keeps_nobody_waiting() {
    for driver in [Driver::Epoll, Driver::Auto] {
        let cluster = Cluster::new(1, Config { driver, ..Config::default() }).unwrap();
        let (is_over, heard) = (Rc::new(Cell::new(false)), Heard::default());
        let mut dialer = None;
        let core = cluster.into_cores().remove(0).begin(|world| {
            dialer = Some(world.dialer);
            Telling(Rc::clone(&is_over))
        });
        let (mut core, dialer) = (core.unwrap(), dialer.unwrap());
        let (near, _far) = UnixStream::pair().unwrap();
        let first = Anything { begins_anew: Some(Arc::clone(&dialer)), ..Anything::new(&heard) };
        dialer.watch(OwnedFd::from(near), Box::new(first));
        core.turn();
        assert!(heard.borrow().is_empty(), "it is watched");
        is_over.set(true);
        let turns = (0..50).find(|_| {
            let is_last = core.turn();
            core.wait(Wait::For(Duration::from_millis(1))).unwrap();
            is_last
        });
        assert!(turns.is_some(), "it ends without the patience that peers are owed");
        let cancelled = Ended::Failed(libc::ECANCELED);
        let mut heard = heard.take();
        assert_eq!(heard.remove(0), Ended::ByUs);
        assert_eq!(heard, [cancelled; 3]);
    }
}
