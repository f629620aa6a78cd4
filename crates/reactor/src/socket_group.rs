//! Sockets of this process at one address: one for each event loop that needs it, to each of which the kernel gives what it is for.
//!
//! Some protocols have one port of UDP for all that a machine says and hears, so that several event loops have to share it. The first socket of a group is bound alone, so
//! that the address is this process's; the others join it (`SO_REUSEPORT` of socket(7)). A program of six instructions has the kernel choose: a datagram names the slot of
//! its socket, or none, and goes to the first that is used. What a network card has put together goes by its first datagram. So an event loop forwards what is not its own.
//!
//! The kernel moves the last socket of a group into the place of one that closes. So none closes before all are unused, and an event loop that comes takes one that another
//! has left.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use host::{Datagrams, Membership, SlotField, SocketGroup, SocketSlot};

use crate::datagram_socket::{self, Sharing};
use crate::limits::FORWARDED;
use crate::sys::choose_by_field;

/// The groups of this process that have a member.
static GROUPS: Mutex<BTreeMap<SocketAddr, Arc<Group>>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Datagrams that came to another socket than the one that they are for.
#[derive(Debug)]
struct Forwarded {
    peer: SocketAddr,
    bytes: Box<[u8]>,
    segment: usize,
}

impl Forwarded {
    /// Bytes that it takes while it waits.
    fn cost(length: usize) -> usize {
        length.saturating_add(size_of::<Self>())
    }
}

/// What is kept for the event loop that has a socket.
#[derive(Debug, Default)]
struct Mailbox {
    forwarded: Vec<Forwarded>,
    /// Bytes that those take.
    bytes: usize,
    /// Lets the socket's endpoint have a turn; none while nobody has the socket.
    reader: Option<Waker>,
}

/// What other event loops leave for the one that has a socket.
#[derive(Debug, Default)]
struct Mail {
    is_there: AtomicBool,
    mailbox: Mutex<Mailbox>,
}

/// A slot of a group, with its socket.
#[derive(Debug)]
struct Slot {
    descriptor: OwnedFd,
    is_used: bool,
    mail: Arc<Mail>,
}

impl Slot {
    fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor, is_used: true, mail: Arc::default() }
    }
}

/// The sockets at an address.
#[derive(Debug)]
pub(crate) struct Group {
    local: SocketAddr,
    /// None any more once all are unused.
    slots: Mutex<Vec<Slot>>,
    field: SlotField,
    /// Slots that decide about newcomers, in order.
    acceptors: Mutex<Vec<SocketSlot>>,
}

impl Group {
    /// Takes a slot: one that is unused, or a new one.
    fn take(self: &Arc<Self>) -> io::Result<Member> {
        let mut slots = lock(&self.slots);
        let index = slots.iter().position(|slot| !slot.is_used).unwrap_or(slots.len());
        let number = u8::try_from(index).map_err(|_| io::Error::from_raw_os_error(libc::EMFILE))?;
        if index == slots.len() {
            let socket = datagram_socket::bind(self.local, Sharing::Joins)?;
            slots.push(Slot::new(socket));
        }
        let slot = slots.get_mut(index).ok_or(io::ErrorKind::NotFound)?;
        slot.is_used = true;
        let mail = Arc::clone(&slot.mail);
        if let Err(error) = self.choose(&slots) {
            if let Some(slot) = slots.get_mut(index) {
                slot.is_used = false;
            }
            return Err(error);
        }
        Ok(Member { group: Arc::clone(self), number: SocketSlot(number), mail })
    }

    /// Tells the kernel which socket takes what names none. A socket that is alone takes everything.
    fn choose(&self, slots: &[Slot]) -> io::Result<()> {
        let usual = slots.iter().position(|slot| slot.is_used).and_then(|index| u8::try_from(index).ok());
        match (slots, usual) {
            ([first, _, ..], Some(usual)) => {
                choose_by_field(first.descriptor.as_fd(), self.field, SocketSlot(usual))
            }
            _ => Ok(()),
        }
    }

    /// Leaves a slot; all sockets close with the last.
    fn leave(&self, number: SocketSlot) {
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get_mut(usize::from(number.0)) {
            slot.is_used = false;
        }
        if !slots.iter().any(|slot| slot.is_used) {
            return slots.clear();
        }
        // What it did before still works, but for what names none.
        let _ = self.choose(&slots);
    }
}

