//! What a connection does while it is set up: the peer's answers, the consumer's decision, and what follows from what was agreed (IBTA §12.9).

use protocol::CloseReason;
use verbs::{EndReason, PrivateData, SetupEvent};

use super::Connection;
use crate::limits::{REJECT_PRIVATE_DATA, REPLY_PRIVATE_DATA};
use crate::management::{Change, Reply, Terms};
use crate::requester::Peer;
use crate::responder::Responder;

impl Connection {
    /// The peer grants the connection.
    pub(super) fn replied(&mut self, name: u32, reply: Reply) {
        let Reply { terms, private_data, .. } = reply;
        if !self.is_open() || self.manager.replied(name, terms) != Change::Established {
            return;
        }
        self.serve();
        self.open(terms);
        self.tell(SetupEvent::Established(private_data));
        self.advance();
    }

    /// The peer's requests are taken from now on.
    fn serve(&mut self) {
        let reads = self.config.reads_served;
        let first = self.manager.own().sequence;
        self.responder = Some(Responder::new(first, self.mtu(), reads));
    }

    /// Requests are sent from now on.
    fn open(&mut self, peer: Terms) {
        self.requester.open(Peer {
            queue_pair: peer.queue_pair,
            sequence: peer.sequence,
            mtu: self.mtu(),
            reads: peer.reads_served.min(self.config.reads_sent),
            not_ready: peer.not_ready_retries,
        });
    }

    /// The peer refuses, or gives up.
    pub(super) fn rejected(&mut self, private_data: PrivateData) {
        let was_established = self.manager.state().is_established();
        let change = self.manager.rejected();
        if change == Change::ByPeer && !was_established && self.is_open() {
            self.tell(SetupEvent::Rejected(private_data));
            let refused = CloseReason::Refused("the responder rejects the connection");
            return self.end(EndReason::ByPeer, refused);
        }
        self.changed(change);
    }

    /// The manager has gone on.
    pub(super) fn changed(&mut self, change: Change) {
        match change {
            Change::None => {}
            // A responder's: an initiator hears of it with the reply.
            Change::Established => {
                if let Some(peer) = self.manager.peer() {
                    self.open(peer);
                    self.tell(SetupEvent::Established(PrivateData::NONE));
                }
            }
            Change::ByPeer => self.end(EndReason::ByPeer, CloseReason::Finished),
            Change::TimedOut => {
                self.end(EndReason::Lost, CloseReason::TimedOut("an answer of connection management"));
            }
        }
    }

    /// The consumer lets the connection be.
    pub(super) fn accept(&mut self, private_data: PrivateData) {
        if private_data.bytes().len() > REPLY_PRIVATE_DATA {
            return self.reject_for("private data is longer than a reply can carry");
        }
        let Some(peer) = self.manager.peer() else { return };
        let granted = self.config.reads_served.min(peer.reads_sent);
        self.config.reads_served = granted;
        let own = self.manager.own();
        let reads_sent = own.reads_sent.min(peer.reads_served);
        let own = Terms { reads_served: granted, reads_sent, ..own };
        if self.manager.accept(own, private_data) {
            self.serve();
        }
    }

    /// The consumer does not.
    pub(super) fn reject(&mut self, private_data: PrivateData) {
        if private_data.bytes().len() > REJECT_PRIVATE_DATA {
            return self.reject_for("private data is longer than a rejection can carry");
        }
        if self.manager.reject(private_data) {
            self.end(EndReason::ByUs, CloseReason::Refused("the connection is rejected"));
        }
    }

    fn reject_for(&mut self, words: &'static str) {
        if self.manager.reject(PrivateData::NONE) {
            self.end(EndReason::ByUs, CloseReason::Limit(words));
        }
    }
}
