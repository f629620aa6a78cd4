//! librdmacm: event channels, and the identifiers of connections that are set up over them (rdma_cm(7)).

use std::ffi::{c_int, c_void};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::abi;
use super::address::{from_c, to_c, unknown};
use super::device::Device;
use super::library::{Functions, LoadError, functions};

/// Connections that may wait for an answer at a listener.
const BACKLOG: c_int = 128;

/// Where events of connection management come.
#[derive(Debug)]
pub(crate) struct EventChannel {
    pub(super) functions: &'static Functions,
    raw: NonNull<abi::EventChannel>,
}

// SAFETY: librdmacm's functions may be called from any thread (rdma_cm(7)): a channel is a file descriptor, and its tables have locks.
unsafe impl Send for EventChannel {}
// SAFETY: as above.
unsafe impl Sync for EventChannel {}

/// Why there is no channel.
#[derive(Debug)]
pub(crate) enum ChannelError {
    /// The libraries are missing.
    Load(LoadError),
    /// The kernel has no connection management.
    System(io::Error),
}

impl EventChannel {
    /// A channel without identifiers, whose events are never waited for. The first one loads the libraries.
    pub(crate) fn new() -> Result<Arc<Self>, ChannelError> {
        let functions = functions().map_err(ChannelError::Load)?;
        // SAFETY: takes nothing; the result is null or a channel, which `drop` destroys.
        let raw = unsafe { (functions.rdma_create_event_channel)() };
        let raw = NonNull::new(raw).ok_or_else(|| ChannelError::System(io::Error::last_os_error()))?;
        let channel = Self { functions, raw };
        let flags = fcntl_getfl(channel.descriptor()).map_err(|error| ChannelError::System(error.into()))?;
        fcntl_setfl(channel.descriptor(), flags | OFlags::NONBLOCK)
            .map_err(|error| ChannelError::System(error.into()))?;
        Ok(Arc::new(channel))
    }

    /// Readable when there are events.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is there until `drop`, and its descriptor as long.
        unsafe { BorrowedFd::borrow_raw((*self.raw.as_ptr()).fd) }
    }

    /// The next event, if there is one.
    pub(crate) fn next_event(self: &Arc<Self>) -> Option<CmEvent> {
        let mut event = ptr::null_mut();
        // SAFETY: the channel is valid; the event that is put into the place is acknowledged below, once.
        let result = unsafe { (self.functions.rdma_get_cm_event)(self.raw.as_ptr(), &raw mut event) };
        let event = NonNull::new(event).filter(|_| result == 0)?;
        // SAFETY: the event is whole, and stays until it is acknowledged; nothing of it is kept by reference.
        let copied = unsafe { self.copy(event.as_ref()) };
        // SAFETY: it was given out above, and is not used any more.
        unsafe { (self.functions.rdma_ack_cm_event)(event.as_ptr()) };
        Some(copied)
    }

    /// Copies what counts of an event.
    ///
    /// # Safety
    /// The event is one that the library has given out, and that was not acknowledged.
    unsafe fn copy(self: &Arc<Self>, event: &abi::CmEvent) -> CmEvent {
        let kind = CmEventKind::of(event.event);
        let carries = matches!(kind, CmEventKind::Request | CmEventKind::Established | CmEventKind::Rejected);
        let (start, length) = (event.conn.private_data.cast::<u8>(), event.conn.private_data_len);
        let private_data = if carries && !start.is_null() {
            // SAFETY: these events have the member `conn`, whose private data has that length.
            unsafe { slice::from_raw_parts(start, usize::from(length)) }.to_vec()
        } else {
            Vec::new()
        };
        let newcomer = NonNull::new(event.id)
            .filter(|_| kind == CmEventKind::Request)
            .map(|raw| CmId { channel: Arc::clone(self), raw });
        CmEvent {
            name: event.id.addr(),
            kind,
            private_data,
            offer: ConnectionOffer {
                reads_served: event.conn.responder_resources,
                reads_sent: event.conn.initiator_depth,
            },
            newcomer,
        }
    }
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        // SAFETY: every identifier holds the channel, so none is left.
        unsafe { (self.functions.rdma_destroy_event_channel)(self.raw.as_ptr()) };
    }
}

