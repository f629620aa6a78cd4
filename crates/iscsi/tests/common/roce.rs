//! Consumers over queue pairs of software RoCEv2 as the ends of a pair: datagrams cross as frames of a stream, and some are lost.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses its own part")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use buf::{Account, Pool};
use iscsi::datamover::iser::{self, Invalidation, initiator_needs, private_data, target_needs};
use iscsi::initiator::Config;
use iscsi::target::Portal;
use protocol::{CloseReason, Connection, Ended, Entropy as _, Instant, Placement, SeededEntropy, Transmit};
use roce::Endpoint;
use roce::endpoint::{Arrival, Incoming, Target};
use roce::mtu::Mtu;
use roce::train::Train;
use verbs::{Consumer, PrivateData, QueueLimits};

use super::iser_raw::RawEnd;
use super::{Bench, blocks, resources};

const NEAR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 4791);
const FAR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 4791);
/// The port of the service.
const ISCSI: u16 = 3260;

/// Makes the consumer of a queue pair that was asked for.
type Accept<C> = Box<dyn FnOnce(Instant, roce::Connection) -> C>;

/// A consumer and its endpoint, driven as whoever has the socket does it.
pub struct OverRoce<C> {
    endpoint: Endpoint,
    peer: SocketAddr,
    pool: Pool,
    pub consumer: Option<C>,
    accept: Option<Accept<C>>,
    needs: QueueLimits,
    /// Thousandths of what comes that are lost.
    pub loss: u64,
    pub lost: u64,
    entropy: SeededEntropy,
    train: Train,
    ended: bool,
}

fn config(queues: QueueLimits) -> roce::Config {
    roce::Config { queues, mtu: Mtu::Bytes1024, reads_served: 16, reads_sent: 4 }
}

impl<C: Consumer<QueuePair = roce::Connection>> OverRoce<C> {
    fn new(own: SocketAddr, peer: SocketAddr, needs: QueueLimits, pool: &Pool) -> Self {
        Self {
            endpoint: Endpoint::new(
                own,
                Account::new(pool),
                Box::new(SeededEntropy::new(own.ip().is_ipv4().into())),
            ),
            peer,
            pool: pool.clone(),
            consumer: None,
            accept: None,
            needs,
            loss: 0,
            lost: 0,
            entropy: SeededEntropy::new(7),
            train: Train::default(),
            ended: false,
        }
    }

    /// One that connects.
    pub fn connecting(
        pool: &Pool,
        words: PrivateData,
        join: impl FnOnce(Instant, roce::Connection) -> C,
    ) -> Self {
        let mut end = Self::new(NEAR, FAR, initiator_needs(), pool);
        let target = Target { address: FAR, port: ISCSI, config: config(end.needs), private_data: words };
        let pair = end.endpoint.connect(Instant::ZERO, target, Account::new(pool)).unwrap();
        let mut consumer = join(Instant::ZERO, pair);
        consumer.handle_progress(Instant::ZERO);
        end.consumer = Some(consumer);
        end
    }

    /// One that accepts the first who asks, and refuses all others.
    pub fn accepting(
        pool: &Pool,
        needs: QueueLimits,
        accept: impl FnOnce(Instant, roce::Connection) -> C + 'static,
    ) -> Self {
        Self { accept: Some(Box::new(accept)), ..Self::new(FAR, NEAR, needs, pool) }
    }

    /// One that refuses everybody.
    pub fn refusing(pool: &Pool) -> Self {
        Self::new(FAR, NEAR, initiator_needs(), pool)
    }

    pub fn reseed(&mut self, seed: u64) {
        self.entropy = SeededEntropy::new(seed);
    }

    pub fn consumer(&mut self) -> &mut C {
        self.consumer.as_mut().unwrap()
    }

    /// True once its queue pair has ended and has said so.
    pub fn is_finished(&self) -> bool {
        self.consumer.as_ref().is_some_and(|consumer| consumer.queue_pair_ref().is_finished())
    }

    fn receive(&mut self, now: Instant, datagram: &[u8]) {
        if self.entropy.number() % 1000 < self.loss {
            self.lost += 1;
            return;
        }
        match self.endpoint.handle_datagram(self.peer, datagram) {
            Arrival::Nothing | Arrival::Elsewhere(_) | Arrival::Withdrawn(_) => {}
            Arrival::Packet(id, packet) => {
                if let Some(consumer) = &mut self.consumer
                    && consumer.queue_pair_ref().id() == id
                {
                    consumer.queue_pair().handle_packet(now, packet);
                    consumer.handle_progress(now);
                }
            }
            Arrival::Request(request) => {
                let Some(accept) = self.accept.take() else { return self.endpoint.refuse(&request) };
                let incoming = Incoming { request, config: config(self.needs) };
                let pair = self.endpoint.accept(now, incoming, Account::new(&self.pool)).unwrap();
                let mut consumer = accept(now, pair);
                consumer.handle_progress(now);
                self.consumer = Some(consumer);
            }
        }
    }

