//! A queue pair's half at the adapter: where requests become those of the device, and memory becomes what the device knows.

use std::io;
use std::rc::Rc;

use buf::{Account, Buf, BufList};
use host::{PairId, PairNeeds};
use verbs::{RegionMemory, RemoteRegion, STag, WorkMemory};

use crate::inbox::Channels;
use crate::limits::COPIED;
use crate::sys::{
    Access, Bounce, BounceMemory, CmId, ConnectionOffer, Depth, Done, Held, NotRegistered, Operation,
    ProtectionDomain, QueuePair, Registered, Registration, Request,
};

/// Why the adapter does not take a request; the queue pair ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It cannot register memory.
    Memory,
    /// It refuses the request.
    ByDevice,
}

/// A request that is not taken, with its memory.
pub(crate) struct NotPosted {
    pub(crate) why: Refused,
    pub(crate) memory: WorkMemory,
}

/// What an adapter lets a queue pair hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Granted {
    pub(crate) sends: usize,
    pub(crate) receives: usize,
    pub(crate) offer: ConnectionOffer,
    /// It sends Send with Invalidate to a peer that says it takes it.
    pub(crate) invalidates: bool,
}

/// The half at the adapter.
#[derive(Debug)]
pub(crate) struct Hardware {
    pair: QueuePair,
    domain: Rc<ProtectionDomain>,
    bounce: BounceMemory,
    account: Account,
    /// Bytes of bounce buffers that are counted.
    counted: usize,
    is_iwarp: bool,
}

/// What a device can give of what a queue pair needs.
pub(crate) fn granted(id: &CmId, needs: PairNeeds) -> io::Result<Granted> {
    let capacity = id.device().ok_or(io::ErrorKind::NotConnected)?.capacity()?;
    let byte = |count: u16| u8::try_from(count).unwrap_or(u8::MAX);
    Ok(Granted {
        sends: needs.sends.min(capacity.requests),
        receives: needs.receives.min(capacity.requests),
        offer: ConnectionOffer {
            reads_served: byte(needs.reads_served).min(capacity.reads_served),
            reads_sent: byte(needs.reads_sent).min(capacity.reads_sent),
        },
        invalidates: capacity.invalidates,
    })
}

impl Hardware {
    /// The half of a connection whose device is known.
    pub(crate) fn new(
        id: CmId,
        channels: &Channels,
        granted: Granted,
        name: PairId,
        account: Account,
    ) -> io::Result<Self> {
        let device = id.device().ok_or(io::ErrorKind::NotConnected)?;
        let domain = ProtectionDomain::new(&device)?;
        let completions = channels.completions(&device)?;
        let count = |count: usize| u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let depth = Depth { sends: count(granted.sends), receives: count(granted.receives) };
        let name = usize::try_from(name.0).map_err(|_| io::ErrorKind::InvalidInput)?;
        let pair = QueuePair::new(id, &domain, &completions, depth, name)?;
        let bounce = BounceMemory::new(&domain);
        Ok(Self { pair, domain, bounce, account, counted: 0, is_iwarp: device.is_iwarp() })
    }

    /// The connection.
    pub(crate) fn id(&self) -> &CmId {
        self.pair.id()
    }

    /// Has the port hear of the next completion.
    pub(crate) fn ask_for_event(&self) -> io::Result<()> {
        self.pair.ask_for_event()
    }

    /// Takes what has ended.
    pub(crate) fn poll(&mut self, done: &mut Vec<Done>) {
        self.pair.poll(done);
    }

    /// Has the device let go of everything that was posted.
    pub(crate) fn end(self) -> Rc<CmId> {
        self.pair.end()
    }

    /// A bounce buffer, which counts.
    fn take_bounce(&mut self, length: usize) -> Result<Bounce, Refused> {
        let bounce = self.bounce.take(length).map_err(|_| Refused::Memory)?;
        let more = self.bounce.bytes().saturating_sub(self.counted);
        if more > 0 {
            self.counted = self.bounce.bytes();
            self.account.count(more);
        }
        Ok(bounce)
    }

