//! Drives one queue: submits, waits, and sees that every request completes exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use buf::{Buf, BufList, SharedBuf};
use protocol::SeededEntropy;

use super::finding::Finding;
use super::options::Options;
use super::world::World;
use crate::{
    Completion, CoreId, Durability, Extent, Failure, Features, Geometry, Limits, Operation, Outcome,
    QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

pub(super) type Answer = Result<Outcome, Failure>;

/// Rounds of idling in which a wake-up that goes with a completion may still arrive: it may come from another thread.
const GRACE: u32 = 100;

/// Remembers that it was woken, and wakes the world.
struct Bell {
    rung: AtomicBool,
    world: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        self.world.wake_by_ref();
    }
}

/// One queue of the volume under test, and what is under way in it.
pub(super) struct Bench<'a> {
    pub(super) volume: &'a Arc<dyn Volume>,
    pub(super) options: &'a Options,
    pub(super) worlds: &'a (dyn Fn() -> Box<dyn World> + Sync),
    pub(super) geometry: Geometry,
    pub(super) limits: Limits,
    pub(super) features: Features,
    pub(super) entropy: SeededEntropy,
    world: Box<dyn World>,
    queue: Box<dyn VolumeQueue>,
    /// Requests under way, and those whose completion nobody has asked for yet.
    under_way: BTreeMap<Tag, Option<Answer>>,
    last: u64,
    done: Vec<Completion>,
    bell: Arc<Bell>,
    /// The queue has been polled in vain since it was last given something to do, and has named no deadline.
    waits_for_bell: bool,
}

impl<'a> Bench<'a> {
    pub(super) fn open(
        volume: &'a Arc<dyn Volume>,
        options: &'a Options,
        worlds: &'a (dyn Fn() -> Box<dyn World> + Sync),
    ) -> Result<Self, Finding> {
        let world = worlds();
        let bell = Arc::new(Bell { rung: AtomicBool::new(false), world: world.waker() });
        let waker = Waker::from(Arc::clone(&bell));
        let queue = volume.open_queue(&QueueContext::without_pool(CoreId(0), waker))?;
        Ok(Self {
            volume,
            options,
            worlds,
            geometry: volume.geometry(),
            limits: volume.limits(),
            features: volume.features(),
            entropy: SeededEntropy::new(options.seed),
            world,
            queue,
            under_way: BTreeMap::new(),
            last: 0,
            done: Vec::new(),
            bell,
            waits_for_bell: false,
        })
    }

    /// Another queue of the same volume.
    pub(super) fn another(&self) -> Result<Self, Finding> {
        Self::open(self.volume, self.options, self.worlds)
    }

    pub(super) fn block_size(&self) -> usize {
        self.geometry.block_size as usize
    }

    pub(super) fn bytes(&self, blocks: u64) -> usize {
        wire::index(blocks).saturating_mul(self.block_size())
    }

    /// The most blocks in one transfer.
    pub(super) fn longest(&self) -> u64 {
        u64::from(self.limits.max_transfer / self.geometry.block_size).min(self.geometry.blocks)
    }

    /// Submits without waiting; a full queue is waited for.
    pub(super) fn start(&mut self, operation: Operation) -> Result<Tag, Finding> {
        let mut request = operation;
        for _ in 0..=self.options.patience {
            match self.offer(request)? {
                Ok(tag) => return Ok(tag),
                Err(refused) => request = refused,
            }
            self.turn()?;
        }
        Err(Finding::Unanswered("the queue stays full though everything had time to end".to_owned()))
    }

    /// Submits, or gives the operation back when the queue is full.
    pub(super) fn offer(&mut self, operation: Operation) -> Result<Result<Tag, Operation>, Finding> {
        self.last += 1;
        let tag = Tag(self.last);
        let now = self.world.now();
        let told = describe(&operation);
        self.waits_for_bell = false;
        match self.queue.submit(now, Request { tag, operation }) {
            Ok(()) => {
                self.under_way.insert(tag, None);
                Ok(Ok(tag))
            }
            Err(QueueFull(request)) if request.tag == tag && describe(&request.operation) == told => {
                Ok(Err(request.operation))
            }
            Err(QueueFull(request)) => {
                Err(Finding::Queue(format!("a full queue gave back {request:?} in place of {told}")))
            }
        }
    }

    pub(super) fn cancel(&mut self, tag: Tag) {
        self.waits_for_bell = false;
        self.queue.cancel(tag);
    }

    /// Polls once, and waits a moment if nothing came. True if something came.
    pub(super) fn turn(&mut self) -> Result<bool, Finding> {
        let now = self.world.now();
        self.queue.poll(now, &mut self.done);
        let some = !self.done.is_empty();
        if some {
            self.check_bell()?;
        }
        for completion in std::mem::take(&mut self.done) {
            match self.under_way.get_mut(&completion.tag) {
                Some(slot @ None) => *slot = Some(completion.result),
                Some(Some(_)) => return Err(Finding::Queue(format!("{:?} completed twice", completion.tag))),
                None => {
                    return Err(Finding::Queue(format!(
                        "{:?} completed, but was not under way",
                        completion.tag
                    )));
                }
            }
        }
        let deadline = self.queue.poll_timeout();
        self.waits_for_bell = !some && deadline.is_none();
        if !some {
            self.world.idle(deadline);
        }
        Ok(some)
    }

