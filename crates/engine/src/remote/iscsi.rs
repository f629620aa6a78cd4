//! iSCSI logical units as remote volumes: one session per core, over TCP or, as iSER, over software iWARP, software RoCEv2 or an RDMA adapter.
//!
//! A queue's sessions bear the same name (ISID) one after the other. A login under the name of a session that the target still
//! has *reinstates* it: the target ends the old session and its tasks before it answers (RFC 7143 §6.3.5). So once a login has
//! succeeded, no command of the previous session can still take effect, and writes may be sent again. That holds within one
//! portal group: a login that was sent elsewhere, or found another group, begins a session *beside* the old one, and proves nothing.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ::iscsi::chap::{Credentials, Secret};
use ::iscsi::datamover::iser::{self, Invalidation, initiator_needs, private_data};
use ::iscsi::datamover::tcp;
use ::iscsi::initiator::{Action, Config, Discovered, Input, RemoteUnit};
use ::iscsi::keys::DigestPolicy;
use ::volume::{CoreId, Geometry, OpenError, Volume};
use buf::Pool;
use host::AdapterPair;
use names::{Iqn, IscsiOptions, IscsiUrl, RdmaOptions, RdmaTransport};

use super::access::Secrets;
use super::claim::{Claim, claim};
use super::client::adapters::AdapterWish;
use super::client::datagrams::Wish;
use super::client::{Client, ClientRole, Dial, Hooks, Owner, Report, Tell};
use super::client_context::ClientContext;
use super::entries::Nexus;
use super::far_end::{Digests, Facts, Shape, Shared, Timing};
use super::link::{Link, LinkInput, Stage};
use super::redirect::{Redirect, RedirectFollower, RedirectSlot};
use super::route::{Attempt, Connected, NotConnected, Route};
use super::volume::RemoteVolume;
use super::waiting::{Found, Place, Waiting};
use crate::adapters::Side;
use crate::carried::Carried;
use crate::iwarp_link::{InitiatorEnd, IwarpLink, segment_size};
use crate::limits::{CLIENT_POOL, COMMAND_TIME, RECONNECT_TIME, SESSION_GONE};
use crate::queue_pairs::OverQueuePair;

/// The name that initiators log in under unless the URL says otherwise.
pub const INITIATOR: &str = "iqn.2026-11.org.linerate:initiator";

/// What a connection tells.
enum Info {
    Unit(Box<RemoteUnit>),
    Size(Geometry),
    Targets(Vec<Discovered>),
    Moved(Redirect),
}

/// iSER over software iWARP, at an initiator.
type IwarpInitiator = iser::InitiatorConnection<iwarp::Connection>;
/// The same over software RoCEv2.
type RoceInitiator = OverQueuePair<iser::InitiatorConnection<roce::Connection>>;
/// The same over an RDMA adapter.
type AdapterInitiator = OverQueuePair<iser::InitiatorConnection<AdapterPair>>;

/// An initiator's side of an iSCSI connection, whatever carries it.
struct Initiator<C>(PhantomData<C>);

impl<C: Carried<Input = Input, Action = Action>> ClientRole for Initiator<C> {
    type Connection = C;
    type Info = Info;

    #[inline]
    fn input(input: LinkInput) -> Input {
        match input {
            LinkInput::Submit(request) => Input::Submit(request),
            LinkInput::Cancel(tag) => Input::Cancel(tag),
            LinkInput::Disconnect => Input::Logout,
            LinkInput::Abandon => Input::Abandon,
        }
    }

    #[inline]
    fn report(action: Action) -> Report<Info> {
        match action {
            Action::Ready(unit) => Report::Ready(Info::Unit(unit)),
            Action::Resized(geometry) => Report::Changed(Info::Size(geometry)),
            Action::Discovered(targets) => Report::Ready(Info::Targets(targets)),
            Action::Moved { address, permanently } => {
                Report::Changed(Info::Moved(Redirect { address, permanently }))
            }
            Action::Complete(completion) => Report::Complete(completion),
            Action::Failed { reason } => Report::Failed(reason),
        }
    }
}

/// What a session is to be for.
struct Wanted<'a> {
    address: SocketAddr,
    options: &'a IscsiOptions,
    secrets: Option<Secrets>,
    /// None for a discovery session.
    target: Option<Iqn>,
    lun: u16,
}

