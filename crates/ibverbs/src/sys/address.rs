//! Addresses as C has them.

use std::mem::{self, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An address, as a structure of C with room for each family.
pub(super) fn to_c(address: SocketAddr) -> libc::sockaddr_storage {
    // SAFETY: the structure has integers alone, for which zero is a value.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let place = &raw mut storage;
    match address {
        SocketAddr::V4(address) => {
            let plain = libc::sockaddr_in {
                sin_family: family(libc::AF_INET),
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a storage has room for every family's structure, and its alignment.
            unsafe { place.cast::<libc::sockaddr_in>().write(plain) };
        }
        SocketAddr::V6(address) => {
            let plain = libc::sockaddr_in6 {
                sin6_family: family(libc::AF_INET6),
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { place.cast::<libc::sockaddr_in6>().write(plain) };
        }
    }
    storage
}

/// An address of C's; nothing if it is of another family than the internet's.
pub(super) fn from_c(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    const { assert!(size_of::<libc::sockaddr_in6>() <= size_of::<libc::sockaddr_storage>()) };
    let place: *const libc::sockaddr_storage = storage;
    if storage.ss_family == family(libc::AF_INET) {
        // SAFETY: the family says which structure is in the storage; any bytes are one.
        let plain = unsafe { place.cast::<libc::sockaddr_in>().read() };
        let ip = Ipv4Addr::from(plain.sin_addr.s_addr.to_ne_bytes());
        return Some(SocketAddrV4::new(ip, u16::from_be(plain.sin_port)).into());
    }
    if storage.ss_family == family(libc::AF_INET6) {
        // SAFETY: as above.
        let plain = unsafe { place.cast::<libc::sockaddr_in6>().read() };
        let ip = Ipv6Addr::from(plain.sin6_addr.s6_addr);
        let port = u16::from_be(plain.sin6_port);
        return Some(SocketAddrV6::new(ip, port, plain.sin6_flowinfo, plain.sin6_scope_id).into());
    }
    None
}

fn family(number: libc::c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(number).unwrap_or_default()
}

/// Where a listener is bound that has no address of its own: nowhere.
pub(super) fn unknown() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_were() {
        for text in ["192.0.2.7:4420", "[2001:db8::7]:3260", "[fe80::1%3]:1", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(from_c(&to_c(address)), Some(address));
        }
        // SAFETY: zero is a value of each field, and stands for no family.
        let none: libc::sockaddr_storage = unsafe { mem::zeroed() };
        assert_eq!(from_c(&none), None);
    }
}
