//! Writes the record of an epoch, on whichever queue first sees that one is due.

use buf::Buf;
use protocol::Instant;
use volume::{Durability, Extent, Failure, Operation, Outcome};

use crate::members::{Membership, Record};
use crate::ports::Owner;
use crate::spread::Spread;
use crate::tasks::QueueParts;

/// A record that this queue is writing.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    writing: Option<Writing>,
    due: Option<Instant>,
}

#[derive(Debug)]
struct Writing {
    epoch: u64,
    spread: Spread,
}

/// A block with these first bytes, in memory that the leg takes.
pub(crate) fn block(with: &QueueParts<'_>, size: u32, bytes: &[u8]) -> Buf {
    let mut block = with.buffer(size as usize);
    block.fill(0);
    if let Some(first) = block.get_mut(..bytes.len()) {
        first.copy_from_slice(bytes);
    }
    block
}

/// Writes a block of a leg's own, `unit` blocks after the first. The request is counted already.
pub(crate) fn write_unit(
    with: &mut QueueParts<'_>,
    membership: Membership,
    owner: Owner,
    unit: u64,
    bytes: &[u8],
) {
    let state = with.shared.lock();
    let medium = state.members.leg(membership.leg).and_then(|leg| leg.medium.as_ref());
    let (reserve, size) = medium.map_or((0, 512), |medium| (medium.reserve, medium.block_size));
    drop(state);
    let data = block(with, size, bytes).freeze().into();
    let extent = Extent::new(reserve + unit, 1);
    let operation = Operation::Write { extent, data, durability: Durability::Durable };
    with.ports.send(with.now, membership, owner, operation);
}

impl Recorder {
    /// Begins what is due, and ends what is done. True if anything happened.
    pub(crate) fn work(&mut self, with: &mut QueueParts<'_>) -> bool {
        if self.writing.is_some() {
            return self.end(with);
        }
        let mut state = with.shared.lock();
        if !state.departure.may_write() {
            return false;
        }
        let was_stuck = state.members.stuck().is_some();
        let begun = state.members.begin_record(with.queue, with.now);
        if !was_stuck && state.members.stuck().is_some() {
            // Whoever waits for the record has waited long enough.
            state.tell_all();
        }
        drop(state);
        match begun {
            Ok(Record { epoch, slot, blocks }) => {
                self.due = None;
                let memberships: Vec<Membership> = blocks.iter().map(|(membership, _)| *membership).collect();
                self.writing = Some(Writing { epoch, spread: Spread::new(&memberships) });
                for (membership, bytes) in blocks {
                    write_unit(with, membership, Owner::Record, wire::widen(slot), &bytes);
                }
                true
            }
            Err(due) => {
                self.due = due;
                false
            }
        }
    }

    /// A leg has answered.
    pub(crate) fn answered(
        &mut self,
        with: &mut QueueParts<'_>,
        membership: Membership,
        result: Result<Outcome, Failure>,
    ) {
        if let Some(writing) = &mut self.writing {
            writing.spread.answered(with.shared, membership, "recording an epoch", result, with.now);
        }
    }

    fn end(&mut self, with: &mut QueueParts<'_>) -> bool {
        let timeout = with.shared.shape.timeout;
        let Some(Writing { epoch, spread }) =
            self.writing.take_if(|writing| writing.spread.settle(with.shared, timeout, with.now))
        else {
            return false;
        };
        let mut state = with.shared.lock();
        state.members.end_record(epoch, spread.done(), spread.failure(), with.now);
        state.tell_all();
        true
    }

    /// True if nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.writing.is_none()
    }

    pub(crate) fn poll_timeout(&self, timeout: std::time::Duration) -> Option<Instant> {
        let late = self.writing.as_ref().and_then(|writing| writing.spread.deadline(timeout));
        late.or(self.due)
    }
}