/// A session that is to be: everything but its random part.
struct Plan {
    /// Where logins begin: what the user said, or where the target has moved for good.
    home: Mutex<SocketAddr>,
    initiator: Iqn,
    target: Option<Iqn>,
    lun: u16,
    chap: Option<Credentials>,
    mutual: Option<Credentials>,
    digests: Digests,
    /// RDMA carries them; without it TCP does.
    rdma: Option<RdmaOptions>,
    /// The sessions' own name, if the user gave one: then there is only one session at a time.
    named: Option<[u8; 6]>,
    timing: Timing,
    context: ClientContext,
}

impl Plan {
    fn new(wanted: Wanted<'_>, context: &ClientContext) -> Result<Self, OpenError> {
        let Wanted { address, options, secrets, target, lun } = wanted;
        let initiator = match &options.initiator {
            Some(name) => name.clone(),
            None => INITIATOR.parse().map_err(|error| OpenError::new(format!("{error}")))?,
        };
        let (mut chap, mut mutual) = (None, None);
        if let (Some(account), Some(secrets)) = (&options.chap, secrets) {
            chap = Some(Credentials { user: account.user.clone(), secret: Secret::new(secrets.initiator) });
            if let (Some(target), Some(secret)) = (&account.mutual, secrets.target) {
                mutual = Some(Credentials { user: target.user.clone(), secret: Secret::new(secret) });
            }
        }
        let digests = Digests { header: options.header_digest, data: options.data_digest };
        let timing = Timing {
            command: options.timeout.map_or(COMMAND_TIME, |span| span.0),
            reconnect: options.reconnect.map_or(RECONNECT_TIME, |span| span.0),
        };
        let (named, context) = (options.isid.map(|isid| isid.0), context.clone());
        let (home, rdma) = (Mutex::new(address), options.rdma);
        Ok(Self { home, initiator, target, lun, chap, mutual, digests, rdma, named, timing, context })
    }

    /// A session's name: the one that the user gave, or one of its own.
    fn isid(&self) -> [u8; 6] {
        if let Some(isid) = self.named {
            return isid;
        }
        let mut isid = [0; 6];
        (self.context.entropy)().fill(&mut isid);
        // Type 10b: a random session name (RFC 7143 §11.12.5).
        isid[0] = 0x80;
        isid
    }

    fn config(&self, isid: [u8; 6]) -> Config {
        let mut config = Config::new(self.initiator.clone(), isid, self.target.clone(), self.lun);
        config.chap.clone_from(&self.chap);
        config.mutual.clone_from(&self.mutual);
        config.command_time = self.timing.command;
        let policy = |wanted| if wanted { DigestPolicy::Require } else { DigestPolicy::Allow };
        config.tuning.header_digest = policy(self.digests.header);
        config.tuning.data_digest = policy(self.digests.data);
        config
    }

    fn home(&self) -> MutexGuard<'_, SocketAddr> {
        self.home.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Dials a session at `address`; `tell` is given what becomes known.
    fn connect(&self, isid: [u8; 6], address: SocketAddr, caller: Caller) -> Rc<Link> {
        let (config, entropy) = (self.config(isid), (self.context.entropy)());
        let Caller { owner, tell } = caller;
        let hooks = Hooks { tell, turn: None };
        let dial = Dial { address, command_time: self.timing.command, owner, hooks };
        let dialer = &self.context.dialer;
        let Some(rdma) = self.rdma else {
            let make = move |now| tcp::InitiatorConnection::new(now, config, Pool::new(CLIENT_POOL), entropy);
            return Client::<Initiator<tcp::InitiatorConnection>>::dial(dialer, Box::new(make), dial);
        };
        if let RdmaTransport::Roce { udp_port } = rdma.transport {
            let wish = Wish {
                peer: SocketAddr::new(address.ip(), udp_port),
                service: address.port(),
                queues: initiator_needs(),
                private_data: private_data(Invalidation::Used),
                entropy: Arc::clone(&self.context.entropy),
            };
            let pool = Pool::new(CLIENT_POOL);
            let join = move |now, pair| iser::InitiatorConnection::new(now, config, pool, entropy, pair);
            return Client::<Initiator<RoceInitiator>>::ask(dialer, wish, Box::new(join), dial);
        }
        if rdma.transport == RdmaTransport::Adapter {
            let wish = AdapterWish {
                needs: Side::Initiator.needs(initiator_needs()),
                // What the adapter registers for a user no peer can invalidate.
                private_data: private_data(Invalidation::NotUsed),
            };
            let pool = Pool::new(CLIENT_POOL);
            let join = move |now, pair| iser::InitiatorConnection::new(now, config, pool, entropy, pair);
            return Client::<Initiator<AdapterInitiator>>::ask_adapter(
                &self.context,
                wish,
                Box::new(join),
                dial,
            );
        }
        let iwarp = IwarpLink { crc: rdma.crc, mss: segment_size(address, None) };
        let make = move |now| {
            let pool = Pool::new(CLIENT_POOL);
            let (words, queues) = (private_data(Invalidation::Used), initiator_needs());
            let pair = iwarp.initiator(now, InitiatorEnd { words, queues }, &pool);
            iser::InitiatorConnection::new(now, config, pool, entropy, pair)
        };
        Client::<Initiator<IwarpInitiator>>::dial(dialer, Box::new(make), dial)
    }
}