impl SocketGroup for Group {
    fn acceptor(&self, key: u32) -> Option<SocketSlot> {
        let acceptors = lock(&self.acceptors);
        let count = u32::try_from(acceptors.len()).ok()?;
        let index = usize::try_from(key.checked_rem(count)?).ok()?;
        acceptors.get(index).copied()
    }

    fn forward(&self, to: SocketSlot, datagrams: &Datagrams<'_>) {
        let mail = lock(&self.slots).get(usize::from(to.0)).map(|slot| Arc::clone(&slot.mail));
        let Some(mail) = mail else { return };
        let mut mailbox = lock(&mail.mailbox);
        let Some(reader) = mailbox.reader.clone() else { return };
        let Datagrams { peer, bytes, segment } = *datagrams;
        let held = mailbox.bytes.saturating_add(Forwarded::cost(bytes.len()));
        if held <= FORWARDED {
            mailbox.bytes = held;
            mailbox.forwarded.push(Forwarded { peer, bytes: bytes.into(), segment });
            mail.is_there.store(true, Ordering::Release);
        }
        drop(mailbox);
        reader.wake();
    }
}

/// A socket of a group, for as long as it is used.
#[derive(Debug)]
pub(crate) struct Member {
    group: Arc<Group>,
    number: SocketSlot,
    mail: Arc<Mail>,
}

impl Member {
    /// The first socket at an address, or another one; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is another process's, or none of this machine's, or 256 sockets of this process have it.
    pub(crate) fn bind(address: SocketAddr, field: SlotField) -> io::Result<Self> {
        let mut groups = lock(&GROUPS);
        if let Some(group) = groups.get(&address) {
            return group.take();
        }
        let socket = datagram_socket::bind(address, Sharing::Begins)?;
        let local = datagram_socket::local(socket.as_fd())?;
        let slot = Slot::new(socket);
        let mail = Arc::clone(&slot.mail);
        let group =
            Arc::new(Group { local, slots: Mutex::new(vec![slot]), field, acceptors: Mutex::default() });
        groups.insert(local, Arc::clone(&group));
        Ok(Self { group, number: SocketSlot(0), mail })
    }

    /// The address.
    pub(crate) fn local(&self) -> SocketAddr {
        self.group.local
    }

    /// What an endpoint knows of it.
    pub(crate) fn membership(&self) -> Membership {
        let group = Arc::clone(&self.group);
        Membership { slot: self.number, group }
    }

