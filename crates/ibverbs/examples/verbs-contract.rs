//! Runs the contract suite of queue pairs over an RDMA adapter of this machine, with both ends in this process:
//! `verbs-contract ADDRESS:PORT`, where the address is the adapter's.
//!
//! A device's known faults are named by the checks that find them, `verbs-contract ADDRESS:PORT CHECK...`: each of them has to fail, and every other has to pass.
//! `untold-reasons` is that of one whose programs do not hear of a Terminate.
//! Software adapters do as well: `rdma link add rxe0 type rxe netdev eth0`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use buf::{Account, Pool};
use host::{AdapterError, AdapterPair, AdapterPort, Adapters as _, ListenerId, PairId, PairNeeds, PairWish};
use ibverbs::{BoundPort, SystemAdapters};
use protocol::Instant;
use verbs::contract::{self, CheckOutcome, Link, Reasons, Side};
use verbs::{ManagedQueuePair, PrivateData, QueuePair, SetupAnswer, SetupEvent};

/// What each queue pair holds: enough for any check, and few enough to be filled.
const NEEDS: PairNeeds =
    PairNeeds { sends: 16, receives: 32, regions: 8, longest: 1 << 20, reads_served: 4, reads_sent: 4 };
/// The fault of an adapter that does not tell programs of a Terminate.
const UNTOLD: &str = "untold-reasons";
/// How long a step lets time pass.
const STEP: Duration = Duration::from_micros(50);
/// Steps within which a connection is there.
const PATIENCE: usize = 100_000;

/// A connection of this process with itself.
struct Loop {
    begin: std::time::Instant,
    /// The ports outlive their queue pairs.
    near: AdapterPair,
    far: AdapterPair,
    ports: [Box<dyn AdapterPort>; 2],
    ready: Vec<PairId>,
    reasons: Reasons,
}

impl Loop {
    fn new(address: SocketAddr, pool: &Pool, reasons: Reasons) -> Result<Self, AdapterError> {
        let adapters = SystemAdapters::default();
        let bound = BoundPort::bind(address)?;
        let peer = bound.local();
        adapters.offer(ListenerId(0), bound);
        let failed = || AdapterError("the port of the listener cannot be watched".to_owned());
        let mut port = adapters.take_port(ListenerId(0)).ok_or_else(failed)?;
        let account = || Account::new(pool);
        let wish = PairWish { peer, needs: NEEDS, private_data: PrivateData::NONE, account: account() };
        let mut opened = adapters.connect(wish)?;
        let mut ready = Vec::new();
        for _ in 0..PATIENCE {
            std::thread::sleep(STEP);
            opened.port.poll(&mut ready);
            port.poll(&mut ready);
            drive(&mut opened.pair, Instant::ZERO);
            if let Some(request) = port.next_request() {
                let far = port.accept(request, NEEDS, account())?;
                let begin = std::time::Instant::now();
                let (near, ports) = (opened.pair, [opened.port, port]);
                return Ok(Self { begin, near, far, ports, ready, reasons });
            }
        }
        Err(AdapterError("nobody asks for a connection".to_owned()))
    }
}

/// Lets a queue pair go on with its set-up and its end.
fn drive(pair: &mut AdapterPair, now: Instant) {
    while let Some(event) = pair.poll_event() {
        if let SetupEvent::Requested(_) = event {
            pair.handle_answer(now, SetupAnswer::Accept(PrivateData::NONE));
        }
    }
    if pair.next_deadline().is_some_and(|due| due <= now) {
        pair.handle_deadline(now);
    }
}

impl Link for Loop {
    fn end(&mut self, side: Side) -> &mut dyn QueuePair {
        match side {
            Side::Near => &mut self.near,
            Side::Far => &mut self.far,
        }
    }

    fn step(&mut self) -> Instant {
        std::thread::sleep(STEP);
        let now = Instant::ZERO + self.begin.elapsed();
        for port in &mut self.ports {
            port.poll(&mut self.ready);
        }
        self.ready.clear();
        drive(&mut self.near, now);
        drive(&mut self.far, now);
        now
    }

    fn reasons(&self) -> Reasons {
        self.reasons
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(address) = arguments.next().and_then(|text| text.parse().ok()) else {
        let _ = writeln!(std::io::stderr(), "usage: verbs-contract ADDRESS:PORT [CHECK...]");
        return ExitCode::from(2);
    };
    let faults: Vec<String> = arguments.collect();
    let reasons = if faults.iter().any(|fault| fault == UNTOLD) { Reasons::Untold } else { Reasons::Told };
    let pool = Pool::new(64 << 20);
    let mut make = || -> Box<dyn Link> {
        match Loop::new(address, &pool, reasons) {
            Ok(link) => Box::new(link),
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "no connection: {error}");
                std::process::exit(1)
            }
        }
    };
    let outcomes = contract::check_each(&mut make);
    let mut wrong = 0;
    for CheckOutcome { check, outcome } in &outcomes {
        let is_known = faults.iter().any(|fault| fault == check);
        let words = match outcome {
            Ok(()) if is_known => "passes, though it is named as one that does not".to_owned(),
            Ok(()) => "passes".to_owned(),
            Err(breach) => breach.finding.to_string(),
        };
        wrong += usize::from(outcome.is_ok() == is_known);
        let _ = writeln!(std::io::stdout(), "{check}: {words}");
    }
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
