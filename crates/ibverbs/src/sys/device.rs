//! Devices, and what they can hold.

use std::ffi::c_int;
use std::io;
use std::mem;
use std::ptr::NonNull;

use super::abi;
use super::library::Functions;

/// A device that is open, and stays so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Device {
    pub(super) functions: &'static Functions,
    pub(super) context: NonNull<abi::Context>,
}

/// What a device can hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    /// Requests in each queue of a queue pair.
    pub(crate) requests: usize,
    /// RDMA Reads that a queue pair serves.
    pub(crate) reads_served: u8,
    /// RDMA Reads that a queue pair has under way.
    pub(crate) reads_sent: u8,
    /// It sends Send with Invalidate.
    pub(crate) invalidates: bool,
}

impl Device {
    pub(super) fn new(functions: &'static Functions, context: NonNull<abi::Context>) -> Self {
        Self { functions, context }
    }

    /// What tells it from other devices.
    pub(crate) fn name(&self) -> usize {
        self.context.as_ptr().addr()
    }

    /// True for an adapter that speaks iWARP.
    pub(crate) fn is_iwarp(&self) -> bool {
        // SAFETY: the device is open, so both structures are there.
        unsafe { (*(*self.context.as_ptr()).device).transport_type == abi::TRANSPORT_IWARP }
    }

    /// What it can hold.
    pub(crate) fn capacity(&self) -> io::Result<Capacity> {
        // SAFETY: the structure has numbers alone, for which zero is a value.
        let mut attributes: abi::DeviceAttributes = unsafe { mem::zeroed() };
        // SAFETY: the device is open; the structure is as long as the library's.
        let result = unsafe { (self.functions.ibv_query_device)(self.context.as_ptr(), &raw mut attributes) };
        error_of(result)?;
        let byte = |count: c_int| u8::try_from(count.max(0)).unwrap_or(u8::MAX);
        Ok(Capacity {
            requests: usize::try_from(attributes.max_qp_wr).unwrap_or_default(),
            reads_served: byte(attributes.max_qp_rd_atom),
            reads_sent: byte(attributes.max_qp_init_rd_atom),
            invalidates: attributes.device_cap_flags & abi::MEMORY_MANAGEMENT_EXTENSIONS != 0
                && !self.is_iwarp(),
        })
    }
}

/// The libraries' verbs return zero or an error's number.
pub(super) fn error_of(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number.abs())),
    }
}
