//! How connections to an NVMe subsystem are made, over TCP, software iWARP, software RoCEv2 or an RDMA adapter: what all of them have in common.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use ::nvme::fabrics::HostIdentity;
use ::nvme::host::{Action, Config, Connection, Input, Queue, RemoteNamespace};
use ::nvme::log::DiscoveryEntry;
use ::nvme::rdma::HostConnection;
use buf::Pool;
use host::{AdapterPair, EndpointId};
use names::{NvmeOptions, RdmaOptions, RdmaTransport};

use super::client::adapters::AdapterWish;
use super::client::datagrams::Wish;
use super::client::{Client, ClientRole, Dial, Hooks, Owner, Report};
use super::client_context::ClientContext;
use super::far_end::{Digests, Timing};
use super::link::{Link, LinkInput};
use crate::adapters::Side;
use crate::carried::Carried;
use crate::iwarp_link::{InitiatorEnd, IwarpLink, segment_size};
use crate::limits::{CLIENT_POOL, COMMAND_TIME, KEEP_ALIVE, RECONNECT_TIME};
use crate::queue_pairs::OverQueuePair;

/// Commands that a queue may have under way.
pub(super) const DEPTH: u16 = 128;
/// What a connection tells.
pub(super) enum Info {
    Namespace(RemoteNamespace),
    QueueReady,
    Subsystems(Vec<DiscoveryEntry>),
}

/// NVMe/RDMA over software iWARP, at a host.
type RdmaHost = HostConnection<iwarp::Connection>;
/// The same over software RoCEv2.
type RoceHost = HostConnection<roce::Connection>;
/// The same over an RDMA adapter.
type AdapterHost = HostConnection<AdapterPair>;

/// A host's side of an NVMe connection, whatever carries it.
struct Host<C>(PhantomData<C>);

impl<C: Carried<Input = Input, Action = Action>> ClientRole for Host<C> {
    type Connection = C;
    type Info = Info;

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
            Action::Ready(namespace) => Report::Ready(Info::Namespace(*namespace)),
            Action::QueueReady => Report::Ready(Info::QueueReady),
            Action::Discovered(entries) => Report::Ready(Info::Subsystems(entries)),
            Action::Complete(completion) => Report::Complete(completion),
            Action::NamespaceChanged(namespace) => Report::Changed(Info::Namespace(*namespace)),
            Action::Failed(failure) => Report::Failed(failure.to_string()),
        }
    }
}

/// What all connections to a subsystem have in common.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) host: HostIdentity,
    subnqn: Arc<str>,
    digests: Digests,
    /// RDMA carries them; without it TCP does.
    rdma: Option<RdmaOptions>,
    address: SocketAddr,
    pub(super) timing: Timing,
    pub(super) context: ClientContext,
}

impl Plan {
    pub(super) fn new(
        address: SocketAddr,
        subnqn: &str,
        options: &NvmeOptions,
        context: &ClientContext,
    ) -> Self {
        let mut identifier = [0; 16];
        match options.hostid {
            Some(given) => identifier = given.0,
            None => (context.entropy)().fill(&mut identifier),
        }
        let nqn = match &options.hostnqn {
            Some(name) => name.to_string(),
            None => format!("nqn.2014-08.org.nvmexpress:uuid:{}", hyphenated(identifier)),
        };
        Self {
            host: HostIdentity { identifier, nqn: nqn.into() },
            subnqn: subnqn.into(),
            digests: Digests { header: options.header_digest, data: options.data_digest },
            rdma: options.rdma,
            address,
            timing: Timing {
                command: options.timeout.map_or(COMMAND_TIME, |span| span.0),
                reconnect: options.reconnect.map_or(RECONNECT_TIME, |span| span.0),
            },
            context: context.clone(),
        }
    }

    /// Where it leads.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same at another address.
    pub(super) fn at(&self, address: SocketAddr) -> Self {
        Self { address, ..self.clone() }
    }

    /// Whom to wake when something has become known.
    pub(super) fn waker(&self) -> Waker {
        self.context.waker.clone()
    }

    /// What lets that connection of the calling core take a turn.
    pub(super) fn waker_of(&self, endpoint: EndpointId) -> Waker {
        self.context.dialer.waker(endpoint)
    }

    /// The keep alive timeout, in milliseconds.
    pub(super) fn keep_alive() -> u32 {
        wire::bounded::<u32>(KEEP_ALIVE.as_millis())
    }

    /// True when nobody tells a peer whose packets are lost that the other side is gone.
    pub(super) fn is_over_datagrams(&self) -> bool {
        self.rdma.is_some_and(|rdma| matches!(rdma.transport, RdmaTransport::Roce { .. }))
    }

    /// Dials a queue.
    pub(super) fn connect(&self, queue: Queue, owner: Owner, hooks: Hooks<Info>) -> Rc<Link> {
        let (dialer, command_time) = (&self.context.dialer, self.timing.command);
        let dial = Dial { address: self.address, command_time, owner, hooks };
        let config = Config {
            host: self.host.clone(),
            subnqn: Arc::clone(&self.subnqn),
            header_digest: self.digests.header,
            data_digest: self.digests.data,
            depth: DEPTH,
            command_time: self.timing.command,
            queue,
        };
        let Some(rdma) = self.rdma else {
            let make = move |now| Connection::new(config, now);
            return Client::<Host<Connection>>::dial(dialer, Box::new(make), dial);
        };
        if let RdmaTransport::Roce { udp_port } = rdma.transport {
            return self.connect_roce(udp_port, config, dial);
        }
        if rdma.transport == RdmaTransport::Adapter {
            return self.connect_adapter(config, dial);
        }
        let iwarp = IwarpLink { crc: rdma.crc, mss: segment_size(self.address, None) };
        let make = move |now| {
            let words = RdmaHost::private_data(&config);
            let queues = RdmaHost::needs(&config);
            let pair = iwarp.initiator(now, InitiatorEnd { words, queues }, &Pool::new(CLIENT_POOL));
            RdmaHost::new(pair, config, now)
        };
        Client::<Host<RdmaHost>>::dial(dialer, Box::new(make), dial)
    }

    /// Asks for a queue pair of an adapter's.
    fn connect_adapter(&self, config: Config, dial: Dial<Info>) -> Rc<Link> {
        let wish = AdapterWish {
            needs: Side::Initiator.needs(AdapterHost::needs(&config)),
            private_data: AdapterHost::private_data(&config),
        };
        let join = Box::new(move |now, pair| AdapterHost::new(pair, config, now));
        Client::<Host<OverQueuePair<AdapterHost>>>::ask_adapter(&self.context, wish, join, dial)
    }

    /// Asks for a queue pair.
    fn connect_roce(&self, udp_port: u16, config: Config, dial: Dial<Info>) -> Rc<Link> {
        let wish = Wish {
            peer: SocketAddr::new(self.address.ip(), udp_port),
            service: self.address.port(),
            queues: RoceHost::needs(&config),
            private_data: RoceHost::private_data(&config),
            entropy: Arc::clone(&self.context.entropy),
        };
        let join = Box::new(move |now, pair| RoceHost::new(pair, config, now));
        Client::<Host<OverQueuePair<RoceHost>>>::ask(&self.context.dialer, wish, join, dial)
    }
}

/// A UUID's usual text.
fn hyphenated(bytes: [u8; 16]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&digits[..4], &digits[4..6], &digits[6..8], &digits[8..10], &digits[10..]]
        .map(<[String]>::concat)
        .join("-")
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