/// Who makes a connection, and who is told what it finds.
struct Caller {
    owner: Owner,
    tell: Tell<Info>,
}

/// Called with what a login finds, and with its link.
type Hear = Rc<dyn Fn(Info, &Link)>;

/// A login that goes where it is sent.
struct Login {
    plan: Arc<Plan>,
    isid: [u8; 6],
    /// Where it has been sent to.
    portal: SocketAddr,
    owner: Owner,
    hear: Hear,
    told: RedirectSlot,
    follower: RedirectFollower,
}

impl Login {
    fn begin(plan: &Arc<Plan>, isid: [u8; 6], owner: Owner, hear: Hear) -> Self {
        let told = RedirectSlot::default();
        let home = *plan.home();
        let tell = listener(Rc::clone(&hear), Rc::clone(&told));
        let link = plan.connect(isid, home, Caller { owner: owner.clone(), tell });
        let follower = RedirectFollower::new(link, Rc::clone(&told));
        Self { plan: Arc::clone(plan), isid, portal: home, owner, hear, told, follower }
    }

    /// How far it is.
    fn stage(&mut self) -> Stage {
        let Self { plan, isid, portal, owner, hear, told, follower } = self;
        follower.stage(|address, permanently| {
            if permanently {
                *plan.home() = address;
            }
            *portal = address;
            let tell = listener(Rc::clone(hear), Rc::clone(told));
            plan.connect(*isid, address, Caller { owner: owner.clone(), tell })
        })
    }
}

fn listener(hear: Hear, told: RedirectSlot) -> Tell<Info> {
    Box::new(move |info, link| match info {
        Info::Moved(moved) => *told.borrow_mut() = Some(moved),
        info => hear(info, link),
    })
}

/// Waits for what a login finds.
fn await_answer<T: 'static>(mut login: Login, answer: Place<T>) -> Waiting<T> {
    Waiting::new(move || {
        if let Some(answer) = answer.borrow_mut().take() {
            return Some(Ok(answer));
        }
        match login.stage() {
            Stage::Failed(why) => Some(Err(OpenError::new(why))),
            Stage::Opening | Stage::Ready => None,
        }
    })
}

/// What a login found.
fn facts(unit: &RemoteUnit) -> Facts {
    let (geometry, limits, features) = (unit.geometry, unit.limits, unit.features);
    let shape = Shape { geometry, limits, features, discards: unit.discards };
    // A unit without a name is at least to be of the same make.
    let identity = if unit.naa.is_empty() {
        format!("{}\0{}", unit.vendor, unit.product).into_bytes()
    } else {
        unit.naa.clone()
    };
    Facts { shape, identity, told: unit.identity(), incarnation: unit.incarnation, nexus: None }
}

/// Opens a logical unit: a first session asks what it is and leaves; queues log in by themselves.
pub(super) fn open(
    address: SocketAddr,
    url: IscsiUrl,
    secrets: Option<Secrets>,
    context: &ClientContext,
) -> Waiting<Arc<dyn Volume>> {
    let target = Some(url.target.clone());
    let wanted = Wanted { address, options: &url.options, secrets, target, lun: url.lun };
    let plan = match Plan::new(wanted, context) {
        Ok(plan) => Arc::new(plan),
        Err(error) => return Waiting::failed(&error.to_string()),
    };
    let answer: Place<Arc<dyn Volume>> = Rc::default();
    let place = Rc::clone(&answer);
    let later = Arc::clone(&plan);
    let hear = Rc::new(move |info, link: &Link| {
        link.push(LinkInput::Disconnect);
        if let Info::Unit(unit) = info {
            *place.borrow_mut() = Some(remote_volume(&unit, Arc::clone(&later), url.target.to_string()));
        }
    });
    let owner = Owner { waker: context.waker.clone(), purpose: Arc::new(()) };
    await_answer(Login::begin(&plan, plan.isid(), owner, hear), answer)
}

