//! NVMe namespaces as remote volumes: one controller, and an I/O queue of it per core.
//!
//! A new association says nothing of the one before: its controller may still be busy with what it was sent. It ends at the
//! latest when it has not been kept alive for as long as was agreed (KATO, NVMe Base §3.9.4), and only after that is a
//! write sent again.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use ::nvme::host::{Queue, REFUSED, RemoteNamespace};
use ::volume::{Completion, CoreId, OpenError, Request, Volume};
use names::{NvmeOptions, NvmeUrl};

use super::association::{Association, AssociationState, Wanted};
use super::client::{Hooks, Owner};
use super::client_context::ClientContext;
use super::far_end::{Facts, Shape, Shared};
use super::link::{LinkInput, Stage};
use super::nvme_plan::{DEPTH, Plan};
use super::referrals::ReferralWalk;
use super::route::{Attempt, Connected, NotConnected, Route};
use super::volume::RemoteVolume;
use super::waiting::{Found, Waiting};
use crate::limits::{KEEP_ALIVE, PEER_GONE, QUIESCE};

/// I/O queues that are asked for unless the URL says otherwise.
const QUEUES: u16 = 16;

/// What an admin queue found.
fn facts(remote: &RemoteNamespace) -> Facts {
    let mut limits = remote.limits;
    limits.depth = limits.depth.min(u32::from(DEPTH));
    let (geometry, features) = (remote.geometry, remote.features);
    let shape = Shape { geometry, limits, features, discards: remote.discards };
    let ids = &remote.ids;
    let parts: [&[u8]; 3] = [
        ids.nguid.as_ref().map_or(&[], |id| id.as_slice()),
        ids.eui64.as_ref().map_or(&[], |id| id.as_slice()),
        ids.uuid.as_ref().map_or(&[], |id| id.as_slice()),
    ];
    Facts {
        shape,
        identity: parts.concat(),
        told: remote.identity(),
        incarnation: remote.incarnation,
        nexus: None,
    }
}

/// Opens a namespace: the admin queue stays for as long as the volume is used.
pub(super) fn open(address: SocketAddr, url: &NvmeUrl, context: &ClientContext) -> Waiting<Arc<dyn Volume>> {
    let name = url.subsystem.to_string();
    let plan = Plan::new(address, &name, &url.options, context);
    let queues = url.options.queues.unwrap_or(QUEUES).max(1);
    let association = Association::new(plan.clone(), Wanted { nsid: url.nsid, queues });
    association.begin(context.waker.clone());
    Waiting::new(move || match association.state() {
        AssociationState::Opening => None,
        AssociationState::Down(why) if why.starts_with(REFUSED) => {
            Some(Err(OpenError::new(format!("{why} (the host is {})", plan.host.nqn))))
        }
        AssociationState::Down(why) => Some(Err(OpenError::new(why))),
        AssociationState::Up(_, remote, _) => {
            Some(Ok(remote_volume(&remote, name.clone(), plan.clone(), &association)))
        }
    })
}

fn remote_volume(
    remote: &RemoteNamespace,
    name: String,
    plan: Plan,
    association: &Arc<Association>,
) -> Arc<dyn Volume> {
    let shared = Shared::new(facts(remote), plan.timing, plan.context.clone());
    let told = Arc::clone(&shared);
    association.set_changed(Box::new(move |remote| told.resize(remote.geometry)));
    let association = Arc::clone(association);
    let open = Box::new(move |_: CoreId, waker: Waker| -> Result<Box<dyn Route>, OpenError> {
        let Some(qid) = association.take_queue(waker.clone()) else {
            return Err(OpenError::new(
                "the controller granted no further I/O queue: use fewer cores, or ask for more with queues=",
            ));
        };
        let (plan, association) = (plan.clone(), Arc::clone(&association));
        Ok(Box::new(Queues(Rc::new(IoQueue { plan, association, qid, number: Cell::new(0), waker }))))
    });
    Arc::new(RemoteVolume { name, shared, open })
}