    fn fill(&mut self, now: Instant) {
        self.train.clear();
        self.endpoint.poll_transmit(&mut self.train);
        let Some(consumer) = &mut self.consumer else { return };
        for _ in 0..4 {
            if self.train.is_empty() {
                consumer.queue_pair().poll_transmit(now, &mut self.train);
                consumer.handle_progress(now);
            }
        }
        if self.is_finished() && !std::mem::replace(&mut self.ended, true) {
            self.consumer().handle_ended(now);
        }
    }
}

impl<C: Consumer<QueuePair = roce::Connection>> Connection for OverRoce<C> {
    type Input = C::Input;
    type Action = C::Action;
    const STAGING: usize = 1 << 20;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while let Some((length, behind)) = rest.split_first_chunk::<2>() {
            let (datagram, behind) = behind.split_at(u16::from_be_bytes(*length).into());
            self.receive(now, datagram);
            rest = behind;
        }
        bytes.len()
    }

    fn take_placement(&mut self) -> Option<Placement> {
        None
    }

    fn handle_placed(&mut self, _now: Instant, _placement: Placement) {}

    fn handle_input(&mut self, now: Instant, input: C::Input) {
        self.consumer().handle_input(now, input);
    }

    fn handle_transmitted(&mut self, _now: Instant, _bytes: usize) {}

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(consumer) = &mut self.consumer {
            consumer.handle_deadline(now);
        }
    }

    fn handle_memory(&mut self, now: Instant) {
        if let Some(consumer) = &mut self.consumer {
            consumer.handle_memory(now);
        }
    }

    /// The socket is gone.
    fn handle_ended(&mut self, now: Instant, _how: Ended) {
        self.consumer().handle_ended(now);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.fill(now);
        for packet in self.train.packets() {
            send.put(&u16::try_from(packet.len()).unwrap().to_be_bytes());
            send.put(packet);
        }
    }

    fn poll_action(&mut self) -> Option<C::Action> {
        self.consumer.as_mut()?.poll_action()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.consumer.as_ref()?.next_deadline()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.consumer.as_ref()?.close_reason()
    }
}

pub type Near = OverRoce<iser::InitiatorConnection<roce::Connection>>;
pub type Far = OverRoce<iser::TargetConnection<roce::Connection>>;
pub type RoceBench<N = Near, F = Far> = Bench<N, F>;
/// An initiator that says what it likes.
pub type RawNear = OverRoce<RawEnd<iscsi::initiator::Input, iscsi::initiator::Action, roce::Connection>>;

pub fn near(config: Config, pool: &Pool) -> Near {
    let (own, entropy) = (pool.clone(), Box::new(SeededEntropy::new(2)));
    OverRoce::connecting(pool, private_data(Invalidation::Used), move |now, pair| {
        iser::InitiatorConnection::new(now, config, own, entropy, pair)
    })
}

pub fn raw_near(pool: &Pool) -> RawNear {
    OverRoce::connecting(pool, private_data(Invalidation::Used), |_, pair| RawEnd::over(pair))
}

pub fn far(portal: Portal, pool: &Pool) -> Far {
    let (needs, portal, resources) = (target_needs(portal.queue_depth), Arc::new(portal), resources(pool));
    OverRoce::accepting(pool, needs, move |now, pair| {
        iser::TargetConnection::new(now, portal, resources, pair)
    })
}

/// Both ends, which have exchanged nothing yet. What they hold counts in this pool.
pub fn bench(config: Config, portal: Portal, pool: &Pool) -> RoceBench {
    let blocks = blocks(&portal);
    Bench::of(near(config, pool), far(portal, pool), blocks)
}

impl<N, F> Bench<OverRoce<N>, OverRoce<F>>
where
    N: Consumer<
            QueuePair = roce::Connection,
            Input = iscsi::initiator::Input,
            Action = iscsi::initiator::Action,
        >,
    F: Consumer<QueuePair = roce::Connection, Input = iscsi::target::Input, Action = iscsi::target::Action>,
{
    /// Loses so many thousandths each way.
    pub fn lose(&mut self, thousandths: u64, seed: u64) {
        let (near, far) = (&mut self.pair.near.connection, &mut self.pair.far.connection);
        (near.loss, far.loss) = (thousandths, thousandths);
        near.reseed(seed);
        far.reseed(seed + 1000);
    }

    /// Lets time pass until that is so, with all that happens meanwhile.
    pub fn run_until(&mut self, is_so: impl Fn(&mut Self) -> bool) {
        for _ in 0..20_000 {
            self.run();
            if is_so(self) {
                return;
            }
            let (near, far) = (&mut self.pair.near.connection, &mut self.pair.far.connection);
            let due = [near.poll_timeout(), far.poll_timeout()].into_iter().flatten().min();
            let now = due.expect("nothing will ever happen").max(self.pair.now);
            self.pair.now = now;
            for end in [&mut *near as &mut dyn Timed, far] {
                end.pass(now);
            }
        }
        panic!("it goes on and on");
    }
}

/// An end whose deadlines pass.
trait Timed {
    fn pass(&mut self, now: Instant);
}

impl<C: Consumer<QueuePair = roce::Connection>> Timed for OverRoce<C> {
    fn pass(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            self.handle_timeout(now);
        }
    }
}