    /// Sees that a completion that nobody could expect was announced: the queue named no deadline when it was polled in
    /// vain, so it must have woken its waker since.
    fn check_bell(&mut self) -> Result<(), Finding> {
        let mut rounds = 0;
        while self.waits_for_bell && !self.bell.rung.load(Ordering::SeqCst) {
            rounds += 1;
            if rounds > GRACE {
                return Err(Finding::Unanswered(
                    "a completion came without a wake-up or a deadline".to_owned(),
                ));
            }
            self.world.idle(None);
        }
        self.bell.rung.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Waits for the end of a request.
    pub(super) fn wait(&mut self, tag: Tag) -> Result<Answer, Finding> {
        let mut fruitless = 0;
        loop {
            if let Some(Some(_)) = self.under_way.get(&tag) {
                let answer = self.under_way.remove(&tag).flatten();
                return answer.ok_or_else(|| Finding::Unanswered("a completion got lost".to_owned()));
            }
            fruitless = if self.turn()? { 0 } else { fruitless + 1 };
            if fruitless > self.options.patience {
                return Err(Finding::Unanswered(format!("{tag:?} never completed")));
            }
        }
    }

    pub(super) fn run(&mut self, operation: Operation) -> Result<Answer, Finding> {
        let tag = self.start(operation)?;
        self.wait(tag)
    }

    /// Runs what must succeed.
    pub(super) fn succeed(&mut self, operation: Operation) -> Result<Outcome, Finding> {
        let told = describe(&operation);
        self.run(operation)?.map_err(|failure| Finding::failed(told, failure))
    }

    /// True if compare-and-write is to be checked.
    pub(super) fn compares_and_writes(&self) -> bool {
        self.features.contains(Features::COMPARE) && self.options.longest_compare_and_write > 0
    }

    /// Runs what must fail with `expected`.
    pub(super) fn fail(&mut self, operation: Operation, expected: VolumeErrorKind) -> Result<(), Finding> {
        let told = describe(&operation);
        match self.run(operation)? {
            Err(failure) if failure.kind == expected => Ok(()),
            Err(Failure { kind: VolumeErrorKind::Miscompare { .. }, .. })
                if !self.options.names_difference
                    && matches!(expected, VolumeErrorKind::Miscompare { .. }) =>
            {
                Ok(())
            }
            other => Err(Finding::Answer(format!("{told} ended with {other:?} in place of {expected:?}"))),
        }
    }

    pub(super) fn read(&mut self, extent: Extent) -> Result<SharedBuf, Finding> {
        self.read_held(extent).map(BufList::into_one)
    }

    /// Reads, and answers with what the volume lent, if it did.
    pub(super) fn read_held(&mut self, extent: Extent) -> Result<BufList, Finding> {
        let into = Buf::zeroed(self.bytes(extent.blocks));
        match self.succeed(Operation::Read { extent, into })? {
            Outcome::Data(data) if data.len() == self.bytes(extent.blocks) => Ok(data),
            other => Err(Finding::Answer(format!("a read of {extent:?} answered {other:?}"))),
        }
    }

    pub(super) fn write(&mut self, extent: Extent, data: BufList) -> Result<(), Finding> {
        self.succeed(Operation::Write { extent, data, durability: Durability::Cached }).map(drop)
    }

    /// Reads and compares.
    pub(super) fn expect(&mut self, extent: Extent, expected: &[u8]) -> Result<(), Finding> {
        let data = self.read(extent)?;
        match data.iter().zip(expected).position(|(one, two)| one != two) {
            None => Ok(()),
            Some(at) => {
                let block = extent.start + (at / self.block_size()) as u64;
                Err(Finding::Data(format!(
                    "block {block} of {extent:?} does not hold what was written (byte {at})"
                )))
            }
        }
    }

    /// Waits for everything that is under way, and forgets how it ended.
    pub(super) fn settle(&mut self) -> Result<(), Finding> {
        while let Some(tag) = self.under_way.keys().next().copied() {
            self.wait(tag)?.ok();
        }
        Ok(())
    }

    /// Sees that nothing comes after the end.
    pub(super) fn end(&mut self) -> Result<(), Finding> {
        self.settle()?;
        for _ in 0..3 {
            self.turn()?;
        }
        Ok(())
    }
}

/// An operation in a few words, without its data.
fn describe(operation: &Operation) -> String {
    let name = match operation {
        Operation::Read { .. } => "read",
        Operation::Write { .. } => "write",
        Operation::Flush => "flush",
        Operation::Discard { .. } => "discard",
        Operation::WriteZeroes { .. } => "write zeroes",
        Operation::Compare { .. } => "compare",
        Operation::CompareAndWrite { .. } => "compare and write",
        Operation::Verify { .. } => "verify",
        Operation::QueryAllocation { .. } => "allocation query",
        Operation::Reserve(_) => "reservation command",
        Operation::ReadReservations => "reservation report",
    };
    let memory = match operation {
        Operation::Read { into, .. } => into.len(),
        Operation::Write { data, .. } | Operation::Compare { data, .. } => data.len(),
        _ => 0,
    };
    match operation.extent() {
        Some(Extent { start, blocks }) => format!("{name} of {blocks} blocks from {start} ({memory} bytes)"),
        None => name.to_owned(),
    }
}
