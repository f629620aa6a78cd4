//! The structures of libibverbs' and librdmacm's stable interface (rdma-core 44, `infiniband/verbs.h` and `rdma/rdma_cma.h`), as far as they are used.
//!
//! Only leading fields stand here of what the libraries allocate; what this side allocates is whole. `conformance/ibverbs/run.py` reads the figures of the assertions below
//! and the constants, and compares them with the C headers.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};

/// `struct ibv_context_ops`: of its 32 functions the four that the inline functions of the header call.
#[repr(C)]
pub(super) struct ContextOps {
    unused_before_poll: [*const c_void; 11],
    pub(super) poll_cq:
        Option<unsafe extern "C" fn(*mut CompletionQueue, c_int, *mut WorkCompletion) -> c_int>,
    pub(super) req_notify_cq: Option<unsafe extern "C" fn(*mut CompletionQueue, c_int) -> c_int>,
    unused_before_post: [*const c_void; 12],
    pub(super) post_send:
        Option<unsafe extern "C" fn(*mut QueuePair, *mut SendRequest, *mut *mut SendRequest) -> c_int>,
    pub(super) post_recv:
        Option<unsafe extern "C" fn(*mut QueuePair, *mut ReceiveRequest, *mut *mut ReceiveRequest) -> c_int>,
    unused_behind: [*const c_void; 5],
}

/// `struct ibv_context`: a device that is open.
#[repr(C)]
pub(super) struct Context {
    pub(super) device: *mut Device,
    pub(super) ops: ContextOps,
}

/// `struct ibv_device`.
#[repr(C)]
pub(super) struct Device {
    unused_operations: [*const c_void; 2],
    unused_node_type: c_int,
    pub(super) transport_type: c_int,
}

/// `IBV_TRANSPORT_IWARP`.
pub(super) const TRANSPORT_IWARP: c_int = 1;

/// `struct ibv_device_attr`.
#[repr(C)]
pub(super) struct DeviceAttributes {
    unused_before_wr: [u64; 14],
    pub(super) max_qp_wr: c_int,
    pub(super) device_cap_flags: c_uint,
    unused_before_reads: [c_int; 6],
    /// RDMA Reads that a queue pair serves at a time.
    pub(super) max_qp_rd_atom: c_int,
    unused_between_reads: [c_int; 2],
    /// RDMA Reads that a queue pair has under way at a time.
    pub(super) max_qp_init_rd_atom: c_int,
    unused_behind: [u64; 9],
}

/// `IBV_DEVICE_MEM_MGT_EXTENSIONS`: Send with Invalidate is among what that bit stands for.
pub(super) const MEMORY_MANAGEMENT_EXTENSIONS: c_uint = 1 << 21;

/// `struct ibv_pd`, which is never looked into.
#[repr(C)]
pub(super) struct ProtectionDomain {
    unused: [u8; 0],
}

/// `struct ibv_mr`.
#[repr(C)]
pub(super) struct MemoryRegion {
    unused: [*const c_void; 4],
    unused_handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// `IBV_ACCESS_LOCAL_WRITE`.
pub(super) const ACCESS_LOCAL_WRITE: c_int = 1;
/// `IBV_ACCESS_REMOTE_WRITE`.
pub(super) const ACCESS_REMOTE_WRITE: c_int = 1 << 1;
/// `IBV_ACCESS_REMOTE_READ`.
pub(super) const ACCESS_REMOTE_READ: c_int = 1 << 2;

/// `struct ibv_comp_channel`.
#[repr(C)]
pub(super) struct CompletionChannel {
    unused_context: *const c_void,
    pub(super) fd: c_int,
}

/// `struct ibv_cq`.
#[repr(C)]
pub(super) struct CompletionQueue {
    pub(super) context: *mut Context,
    unused_channel: *const c_void,
    pub(super) cq_context: *mut c_void,
}

/// `struct ibv_qp`.
#[repr(C)]
pub(super) struct QueuePair {
    pub(super) context: *mut Context,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "the names are C's")]