    /// Takes the memory of a request back: what it has brought goes into the consumer's buffer.
    pub(crate) fn recover(&mut self, held: Held, memory: WorkMemory, length: usize) -> WorkMemory {
        match (held, memory) {
            (Held::Bounce(bounce), mut memory) => {
                if let WorkMemory::Buf(buf) = &mut memory {
                    let length = length.min(buf.len());
                    bounce.take(buf.get_mut(..length).unwrap_or_default());
                }
                self.bounce.give_back(bounce);
                memory
            }
            (Held::Registered(registration), memory) => match (registration.release(), memory) {
                (Some(Registered::Buf(buf)), _) => WorkMemory::Buf(buf),
                // The consumer's list is shared, and came along.
                (_, memory) => memory,
            },
        }
    }

    fn post(&mut self, request: Request, memory: WorkMemory) -> Result<WorkMemory, NotPosted> {
        match self.pair.post(request) {
            Ok(()) => Ok(memory),
            Err(Request { held, .. }) => {
                let memory = self.recover(held, memory, 0);
                Err(NotPosted { why: Refused::ByDevice, memory })
            }
        }
    }

    /// Posts a receive; what is the consumer's of it stays here.
    pub(crate) fn receive(&mut self, name: u64, into: Buf) -> Result<WorkMemory, NotPosted> {
        let length = into.len();
        match self.take_bounce(length.max(1)) {
            Ok(bounce) => {
                let (held, operation) = (Held::Bounce(bounce), Operation::Receive);
                let request = Request { name, operation, held, length: bounded(length) };
                self.post(request, WorkMemory::Buf(into))
            }
            Err(why) => Err(NotPosted { why, memory: WorkMemory::Buf(into) }),
        }
    }

    /// Sends a message.
    pub(crate) fn send(
        &mut self,
        name: u64,
        data: BufList,
        invalidate: Option<STag>,
    ) -> Result<WorkMemory, NotPosted> {
        let operation = Operation::Send { invalidate: invalidate.map(|stag| stag.0) };
        self.post_copied(name, operation, data)
    }

    /// Writes to the peer's memory.
    pub(crate) fn write(
        &mut self,
        name: u64,
        data: BufList,
        to: RemoteRegion,
    ) -> Result<WorkMemory, NotPosted> {
        let operation = Operation::Write(to);
        let [piece] = data.pieces() else { return self.post_copied(name, operation, data) };
        if piece.len() <= COPIED {
            return self.post_copied(name, operation, data);
        }
        let (length, memory) = (bounded(piece.len()), Registered::Shared(piece.clone()));
        match Registration::new(&self.domain, memory, Access::Send) {
            Ok(registration) => {
                let held = Held::Registered(registration);
                self.post(Request { name, operation, held, length }, WorkMemory::List(data))
            }
            Err(_) => self.post_copied(name, operation, data),
        }
    }

    /// Posts a request with a copy of its data.
    fn post_copied(
        &mut self,
        name: u64,
        operation: Operation,
        data: BufList,
    ) -> Result<WorkMemory, NotPosted> {
        let length = data.len();
        match self.take_bounce(length.max(1)) {
            Ok(mut bounce) => {
                bounce.fill(data.pieces().iter().map(|piece| &piece[..]));
                let held = Held::Bounce(bounce);
                let request = Request { name, operation, held, length: bounded(length) };
                self.post(request, WorkMemory::List(data))
            }
            Err(why) => Err(NotPosted { why, memory: WorkMemory::List(data) }),
        }
    }

