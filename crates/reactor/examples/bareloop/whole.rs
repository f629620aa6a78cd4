//! The same two parties as endpoints, under the whole reactor.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;

use buf::SharedBuf;
use host::{Accepted, Endpoint, EndpointId, ListenerId, Refusal, Service};
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use reactor::{Cluster, Config, Listener};

use crate::options::Options;
use crate::party::{Initiator, Party, Report, Target};

/// A party as an endpoint. It is shared with the service, which looks at it in the end.
struct Adapted<P>(Rc<RefCell<P>>);

impl<P: Party> Endpoint for Adapted<P> {
    fn staging(&self) -> usize {
        4096
    }
    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.0.borrow_mut().handle_bytes(now, bytes)
    }
    fn take_placement(&mut self) -> Option<Placement> {
        self.0.borrow_mut().take_placement()
    }
    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.0.borrow_mut().handle_placed(now, placement);
    }
    fn handle_transmitted(&mut self, _: Instant, _: usize) {}
    fn handle_timeout(&mut self, _: Instant) {}
    fn handle_connected(&mut self, _: Instant, _: SocketAddr, _: SocketAddr) {}
    fn handle_ended(&mut self, _: Instant, _: Ended) {}
    fn turn(&mut self, _: Instant) {}
    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.0.borrow_mut().poll_transmit(now, send);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn wants_bytes(&mut self) -> bool {
        true
    }
    fn poll_close(&self) -> Option<CloseReason> {
        self.0.borrow().is_finished().then_some(CloseReason::Finished)
    }
    fn is_idle(&self) -> bool {
        true
    }
    fn expects_work(&self) -> bool {
        self.0.borrow().expects_work()
    }
}

/// Accepts targets, or waits for the end of an initiator.
struct Ends {
    payloads: SharedBuf,
    target: Option<Rc<RefCell<Target>>>,
    /// Finished when the first endpoint is gone.
    once: bool,
    gone: bool,
}

impl Service for Ends {
    type Message = ();
    fn accept(&mut self, _: Instant, _: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        let target = Rc::new(RefCell::new(Target::new(&self.payloads)));
        self.target = Some(Rc::clone(&target));
        Ok(Box::new(Adapted(target)))
    }
    fn handle_message(&mut self, _: Instant, (): ()) {}
    fn turn(&mut self, _: Instant, _: &mut Vec<EndpointId>) {}
    fn handle_gone(&mut self, _: Instant, _: EndpointId) {
        self.gone = true;
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        self.once && self.gone
    }
}

fn cluster(options: &Options) -> io::Result<Cluster<()>> {
    Cluster::new(1, Config { driver: options.driver, spin: options.spin, ..Config::default() })
}

fn ends(payloads: SharedBuf, once: bool) -> Ends {
    Ends { payloads, target: None, once, gone: false }
}

/// Runs the first core of a cluster on the calling thread.
fn run(cluster: Cluster<()>, ends: Ends) -> io::Result<Ends> {
    let core = cluster.into_cores().into_iter().next();
    core.ok_or(io::ErrorKind::NotFound)?.run(|_| ends)
}

/// Serves until it is ended from outside.
pub(crate) fn serve(options: &Options, listener: Listener) -> io::Result<()> {
    let cluster = cluster(options)?;
    cluster.control().open(ListenerId(0), listener).map_err(io::Error::other)?;
    run(cluster, ends(options.payloads(), false)).map(drop)
}

/// Calls `peer` and measures.
pub(crate) fn call(options: &Options, peer: SocketAddr) -> io::Result<Report> {
    crate::pin(1);
    let initiator = Rc::new(RefCell::new(Initiator::new(options)));
    let core = cluster(options)?.into_cores().into_iter().next();
    core.ok_or(io::ErrorKind::NotFound)?.run(|world| {
        world.dialer.dial(peer, Box::new(Adapted(Rc::clone(&initiator))));
        ends(vec![].into(), true)
    })?;
    let report = Initiator::report(std::slice::from_ref(&*initiator.borrow()));
    Ok(report)
}

/// Both ends in this process.
pub(crate) fn both(options: &Options) -> io::Result<Report> {
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let (peer, server) = (listener.local(), options.clone());
    let (tell, told) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        crate::pin(0);
        let cluster = cluster(&server)?;
        cluster.control().open(ListenerId(0), listener).map_err(io::Error::other)?;
        let ends = ends(server.payloads(), true);
        // As below.
        let _ = ready.send(());
        let ends = run(cluster, ends)?;
        // Nobody to tell means that the client has failed, and says so.
        let _ = tell
            .send(ends.target.map(|target| Target::cpu_per_request(std::slice::from_ref(&*target.borrow()))));
        Ok::<_, io::Error>(())
    });
    // The thread has ended without a word if it failed, which its listener's end tells the call.
    let _ = is_ready.recv();
    let mut report = call(options, peer)?;
    report.server_cpu = told.recv().ok().flatten();
    drop(thread);
    Ok(report)
}