/// What has happened to a connection.
#[derive(Debug)]
pub(crate) struct CmEvent {
    /// The identifier's name ([`CmId::name`]).
    pub(crate) name: usize,
    pub(crate) kind: CmEventKind,
    pub(crate) private_data: Vec<u8>,
    /// What the peer leaves this side to serve and to send, in this side's words (rdma_get_cm_event(3)).
    pub(crate) offer: ConnectionOffer,
    /// The identifier of a request's connection.
    pub(crate) newcomer: Option<CmId>,
}

/// Which event it is (`enum rdma_cm_event_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CmEventKind {
    /// `ADDR_RESOLVED`: the device is known.
    AddressResolved,
    /// `ROUTE_RESOLVED`: a connection can be asked for.
    RouteResolved,
    /// `CONNECT_REQUEST`: a peer asks for one.
    Request,
    /// `ESTABLISHED`.
    Established,
    /// `REJECTED`.
    Rejected,
    /// `DISCONNECTED`.
    Disconnected,
    /// `ADDR_ERROR`, `ROUTE_ERROR`: there is no way.
    NoRoute,
    /// `CONNECT_ERROR`, `UNREACHABLE`: there is no answer.
    NoAnswer,
    /// `DEVICE_REMOVAL`.
    DeviceRemoved,
    /// Anything else, which asks for nothing.
    Other,
}

impl CmEventKind {
    fn of(number: c_int) -> Self {
        match number {
            0 => Self::AddressResolved,
            1 | 3 => Self::NoRoute,
            2 => Self::RouteResolved,
            4 => Self::Request,
            6 | 7 => Self::NoAnswer,
            8 => Self::Rejected,
            9 => Self::Established,
            10 => Self::Disconnected,
            11 => Self::DeviceRemoved,
            _ => Self::Other,
        }
    }
}

/// RDMA Reads that one side of a connection takes part in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ConnectionOffer {
    /// Those that it serves at a time.
    pub(crate) reads_served: u8,
    /// Those that it has under way at a time.
    pub(crate) reads_sent: u8,
}

/// The identifier of a connection or of a listener.
#[derive(Debug)]
pub(crate) struct CmId {
    pub(super) channel: Arc<EventChannel>,
    pub(super) raw: NonNull<abi::CmId>,
}

// SAFETY: as for the channel; an identifier has one owner.
unsafe impl Send for CmId {}