    /// Reads the peer's memory. Over iWARP the device has to let the peer write to where that goes, so each read has a region of its own there, exactly as long.
    pub(crate) fn read(&mut self, name: u64, into: Buf, from: RemoteRegion) -> Result<WorkMemory, NotPosted> {
        let operation = Operation::Read(from);
        if !self.is_iwarp && from.length as usize <= COPIED {
            return match self.take_bounce(from.length as usize) {
                Ok(bounce) => {
                    let request =
                        Request { name, operation, held: Held::Bounce(bounce), length: from.length };
                    self.post(request, WorkMemory::Buf(into))
                }
                Err(why) => Err(NotPosted { why, memory: WorkMemory::Buf(into) }),
            };
        }
        let access = if self.is_iwarp { Access::ReadResponse } else { Access::Receive };
        match Registration::new(&self.domain, Registered::Buf(into), access) {
            Ok(registration) => {
                let held = Held::Registered(registration);
                self.post(Request { name, operation, held, length: from.length }, WorkMemory::None)
            }
            Err(NotRegistered(memory)) => {
                let memory = match memory {
                    Registered::Buf(buf) => WorkMemory::Buf(buf),
                    _ => WorkMemory::None,
                };
                Err(NotPosted { why: Refused::Memory, memory })
            }
        }
    }

    /// Has the peer use memory.
    pub(crate) fn register(&self, memory: RegionMemory) -> Result<Exposed, RegionMemory> {
        Exposed::new(&self.domain, memory)
    }
}

/// The length of a request, which is bounded by that of a region.
fn bounded(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Memory that the peer may use: exactly that of the consumer's buffer, or a copy of a list of several pieces.
#[derive(Debug)]
pub(crate) struct Exposed {
    registration: Registration,
    /// The consumer's list, of which a copy or the one piece is registered.
    list: Option<BufList>,
    /// The consumer's buffer, if it has no byte: a device knows no region of none, and the peer gets one byte of nobody's.
    empty: Option<Buf>,
    length: u32,
}

impl Exposed {
    fn new(domain: &Rc<ProtectionDomain>, memory: RegionMemory) -> Result<Self, RegionMemory> {
        let length = bounded(memory.len());
        match memory {
            RegionMemory::Sink(buf) if buf.is_empty() => {
                let stand_in = Registered::Buf(Buf::zeroed(1));
                match Registration::new(domain, stand_in, Access::PeerWrites) {
                    Ok(registration) => Ok(Self { registration, list: None, empty: Some(buf), length }),
                    Err(_) => Err(RegionMemory::Sink(buf)),
                }
            }
            RegionMemory::Sink(buf) => {
                match Registration::new(domain, Registered::Buf(buf), Access::PeerWrites) {
                    Ok(registration) => Ok(Self { registration, list: None, empty: None, length }),
                    Err(NotRegistered(Registered::Buf(buf))) => Err(RegionMemory::Sink(buf)),
                    Err(_) => Err(RegionMemory::Source(BufList::new())),
                }
            }
            RegionMemory::Source(list) => {
                let memory = match list.pieces() {
                    [piece] if !piece.is_empty() => Registered::Shared(piece.clone()),
                    _ => Registered::Copy(copy(&list)),
                };
                match Registration::new(domain, memory, Access::PeerReads) {
                    Ok(registration) => Ok(Self { registration, list: Some(list), empty: None, length }),
                    Err(_) => Err(RegionMemory::Source(list)),
                }
            }
        }
    }

    /// What the peer is to be told.
    pub(crate) fn region(&self) -> RemoteRegion {
        RemoteRegion {
            stag: STag(self.registration.remote_key()),
            offset: self.registration.start(),
            length: self.length,
        }
    }

    /// Takes the memory back; nothing if the device does not let go of it.
    pub(crate) fn release(self) -> Option<RegionMemory> {
        let Self { registration, list, empty, .. } = self;
        match (registration.release()?, list, empty) {
            (_, Some(list), _) => Some(RegionMemory::Source(list)),
            (_, _, Some(buf)) | (Registered::Buf(buf), ..) => Some(RegionMemory::Sink(buf)),
            _ => None,
        }
    }
}

/// The bytes of a list in one piece, at least one.
fn copy(list: &BufList) -> Box<[u8]> {
    let mut copy = vec![0; list.len().max(1)];
    list.copy_to(&mut copy);
    copy.into_boxed_slice()
}
