//! Logins that are sent elsewhere (RFC 7143 §11.13.5, status class 1).
//!
//! A target that is "moved temporarily" is at another portal for this session; the next one begins where the user said. One
//! that is "moved permanently" is looked for at its new place from then on. Each login follows a few moves and no more: two
//! portals may send to each other.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use super::link::{Link, Stage};
use crate::limits::REDIRECTS;

/// The port of an address that names none (RFC 7143 §13.8).
use names::ISCSI_PORT;

/// Where a target says that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    /// As the target wrote it.
    pub(super) address: String,
    pub(super) permanently: bool,
}

/// Where a connection puts what it was told.
pub(super) type RedirectSlot = Rc<RefCell<Option<Redirect>>>;

/// One login, over as many connections as it takes.
pub(super) struct RedirectFollower {
    link: Rc<Link>,
    told: RedirectSlot,
    moves: u32,
    /// Why it cannot be followed, if so.
    lost: Option<String>,
}

impl RedirectFollower {
    /// A login whose first connection is `link`, which puts into `told` where the target is instead.
    pub(super) fn new(link: Rc<Link>, told: RedirectSlot) -> Self {
        Self { link, told, moves: 0, lost: None }
    }

    /// The connection of now.
    pub(super) fn link(&self) -> &Rc<Link> {
        &self.link
    }

    /// How far the login is, after it has gone wherever it was sent by `connect`.
    pub(super) fn stage(&mut self, connect: impl FnOnce(SocketAddr, bool) -> Rc<Link>) -> Stage {
        if let Some(why) = &self.lost {
            return Stage::Failed(why.clone());
        }
        let stage = self.link.stage();
        let Stage::Failed(refusal) = &stage else { return stage };
        let Some(moved) = self.told.take() else { return stage };
        self.moves += 1;
        if self.moves > REDIRECTS {
            let why =
                format!("the target has sent us elsewhere {REDIRECTS} times, at last to {}", moved.address);
            return self.lose(why);
        }
        let Some(address) = read(&moved.address) else {
            let why = format!("{refusal}, which is a name: give that portal in the URL instead");
            return self.lose(why);
        };
        self.link = connect(address, moved.permanently);
        self.link.stage()
    }

    fn lose(&mut self, why: String) -> Stage {
        self.lost = Some(why.clone());
        Stage::Failed(why)
    }
}

/// Reads a TargetAddress (RFC 7143 §13.8): `address[:port][,portal-group-tag]`; `None` for names of machines.
fn read(text: &str) -> Option<SocketAddr> {
    let place = text.split_once(',').map_or(text, |(place, _)| place);
    if let Ok(address) = place.parse::<SocketAddr>() {
        return Some(address);
    }
    let bare = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(place);
    bare.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, ISCSI_PORT))
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn addresses_are_read_as_targets_write_them() {
        for (text, expected) in [
            ("192.0.2.1:860,1", Some("192.0.2.1:860")),
            ("192.0.2.1", Some("192.0.2.1:3260")),
            ("[2001:db8::1]:3261,2", Some("[2001:db8::1]:3261")),
            ("[2001:db8::1],2", Some("[2001:db8::1]:3260")),
            ("storage.example:3260,1", None),
            ("", None),
        ] {
            assert_eq!(read(text), expected.map(|text| text.parse().unwrap()), "{text}");
        }
    }

    /// A follower that was refused, and told of that place if there is one.
    fn refused(follower: &mut RedirectFollower, address: Option<&str>) {
        follower.link.fail("login refused: the target has moved".to_owned());
        let moved = |address: &str| Redirect { address: address.to_owned(), permanently: false };
        *follower.told.borrow_mut() = address.map(moved);
    }

    fn follower() -> RedirectFollower {
        RedirectFollower::new(Link::new(Waker::noop().clone()), RedirectSlot::default())
    }

    #[test]
    fn a_login_goes_where_it_is_sent_but_not_for_ever() {
        let mut follower = follower();
        for number in 0..REDIRECTS {
            refused(&mut follower, Some("192.0.2.7:3261,1"));
            let stage = follower.stage(|address, _| {
                assert_eq!(address.to_string(), "192.0.2.7:3261");
                Link::new(Waker::noop().clone())
            });
            assert_eq!(stage, Stage::Opening, "move {number}");
        }
        refused(&mut follower, Some("192.0.2.8"));
        let stage = follower.stage(|_, _| panic!("it is to end"));
        assert!(matches!(&stage, Stage::Failed(why) if why.contains("elsewhere")), "{stage:?}");
        assert_eq!(follower.stage(|_, _| panic!("it has ended")), stage);
    }

    #[test]
    fn a_refusal_without_another_place_is_one() {
        let mut one = follower();
        refused(&mut one, None);
        assert!(matches!(one.stage(|_, _| panic!("where to?")), Stage::Failed(_)));
        let mut other = follower();
        refused(&mut other, Some("storage.example:3260"));
        let stage = other.stage(|_, _| panic!("where to?"));
        assert!(matches!(&stage, Stage::Failed(why) if why.contains("is a name")), "{stage:?}");
    }
}
