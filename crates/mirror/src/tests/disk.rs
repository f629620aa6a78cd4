//! A disk for the simulation: it answers in any order, has a volatile cache and reservations, can be cut off and slowed down, and finishes late what a queue left.
//!
//! As at a target, a command may be accepted, and judged by the reservations of that moment, long before it is carried out. Only a preemption that aborts ends it then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use protocol::{Entropy, Instant, SeededEntropy};
use volume::reservation::{Registrant, Reservations};
use volume::{
    Allocation, Completion, Extent, Failure, Features, Geometry, Limits, OpenError, Operation, Outcome,
    QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

const BLOCK: usize = 512;

type Blocks = BTreeMap<u64, Vec<u8>>;

/// What lies on the disk, and what is wrong with it.
#[expect(clippy::struct_excessive_bools, reason = "each is a way to fail of its own")]
#[derive(Debug)]
pub(super) struct Platter {
    durable: Blocks,
    cache: Blocks,
    pub(super) cut: bool,
    pub(super) slow: bool,
    /// It answers nothing.
    pub(super) hangs: bool,
    /// Blocks that cannot be read until they are written.
    pub(super) bad: BTreeSet<u64>,
    /// The next write fails, and nobody knows whether it comes.
    pub(super) loses_write: bool,
    /// Power was lost: the next flush says so.
    lost: bool,
    reservations: Reservations,
    /// Writes of queues that are gone.
    late: Vec<LateWrite>,
    /// How often the commands of each were aborted.
    aborts: BTreeMap<Registrant, u64>,
    /// It acknowledges flushes and durable writes, and loses at a power cut what it should have kept.
    pub(super) lies: bool,
    entropy: SeededEntropy,
}

/// A disk, which several owners may use.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    platter: Arc<Mutex<Platter>>,
    blocks: u64,
    /// Each queue is a registrant of its own.
    by_nexus: bool,
}

impl Disk {
    pub(super) fn new(size: u64, seed: u64, by_nexus: bool) -> Self {
        let platter = Platter {
            durable: Blocks::new(),
            cache: Blocks::new(),
            cut: false,
            slow: false,
            hangs: false,
            bad: BTreeSet::new(),
            loses_write: false,
            lost: false,
            reservations: Reservations::default(),
            late: Vec::new(),
            aborts: BTreeMap::new(),
            lies: false,
            entropy: SeededEntropy::new(seed),
        };
        Self { platter: Arc::new(Mutex::new(platter)), blocks: size / BLOCK as u64, by_nexus }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Platter> {
        self.platter.lock().unwrap()
    }

    /// What it holds now.
    pub(super) fn content(&self, block: u64) -> Vec<u8> {
        self.lock().block(block)
    }

    /// Loses what is not durable.
    pub(super) fn lose_power(&self) {
        let mut platter = self.lock();
        if !platter.cache.is_empty() && !platter.lies {
            platter.lost = true;
        }
        platter.cache.clear();
        platter.late.clear();
    }

    /// The disk as one owner sees it that is known to it by this number.
    pub(super) fn seen_by(&self, owner: u16) -> Arc<dyn Volume> {
        Arc::new(View { disk: self.clone(), owner })
    }
}

impl Platter {
    fn block(&self, block: u64) -> Vec<u8> {
        let found = self.cache.get(&block).or_else(|| self.durable.get(&block));
        found.cloned().unwrap_or_else(|| vec![0; BLOCK])
    }

    fn put(&mut self, extent: Extent, bytes: &[u8]) {
        for (block, content) in (extent.start..).zip(bytes.chunks(BLOCK)) {
            self.bad.remove(&block);
            self.cache.insert(block, content.to_vec());
        }
    }

    fn flush(&mut self) -> Result<(), VolumeErrorKind> {
        if !self.lies {
            self.durable.append(&mut self.cache);
        }
        if std::mem::take(&mut self.lost) { Err(VolumeErrorKind::Media) } else { Ok(()) }
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.reservations.view().reservation.is_some()
    }

    /// How many are registered.
    pub(super) fn registrations(&self) -> usize {
        self.reservations.view().registrations.len()
    }

