//! Both roles over queue pairs of software iWARP.

mod common;
mod suite;

use buf::{Account, Pool};
use common::{Access, Peer, Results};
use iwarp::mpa::{Offer, Revision, RtrKinds};
use protocol::pair::Pair;
use protocol::{Connection as _, Instant};
use rpc::rdma::{RdmaConnection, Role};
use rpc::{Channel, Config};
use suite::{Transport, name};

type Rdma = RdmaConnection<Peer, iwarp::Connection>;

impl Access for Rdma {
    fn peer(&mut self) -> &mut Peer {
        self.parts().upper
    }

    fn channel(&mut self) -> &mut Channel<Results> {
        self.parts().channel
    }
}

struct Iwarp;

fn end(role: Role, (peer, config): (Peer, Config)) -> Rdma {
    let pool = Pool::new(8 << 20);
    let offer =
        Offer { revision: Revision::Two, markers: false, crc: false, rtr: RtrKinds::ALL, ird: 4, ord: 4 };
    let side = match role {
        Role::Client => iwarp::Role::Initiator(Rdma::private_data()),
        Role::Server => iwarp::Role::Responder,
    };
    let queues = Rdma::needs(&config, role);
    let iwarp = iwarp::Config { role: side, offer, queues, mss: 1448, solicited: false };
    let pair = iwarp::Connection::new(Instant::ZERO, iwarp, Account::new(&pool));
    RdmaConnection::new(peer, pair, config, role, Account::new(&pool))
}

impl Transport for Iwarp {
    type Near = Rdma;
    type Far = Rdma;

    fn join(&self, near: (Peer, Config), far: (Peer, Config)) -> Pair<Rdma, Rdma> {
        let mut pair = Pair::new(end(Role::Client, near), end(Role::Server, far));
        pair.exchange();
        assert!(pair.near.connection.is_established() && pair.far.connection.is_established());
        pair
    }
}

#[test]
fn calls_are_answered() {
    suite::calls_are_answered(&Iwarp);
}

#[test]
fn answers_come_in_any_order() {
    suite::answers_come_in_any_order(&Iwarp);
}

#[test]
fn calls_go_both_ways() {
    suite::calls_go_both_ways(&Iwarp, &[name("back"), name("channel")]);
}

#[test]
fn what_is_not_there_is_refused() {
    suite::what_is_not_there_is_refused(&Iwarp);
}

#[test]
fn calls_under_way_are_bounded() {
    suite::calls_under_way_are_bounded(&Iwarp);
}

#[test]
fn a_call_waits_for_memory() {
    suite::a_call_waits_for_memory(&Iwarp);
}

#[test]
fn unanswered_calls_are_sent_again() {
    suite::unanswered_calls_are_sent_again(&Iwarp);
}

#[test]
fn a_call_without_reply_closes_the_connection() {
    suite::a_call_without_reply_closes_the_connection(&Iwarp);
}

#[test]
fn any_calls() {
    suite::any_calls(&Iwarp);
}