/// One core's I/O queue of a controller: its identifier, and where it is connected.
struct IoQueue {
    plan: Plan,
    association: Arc<Association>,
    qid: u16,
    /// The association of the queue that is open, or being opened.
    number: Cell<u64>,
    waker: Waker,
}

impl Drop for IoQueue {
    fn drop(&mut self) {
        self.association.give_back(self.qid);
    }
}

/// One core's I/O queues, one after the other.
struct Queues(Rc<IoQueue>);

impl Route for Queues {
    fn begin(&mut self) -> Box<dyn Attempt> {
        Box::new(Connecting { io_queue: Rc::clone(&self.0), asked: false, queue: None })
    }

    fn submit_admin(&mut self, request: Request) -> Option<Request> {
        let IoQueue { association, qid, number, .. } = &*self.0;
        association.admin_requests.ask(number.get(), *qid, request);
        None
    }

    fn take_admin_done(&mut self, done: &mut Vec<Completion>) {
        self.0.association.admin_requests.take(self.0.qid, done);
    }

    fn breach(&self) -> Option<String> {
        if self.0.association.is_up(self.0.number.get()) {
            return None;
        }
        Some(self.0.association.ended())
    }

    fn handle_lost(&mut self, why: &str) {
        self.0.association.lose(self.0.number.get(), why);
    }

    /// The last keep alive was sent before. If it waits at a controller that stands still, that may take it as long as its timer of before runs, and what ends the controller
    /// comes behind it: at once in a stream. Datagrams may lose every disconnect; then the controller finds out when nobody acknowledges its answer.
    fn quiet_time(&self) -> Duration {
        if self.0.plan.is_over_datagrams() {
            KEEP_ALIVE + PEER_GONE + QUIESCE
        } else {
            KEEP_ALIVE / 2 + KEEP_ALIVE + QUIESCE
        }
    }
}

/// An I/O queue that is being connected, and if need be an association before it.
struct Connecting {
    io_queue: Rc<IoQueue>,
    /// An association was waited for.
    asked: bool,
    queue: Option<Connected>,
}

impl Connecting {
    /// Connects the queue once there is an association.
    fn connect(&mut self) -> Option<String> {
        let IoQueue { association, plan, qid, number, waker } = &*self.io_queue;
        if matches!(association.state(), AssociationState::Down(_)) && !self.asked {
            association.begin(waker.clone());
        }
        self.asked = true;
        match association.state() {
            AssociationState::Opening => None,
            AssociationState::Down(why) => Some(why),
            AssociationState::Up(_, remote, _) if *qid > remote.queues => {
                Some(format!("the controller grants only {} I/O queues now", remote.queues))
            }
            AssociationState::Up(current, remote, purpose) => {
                number.set(current);
                let facts = facts(&remote);
                let queue = Queue::Io { qid: *qid, remote: *remote };
                let owner = Owner { waker: waker.clone(), purpose };
                let link = plan.connect(queue, owner, Hooks { tell: Box::new(|_, _| {}), turn: None });
                self.queue = Some(Connected { link, facts });
                None
            }
        }
    }
}

impl Attempt for Connecting {
    fn poll(&mut self) -> Option<Result<Connected, NotConnected>> {
        if self.queue.is_none()
            && let Some(why) = self.connect()
        {
            return Some(Err(NotConnected(why)));
        }
        let connected = self.queue.as_ref()?;
        match connected.link.stage() {
            Stage::Failed(why) => Some(Err(NotConnected(why))),
            Stage::Ready => Some(Ok(connected.clone())),
            Stage::Opening if self.io_queue.association.is_up(self.io_queue.number.get()) => None,
            Stage::Opening => {
                self.give_up();
                Some(Err(NotConnected(self.io_queue.association.ended())))
            }
        }
    }

    fn give_up(&mut self) {
        let Some(Connected { link, .. }) = &self.queue else { return };
        link.push(LinkInput::Disconnect);
        if let Some(endpoint) = link.endpoint() {
            self.io_queue.plan.context.dialer.wake(endpoint);
        }
    }
}

