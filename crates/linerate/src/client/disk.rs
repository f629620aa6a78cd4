//! A disk as programs hold it: what it is, and requests with callbacks or futures.

use std::collections::VecDeque;
use std::sync::Arc;

use ::volume::{
    ComparedWrite, Durability, Extent, Features, Geometry, Limits, Operation, Outcome, Volume,
    VolumeErrorKind,
};
use buf::{BufList, SharedBuf};

use super::answer::{Answer, answer, block_on};
use super::core::{Callback, Message, core_for, is_core};
use super::disk_queue::{Ended, Work};
use super::error::DiskError;
use super::permits::{Permit, Permits};
use super::shared::Shared;
use crate::limits::{TRANSFER, TRANSFER_WINDOW};

/// An opened volume. Clones are the same disk, and any thread may use it; it closes with its last clone.
///
/// No order holds between requests that are under way at the same time. Each thread's requests go to one of the
/// client's cores. As many requests as the depth allows are under way, for all cores together; more wait their turn.
///
/// ```
/// use linerate::{Client, ClientConfig, DiskError};
///
/// async fn swap_halves(disk: &linerate::Disk) -> Result<(), DiskError> {
///     let half = disk.geometry().bytes() / 2;
///     let (mut low, mut high) = (vec![0; half as usize], vec![0; half as usize]);
///     disk.read(0, &mut low).await?;
///     disk.read(half, &mut high).await?;
///     disk.write(0, &high).await?;
///     disk.write(half, &low).await?;
///     disk.flush().await
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let disk = Client::start(&ClientConfig::default())?.open(&"ram:64K".parse()?)?;
/// # disk.blocking().write_at(0, &[1; 512])?;
/// # linerate::block_on(swap_halves(&disk))?;
/// # let mut back = [0; 512];
/// # disk.blocking().read_at(32768, &mut back)?;
/// # assert_eq!(back, [1; 512]);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Disk(Arc<Inner>);

/// Bytes that are allocated alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first.
    pub offset: u64,
    /// How many.
    pub len: u64,
    /// False when no space is behind them: they read as zeros.
    pub allocated: bool,
}

struct Inner {
    client: Arc<Shared>,
    number: u64,
    url: String,
    volume: Arc<dyn Volume>,
    permits: Arc<Permits>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for core in 0..self.client.postbox.cores() {
            self.client.postbox.post(core, Message::Close { disk: self.number });
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Disk {
    pub(super) fn new(client: Arc<Shared>, number: u64, url: String, volume: Arc<dyn Volume>) -> Self {
        let depth = client.depth.min(volume.limits().depth as usize).max(1);
        let permits = Permits::new(depth * usize::from(client.postbox.cores()));
        Self(Arc::new(Inner { client, number, url, volume, permits }))
    }

    /// The URL that it was opened by.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// What it holds together with its client.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.client
    }

    /// Its size now.
    pub fn geometry(&self) -> Geometry {
        self.0.volume.geometry()
    }

    /// What it can do beyond reading and writing.
    pub fn features(&self) -> Features {
        self.0.volume.features()
    }

    /// What requests may look like. Reads and writes of any length are cut into transfers; operations given to
    /// [`Self::submit`] are not.
    pub fn limits(&self) -> Limits {
        self.0.volume.limits()
    }

    /// The blocks that `len` bytes from byte `offset` are, if they are whole blocks of the disk.
    pub fn blocks(&self, offset: u64, len: u64) -> Result<Extent, DiskError> {
        Asked { verb: "request", offset, len, most: u64::MAX }.extent(self)
    }

    /// Starts a request as it is, without copying any data. `callback` is called exactly once, on a core's thread, which
    /// it must not block; when the client ends first, it is told [`VolumeErrorKind::ShuttingDown`]. A callback that panics
    /// ends its core, with the same end for all requests there.
    ///
    /// Where as many requests are under way as the depth allows, the call waits. In a callback it does not wait: there
    /// it is to replace the request that has ended.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use linerate::{Client, ClientConfig, Extent, Operation, Outcome};
    ///
    /// let disk = Client::start(&ClientConfig::default())?.open(&"ram:1M".parse()?)?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let operation = Operation::Read { extent: Extent::new(8, 1), into: linerate::Buf::zeroed(512) };
    /// disk.submit(operation, move |result| {
    ///     let _ = tell.send(result);
    /// });
    /// let Outcome::Data(data) = told.recv()?? else { return Err("no data".into()) };
    /// assert_eq!(data.len(), 512);
    /// # Ok(()) }
    /// ```
    pub fn submit(
        &self,
        operation: Operation,
        callback: impl FnOnce(Result<Outcome, VolumeErrorKind>) + Send + 'static,
    ) {
        self.post(Work::Operation(operation), Callback::new(self.permit(), Box::new(callback)));
    }

    /// The same for a read into memory of the core's, which it has back when the data is dropped.
    pub fn submit_read(
        &self,
        extent: Extent,
        callback: impl FnOnce(Result<Outcome, VolumeErrorKind>) + Send + 'static,
    ) {
        self.post(Work::Read(extent), Callback::new(self.permit(), Box::new(callback)));
    }

    /// A permit after a wait, on threads that may wait.
    fn permit(&self) -> Option<Permit> {
        (!is_core()).then(|| block_on(self.0.permits.acquire()))
    }

    fn post(&self, work: Work, callback: Callback) {
        let client = &self.0.client;
        let core = core_for(client.id, client.postbox.cores());
        client.postbox.post(core, Message::Submit { disk: self.0.number, work, callback });
    }

    /// Starts a request once there is room.
    async fn start(&self, work: Work) -> Answer<Ended> {
        let permit = self.0.permits.acquire().await;
        let (reply, ended) = answer();
        self.post(work, Callback::new(Some(permit), Box::new(move |result| reply.send(result))));
        ended
    }

    /// Fills `into` from byte `offset`. Both must be multiples of the block size.
    ///
    /// A future that is dropped does not take its requests back: they run to their end unseen. A failed read leaves
    /// `into` with unspecified content.
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let asked = Asked { verb: "read", offset, len: into.len() as u64, most: self.transfer() };
        let take = |at: usize, outcome: Outcome| {
            if let Outcome::Data(data) = outcome {
                data.copy_to(&mut into[at..]);
            }
        };
        self.in_pieces(asked, |extent, _| Work::Read(extent), take).await
    }