impl CmId {
    /// An identifier for reliable connections.
    pub(crate) fn new(channel: &Arc<EventChannel>) -> io::Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: the channel is valid, and held for as long as the identifier is there.
        let result = unsafe {
            (channel.functions.rdma_create_id)(
                channel.raw.as_ptr(),
                &raw mut raw,
                ptr::null_mut(),
                abi::PORT_SPACE_TCP,
            )
        };
        check(result)?;
        let raw = NonNull::new(raw).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { channel: Arc::clone(channel), raw })
    }

    /// What its events call it, for as long as it is there.
    pub(crate) fn name(&self) -> usize {
        self.raw.as_ptr().addr()
    }

    /// Binds it to an address, and listens there.
    pub(crate) fn listen(&self, address: SocketAddr) -> io::Result<()> {
        let mut address = to_c(address);
        // SAFETY: the identifier is valid; the address is read, by its family.
        check(unsafe {
            (self.functions().rdma_bind_addr)(self.raw.as_ptr(), (&raw mut address).cast::<libc::sockaddr>())
        })?;
        // SAFETY: the identifier is valid.
        check(unsafe { (self.functions().rdma_listen)(self.raw.as_ptr(), BACKLOG) })
    }

    /// Begins to look for the device that leads to an address; an event tells of the end.
    pub(crate) fn resolve_address(&self, peer: SocketAddr, patience: Duration) -> io::Result<()> {
        let mut peer = to_c(peer);
        // SAFETY: the identifier is valid; the address is read, by its family; the source is left open.
        check(unsafe {
            (self.functions().rdma_resolve_addr)(
                self.raw.as_ptr(),
                ptr::null_mut(),
                (&raw mut peer).cast::<libc::sockaddr>(),
                milliseconds(patience),
            )
        })
    }

    /// Begins to look for the route; an event tells of the end.
    pub(crate) fn resolve_route(&self, patience: Duration) -> io::Result<()> {
        // SAFETY: the identifier is valid.
        check(unsafe { (self.functions().rdma_resolve_route)(self.raw.as_ptr(), milliseconds(patience)) })
    }

    /// Asks the peer for a connection; an event tells of the answer.
    pub(crate) fn connect(&self, offer: ConnectionOffer, private_data: &[u8]) -> io::Result<()> {
        let mut parameters = parameters(offer, private_data)?;
        // SAFETY: the identifier is valid; the parameters and the private data are read before the call returns.
        check(unsafe { (self.functions().rdma_connect)(self.raw.as_ptr(), &raw mut parameters) })
    }

    /// Grants a request; an event tells when the connection is there.
    pub(crate) fn accept(&self, offer: ConnectionOffer, private_data: &[u8]) -> io::Result<()> {
        let mut parameters = parameters(offer, private_data)?;
        // SAFETY: as above.
        check(unsafe { (self.functions().rdma_accept)(self.raw.as_ptr(), &raw mut parameters) })
    }

    /// Refuses a request.
    pub(crate) fn reject(&self, private_data: &[u8]) -> io::Result<()> {
        let length = u8::try_from(private_data.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let start = private_data.as_ptr().cast::<c_void>();
        // SAFETY: the identifier is valid; the private data is read before the call returns.
        check(unsafe { (self.functions().rdma_reject)(self.raw.as_ptr(), start, length) })
    }

    /// Ends the connection, or answers a peer that has.
    pub(crate) fn disconnect(&self) -> io::Result<()> {
        // SAFETY: the identifier is valid.
        check(unsafe { (self.functions().rdma_disconnect)(self.raw.as_ptr()) })
    }

    /// The device of a connection, once that is known.
    pub(crate) fn device(&self) -> Option<Device> {
        // SAFETY: the identifier is valid, and its first field the device or null. librdmacm never closes a device.
        let context = unsafe { (*self.raw.as_ptr()).verbs };
        NonNull::new(context).map(|context| Device::new(self.functions(), context))
    }

    /// This side's address.
    pub(crate) fn local(&self) -> SocketAddr {
        // SAFETY: the identifier is valid, and its addresses are part of it.
        from_c(unsafe { &(*self.raw.as_ptr()).src_addr }).unwrap_or_else(unknown)
    }

    /// The other side's address.
    pub(crate) fn peer(&self) -> SocketAddr {
        // SAFETY: as above.
        from_c(unsafe { &(*self.raw.as_ptr()).dst_addr }).unwrap_or_else(unknown)
    }

    pub(super) fn functions(&self) -> &'static Functions {
        self.channel.functions
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        // SAFETY: nobody else has it, its queue pair was destroyed before, and all events of it that were given out are acknowledged.
        unsafe { (self.functions().rdma_destroy_id)(self.raw.as_ptr()) };
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor()
    }
}

/// The parameters of a connection. A peer without a receive is asked again for ever, as the contract lets a message wait for one; a peer that answers nothing seven times.
fn parameters(offer: ConnectionOffer, private_data: &[u8]) -> io::Result<abi::ConnectionParameters> {
    Ok(abi::ConnectionParameters {
        private_data: private_data.as_ptr().cast::<c_void>(),
        private_data_len: u8::try_from(private_data.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        responder_resources: offer.reads_served,
        initiator_depth: offer.reads_sent,
        flow_control: 1,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: 0,
        qp_num: 0,
    })
}

fn milliseconds(span: Duration) -> c_int {
    c_int::try_from(span.as_millis()).unwrap_or(c_int::MAX)
}

/// The libraries' functions of connection management return zero, or set the system's error.
pub(super) fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
