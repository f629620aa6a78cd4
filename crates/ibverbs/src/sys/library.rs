//! libibverbs and librdmacm, loaded when they are first needed: no program of ours is linked against them, and a machine without an adapter needs neither.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::fmt;
use std::sync::OnceLock;

use super::abi::{
    CmEvent, CmId, CompletionChannel, CompletionQueue, ConnectionParameters, Context, DeviceAttributes,
    EventChannel, MemoryRegion, ProtectionDomain, QueuePair, QueuePairAttributes,
};

/// A library that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadError {
    library: &'static str,
    package: &'static str,
    /// What the dynamic linker says.
    why: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { library, package, why } = self;
        write!(
            f,
            "RDMA adapters are reached by {library}, which cannot be loaded ({why}): install the packages {package} and ibverbs-providers"
        )
    }
}

impl std::error::Error for LoadError {}

/// A library: its name, and the package of Debian's that has it.
struct Library {
    name: &'static CStr,
    shown: &'static str,
    package: &'static str,
}

const IBVERBS: Library =
    Library { name: c"libibverbs.so.1", shown: "libibverbs.so.1", package: "libibverbs1" };
const RDMACM: Library = Library { name: c"librdmacm.so.1", shown: "librdmacm.so.1", package: "librdmacm1" };

impl Library {
    fn error(&self) -> LoadError {
        // SAFETY: takes nothing, and returns nothing or a text that stays until this thread's next call into the linker.
        let text = unsafe { libc::dlerror() };
        let why = if text.is_null() {
            "the dynamic linker does not say why".to_owned()
        } else {
            // SAFETY: the linker's text ends with a zero and is copied at once.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        LoadError { library: self.shown, package: self.package, why }
    }

    fn open(&self) -> Result<*mut c_void, LoadError> {
        // SAFETY: the name ends with a zero. What the library does when it is loaded is what every program that is linked against it has done.
        let handle = unsafe { libc::dlopen(self.name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() { Err(self.error()) } else { Ok(handle) }
    }

    fn find(&self, symbol: &CStr) -> Result<*mut c_void, LoadError> {
        // A library that is open already is not opened again.
        let handle = self.open()?;
        // SAFETY: the handle stays valid, as no library is ever closed; the symbol ends with a zero.
        let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        if found.is_null() { Err(self.error()) } else { Ok(found) }
    }
}

/// Declares the functions of both libraries with their types, and finds them.
macro_rules! libraries {
    ($($library:ident { $($function:ident: fn($($argument:ty),*) $(-> $result:ty)?;)* })*) => {
        /// The functions that are used, by their own names.
        #[derive(Debug)]
        pub(super) struct Functions {
            $($(pub(super) $function: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*)*
        }

        fn load() -> Result<Functions, LoadError> {
            Ok(Functions {
                $($($function: {
                    let name = concat!(stringify!($function), "\0");
                    let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
                    let found = $library.find(name)?;
                    // SAFETY: the function of this name in the libraries' stable interface (its version 1) has this type.
                    unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($argument),*) $(-> $result)?,
                        >(found)
                    }
                },)*)*
            })
        }
    };
}

libraries! {
    IBVERBS {
        ibv_query_device: fn(*mut Context, *mut DeviceAttributes) -> c_int;
        ibv_alloc_pd: fn(*mut Context) -> *mut ProtectionDomain;
        ibv_dealloc_pd: fn(*mut ProtectionDomain) -> c_int;
        ibv_reg_mr: fn(*mut ProtectionDomain, *mut c_void, usize, c_int) -> *mut MemoryRegion;
        ibv_dereg_mr: fn(*mut MemoryRegion) -> c_int;
        ibv_create_comp_channel: fn(*mut Context) -> *mut CompletionChannel;
        ibv_destroy_comp_channel: fn(*mut CompletionChannel) -> c_int;
        ibv_create_cq: fn(*mut Context, c_int, *mut c_void, *mut CompletionChannel, c_int) -> *mut CompletionQueue;
        ibv_destroy_qp: fn(*mut QueuePair) -> c_int;
        ibv_destroy_cq: fn(*mut CompletionQueue) -> c_int;
        ibv_get_cq_event: fn(*mut CompletionChannel, *mut *mut CompletionQueue, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events: fn(*mut CompletionQueue, c_uint);
    }
    RDMACM {
        rdma_create_event_channel: fn() -> *mut EventChannel;
        rdma_destroy_event_channel: fn(*mut EventChannel);
        rdma_create_id: fn(*mut EventChannel, *mut *mut CmId, *mut c_void, c_int) -> c_int;
        rdma_destroy_id: fn(*mut CmId) -> c_int;
        rdma_bind_addr: fn(*mut CmId, *mut libc::sockaddr) -> c_int;
        rdma_listen: fn(*mut CmId, c_int) -> c_int;
        rdma_resolve_addr: fn(*mut CmId, *mut libc::sockaddr, *mut libc::sockaddr, c_int) -> c_int;
        rdma_resolve_route: fn(*mut CmId, c_int) -> c_int;
        rdma_create_qp: fn(*mut CmId, *mut ProtectionDomain, *mut QueuePairAttributes) -> c_int;
        rdma_connect: fn(*mut CmId, *mut ConnectionParameters) -> c_int;
        rdma_accept: fn(*mut CmId, *mut ConnectionParameters) -> c_int;
        rdma_reject: fn(*mut CmId, *const c_void, u8) -> c_int;
        rdma_disconnect: fn(*mut CmId) -> c_int;
        rdma_get_cm_event: fn(*mut EventChannel, *mut *mut CmEvent) -> c_int;
        rdma_ack_cm_event: fn(*mut CmEvent) -> c_int;
    }
}

/// The functions of both libraries, which are loaded by the first call: it reads files.
///
/// # Errors
/// One of them is missing, or too old.
pub(super) fn functions() -> Result<&'static Functions, LoadError> {
    static FUNCTIONS: OnceLock<Result<Functions, LoadError>> = OnceLock::new();
    FUNCTIONS.get_or_init(load).as_ref().map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_is_named_with_its_package() {
        let missing =
            Library { name: c"liblinerate-none.so.1", shown: "liblinerate-none.so.1", package: "none1" };
        let error = missing.open().unwrap_err().to_string();
        assert!(
            error.contains("liblinerate-none.so.1") && error.contains("install the packages none1"),
            "{error}"
        );
    }

    #[test]
    fn every_function_is_found_where_the_libraries_are() {
        if let Err(error) = functions() {
            assert!(error.to_string().contains("cannot be loaded"), "{error}");
        }
    }
}