    /// Writes `data` at byte `offset`. Both must be multiples of the block size. It is durable after a flush.
    pub async fn write(&self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        self.write_as(offset, data, Durability::Cached).await
    }

    /// Writes `data` at byte `offset` and ends only once it is on stable media (force unit access).
    pub async fn write_durable(&self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        self.write_as(offset, data, Durability::Durable).await
    }

    async fn write_as(&self, offset: u64, data: &[u8], durability: Durability) -> Result<(), DiskError> {
        let asked = Asked { verb: "write", offset, len: data.len() as u64, most: self.transfer() };
        let make = |extent, piece: std::ops::Range<usize>| {
            Work::Operation(Operation::Write { extent, data: owned(&data[piece]), durability })
        };
        self.in_pieces(asked, make, |_, _| {}).await
    }

    /// Makes every write that has ended durable.
    pub async fn flush(&self) -> Result<(), DiskError> {
        let ended = self.start(Work::Operation(Operation::Flush)).await.await;
        let failed = |kind| DiskError::new(kind, format!("{}: flush: {}", self.url(), self.reason(kind)));
        ended.unwrap_or(Err(VolumeErrorKind::ShuttingDown)).map(drop).map_err(failed)
    }

    /// How the bytes from `offset` on are allocated: the first run of the `len` bytes that are asked about. A volume that cannot tell
    /// is allocated throughout.
    pub async fn allocation(&self, offset: u64, len: u64) -> Result<Run, DiskError> {
        let asked = Asked { verb: "allocation query", offset, len, most: u64::MAX };
        let extent = asked.extent(self)?;
        let whole = Run { offset, len, allocated: true };
        if len == 0 || !self.features().contains(Features::ALLOCATION) {
            return Ok(whole);
        }
        let ended = self.start(Work::Operation(Operation::QueryAllocation { extent })).await.await;
        match ended.unwrap_or(Err(VolumeErrorKind::ShuttingDown)) {
            Ok(Outcome::Allocation(told)) => {
                let found = told.extent.blocks.saturating_mul(u64::from(self.geometry().block_size));
                Ok(Run { offset, len: found.min(len), allocated: told.mapped })
            }
            Ok(_) => Ok(whole),
            Err(kind) => Err(asked.failed(self, kind, &self.reason(kind))),
        }
    }

    /// Says that `len` bytes from byte `offset` are no longer needed; with [`Features::DISCARD`] they then read as zeros.
    pub async fn discard(&self, offset: u64, len: u64) -> Result<(), DiskError> {
        let asked = Asked { verb: "discard", offset, len, most: self.limits().max_discard.max(1) };
        let make = |extent, _| Work::Operation(Operation::Discard { extent });
        self.in_pieces(asked, make, |_, _| {}).await
    }

    /// Makes `len` bytes from byte `offset` read as zeros; the space behind them may be released.
    pub async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DiskError> {
        let asked = Asked { verb: "write zeroes", offset, len, most: self.limits().max_discard.max(1) };
        let durability = Durability::Cached;
        let make =
            |extent, _| Work::Operation(Operation::WriteZeroes { extent, durability, may_unmap: true });
        self.in_pieces(asked, make, |_, _| {}).await
    }