    fn settle_late(&mut self, now: Instant) {
        let (due, late): (Vec<LateWrite>, _) =
            std::mem::take(&mut self.late).into_iter().partition(|write| write.due <= now);
        self.late = late;
        for LateWrite { by, judged, extent, bytes, .. } in due {
            if self.judge(&by, Access::WRITE, judged).is_ok() {
                self.put(extent, &bytes);
            }
        }
    }

    fn aborted(&self, who: &Registrant) -> u64 {
        self.aborts.get(who).copied().unwrap_or(0)
    }

    /// Whether a command may be carried out now. It was accepted when as many commands of its registrant had been aborted as `judged` says, or is judged only now.
    fn judge(&self, who: &Registrant, wanted: Access, judged: Option<u64>) -> Result<(), VolumeErrorKind> {
        match judged {
            Some(aborts) if aborts == self.aborted(who) => Ok(()),
            // The initiator sends it again, and it is judged by what holds now.
            Some(_) | None => {
                let access = self.reservations.view().access(who);
                let may = (access.read || !wanted.read) && (access.write || !wanted.write);
                if may { Ok(()) } else { Err(VolumeErrorKind::ReservationConflict) }
            }
        }
    }

    fn carry_out(
        &mut self,
        who: &Registrant,
        judged: Option<u64>,
        operation: Operation,
    ) -> Result<Outcome, Failure> {
        let verdict = self.judge(who, Access::of(&operation), judged);
        let refused = verdict.is_err();
        if self.cut || refused {
            let kind =
                if self.cut { VolumeErrorKind::Unreachable } else { VolumeErrorKind::ReservationConflict };
            // Whether it took effect is not known.
            if let Operation::Write { extent, data, .. } = &operation
                && self.cut
                && !refused
                && self.entropy.number().is_multiple_of(4)
            {
                let bytes = data.clone().into_one();
                self.put(*extent, &bytes);
            }
            return Err(Failure::of(operation, kind));
        }
        match operation {
            Operation::Write { .. } if std::mem::take(&mut self.loses_write) => {
                Err(Failure::of(operation, VolumeErrorKind::Unreachable))
            }
            Operation::Read { extent, .. }
                if self.bad.range(extent.start..extent.start + extent.blocks).next().is_some() =>
            {
                Err(Failure::of(operation, VolumeErrorKind::Media))
            }
            Operation::Read { extent, mut into } => {
                for (block, place) in (extent.start..).zip(into.chunks_mut(BLOCK)) {
                    place.copy_from_slice(&self.block(block));
                }
                Ok(Outcome::Data(into.freeze().into()))
            }
            Operation::Write { extent, data, durability } => {
                let bytes = data.into_one();
                self.put(extent, &bytes);
                if durability == volume::Durability::Durable && !self.lies {
                    for block in extent.start..extent.start + extent.blocks {
                        if let Some(content) = self.cache.remove(&block) {
                            self.durable.insert(block, content);
                        }
                    }
                }
                Ok(Outcome::Done)
            }
            Operation::WriteZeroes { extent, .. } => {
                let bytes = vec![0; BLOCK * usize::try_from(extent.blocks).unwrap()];
                self.put(extent, &bytes);
                Ok(Outcome::Done)
            }
            Operation::Flush => self.flush().map(|()| Outcome::Done).map_err(Failure::from),
            Operation::QueryAllocation { extent } => {
                let any = self.cache.range(extent.start..extent.start + extent.blocks).next().is_some()
                    || self.durable.range(extent.start..extent.start + extent.blocks).next().is_some();
                Ok(Outcome::Allocation(Allocation { extent, mapped: any }))
            }
            Operation::Reserve(command) => match self.reservations.apply(who, &command) {
                Ok(change) => {
                    for victim in change.aborted {
                        *self.aborts.entry(victim).or_default() += 1;
                    }
                    Ok(Outcome::Done)
                }
                Err(_) => Err(VolumeErrorKind::ReservationConflict.into()),
            },
            Operation::ReadReservations => Ok(Outcome::Reservations(self.reservations.view())),
            other => Err(Failure::of(other, VolumeErrorKind::Unsupported)),
        }
    }
}

/// A write of a queue that is gone, and when it takes effect.
#[derive(Debug)]
struct LateWrite {
    due: Instant,
    by: Registrant,
    judged: Option<u64>,
    extent: Extent,
    bytes: Vec<u8>,
}

/// What a command needs to be allowed.
#[derive(Debug, Clone, Copy)]
struct Access {
    read: bool,
    write: bool,
}

impl Access {
    const WRITE: Self = Self { read: false, write: true };

    fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Reserve(_) | Operation::ReadReservations => Self { read: false, write: false },
            operation if operation.writes() || matches!(operation, Operation::Flush) => Self::WRITE,
            _ => Self { read: true, write: false },
        }
    }
}

#[derive(Debug)]
struct View {
    disk: Disk,
    owner: u16,
}

/// Nexuses so far: each has a name of its own, as iSCSI sessions have by chance.
static NEXUSES: AtomicU64 = AtomicU64::new(0);

impl View {
    /// As an NVMe host, all queues are one registrant; over iSCSI, each is a nexus.
    fn registrant(&self) -> Registrant {
        let owner = self.owner;
        if self.disk.by_nexus {
            let number = NEXUSES.fetch_add(1, Ordering::Relaxed);
            Registrant::Nexus {
                initiator_port: format!("iqn.2026-11.x:{owner},i,{number}").into(),
                target_port: "iqn.2026-11.t:t,t,1".into(),
                relative_port: 1,
            }
        } else {
            Registrant::Host {
                identifier: u128::from(owner).to_be_bytes(),
                nqn: format!("nqn.2026-11.x:{owner}").into(),
            }
        }
    }
}

impl Volume for View {
    fn geometry(&self) -> Geometry {
        Geometry { blocks: self.disk.blocks, block_size: 512, physical_block_size: 512 }
    }
    fn limits(&self) -> Limits {
        Limits { depth: 16, ..Limits::default() }
    }
    fn features(&self) -> Features {
        Features::VOLATILE_CACHE | Features::ALLOCATION
    }
    fn open_queue(&self, _: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let (disk, registrant) = (self.disk.clone(), self.registrant());
        Ok(Box::new(DiskQueue { disk, registrant, pending: Vec::new(), now: Instant::ZERO }))
    }
}

struct DiskQueue {
    disk: Disk,
    registrant: Registrant,
    pending: Vec<Pending>,
    now: Instant,
}

/// A request at the disk.
struct Pending {
    due: Instant,
    /// See `Platter::judge`.
    judged: Option<u64>,
    request: Request,
}

impl VolumeQueue for DiskQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        if self.pending.len() >= 16 {
            return Err(QueueFull(request));
        }
        let mut platter = self.disk.lock();
        let most = if platter.slow { 3_000_000_000 } else { 2_000_000 };
        let delay = Duration::from_nanos(platter.entropy.number() % most);
        let accepted = !platter.cut
            && platter.entropy.number().is_multiple_of(2)
            && platter.judge(&self.registrant, Access::of(&request.operation), None).is_ok();
        let judged = accepted.then(|| platter.aborted(&self.registrant));
        self.pending.push(Pending { due: now + delay, judged, request });
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        for Pending { due, request, .. } in &mut self.pending {
            if request.tag == tag && matches!(request.operation, Operation::Read { .. }) {
                *due = Instant::ZERO;
            }
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.now = now;
        let mut platter = self.disk.lock();
        platter.settle_late(now);
        if platter.hangs {
            return;
        }
        self.pending.sort_by_key(|pending| pending.due);
        while self.pending.first().is_some_and(|pending| pending.due <= now) {
            let Pending { judged, request: Request { tag, operation }, .. } = self.pending.remove(0);
            let result = platter.carry_out(&self.registrant, judged, operation);
            done.push(Completion { tag, result });
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.pending.iter().map(|pending| pending.due).min()
    }
}

impl Drop for DiskQueue {
    /// What is under way takes effect later, or never.
    fn drop(&mut self) {
        let mut platter = self.disk.lock();
        for Pending { judged, request, .. } in self.pending.drain(..) {
            let late = Duration::from_millis(platter.entropy.number() % 30_000);
            if let Operation::Write { extent, data, .. } = request.operation
                && (!platter.cut || judged.is_some())
                && !platter.entropy.number().is_multiple_of(3)
            {
                let (by, bytes) = (self.registrant.clone(), data.into_one().to_vec());
                platter.late.push(LateWrite { due: self.now + late, by, judged, extent, bytes });
            }
        }
    }
}