/// Asks for all subsystems, of the services that are referred to as well.
pub(super) fn discover(
    address: SocketAddr,
    options: &NvmeOptions,
    context: &ClientContext,
) -> Waiting<Vec<Found>> {
    let plan = Plan::new(address, ::nvme::DISCOVERY_NQN, options, context);
    let mut walk = ReferralWalk::new(plan);
    Waiting::new(move || walk.poll())
}

#[cfg(test)]
mod tests {
    use ::nvme::identify::NamespaceIds;
    use ::volume::{Features, Geometry, Limits, QueueContext};
    use names::{NvmeOptions, RdmaOptions, RdmaTransport};

    use super::*;

    fn remote(queues: u16) -> RemoteNamespace {
        RemoteNamespace {
            nsid: 1,
            cntlid: 1,
            geometry: Geometry { blocks: 64, block_size: 512, physical_block_size: 512 },
            limits: Limits::default(),
            features: Features::VOLATILE_CACHE,
            discards: false,
            verifies: false,
            ids: NamespaceIds::default(),
            product: Default::default(),
            queues,
            in_capsule: 8192,
            entries: 128,
            incarnation: None,
        }
    }

    #[test]
    fn what_datagrams_carried_is_held_for_longer() {
        let quiet = |options: NvmeOptions| {
            let (address, name) = ("127.0.0.1:4420".parse().unwrap(), "nqn.2026-11.org.linerate:disk");
            let plan = Plan::new(address, name, &options, &ClientContext::without_network());
            let association = Association::new(plan.clone(), Wanted { nsid: 1, queues: 1 });
            let waker = Waker::noop().clone();
            Queues(Rc::new(IoQueue { plan, association, qid: 1, number: Cell::new(0), waker })).quiet_time()
        };
        let over = |transport| NvmeOptions {
            rdma: Some(RdmaOptions { transport, ..RdmaOptions::default() }),
            ..NvmeOptions::default()
        };
        assert_eq!(quiet(NvmeOptions::default()), Duration::from_secs(17));
        assert_eq!(quiet(over(RdmaTransport::Iwarp)), Duration::from_secs(17));
        assert_eq!(quiet(over(RdmaTransport::Roce { udp_port: 4791 })), Duration::from_secs(20));
    }

    #[test]
    fn a_queue_pair_whose_peer_is_gone_ends_within_the_time_that_is_counted_with() {
        use roce::limits::{ACKNOWLEDGE_BACKOFF, ACKNOWLEDGE_TIME, RETRIES};
        let waits = (0..=RETRIES)
            .map(|attempt| ACKNOWLEDGE_TIME * 2_u32.pow(attempt.into()).min(ACKNOWLEDGE_BACKOFF));
        assert!(waits.sum::<Duration>() <= PEER_GONE);
    }

    #[test]
    fn a_queue_that_is_closed_makes_room_for_another() {
        const QUEUES: u16 = 2;
        let (address, name) = ("127.0.0.1:4420".parse().unwrap(), "nqn.2026-11.org.linerate:disk");
        let plan = Plan::new(address, name, &NvmeOptions::default(), &ClientContext::without_network());
        let association = Association::new(plan.clone(), Wanted { nsid: 1, queues: QUEUES });
        let volume = remote_volume(&remote(QUEUES), name.to_owned(), plan, &association);
        let open = |core| volume.open_queue(&QueueContext::without_pool(CoreId(core), Waker::noop().clone()));
        for round in 0..3 {
            let queues: Vec<_> = (0..QUEUES).map(open).collect();
            let opened = queues.iter().filter(|queue| queue.is_ok()).count();
            assert_eq!(opened, usize::from(QUEUES), "in round {round}: those of the round before are closed");
            let why = open(QUEUES).err().expect("the controller granted no more").to_string();
            assert!(why.contains("queues="), "{why}");
        }
    }
}
