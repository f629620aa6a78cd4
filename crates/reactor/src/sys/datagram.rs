//! Datagrams with segmentation offload: many of one length in one call (`UDP_SEGMENT`, `UDP_GRO` of udp(7)).

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use host::{Datagrams, SlotField, SocketSlot};
use socket2::{SockAddr, SockAddrStorage};

use super::{empty_message, outcome};

/// Bytes of control data, more than the kernel has to say.
const CONTROL: usize = 64;

/// `BPF_LD | BPF_W | BPF_ABS`: loads the four bytes at the offset that the operand names (`linux/bpf_common.h`).
const LOAD_WORD: u16 = 0x20;
/// `BPF_ALU | BPF_AND | BPF_K`: keeps the bits of the operand.
const AND: u16 = 0x54;
/// `BPF_JMP | BPF_JEQ | BPF_K`: goes on behind so many instructions, by whether it is the operand.
const JUMP_IF_EQUAL: u16 = 0x15;
/// `BPF_RET | BPF_K`: answers the operand.
const RETURN_OPERAND: u16 = 0x06;
/// `BPF_RET | BPF_A`: answers what was loaded.
const RETURN_LOADED: u16 = 0x16;

/// Control data, where a `cmsghdr` may begin.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// What one call has received: its length is that of all datagrams together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    pub(crate) length: usize,
    pub(crate) segment: usize,
    pub(crate) peer: SocketAddr,
}

/// Sets an option of a socket that is a number.
pub(crate) fn set_number(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let size = wire::bounded::<u32>(size_of::<libc::c_int>());
    // SAFETY: the option's value is the integer that is named, of the size that is named.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(&value).cast(), size)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel choose among the sockets that share an address: a field of the datagram names one, counted from zero in the order in which they were bound; what names none goes to
/// `usual`. By a number that none has, and without the field, the kernel chooses by its own hash or takes the first. The last call holds.
pub(crate) fn choose_by_field(socket: BorrowedFd<'_>, field: SlotField, usual: SocketSlot) -> io::Result<()> {
    let instruction = |code, operand| libc::sock_filter { code, jt: 0, jf: 0, k: operand };
    let mut program = [
        instruction(LOAD_WORD, u32::from(field.offset).saturating_sub(1)),
        instruction(AND, 0x00ff_ffff),
        libc::sock_filter { jf: 1, ..instruction(JUMP_IF_EQUAL, field.unnamed) },
        instruction(RETURN_OPERAND, usual.0.into()),
        instruction(AND, 0xff),
        instruction(RETURN_LOADED, 0),
    ];
    let program = libc::sock_fprog { len: wire::bounded(program.len()), filter: program.as_mut_ptr() };
    let size = wire::bounded::<u32>(size_of::<libc::sock_fprog>());
    // SAFETY: the option's value is a program of the length that is named; it lives until the call returns, and the kernel copies it.
    let result = unsafe {
        let (level, option) = (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF);
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const program).cast(), size)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An option of a socket that is a number.
pub(crate) fn number(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut size = wire::bounded::<u32>(size_of::<libc::c_int>());
    // SAFETY: the kernel writes at most `size` bytes, which are those of the integer.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut size)
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Sends datagrams without waiting: all or none.
pub(crate) fn send_now(socket: BorrowedFd<'_>, datagrams: &Datagrams<'_>) -> io::Result<()> {
    let address = SockAddr::from(datagrams.peer);
    let mut vector =
        libc::iovec { iov_base: datagrams.bytes.as_ptr().cast_mut().cast(), iov_len: datagrams.bytes.len() };
    let mut control = Control([0; CONTROL]);
    let mut message = empty_message();
    message.msg_name = address.as_ptr().cast_mut().cast();
    message.msg_namelen = address.len();
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    if datagrams.bytes.len() > datagrams.segment {
        let size = wire::bounded::<u32>(size_of::<u16>());
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: these only compute lengths.
        let (space, length) = unsafe { (libc::CMSG_SPACE(size), libc::CMSG_LEN(size)) };
        message.msg_controllen = wire::index(space.into());
        // SAFETY: the control data is aligned for a header, and longer than a header with two bytes.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_UDP;
            (*header).cmsg_type = libc::UDP_SEGMENT;
            (*header).cmsg_len = wire::index(length.into());
            libc::CMSG_DATA(header).cast::<u16>().write_unaligned(wire::bounded(datagrams.segment));
        }
    }
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: address, vector and control data live until the call returns, and the kernel only reads them.
    outcome(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) }).map(drop)
}

/// Receives datagrams of one sender into `area`, without waiting.
pub(crate) fn receive_now(socket: BorrowedFd<'_>, area: &mut [u8]) -> io::Result<Arrived> {
    let mut storage = SockAddrStorage::zeroed();
    let mut vector = libc::iovec { iov_base: area.as_mut_ptr().cast(), iov_len: area.len() };
    let mut control = Control([0; CONTROL]);
    let mut message = empty_message();
    message.msg_name = std::ptr::from_mut(&mut storage).cast();
    message.msg_namelen = storage.size_of();
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL;
    // SAFETY: storage, area and control data are writable, live until the call returns, and are as long as the message says.
    let length = outcome(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) })?;
    // SAFETY: the kernel has written an address of this length.
    let address = unsafe { SockAddr::new(storage, message.msg_namelen) };
    let peer = address.as_socket().ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
    let segment = segment(&message).filter(|segment| *segment > 0).unwrap_or(length);
    Ok(Arrived { length, segment, peer })
}

/// Bytes of each datagram, if there are several.
fn segment(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: the message's control data is what the kernel has written, and is still there.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(std::ptr::from_ref(message)) };
    while !header.is_null() {
        // SAFETY: the header lies within the control data.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if (level, kind) == (libc::SOL_UDP, libc::UDP_GRO) {
            // SAFETY: such a message's data is an integer.
            let bytes = unsafe { libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned() };
            return usize::try_from(bytes).ok();
        }
        // SAFETY: both are what they were above.
        header = unsafe { libc::CMSG_NXTHDR(std::ptr::from_ref(message), header) };
    }
    None
}

const _: () = assert!(mem::align_of::<Control>() >= mem::align_of::<libc::cmsghdr>());