    /// Compares the bytes from `offset` with `compare`, and only if they are equal writes `write`, which has the same
    /// length; atomic against every other request. A difference is [`VolumeErrorKind::Miscompare`].
    pub async fn compare_and_write(
        &self,
        offset: u64,
        compare: &[u8],
        write: &[u8],
    ) -> Result<(), DiskError> {
        // It cannot be cut: what is too long is for the volume to refuse.
        let len = compare.len() as u64;
        let asked = Asked { verb: "compare and write", offset, len, most: u64::MAX };
        if compare.len() != write.len() {
            return Err(asked.failed(self, VolumeErrorKind::Misaligned, "both parts must have one length"));
        }
        let make = |extent, _| {
            let (compare, write) = (owned(compare), owned(write));
            Work::Operation(Operation::CompareAndWrite {
                extent,
                data: Box::new(ComparedWrite { compare, write }),
                durability: Durability::Cached,
            })
        };
        self.in_pieces(asked, make, |_, _| {}).await
    }

    /// Blocks in one transfer of a read or write.
    fn transfer(&self) -> u64 {
        let block = self.geometry().block_size.max(1);
        u64::from(self.limits().max_transfer.min(TRANSFER) / block).max(1)
    }

    /// Does what was asked in pieces. `make` is told each piece's extent and its bytes, counted
    /// from the beginning; `take` is told where its outcome belongs. After a failure nothing more is started, and what
    /// is under way is waited for.
    async fn in_pieces(
        &self,
        asked: Asked,
        mut make: impl FnMut(Extent, std::ops::Range<usize>) -> Work,
        mut take: impl FnMut(usize, Outcome),
    ) -> Result<(), DiskError> {
        let whole = asked.extent(self)?;
        let block = self.geometry().block_size as usize;
        let place = |start: u64| wire::index(start - whole.start) * block;
        let (mut next, end) = (whole.start, whole.start + whole.blocks);
        let mut flying: VecDeque<(u64, Answer<Ended>)> = VecDeque::with_capacity(TRANSFER_WINDOW);
        let mut failure = None;
        loop {
            while failure.is_none() && next < end && flying.len() < TRANSFER_WINDOW {
                let extent = Extent::new(next, asked.most.min(end - next));
                let work = make(extent, place(next)..place(next + extent.blocks));
                flying.push_back((next, self.start(work).await));
                next += extent.blocks;
            }
            let Some((start, ended)) = flying.pop_front() else { break };
            match ended.await.unwrap_or(Err(VolumeErrorKind::ShuttingDown)) {
                Ok(outcome) => take(place(start), outcome),
                Err(kind) => failure = failure.or(Some(kind)),
            }
        }
        failure.map_or(Ok(()), |kind| Err(asked.failed(self, kind, &self.reason(kind))))
    }

    /// What `kind` means here: a lost way has its own story.
    fn reason(&self, kind: VolumeErrorKind) -> String {
        let lost = matches!(kind, VolumeErrorKind::Unreachable | VolumeErrorKind::TimedOut);
        match self.0.volume.last_error().filter(|_| lost) {
            Some(error) => format!("{kind} (last error on the path to the volume: {error})"),
            None => kind.to_string(),
        }
    }
}

/// A copy that a request can keep.
fn owned(data: &[u8]) -> BufList {
    BufList::from(SharedBuf::from(data.to_vec()))
}

/// What was asked for.
#[derive(Clone, Copy)]
struct Asked {
    /// What to do, for errors.
    verb: &'static str,
    /// Byte where it begins.
    offset: u64,
    /// Bytes.
    len: u64,
    /// Blocks of one request, at most.
    most: u64,
}

impl Asked {
    /// The blocks that are meant, if the bytes are whole blocks of the disk.
    fn extent(self, disk: &Disk) -> Result<Extent, DiskError> {
        let geometry = disk.geometry();
        let block = u64::from(geometry.block_size);
        if !self.offset.is_multiple_of(block) || !self.len.is_multiple_of(block) {
            let why = format!("offset and length must be multiples of the block size of {block} bytes");
            return Err(self.failed(disk, VolumeErrorKind::Misaligned, &why));
        }
        let extent = Extent::new(self.offset / block, self.len / block);
        if geometry.check(extent).is_none() {
            let why = format!("the volume has only {} bytes", geometry.bytes());
            return Err(self.failed(disk, VolumeErrorKind::OutOfRange, &why));
        }
        Ok(extent)
    }

    fn failed(self, disk: &Disk, kind: VolumeErrorKind, why: &str) -> DiskError {
        let Self { verb, offset, len, .. } = self;
        DiskError::new(kind, format!("{}: {verb} of {len} bytes at byte {offset}: {why}", disk.url()))
    }
}
