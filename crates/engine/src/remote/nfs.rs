//! Files at NFS servers as remote volumes: one client, with a session and an open of its own, per queue.
//!
//! The connections of one queue, one after the other, belong to one client. A new one goes on with the session of before, and before it is ready it has found out
//! what became of everything that was under way (RFC 8881 §2.10.6.1): so writes may be sent again at once. The server's write verifier
//! is the far end's incarnation: another one says that what was not committed may be lost.
//!
//! In version 3 there is no client and no session: [`mount`] fetches the export's handle once, over a connection of its own, and each queue has a connection to what is below it. Nothing says
//! what became of the calls of a lost connection, so writes are made again only after [`CALLS_GONE`].
//!
//! [`mount`]: mount::begin

mod mount;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::nfs::client::version3::{Export, Nfs3Client, Nfs3Config, Nfs3Keep};
use ::nfs::client::{self, Action, Config, FileConfig, Input, Keep, NfsClient, RemoteFile, Versions};
use ::nfs::v4::Verifier;
use ::rpc::UpperLayer;
use ::rpc::message::AuthSysToSend;
use ::rpc::rdma::RdmaConnection;
use ::rpc::tcp::TcpConnection;
use ::volume::filter::Apart;
use ::volume::{CoreId, Geometry, OpenError, Volume};
use buf::{Account, Pool};
use host::AdapterPair;
use names::{BlockSize, NfsUrl, NfsVersion, RdmaTransport};
use protocol::Instant;
use verbs::ManagedQueuePair;

use super::access::NfsUser;
use super::claim::{Claim, claim};
use super::client::adapters::AdapterWish;
use super::client::datagrams::Wish;
use super::client::{Client, ClientRole, Dial, Hooks, Owner, Report, Tell};
use super::client_context::ClientContext;
use super::entries::Nexus;
use super::far_end::{Facts, Shape, Shared, Timing};
use super::link::{Link, LinkInput, Stage};
use super::route::{Attempt, Connected, NotConnected, Route};
use super::volume::RemoteVolume;
use super::waiting::{Place, Waiting};
use crate::adapters::Side;
use crate::carried::Carried;
use crate::iwarp_link::{InitiatorEnd, IwarpLink, segment_size};
use crate::limits::{CALLS_GONE, CLIENT_POOL, COMMAND_TIME, RECONNECT_TIME, SESSION_GONE};
use crate::queue_pairs::OverQueuePair;

/// The machine's name in AUTH_SYS, which nobody proves and servers only log (RFC 5531 appendix A).
const MACHINE: &str = "linerate";
/// Blocks have so many bytes unless the URL says otherwise.
const BLOCK: u32 = 512;

/// What a connection tells.
enum Info {
    File(Box<RemoteFile>),
    Size(Geometry),
}

/// NFS over software iWARP, at a client.
type IwarpClient<U> = RdmaConnection<U, iwarp::Connection>;
/// The same over software RoCEv2.
type RoceClient<U> = RdmaConnection<U, roce::Connection>;
/// The same over an RDMA adapter.
type AdapterClient<U> = RdmaConnection<U, AdapterPair>;

/// A client's side of an NFS connection, whatever carries it.
struct NfsRole<C>(PhantomData<C>);

impl<C: Carried<Input = Input, Action = Action>> ClientRole for NfsRole<C> {
    type Connection = C;
    type Info = Info;

    /// A client that has not taken leave is waited for when its server starts again (RFC 8881 §8.4.2).
    const TAKES_LEAVE: bool = true;

    #[inline]
    fn input(input: LinkInput) -> Input {
        match input {
            LinkInput::Submit(request) => Input::Submit(request),
            LinkInput::Cancel(tag) => Input::Cancel(tag),
            LinkInput::Disconnect => Input::Disconnect,
            LinkInput::Abandon => Input::Abandon,
        }
    }

    #[inline]
    fn report(action: Action) -> Report<Info> {
        match action {
            Action::Ready(file) => Report::Ready(Info::File(file)),
            Action::Resized(geometry) => Report::Changed(Info::Size(geometry)),
            Action::Complete(completion) => Report::Complete(completion),
            Action::Failed { reason } => Report::Failed(reason),
        }
    }
}

