//! What packets went through: counted for all connections of whoever counts, by what happens rarely on a network that loses nothing.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::syndrome::Syndrome;

/// Something that is counted, up from zero.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there are.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts of packets that were lost or came otherwise than they were sent. Any thread may read them.
#[derive(Debug, Default)]
pub struct Counters {
    /// Packets of requests that were sent again.
    pub sent_again: Counter,
    /// Refusals and reports of missing packets that were sent (NAK).
    pub naks_sent: Counter,
    /// Those that came.
    pub naks_received: Counter,
    /// Answers to messages without a receive that were sent (RNR NAK).
    pub not_ready_sent: Counter,
    /// Those that came.
    pub not_ready_received: Counter,
    /// Packets of requests and responses that had come before.
    pub duplicates: Counter,
    /// Packets of requests and responses that came before one that was due.
    pub out_of_order: Counter,
    /// Datagrams whose sum is wrong, or that are no packets.
    pub damaged: Counter,
}

impl Counters {
    /// An answer of ours is sent.
    pub(crate) fn answer_sent(&self, syndrome: Syndrome) {
        count(syndrome, &self.naks_sent, &self.not_ready_sent);
    }

    /// An answer of the peer's has come.
    pub(crate) fn answer_received(&self, syndrome: Syndrome) {
        count(syndrome, &self.naks_received, &self.not_ready_received);
    }

    /// A packet has come.
    pub(crate) fn arrived(&self, order: Order) {
        match order {
            Order::Due => {}
            Order::Again => self.duplicates.add(),
            Order::Early => self.out_of_order.add(),
        }
    }

    /// Each count with its name, in the order of this type's fields.
    fn named(&self) -> [Named<'_>; 8] {
        let named = |name, counter| Named { name, counter };
        [
            named("packets sent again", &self.sent_again),
            named("NAKs sent", &self.naks_sent),
            named("NAKs received", &self.naks_received),
            named("RNR NAKs sent", &self.not_ready_sent),
            named("RNR NAKs received", &self.not_ready_received),
            named("duplicate packets", &self.duplicates),
            named("packets out of order", &self.out_of_order),
            named("damaged packets", &self.damaged),
        ]
    }

    /// True when nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.named().iter().all(|Named { counter, .. }| counter.get() == 0)
    }
}

/// A count with its name.
struct Named<'a> {
    name: &'static str,
    counter: &'a Counter,
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Named { name, counter }) in self.named().into_iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{} {name}", counter.get())?;
        }
        Ok(())
    }
}

/// When a packet comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// It is the one that is due.
    Due,
    /// It has come before.
    Again,
    /// Another one is missing.
    Early,
}

fn count(syndrome: Syndrome, naks: &Counter, not_ready: &Counter) {
    match syndrome {
        Syndrome::Ack(_) => {}
        Syndrome::ReceiverNotReady(_) => not_ready.add(),
        Syndrome::Nak(_) => naks.add(),
    }
}
