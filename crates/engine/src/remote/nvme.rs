//! NVMe/TCP namespaces as remote volumes: one controller, and an I/O queue of it per core.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::Waker;

use ::nvme::fabrics::HostIdentity;
use ::nvme::host::{Action, Config, Connection, Input, Queue, RemoteNamespace};
use ::nvme::log::DiscoveryEntry;
use ::volume::{CoreId, OpenError, Volume};
use names::{NvmeOptions, NvmeUrl};

use super::client::{Client, ClientRole, Report, WhenReady};
use super::link::{Link, Order};
use super::volume::{RemoteVolume, Shape};
use super::{Found, Place, Surroundings, Waiting, dial};

/// Commands that a queue may have under way.
const DEPTH: u16 = 128;
/// I/O queues that are asked for unless the URL says otherwise.
const QUEUES: u16 = 16;
/// Keep alive timeout, in milliseconds.
const KEEP_ALIVE: u32 = 15_000;

/// What an opened connection tells.
enum Info {
    Namespace(RemoteNamespace),
    QueueReady,
    Subsystems(Vec<DiscoveryEntry>),
}

/// A host's side of an NVMe/TCP connection.
struct Host;

impl ClientRole for Host {
    type Connection = Connection;
    type Info = Info;

    fn input(order: Order) -> Input {
        match order {
            Order::Submit(request) => Input::Submit(request),
            Order::Cancel(tag) => Input::Cancel(tag),
            Order::Leave => Input::Disconnect,
        }
    }

    fn report(action: Action) -> Report<Info> {
        match action {
            Action::Ready(namespace) => Report::Ready(Info::Namespace(namespace)),
            Action::QueueReady => Report::Ready(Info::QueueReady),
            Action::Discovered(entries) => Report::Ready(Info::Subsystems(entries)),
            Action::Complete(completion) => Report::Complete(completion),
            Action::NamespaceChanged(_) => Report::Nothing,
            Action::Failed(failure) => Report::Failed(failure.to_string()),
        }
    }
}

/// What all connections to a subsystem have in common.
#[derive(Clone)]
struct Plan {
    host: HostIdentity,
    subnqn: Arc<str>,
    digests: (bool, bool),
    address: SocketAddr,
    surroundings: Surroundings,
}

impl Plan {
    fn new(
        address: SocketAddr,
        (subnqn, options): (&str, &NvmeOptions),
        surroundings: &Surroundings,
    ) -> Self {
        let mut identifier = [0; 16];
        match options.hostid {
            Some(given) => identifier = given.0,
            None => (surroundings.entropy)().fill(&mut identifier),
        }
        let nqn = match &options.hostnqn {
            Some(name) => name.to_string(),
            None => format!("nqn.2014-08.org.nvmexpress:uuid:{}", hyphenated(identifier)),
        };
        Self {
            host: HostIdentity { identifier, nqn: nqn.into() },
            subnqn: subnqn.into(),
            digests: (options.header_digest, options.data_digest),
            address,
            surroundings: surroundings.clone(),
        }
    }

    /// Dials a queue; `tell` is given what becomes known.
    fn connect(&self, queue: Queue, (waker, purpose): (Waker, &Arc<()>), tell: WhenReady<Info>) -> Rc<Link> {
        let link = Link::new(waker);
        let config = Config {
            host: self.host.clone(),
            subnqn: Arc::clone(&self.subnqn),
            header_digest: self.digests.0,
            data_digest: self.digests.1,
            depth: DEPTH,
            queue,
        };
        let make = Box::new(move |now| Connection::new(config, now));
        let client = Client::<Host>::new(make, Rc::clone(&link), tell, purpose);
        dial(&self.surroundings.dialer, self.address, &link, Box::new(client));
        link
    }
}

/// A UUID's usual text.
fn hyphenated(bytes: [u8; 16]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&digits[..4], &digits[4..6], &digits[6..8], &digits[8..10], &digits[10..]]
        .map(<[String]>::concat)
        .join("-")
}

/// Opens a namespace: the admin queue stays for as long as the volume is used.
pub(super) fn open(
    address: SocketAddr,
    url: &NvmeUrl,
    surroundings: &Surroundings,
) -> Waiting<Arc<dyn Volume>> {
    let name = url.subsystem.to_string();
    let plan = Plan::new(address, (&name, &url.options), surroundings);
    let queue = Queue::Admin {
        nsid: url.nsid,
        queues: url.options.queues.unwrap_or(QUEUES).max(1),
        kato: KEEP_ALIVE,
    };
    let purpose = Arc::new(());
    let answer: Place<Arc<dyn Volume>> = Rc::default();
    let (place, later) = (Rc::clone(&answer), plan.clone());
    let kept = Arc::downgrade(&purpose);
    let tell = Box::new(move |info, _: &Link| {
        if let (Info::Namespace(remote), Some(purpose)) = (info, kept.upgrade()) {
            *place.borrow_mut() = Some(remote_volume(remote, later, (name, purpose)));
        }
    });
    let link = plan.connect(queue, (surroundings.waker.clone(), &purpose), tell);
    Waiting { link, answer, _purpose: purpose }
}

fn remote_volume(remote: RemoteNamespace, plan: Plan, (name, purpose): (String, Arc<()>)) -> Arc<dyn Volume> {
    let mut limits = remote.limits;
    limits.depth = limits.depth.min(u32::from(DEPTH));
    let shape = Shape { geometry: remote.geometry, limits, features: remote.features };
    let dialer = Arc::clone(&plan.surroundings.dialer);
    let (last, kept) = (AtomicU16::new(0), Arc::clone(&purpose));
    let connect = Box::new(move |_: CoreId, waker| {
        let qid = last.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if qid > remote.queues {
            return Err(OpenError::new(format!("the controller granted only {} I/O queues", remote.queues)));
        }
        let queue = Queue::Io { qid, remote: remote.clone() };
        Ok(plan.connect(queue, (waker, &kept), Box::new(|_, _| {})))
    });
    Arc::new(RemoteVolume { name, shape, connect, dialer, _purpose: purpose })
}

/// Asks for all subsystems.
pub(super) fn discover(
    address: SocketAddr,
    options: &NvmeOptions,
    surroundings: &Surroundings,
) -> Waiting<Vec<Found>> {
    let plan = Plan::new(address, (::nvme::DISCOVERY_NQN, options), surroundings);
    let answer: Place<Vec<Found>> = Rc::default();
    let place = Rc::clone(&answer);
    let tell = Box::new(move |info, _: &Link| {
        if let Info::Subsystems(entries) = info {
            let rows = entries
                .into_iter()
                .map(|entry| Found { name: entry.subnqn, address: entry.address.to_string() });
            *place.borrow_mut() = Some(rows.collect());
        }
    });
    let purpose = Arc::new(());
    let link = plan.connect(Queue::Discovery, (surroundings.waker.clone(), &purpose), tell);
    Waiting { link, answer, _purpose: purpose }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_hyphens() {
        let bytes: [u8; 16] = std::array::from_fn(|index| u8::try_from(index).unwrap());
        assert_eq!(hyphenated(bytes), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