/// How all connections to one file are made.
struct Plan {
    address: SocketAddr,
    url: NfsUrl,
    access: client::Access,
    user: Arc<AuthSysToSend>,
    timing: Timing,
    context: ClientContext,
    /// What MOUNT has found; of version 3 alone.
    export: Option<Arc<Export>>,
}

impl Plan {
    fn new(address: SocketAddr, url: NfsUrl, user: &NfsUser, context: &ClientContext) -> Self {
        let options = &url.options;
        let (uid, gid) = (options.uid.unwrap_or(user.uid), options.gid.unwrap_or(user.gid));
        // Groups are those of the process: another user has others, which nobody knows here.
        let groups = if options.uid.is_none() { user.groups.as_slice() } else { &[] };
        let access = match (user.reads_only, options.exclusive) {
            (true, _) => client::Access::ReadOnly,
            (false, true) => client::Access::Exclusive,
            (false, false) => client::Access::ReadWrite,
        };
        Self {
            address,
            access,
            user: Arc::new(AuthSysToSend::new(MACHINE, uid, gid, groups)),
            timing: Timing {
                command: options.timeout.map_or(COMMAND_TIME, |span| span.0),
                reconnect: options.reconnect.map_or(RECONNECT_TIME, |span| span.0),
            },
            url,
            context: context.clone(),
            export: None,
        }
    }

    fn path(&self) -> Vec<Vec<u8>> {
        self.url.path.iter().map(|name| name.clone().into_bytes()).collect()
    }

    fn block_size(&self) -> u32 {
        self.url.options.block.map_or(BLOCK, BlockSize::bytes)
    }

    fn size(&self) -> Option<u64> {
        self.url.options.size.map(|size| size.0)
    }

    /// A client that nobody has seen before.
    fn identity(&self) -> ClientIdentity {
        let mut random = [0; 24];
        (self.context.entropy)().fill(&mut random);
        let (mut name, mut verifier) = ([0; 16], [0; 8]);
        name.copy_from_slice(&random[..16]);
        verifier.copy_from_slice(&random[16..]);
        let owner = format!("{MACHINE} {:032x}", u128::from_be_bytes(name)).into_bytes();
        ClientIdentity {
            owner,
            verifier: Verifier(verifier),
            keep: Keep::default(),
            file: Nfs3Keep::default(),
        }
    }

    fn config(&self, identity: &ClientIdentity, access: client::Access) -> Config {
        Config {
            path: self.path(),
            versions: match self.url.options.version {
                None | Some(NfsVersion::V3) => Versions::Newest,
                Some(NfsVersion::V4_1) => Versions::One,
                Some(NfsVersion::V4_2) => Versions::Two,
            },
            access,
            block_size: self.block_size(),
            size: self.size(),
            user: Arc::clone(&self.user),
            owner: identity.owner.clone(),
            verifier: identity.verifier,
            command_time: self.timing.command,
            keep: identity.keep.clone(),
        }
    }

    fn config3(&self, export: &Arc<Export>, identity: &ClientIdentity, access: client::Access) -> Nfs3Config {
        Nfs3Config {
            export: Arc::clone(export),
            access,
            block_size: self.block_size(),
            size: self.size(),
            user: Arc::clone(&self.user),
            command_time: self.timing.command,
            keep: identity.file.clone(),
        }
    }

    /// Dials; `tell` is given what becomes known.
    fn connect(
        &self,
        identity: &ClientIdentity,
        access: client::Access,
        owner: Owner,
        tell: Tell<Info>,
    ) -> Rc<Link> {
        let hooks = Hooks { tell, turn: None };
        let dial = Dial { address: self.address, command_time: self.timing.command, owner, hooks };
        match &self.export {
            None => self.carry::<NfsClient, _>(self.config(identity, access), dial),
            Some(export) => self.carry::<Nfs3Client, _>(self.config3(export, identity, access), dial),
        }
    }