pub(super) struct QueuePairCapacity {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct QueuePairAttributes {
    pub(super) qp_context: *mut c_void,
    pub(super) send_cq: *mut CompletionQueue,
    pub(super) recv_cq: *mut CompletionQueue,
    pub(super) srq: *mut c_void,
    pub(super) cap: QueuePairCapacity,
    pub(super) qp_type: c_int,
    pub(super) sq_sig_all: c_int,
}

/// `IBV_QPT_RC`: reliable and connected.
pub(super) const QUEUE_PAIR_RC: c_int = 2;

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ScatterGather {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// `struct ibv_send_wr`, with the member `rdma` of its first union.
#[repr(C)]
pub(super) struct SendRequest {
    pub(super) wr_id: u64,
    pub(super) next: *mut SendRequest,
    pub(super) sg_list: *mut ScatterGather,
    pub(super) num_sge: c_int,
    pub(super) opcode: c_int,
    pub(super) send_flags: c_uint,
    pub(super) invalidate_rkey: u32,
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
    pub(super) unused: [u64; 9],
}

/// `IBV_WR_RDMA_WRITE`.
pub(super) const WORK_RDMA_WRITE: c_int = 0;
/// `IBV_WR_SEND`.
pub(super) const WORK_SEND: c_int = 2;
/// `IBV_WR_RDMA_READ`.
pub(super) const WORK_RDMA_READ: c_int = 4;
/// `IBV_WR_SEND_WITH_INV`.
pub(super) const WORK_SEND_WITH_INVALIDATE: c_int = 9;
/// `IBV_SEND_SIGNALED`.
pub(super) const SEND_SIGNALED: c_uint = 1 << 1;

/// `struct ibv_recv_wr`.
#[repr(C)]
pub(super) struct ReceiveRequest {
    pub(super) wr_id: u64,
    pub(super) next: *mut ReceiveRequest,
    pub(super) sg_list: *mut ScatterGather,
    pub(super) num_sge: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct WorkCompletion {
    pub(super) wr_id: u64,
    pub(super) status: c_int,
    pub(super) opcode: c_int,
    pub(super) vendor_err: u32,
    pub(super) byte_len: u32,
    pub(super) invalidated_rkey: u32,
    pub(super) qp_num: u32,
    pub(super) src_qp: u32,
    pub(super) wc_flags: c_uint,
    pub(super) unused: [u16; 4],
}

/// `IBV_WC_WITH_INV`.
pub(super) const COMPLETION_WITH_INVALIDATE: c_uint = 1 << 3;

/// `struct rdma_event_channel`.
#[repr(C)]
pub(super) struct EventChannel {
    pub(super) fd: c_int,
}

/// `struct rdma_cm_id`.
#[repr(C)]
pub(super) struct CmId {
    pub(super) verbs: *mut Context,
    unused_channel: *const c_void,
    unused_context: *const c_void,
    pub(super) qp: *mut QueuePair,
    pub(super) src_addr: libc::sockaddr_storage,
    pub(super) dst_addr: libc::sockaddr_storage,
}

/// `RDMA_PS_TCP`: the port space of reliable connections.
pub(super) const PORT_SPACE_TCP: c_int = 0x0106;

/// `struct rdma_conn_param`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ConnectionParameters {
    pub(super) private_data: *const c_void,
    pub(super) private_data_len: u8,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) srq: u8,
    pub(super) qp_num: u32,
}

/// `struct rdma_cm_event`, with the member `conn` of its union.
#[repr(C)]
pub(super) struct CmEvent {
    pub(super) id: *mut CmId,
    pub(super) listen_id: *mut CmId,
    pub(super) event: c_int,
    pub(super) status: c_int,
    pub(super) conn: ConnectionParameters,
}

/// Asserts where fields are, and how long a structure is that this side allocates.
macro_rules! layout {
    ($name:ident $(($size:literal))? { $($field:ident: $offset:literal),* $(,)? }) => {
        $(assert!(size_of::<$name>() == $size);)?
        $(assert!(offset_of!($name, $field) == $offset);)*
    };
}

// The figures of rdma-core 44 on a machine of 64 bits.
const _: () = {
    layout!(ContextOps (256) { poll_cq: 88, req_notify_cq: 96, post_send: 200, post_recv: 208 });
    layout!(Context { device: 0, ops: 8 });
    layout!(Device { transport_type: 20 });
    layout!(DeviceAttributes (232) {
        max_qp_wr: 112,
        device_cap_flags: 116,
        max_qp_rd_atom: 144,
        max_qp_init_rd_atom: 156,
    });
    layout!(MemoryRegion { lkey: 36, rkey: 40 });
    layout!(CompletionChannel { fd: 8 });
    layout!(CompletionQueue { context: 0, cq_context: 16 });
    layout!(QueuePair { context: 0 });
    layout!(QueuePairCapacity (20) {
        max_send_wr: 0,
        max_recv_wr: 4,
        max_send_sge: 8,
        max_recv_sge: 12,
        max_inline_data: 16,
    });
    layout!(QueuePairAttributes (64) {
        qp_context: 0,
        send_cq: 8,
        recv_cq: 16,
        srq: 24,
        cap: 32,
        qp_type: 52,
        sq_sig_all: 56,
    });
    layout!(ScatterGather (16) { addr: 0, length: 8, lkey: 12 });
    layout!(SendRequest (128) {
        wr_id: 0,
        next: 8,
        sg_list: 16,
        num_sge: 24,
        opcode: 28,
        send_flags: 32,
        invalidate_rkey: 36,
        remote_addr: 40,
        rkey: 48,
    });
    layout!(ReceiveRequest (32) { wr_id: 0, next: 8, sg_list: 16, num_sge: 24 });
    layout!(WorkCompletion (48) {
        wr_id: 0,
        status: 8,
        opcode: 12,
        vendor_err: 16,
        byte_len: 20,
        invalidated_rkey: 24,
        qp_num: 28,
        src_qp: 32,
        wc_flags: 36,
    });
    layout!(EventChannel { fd: 0 });
    layout!(CmId { verbs: 0, qp: 24, src_addr: 32, dst_addr: 160 });
    layout!(ConnectionParameters (24) {
        private_data: 0,
        private_data_len: 8,
        responder_resources: 9,
        initiator_depth: 10,
        flow_control: 11,
        retry_count: 12,
        rnr_retry_count: 13,
        srq: 14,
        qp_num: 16,
    });
    layout!(CmEvent { id: 0, listen_id: 8, event: 16, status: 20, conn: 24 });
};
