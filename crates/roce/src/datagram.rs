//! Messages of connection management inside of unreliable datagrams to queue pair 1 (IBTA §9.2, §13.4).

use crate::header::{BaseTransportHeader, Datagram, U24};
use crate::management::{Message, QUEUE_KEY, QUEUE_PAIR};
use crate::opcode::Opcode;
use crate::outgoing::{Outgoing, Payload};
use crate::packet::Extended;
use crate::train::{Route, Train};

/// Adds a message to a train that is empty. Nobody looks at the number of such a packet.
pub(crate) fn push(train: &mut Train, route: &Route, message: &Message) {
    let bytes = message.encode();
    let header = BaseTransportHeader::new(Opcode::DATAGRAM, U24::new(QUEUE_PAIR), U24::new(0));
    let extended = Extended::Datagram(Datagram::new(QUEUE_KEY, U24::new(QUEUE_PAIR)));
    train.push(route, &Outgoing { header, extended, payload: Payload::Bytes(&bytes) });
}