    /// A random number for the first call.
    fn xid(&self) -> u32 {
        wire::saturate::<u32>((self.context.entropy)().number() >> 32)
    }

    /// Has a connection made that speaks what the configuration says, over what the URL names.
    fn carry<U, C>(&self, config: C, dial: Dial<Info>) -> Rc<Link>
    where
        U: UpperLayer<Input = Input, Action = Action> + 'static,
        C: FileConfig<Client = U> + 'static,
    {
        let call = FirstCall { config, xid: self.xid() };
        let call_time = self.timing.command;
        let Some(rdma) = self.url.options.rdma else {
            let make = move |now| client::connect(now, call.config, call.xid);
            return Client::<NfsRole<TcpConnection<U>>>::dial(&self.context.dialer, Box::new(make), dial);
        };
        match rdma.transport {
            RdmaTransport::Iwarp => {
                let link = IwarpLink { crc: rdma.crc, mss: segment_size(self.address, None) };
                let make = move |now| {
                    let pool = Pool::new(CLIENT_POOL);
                    let words = client::private_data::<iwarp::Connection>();
                    let queues = client::needs::<iwarp::Connection>(call_time);
                    call.over(now, link.initiator(now, InitiatorEnd { words, queues }, &pool), &pool)
                };
                Client::<NfsRole<IwarpClient<U>>>::dial(&self.context.dialer, Box::new(make), dial)
            }
            RdmaTransport::Roce { udp_port } => self.connect_roce(udp_port, call, dial),
            RdmaTransport::Adapter => self.connect_adapter(call, dial),
        }
    }

    /// Asks for a queue pair.
    fn connect_roce<U, C>(&self, udp_port: u16, call: FirstCall<C>, dial: Dial<Info>) -> Rc<Link>
    where
        U: UpperLayer<Input = Input, Action = Action> + 'static,
        C: FileConfig<Client = U> + 'static,
    {
        let wish = Wish {
            peer: SocketAddr::new(self.address.ip(), udp_port),
            service: self.address.port(),
            queues: client::needs::<roce::Connection>(self.timing.command),
            private_data: client::private_data::<roce::Connection>(),
            entropy: Arc::clone(&self.context.entropy),
        };
        let join = Box::new(move |now, pair| call.over(now, pair, &Pool::new(CLIENT_POOL)));
        Client::<NfsRole<OverQueuePair<RoceClient<U>>>>::ask(&self.context.dialer, wish, join, dial)
    }

    /// Asks for a queue pair of an adapter's.
    fn connect_adapter<U, C>(&self, call: FirstCall<C>, dial: Dial<Info>) -> Rc<Link>
    where
        U: UpperLayer<Input = Input, Action = Action> + 'static,
        C: FileConfig<Client = U> + 'static,
    {
        let wish = AdapterWish {
            needs: Side::Initiator.needs(client::needs::<AdapterPair>(self.timing.command)),
            private_data: client::private_data::<AdapterPair>(),
        };
        let join = Box::new(move |now, pair| call.over(now, pair, &Pool::new(CLIENT_POOL)));
        Client::<NfsRole<OverQueuePair<AdapterClient<U>>>>::ask_adapter(&self.context, wish, join, dial)
    }
}

/// What a connection begins with.
struct FirstCall<C> {
    config: C,
    xid: u32,
}

impl<C: FileConfig> FirstCall<C> {
    fn over<Q: ManagedQueuePair>(self, now: Instant, pair: Q, pool: &Pool) -> RdmaConnection<C::Client, Q> {
        client::connect_over(now, pair, self.config, self.xid, Account::new(pool))
    }
}

/// A client in the standard's sense: its name, and what its connections leave to one another.
struct ClientIdentity {
    owner: Vec<u8>,
    verifier: Verifier,
    keep: Keep,
    /// In version 3, which has no clients, the file is all that there is.
    file: Nfs3Keep,
}

