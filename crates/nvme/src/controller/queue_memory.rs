//! What one queue holds of its core's memory: buffers for data, and in bytes what it keeps outside of buffers. Nothing that grows with what a peer does is
//! left out.

use buf::{Account, Buf, Outside, Pool, Standing};

use crate::limits::OVERDRAFT;

/// A queue's account at the pool.
#[derive(Debug)]
pub(super) struct QueueMemory {
    account: Account,
    /// What is counted for answers, and for tables.
    counted: Outside,
    /// Bytes that the tables were granted before they grew.
    granted: usize,
}

impl QueueMemory {
    /// Of a queue that holds nothing yet.
    pub(super) fn new(pool: &Pool) -> Self {
        Self { account: Account::new(pool), counted: Outside::default(), granted: 0 }
    }

    /// A buffer; without one the queue waits for its turn to have some that comes back.
    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Option<Buf> {
        self.account.take(length)
    }

    /// A buffer within the floor, which the queue may hold whatever others do: what is little need not wait behind what is long.
    pub(super) fn take_of_floor(&mut self, length: usize) -> Option<Buf> {
        self.account.take_within_floor(length)
    }

    /// Bytes that are left of the floor.
    pub(super) fn floor_left(&self) -> usize {
        self.account.floor_left()
    }

    /// Moves whenever memory may have come back.
    #[inline]
    pub(super) fn returns(&self) -> u64 {
        self.account.returns()
    }

    /// True while other queues wait for memory that this one may hold.
    pub(super) fn is_wanted(&self) -> bool {
        self.account.is_wanted()
    }

    /// True when the queue holds more of answers than it may, of which so many bytes wait to be sent.
    #[inline]
    pub(super) fn is_overdrawn(&self, unsent: usize) -> bool {
        unsent > 0 && self.account.overdrawn() > OVERDRAFT
    }

    /// Counts an answer before it is made, if the queue may have it. What it turns out to be takes its place when the batch is over.
    pub(super) fn charge_answer(&mut self, length: usize) -> bool {
        let charged = self.account.charge(length);
        if charged {
            self.counted.data = self.counted.data.saturating_add(length);
        }
        charged
    }

    /// Counts so much for tables that are about to grow, if it is free.
    pub(super) fn charge_tables(&mut self, bytes: usize) -> bool {
        let granted = self.account.charge_table(bytes);
        if granted {
            self.granted = self.granted.saturating_add(bytes);
        }
        granted
    }

    /// Counts so much for receives of the transport, if it is free: they leave the queue's floor to its commands' data.
    pub(super) fn charge_receives(&mut self, bytes: usize) -> bool {
        self.account.charge_standing(Standing { tables: 0, receives: bytes })
    }

    /// Counts what is held outside of buffers, all tables included.
    #[inline]
    pub(super) fn settle(&mut self, held: Outside) {
        let held = Outside { tables: held.tables.saturating_sub(self.granted), ..held };
        if held != self.counted {
            self.account.recount(&mut self.counted, held);
        }
    }

    /// Nothing is wanted any more of what was refused.
    #[inline]
    pub(super) fn stop_waiting(&mut self) {
        self.account.stop_waiting();
    }
}
