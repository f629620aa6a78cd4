//! iSCSI logical units as remote volumes: one session per core.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use ::iscsi::chap::{Credentials, Secret};
use ::iscsi::initiator::{Action, Config, Connection, Discovered, Input, RemoteUnit};
use ::iscsi::keys::DigestPolicy;
use ::volume::{CoreId, OpenError, Volume};
use buf::Pool;
use names::{Iqn, IscsiOptions, IscsiUrl};
use std::task::Waker;

use super::client::{Client, ClientRole, Report, WhenReady};
use super::link::{Link, Order};
use super::volume::{RemoteVolume, Shape};
use super::{Found, Place, Secrets, Surroundings, Waiting, dial};
use crate::limits::CLIENT_POOL;

/// The name that initiators log in under unless the URL says otherwise.
const INITIATOR: &str = "iqn.2026-11.org.linerate:initiator";

/// What an opened connection tells.
enum Info {
    Unit(Box<RemoteUnit>),
    Targets(Vec<Discovered>),
}

/// An initiator's side of an iSCSI connection.
struct Initiator;

impl ClientRole for Initiator {
    type Connection = Connection;
    type Info = Info;

    fn input(order: Order) -> Input {
        match order {
            Order::Submit(request) => Input::Submit(request),
            Order::Cancel(tag) => Input::Cancel(tag),
            Order::Leave => Input::Logout,
        }
    }

    fn report(action: Action) -> Report<Info> {
        match action {
            Action::Ready(unit) => Report::Ready(Info::Unit(unit)),
            Action::Discovered(targets) => Report::Ready(Info::Targets(targets)),
            Action::Complete(completion) => Report::Complete(completion),
            Action::Failed { reason } => Report::Failed(reason),
        }
    }
}

/// A session that is to be: everything but its random part.
struct Plan {
    initiator: Iqn,
    target: Option<Iqn>,
    lun: u16,
    chap: Option<Credentials>,
    mutual: Option<Credentials>,
    digests: (bool, bool),
    surroundings: Surroundings,
}

impl Plan {
    fn new(
        (options, secrets): (&IscsiOptions, Option<Secrets>),
        (target, lun): (Option<Iqn>, u16),
        surroundings: &Surroundings,
    ) -> Result<Self, OpenError> {
        let initiator = match &options.initiator {
            Some(name) => name.clone(),
            None => INITIATOR.parse().map_err(|error| OpenError::new(format!("{error}")))?,
        };
        let (mut chap, mut mutual) = (None, None);
        if let (Some(account), Some((secret, other))) = (&options.chap, secrets) {
            chap = Some(Credentials { user: account.user.clone(), secret: Secret::new(secret) });
            if let (Some(target), Some(secret)) = (&account.mutual, other) {
                mutual = Some(Credentials { user: target.user.clone(), secret: Secret::new(secret) });
            }
        }
        let digests = (options.header_digest, options.data_digest);
        Ok(Self { initiator, target, lun, chap, mutual, digests, surroundings: surroundings.clone() })
    }

    /// A configuration with a session name of its own.
    fn config(&self) -> Config {
        let mut isid = [0; 6];
        (self.surroundings.entropy)().fill(&mut isid);
        // Type 10b: a random session name (RFC 7143 §11.12.5).
        isid[0] = 0x80;
        let mut config = Config::new(self.initiator.clone(), isid, self.target.clone(), self.lun);
        config.chap.clone_from(&self.chap);
        config.mutual.clone_from(&self.mutual);
        let policy = |wanted| if wanted { DigestPolicy::Require } else { DigestPolicy::Allow };
        config.tuning.header_digest = policy(self.digests.0);
        config.tuning.data_digest = policy(self.digests.1);
        config
    }

    /// Dials a session; `tell` is given what becomes known.
    fn connect(
        &self,
        address: SocketAddr,
        (waker, purpose): (Waker, &Arc<()>),
        tell: WhenReady<Info>,
    ) -> Rc<Link> {
        let link = Link::new(waker);
        let (config, entropy) = (self.config(), (self.surroundings.entropy)());
        let make = Box::new(move |now| Connection::new(now, config, Pool::new(CLIENT_POOL), entropy));
        let client = Client::<Initiator>::new(make, Rc::clone(&link), tell, purpose);
        dial(&self.surroundings.dialer, address, &link, Box::new(client));
        link
    }
}

/// Opens a logical unit: a first session asks what it is and leaves; queues log in by themselves.
pub(super) fn open(
    address: SocketAddr,
    (url, secrets): (IscsiUrl, Option<Secrets>),
    surroundings: &Surroundings,
) -> Waiting<Arc<dyn Volume>> {
    let aim = (Some(url.target.clone()), url.lun);
    let plan = match Plan::new((&url.options, secrets), aim, surroundings) {
        Ok(plan) => Arc::new(plan),
        Err(error) => return Waiting::failed(&error.to_string()),
    };
    let answer: Place<Arc<dyn Volume>> = Rc::default();
    let place = Rc::clone(&answer);
    let later = Arc::clone(&plan);
    let tell = Box::new(move |info, link: &Link| {
        link.order(Order::Leave);
        if let Info::Unit(unit) = info {
            *place.borrow_mut() = Some(remote_volume(&unit, later, address, url.target.to_string()));
        }
    });
    let purpose = Arc::new(());
    let link = plan.connect(address, (surroundings.waker.clone(), &purpose), tell);
    Waiting { link, answer, _purpose: purpose }
}

fn remote_volume(unit: &RemoteUnit, plan: Arc<Plan>, address: SocketAddr, name: String) -> Arc<dyn Volume> {
    let shape = Shape { geometry: unit.geometry, limits: unit.limits, features: unit.features };
    let dialer = Arc::clone(&plan.surroundings.dialer);
    let purpose = Arc::new(());
    let kept = Arc::clone(&purpose);
    let connect =
        Box::new(move |_: CoreId, waker| Ok(plan.connect(address, (waker, &kept), Box::new(|_, _| {}))));
    Arc::new(RemoteVolume { name, shape, connect, dialer, _purpose: purpose })
}

/// Asks for all targets.
pub(super) fn discover(
    address: SocketAddr,
    access: (&IscsiOptions, Option<Secrets>),
    surroundings: &Surroundings,
) -> Waiting<Vec<Found>> {
    let plan = match Plan::new(access, (None, 0), surroundings) {
        Ok(plan) => plan,
        Err(error) => return Waiting::failed(&error.to_string()),
    };
    let answer: Place<Vec<Found>> = Rc::default();
    let place = Rc::clone(&answer);
    let tell = Box::new(move |info, _: &Link| {
        if let Info::Targets(targets) = info {
            let rows = targets.into_iter().flat_map(|target| {
                let Discovered { name, addresses } = target;
                addresses.into_iter().map(move |address| Found { name: name.clone(), address })
            });
            *place.borrow_mut() = Some(rows.collect());
        }
    });
    let purpose = Arc::new(());
    let link = plan.connect(address, (surroundings.waker.clone(), &purpose), tell);
    Waiting { link, answer, _purpose: purpose }
}