/// What an open file is.
fn facts(file: &RemoteFile, portal: SocketAddr) -> Facts {
    let (geometry, limits, features) = (file.geometry, file.limits, file.features);
    let discards = features.contains(::volume::Features::DISCARD);
    let incarnation = file.verifier.map(|Verifier(verifier)| {
        let mut mark = [0; 16];
        mark[..verifier.len()].copy_from_slice(&verifier);
        mark
    });
    Facts {
        shape: Shape { geometry, limits, features, discards },
        identity: file.identity.clone(),
        told: file.identity(),
        incarnation,
        // In version 4 each connection has settled what the one before had under way.
        nexus: (file.version != client::Version::Three).then_some(Nexus { portal, group: 0 }),
    }
}

/// Opens a file: a first client asks what it is and leaves; queues open it by themselves.
pub(super) fn open(
    address: SocketAddr,
    url: NfsUrl,
    user: &NfsUser,
    context: &ClientContext,
) -> Waiting<Arc<dyn Volume>> {
    let plan = Plan::new(address, url, user, context);
    if plan.url.options.version != Some(NfsVersion::V3) {
        return examine(plan);
    }
    let question = mount::Question {
        address: mount::address(address, &plan.url.options),
        path: plan.path(),
        user: Arc::clone(&plan.user),
        command_time: plan.timing.command,
        xid: plan.xid(),
    };
    let mut mounting = mount::begin(question, context);
    let (mut mounted, mut examining) = (Some(plan), None);
    Waiting::new(move || {
        if examining.is_none() {
            let export = match mounting.poll()? {
                Ok(export) => export,
                Err(error) => return Some(Err(error)),
            };
            examining = mounted.take().map(|plan| examine(Plan { export: Some(export), ..plan }));
        }
        examining.as_mut()?.poll()
    })
}

/// Has a first client ask what a file is.
fn examine(plan: Plan) -> Waiting<Arc<dyn Volume>> {
    let plan = Arc::new(plan);
    let answer: Place<Arc<dyn Volume>> = Rc::default();
    let (place, later) = (Rc::clone(&answer), Arc::clone(&plan));
    let tell = Box::new(move |info, link: &Link| {
        link.push(LinkInput::Disconnect);
        if let Info::File(file) = info {
            *place.borrow_mut() = Some(remote_volume(&file, Arc::clone(&later)));
        }
    });
    let owner = Owner { waker: plan.context.waker.clone(), purpose: Arc::new(()) };
    let keep = owner.clone();
    // Whoever denies others is a queue; this one must not stand in its way.
    let access = match plan.access {
        client::Access::Exclusive => client::Access::ReadWrite,
        access => access,
    };
    let link = plan.connect(&plan.identity(), access, owner, tell);
    Waiting::new(move || {
        let _purpose = &keep;
        if let Some(volume) = answer.borrow_mut().take() {
            return Some(Ok(volume));
        }
        match link.stage() {
            Stage::Failed(why) => Some(Err(OpenError::new(why))),
            Stage::Opening | Stage::Ready => None,
        }
    })
}

fn remote_volume(file: &RemoteFile, plan: Arc<Plan>) -> Arc<dyn Volume> {
    let name = plan.url.path();
    let shared = Shared::new(facts(file, plan.address), plan.timing, plan.context.clone());
    let given = Arc::clone(&shared);
    let taken: Mutex<std::sync::Weak<()>> = Mutex::default();
    let open = Box::new(move |_: CoreId, waker| -> Result<Box<dyn Route>, OpenError> {
        let only = match plan.access {
            client::Access::Exclusive => Some(claim(
                &taken,
                "exclusive=1 lets one queue open the file: use one connection and one core, or leave exclusive= out",
            )?),
            client::Access::ReadWrite | client::Access::ReadOnly => None,
        };
        let owner = Owner { waker, purpose: Arc::new(()) };
        let (plan, shared) = (Arc::clone(&plan), Arc::clone(&given));
        let identity = plan.identity();
        Ok(Box::new(Mounts { plan, identity, shared, owner, _only: only }))
    });
    // Servers carry requests that overlap out side by side, in the page cache.
    Arc::new(Apart::new(Arc::new(RemoteVolume { name, shared, open })))
}