fn remote_volume(unit: &RemoteUnit, plan: Arc<Plan>, name: String) -> Arc<dyn Volume> {
    let shared = Shared::new(facts(unit), plan.timing, plan.context.clone());
    let given = Arc::clone(&shared);
    let taken: Mutex<Weak<()>> = Mutex::default();
    let open = Box::new(move |_: CoreId, waker| -> Result<Box<dyn Route>, OpenError> {
        let (plan, shared) = (Arc::clone(&plan), Arc::clone(&given));
        let only = match plan.named {
            Some(_) => Some(claim(
                &taken,
                "isid= names a single session: use one connection and one core, or leave isid= out",
            )?),
            None => None,
        };
        let owner = Owner { waker, purpose: Arc::new(()) };
        Ok(Box::new(Sessions { isid: plan.isid(), plan, shared, owner, _only: only }))
    });
    Arc::new(RemoteVolume { name, shared, open })
}

/// One queue's sessions, one after the other.
struct Sessions {
    plan: Arc<Plan>,
    isid: [u8; 6],
    shared: Arc<Shared>,
    /// The queue: its purpose is held for as long as it is.
    owner: Owner,
    /// The claim to a session's name, if the user gave it.
    _only: Option<Claim>,
}

impl Route for Sessions {
    fn begin(&mut self) -> Box<dyn Attempt> {
        let found: Rc<RefCell<Option<Entered>>> = Rc::default();
        let (place, shared) = (Rc::clone(&found), Arc::clone(&self.shared));
        let hear = Rc::new(move |info, _: &Link| match info {
            Info::Unit(unit) => {
                *place.borrow_mut() = Some(Entered { facts: facts(&unit), portal_group: unit.portal_group });
            }
            Info::Size(geometry) => shared.resize(geometry),
            Info::Targets(_) | Info::Moved(_) => {}
        });
        let login = Login::begin(&self.plan, self.isid, self.owner.clone(), hear);
        Box::new(Entering { login, found })
    }

    /// A login to the portal group of the old session ends that session; without one it ends when the target notices.
    fn quiet_time(&self) -> Duration {
        SESSION_GONE
    }
}

/// What a login found.
struct Entered {
    facts: Facts,
    /// The portal group that it was in.
    portal_group: Option<u16>,
}

/// A session that is being begun.
struct Entering {
    login: Login,
    found: Rc<RefCell<Option<Entered>>>,
}

impl Attempt for Entering {
    fn poll(&mut self) -> Option<Result<Connected, NotConnected>> {
        match self.login.stage() {
            Stage::Opening => None,
            Stage::Failed(why) => Some(Err(NotConnected(why))),
            Stage::Ready => self.found.take().map(|Entered { facts, portal_group }| {
                let portal = self.login.portal;
                let nexus = portal_group.map(|group| Nexus { portal, group });
                let link = Rc::clone(self.login.follower.link());
                Ok(Connected { link, facts: Facts { nexus, ..facts } })
            }),
        }
    }

    fn give_up(&mut self) {
        let link = self.login.follower.link();
        link.push(LinkInput::Disconnect);
        if let Some(endpoint) = link.endpoint() {
            self.login.plan.context.dialer.wake(endpoint);
        }
    }
}

/// Asks for all targets.
pub(super) fn discover(
    address: SocketAddr,
    options: &IscsiOptions,
    secrets: Option<Secrets>,
    context: &ClientContext,
) -> Waiting<Vec<Found>> {
    let wanted = Wanted { address, options, secrets, target: None, lun: 0 };
    let plan = match Plan::new(wanted, context) {
        Ok(plan) => Arc::new(plan),
        Err(error) => return Waiting::failed(&error.to_string()),
    };
    let answer: Place<Vec<Found>> = Rc::default();
    let place = Rc::clone(&answer);
    let hear = Rc::new(move |info, _: &Link| {
        if let Info::Targets(targets) = info {
            let rows = targets.into_iter().flat_map(|target| {
                let Discovered { name, addresses } = target;
                addresses.into_iter().map(move |address| Found { name: name.clone(), address, error: None })
            });
            *place.borrow_mut() = Some(rows.collect());
        }
    });
    let owner = Owner { waker: context.waker.clone(), purpose: Arc::new(()) };
    await_answer(Login::begin(&plan, plan.isid(), owner, hear), answer)
}
