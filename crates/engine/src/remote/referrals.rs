//! A discovery that goes from one NVMe discovery service to those that it refers to (NVMe Base §3.1.3.3, §5.1.12.3.1).
//!
//! Services may refer to each other, in a circle too. Each address is asked once, no deeper than [`REFERRAL_DEPTH`], and no more
//! than [`REFERRALS`] in all. What was not asked, or did not answer, is told as such; only the first service must answer.

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use ::nvme::host::Queue;
use ::nvme::log::{DiscoveryEntry, SubsystemType};
use ::volume::OpenError;

use super::client::{Hooks, Owner};
use super::link::Link;
use super::nvme_plan::{Info, Plan};
use super::waiting::{Found, Place};
use crate::limits::{REFERRAL_DEPTH, REFERRALS};

/// A service that is to be asked, or is being asked.
#[derive(Debug, Clone)]
struct Service {
    address: SocketAddr,
    /// How many referrals led there.
    depth: usize,
    name: String,
}

/// An answer that is awaited.
struct Asked {
    service: Service,
    link: Rc<Link>,
    answer: Place<Vec<DiscoveryEntry>>,
    /// Keeps the connection.
    _purpose: Arc<()>,
}

/// A walk of discovery services, one after the other.
pub(super) struct ReferralWalk {
    plan: Plan,
    ahead: VecDeque<Service>,
    asked: Option<Asked>,
    /// Addresses that were asked, or will be.
    known: HashSet<SocketAddr>,
    found: Vec<Found>,
}

impl ReferralWalk {
    /// A walk that begins at the plan's address.
    pub(super) fn new(plan: Plan) -> Self {
        let first = Service { address: plan.address(), depth: 0, name: ::nvme::DISCOVERY_NQN.to_owned() };
        let known = HashSet::from([first.address]);
        Self { plan, ahead: VecDeque::from([first]), asked: None, known, found: Vec::new() }
    }

    /// Everything that was found, once there is nobody left to ask.
    pub(super) fn poll(&mut self) -> Option<Result<Vec<Found>, OpenError>> {
        loop {
            let Some(asked) = &self.asked else {
                let Some(service) = self.ahead.pop_front() else {
                    return Some(Ok(std::mem::take(&mut self.found)));
                };
                self.asked = Some(self.ask(service));
                continue;
            };
            let depth = asked.service.depth;
            let answer = asked.answer.borrow_mut().take();
            if let Some(entries) = answer {
                self.asked = None;
                for entry in entries {
                    self.take(entry, depth);
                }
                continue;
            }
            let why = asked.link.failure()?;
            if depth == 0 {
                return Some(Err(OpenError::new(why)));
            }
            let service = asked.service.clone();
            self.asked = None;
            self.skip(service, why);
        }
    }

    fn ask(&self, service: Service) -> Asked {
        let answer: Place<Vec<DiscoveryEntry>> = Rc::default();
        let place = Rc::clone(&answer);
        let tell = Box::new(move |info, _: &Link| {
            if let Info::Subsystems(entries) = info {
                *place.borrow_mut() = Some(entries);
            }
        });
        let purpose = Arc::new(());
        let plan = self.plan.at(service.address);
        let owner = Owner { waker: self.plan.waker(), purpose: Arc::clone(&purpose) };
        let link = plan.connect(Queue::Discovery, owner, Hooks { tell, turn: None });
        Asked { service, link, answer, _purpose: purpose }
    }

    /// Takes an entry of a service that so many referrals led to.
    fn take(&mut self, entry: DiscoveryEntry, depth: usize) {
        let DiscoveryEntry { kind, subnqn: name, address, .. } = entry;
        if kind != SubsystemType::Referral {
            let found = Found { name, address: address.to_string(), error: None };
            if !self.found.contains(&found) {
                self.found.push(found);
            }
            return;
        }
        if self.known.contains(&address) {
            return;
        }
        let service = Service { address, depth: depth + 1, name };
        if service.depth > REFERRAL_DEPTH {
            return self.skip(service, format!("it is more than {REFERRAL_DEPTH} referrals away"));
        }
        if self.known.len() > REFERRALS {
            return self.skip(service, format!("there are more than {REFERRALS} referrals"));
        }
        self.known.insert(address);
        self.ahead.push_back(service);
    }

    /// Tells of a service that gave no answer.
    fn skip(&mut self, service: Service, why: String) {
        let found = Found { name: service.name, address: service.address.to_string(), error: Some(why) };
        if !self.found.contains(&found) {
            self.found.push(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::client_context::ClientContext;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn entry(kind: SubsystemType, port: u16) -> DiscoveryEntry {
        DiscoveryEntry {
            transport: ::nvme::log::TransportType::Tcp,
            kind,
            subnqn: format!("nqn.2026-11.org.example:{port}"),
            address: address(port),
            portid: 1,
        }
    }

    fn walk() -> ReferralWalk {
        let options = names::NvmeOptions::default();
        ReferralWalk::new(Plan::new(
            address(1),
            ::nvme::DISCOVERY_NQN,
            &options,
            &ClientContext::without_network(),
        ))
    }

    #[test]
    fn the_first_service_must_answer_and_the_others_need_not() {
        let refused = walk().poll().unwrap().unwrap_err().to_string();
        assert!(refused.contains("cannot connect to 127.0.0.1:1"), "{refused}");
        let mut walk = walk();
        walk.ahead.clear();
        walk.take(entry(SubsystemType::Nvm, 5), 0);
        walk.take(entry(SubsystemType::Referral, 2), 0);
        let found = walk.poll().unwrap().unwrap();
        assert_eq!((found[0].name.as_str(), &found[0].error), ("nqn.2026-11.org.example:5", &None));
        assert!(found[1].error.as_ref().unwrap().contains("cannot connect"), "{found:?}");
    }

    #[test]
    fn a_circle_ends_and_so_does_a_chain() {
        let mut walk = walk();
        walk.take(entry(SubsystemType::Referral, 1), 0);
        assert_eq!(walk.ahead.len(), 1, "only the first service, which was known");
        for depth in 0..=REFERRAL_DEPTH {
            walk.take(entry(SubsystemType::Referral, 100 + u16::try_from(depth).unwrap()), depth);
        }
        assert_eq!(walk.ahead.len(), 1 + REFERRAL_DEPTH);
        assert!(walk.found[0].error.as_ref().unwrap().contains("referrals away"));
    }

    #[test]
    fn a_crowd_is_bounded() {
        let mut walk = walk();
        for port in 0..u16::try_from(2 * REFERRALS).unwrap() {
            walk.take(entry(SubsystemType::Referral, 1000 + port), 0);
        }
        assert_eq!(walk.ahead.len(), 1 + REFERRALS);
        assert_eq!(walk.found.len(), REFERRALS);
        assert!(walk.found[0].error.as_ref().unwrap().contains("more than"));
    }
}