/// One queue's connections, one after the other.
struct Mounts {
    plan: Arc<Plan>,
    identity: ClientIdentity,
    shared: Arc<Shared>,
    /// The queue: its purpose is held for as long as it is.
    owner: Owner,
    /// The claim to a file that is opened exclusively.
    _only: Option<Claim>,
}

impl Route for Mounts {
    fn begin(&mut self) -> Box<dyn Attempt> {
        let found: Rc<RefCell<Option<Facts>>> = Rc::default();
        let (place, shared, portal) = (Rc::clone(&found), Arc::clone(&self.shared), self.plan.address);
        let tell = Box::new(move |info, _: &Link| match info {
            Info::File(file) => *place.borrow_mut() = Some(facts(&file, portal)),
            Info::Size(geometry) => shared.resize(geometry),
        });
        let link = self.plan.connect(&self.identity, self.plan.access, self.owner.clone(), tell);
        Box::new(Mounting { link, found, plan: Arc::clone(&self.plan) })
    }

    /// In version 4 what a lost connection had is settled before the next one is ready: nothing waits for as long as this.
    fn quiet_time(&self) -> Duration {
        if self.plan.export.is_some() { CALLS_GONE } else { SESSION_GONE }
    }
}

/// A connection that is being made.
struct Mounting {
    link: Rc<Link>,
    found: Rc<RefCell<Option<Facts>>>,
    plan: Arc<Plan>,
}

impl Attempt for Mounting {
    fn poll(&mut self) -> Option<Result<Connected, NotConnected>> {
        match self.link.stage() {
            Stage::Opening => None,
            Stage::Failed(why) => Some(Err(NotConnected(why))),
            Stage::Ready => {
                let facts = self.found.take()?;
                Some(Ok(Connected { link: Rc::clone(&self.link), facts }))
            }
        }
    }

    fn give_up(&mut self) {
        self.link.push(LinkInput::Disconnect);
        if let Some(endpoint) = self.link.endpoint() {
            self.plan.context.dialer.wake(endpoint);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use ::nfs::client::Version;
    use ::volume::{Features, Limits};

    use super::*;

    fn file(version: Version) -> RemoteFile {
        RemoteFile {
            geometry: Geometry { blocks: 64, block_size: 512, physical_block_size: 512 },
            limits: Limits::default(),
            features: Features::VOLATILE_CACHE,
            identity: vec![7; 24],
            verifier: Some(Verifier([1; 8])),
            version,
        }
    }

    /// Nothing tells in version 3 what became of a lost connection's writes: they wait, whatever the next connection finds.
    #[test]
    fn writes_of_version_3_wait_and_those_of_version_4_do_not() {
        let address: SocketAddr = "127.0.0.1:2049".parse().unwrap();
        for (version, minor, waits) in
            [("3", Version::Three, true), ("4.2", Version::Four { minor: 2 }, false)]
        {
            let facts = facts(&file(minor), address);
            assert_eq!(facts.nexus.is_none(), waits);
            let url: names::VolumeUrl =
                format!("nfs://127.0.0.1/data/disk.img?version={version}").parse().unwrap();
            let names::Source::Nfs(url) = url.source else { panic!("no file at a server") };
            let user = NfsUser { uid: 0, gid: 0, groups: Vec::new(), reads_only: false };
            let context = ClientContext::without_network();
            let mut plan = Plan::new(address, url, &user, &context);
            if waits {
                let path = plan.path();
                plan.export = Some(Arc::new(Export { root: vec![1; 32], path, mounted: 1 }));
            }
            let (plan, shared) = (
                Arc::new(plan),
                Shared::new(facts, Timing { command: COMMAND_TIME, reconnect: RECONNECT_TIME }, context),
            );
            let owner = Owner { waker: Waker::noop().clone(), purpose: Arc::new(()) };
            let mounts = Mounts { identity: plan.identity(), plan, shared, owner, _only: None };
            let expected = if waits { CALLS_GONE } else { SESSION_GONE };
            assert_eq!(mounts.quiet_time(), expected);
        }
        // A write that is held is made again while it is still wanted.
        assert!(CALLS_GONE < COMMAND_TIME && CALLS_GONE < RECONNECT_TIME);
    }
}