    /// The socket, for a driver.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        let slots = lock(&self.group.slots);
        slots.get(usize::from(self.number.0)).ok_or(io::ErrorKind::NotFound)?.descriptor.try_clone()
    }

    /// Whoever is woken takes what is forwarded.
    pub(crate) fn set_reader(&self, reader: Waker) {
        lock(&self.mail.mailbox).reader = Some(reader);
    }

    /// It decides about newcomers.
    pub(crate) fn begin_accepting(&self) {
        let mut acceptors = lock(&self.group.acceptors);
        if let Err(index) = acceptors.binary_search(&self.number) {
            acceptors.insert(index, self.number);
        }
    }

    /// It does so no more.
    pub(crate) fn stop_accepting(&self) {
        lock(&self.group.acceptors).retain(|slot| *slot != self.number);
    }

    /// Gives what was forwarded to `handle`.
    pub(crate) fn take_forwarded(&self, mut handle: impl FnMut(&Datagrams<'_>)) {
        if !self.mail.is_there.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut mailbox = lock(&self.mail.mailbox);
        mailbox.bytes = 0;
        let forwarded = std::mem::take(&mut mailbox.forwarded);
        drop(mailbox);
        for Forwarded { peer, bytes, segment } in &forwarded {
            handle(&Datagrams { peer: *peer, bytes, segment: *segment });
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut groups = lock(&GROUPS);
        self.stop_accepting();
        *lock(&self.mail.mailbox) = Mailbox::default();
        self.group.leave(self.number);
        if lock(&self.group.slots).is_empty() {
            groups.remove(&self.group.local);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    const FIELD: SlotField = SlotField { offset: 1, unnamed: 1 };

    fn member(address: SocketAddr) -> Member {
        Member::bind(address, FIELD).unwrap()
    }

    fn alone() -> Member {
        member("127.0.0.1:0".parse().unwrap())
    }

    /// What has come to a member's socket.
    fn arrived(member: &Member) -> Vec<Vec<u8>> {
        let (mut area, socket) = ([0; 100], member.descriptor().unwrap());
        let mut found = Vec::new();
        while let Ok(arrived) = crate::sys::receive_now(socket.as_fd(), &mut area) {
            found.push(area[..arrived.length].to_vec());
        }
        found
    }

    #[test]
    fn a_datagram_comes_to_the_socket_that_it_names() {
        let first = alone();
        let address = first.local();
        let members = [first, member(address), member(address)];
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        for round in 0..10 {
            for slot in [2, 0, 1] {
                peer.send_to(&[7, 9, 9, slot, round], address).unwrap();
            }
        }
        for (slot, member) in (0..).zip(&members) {
            let expected: Vec<_> = (0..10).map(|round| vec![7, 9, 9, slot, round]).collect();
            assert_eq!(arrived(member), expected, "slot {slot}");
        }
        peer.send_to(&[7, 9, 9, 77], address).unwrap();
        let found: usize = members.iter().map(|member| arrived(member).len()).sum();
        assert_eq!(found, 1, "that of one that is not there comes to any");
    }

    #[test]
    fn what_names_no_socket_comes_to_one_that_is_used() {
        let first = alone();
        let address = first.local();
        let (second, third) = (member(address), member(address));
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let send = || assert_eq!(peer.send_to(&[7, 0, 0, 1], address).unwrap(), 4);
        send();
        assert_eq!(arrived(&first).len(), 1);
        drop(first);
        send();
        assert_eq!(arrived(&second).len(), 1);
        drop(second);
        send();
        assert_eq!(arrived(&third).len(), 1);
        let first = member(address);
        send();
        assert_eq!([arrived(&first).len(), arrived(&third).len()], [1, 0]);
    }

    #[test]
    fn an_address_is_one_processes() {
        let group = [alone()];
        let address = group[0].local();
        let sockets = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        let other = sockets();
        let refused = other.bind(&address.into()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        // As another process of ours binds its first.
        let refused = datagram_socket::bind(address, Sharing::Begins).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(group);
        other.bind(&address.into()).unwrap();
        assert_eq!(Member::bind(address, FIELD).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_socket_that_is_left_stays_in_its_place_and_is_used_again() {
        let first = alone();
        let address = first.local();
        let (second, third) = (member(address), member(address));
        drop(first);
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.send_to(&[0, 0, 9, 1], address).unwrap();
        peer.send_to(&[0, 0, 9, 2], address).unwrap();
        assert_eq!([arrived(&second), arrived(&third)], [[[0, 0, 9, 1]], [[0, 0, 9, 2]]]);
        assert_eq!(member(address).number, SocketSlot(0));
        drop((second, third));
        drop(UdpSocket::bind(address).expect("nobody has it"));
    }

    #[test]
    fn what_is_forwarded_is_bounded_and_reaches_only_those_who_are_there() {
        let first = alone();
        let second = member(first.local());
        let peer = "10.0.0.1:5".parse().unwrap();
        let bytes = vec![1; 60_000];
        let datagrams = Datagrams { peer, bytes: &bytes, segment: 1_000 };
        let most = FORWARDED / Forwarded::cost(bytes.len());
        let group = first.membership().group;
        group.forward(SocketSlot(1), &datagrams);
        second.take_forwarded(|_| panic!("nobody read it then"));
        second.set_reader(Waker::noop().clone());
        for _ in 0..most + 5 {
            group.forward(SocketSlot(1), &datagrams);
        }
        group.forward(SocketSlot(9), &datagrams);
        let mut count = 0;
        second.take_forwarded(|forwarded| {
            assert_eq!(*forwarded, datagrams);
            count += 1;
        });
        assert_eq!(count, most);
        second.take_forwarded(|_| panic!("it was taken"));
        group.forward(SocketSlot(1), &datagrams);
        second.take_forwarded(|forwarded| assert_eq!(*forwarded, datagrams, "there is room again"));
    }

    #[test]
    fn newcomers_are_spread_over_those_who_decide_about_them() {
        let first = alone();
        let (second, third) = (member(first.local()), member(first.local()));
        let group = first.membership().group;
        assert_eq!(group.acceptor(5), None);
        third.begin_accepting();
        second.begin_accepting();
        let found: Vec<_> = (4..8).filter_map(|key| group.acceptor(key)).map(|slot| slot.0).collect();
        assert_eq!(found, [1, 2, 1, 2]);
        second.stop_accepting();
        assert_eq!(group.acceptor(4), Some(SocketSlot(2)));
        drop(third);
        assert_eq!(group.acceptor(4), None);
    }
}
