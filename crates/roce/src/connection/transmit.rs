//! What a connection sends: its manager's messages, and packets of requests and responses in turn.

use protocol::Instant;

use super::{Connection, Turn};
use crate::datagram;
use crate::packet::Extended;
use crate::train::Train;

impl Connection {
    /// Fills a train, which must be empty.
    pub fn poll_transmit(&mut self, now: Instant, train: &mut Train) {
        debug_assert!(train.is_empty(), "a train is filled once");
        self.fill(now, train);
        if train.is_empty() {
            // An end that was found just now is to be said.
            self.fill(now, train);
        }
        self.advance();
    }

    fn fill(&mut self, now: Instant, train: &mut Train) {
        // A refusal goes before the message that ends the connection, which says less.
        while self.is_refusing() && self.send_response(train) {}
        if train.is_empty() {
            self.send_message(now, train);
        }
        if train.is_empty() {
            self.send_packets(now, train);
        }
    }

    fn is_refusing(&self) -> bool {
        !self.is_open() && self.responder.is_some()
    }

    fn send_message(&mut self, now: Instant, train: &mut Train) {
        let Some(message) = self.manager.due() else { return };
        datagram::push(train, &self.route, &message);
        self.manager.sent(now);
    }

    /// Fills the train with packets of one kind, then with those of the other: each begins in its turn, and packets of one kind have one size mostly.
    fn send_packets(&mut self, now: Instant, train: &mut Train) {
        self.turn = if self.turn == Turn::Response { Turn::Request } else { Turn::Response };
        if self.turn == Turn::Response {
            while self.is_open() && self.send_response(train) {}
        }
        while self.is_open() && self.send_request(now, train) {}
        while self.is_open() && self.send_response(train) {}
    }

    fn send_request(&mut self, now: Instant, train: &mut Train) -> bool {
        if !self.requester.prepare(&mut self.consumer.regions) {
            return false;
        }
        let is_again = self.requester.is_again();
        let Some(packet) = self.requester.outgoing().filter(|packet| train.accepts(packet.len())) else {
            return false;
        };
        train.push(&self.route, &packet);
        if is_again {
            self.counters.sent_again.add();
        }
        self.requester.sent(now);
        true
    }

    fn send_response(&mut self, train: &mut Train) -> bool {
        let (Some(responder), Some(destination)) = (&mut self.responder, self.manager.peer()) else {
            return false;
        };
        match responder.prepare(&self.consumer) {
            Ok(false) => false,
            Ok(true) => {
                let packet = responder.outgoing(destination.queue_pair);
                let Some(packet) = packet.filter(|packet| train.accepts(packet.len())) else { return false };
                train.push(&self.route, &packet);
                if let Extended::Acknowledge(answer) = packet.extended
                    && let Some(syndrome) = answer.syndrome()
                {
                    self.counters.answer_sent(syndrome);
                }
                responder.sent();
                true
            }
            Err(violation) => {
                self.violate(violation);
                false
            }
        }
    }
}
