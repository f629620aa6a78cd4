//! Who may use a target: rules that name initiators, their CHAP account, and the logical units that they open.
//!
//! A login proves at most one account. An initiator for whom any rule asks for a proof has to give one: what it leaves out never
//! makes its login easier.

use alloc::sync::Arc;
use alloc::vec::Vec;

use names::Iqn;
use scsi::TargetDevice;

use crate::chap::{self, Algorithm, Challenge, Credentials};

/// A CHAP account (RFC 7143 §12.1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chap {
    /// What the initiator must know.
    pub initiator: Credentials,
    /// How the target proves itself to initiators that ask (mutual CHAP). Its secret differs from every initiator's (RFC 7143
    /// §9.2.1).
    pub target: Option<Credentials>,
    /// The hashes that are good enough.
    pub algorithms: Vec<Algorithm>,
}

/// One rule of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The initiators that it names; `None` names all.
    pub initiators: Option<Vec<Iqn>>,
    /// The account that they must prove; `None` believes their names.
    pub chap: Option<Chap>,
    /// The logical units that it opens; `None` opens all of the target.
    pub luns: Option<Vec<u16>>,
}

impl Rule {
    fn names(&self, initiator: &Iqn) -> bool {
        self.initiators.as_ref().is_none_or(|named| named.contains(initiator))
    }

    fn opens(&self, lun: u16) -> bool {
        self.luns.as_ref().is_none_or(|luns| luns.contains(&lun))
    }
}

/// An initiator, and the account that its login has proved.
#[derive(Debug, Clone, Copy)]
pub struct ProvenInitiator<'a> {
    /// InitiatorName.
    pub initiator: &'a Iqn,
    /// The account, if it has proved one.
    pub account: Option<&'a Credentials>,
}

/// Who may use a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Access {
    /// Everybody, all of it.
    #[default]
    Open,
    /// Whom a rule names; nobody if there is none.
    Rules(Vec<Rule>),
}

impl Access {
    fn rules(&self, initiator: &Iqn) -> impl Iterator<Item = &Rule> {
        let rules = match self {
            Self::Open => &[],
            Self::Rules(rules) => rules.as_slice(),
        };
        rules.iter().filter(move |rule| rule.names(initiator))
    }

    /// True when this initiator may log in, once it has proved itself.
    pub fn allows(&self, initiator: &Iqn) -> bool {
        *self == Self::Open || self.rules(initiator).next().is_some()
    }

    /// The accounts of which this initiator must prove one; none are needed if there are none.
    pub fn accounts(&self, initiator: &Iqn) -> Vec<&Chap> {
        self.rules(initiator).filter_map(|rule| rule.chap.as_ref()).collect()
    }

    /// True when an initiator that has proved this and no more may be logged in: one of the accounts that are asked of it, if any is.
    pub fn admits(&self, proven: ProvenInitiator<'_>) -> bool {
        let accounts = self.accounts(proven.initiator);
        self.allows(proven.initiator)
            && (accounts.is_empty() || accounts.iter().any(|chap| Some(&chap.initiator) == proven.account))
    }

    /// The target as an initiator sees it that has proved this account: logical units that no rule opens for it are not there.
    pub fn mask(&self, device: &Arc<TargetDevice>, proven: ProvenInitiator<'_>) -> Arc<TargetDevice> {
        let ProvenInitiator { initiator, account } = proven;
        let holds = |rule: &&Rule| rule.chap.as_ref().is_none_or(|chap| Some(&chap.initiator) == account);
        let opened = |lun| self.rules(initiator).filter(holds).any(|rule| rule.opens(lun));
        if *self == Self::Open || device.units.iter().all(|unit| opened(unit.lun)) {
            return Arc::clone(device);
        }
        let units = device.units.iter().filter(|unit| opened(unit.lun)).cloned().collect();
        Arc::new(TargetDevice { units, ..TargetDevice::clone(device) })
    }
}

/// A challenge that was sent, and what was answered.
pub(super) struct Answered<'a> {
    pub(super) challenge: &'a Challenge,
    pub(super) name: &'a str,
    pub(super) response: &'a [u8],
}

impl<'a> Answered<'_> {
    /// The account that the answer proves. Every account costs the same work, so that the time does not tell whether the name is known.
    pub(super) fn proven(&self, accounts: &[&'a Chap]) -> Option<&'a Chap> {
        let mut proven = None;
        let mut reflected = false;
        for chap in accounts {
            let right = self.is_from(&chap.initiator);
            let named = chap::equal(self.name.as_bytes(), chap.initiator.user.as_bytes());
            if right & named {
                proven = proven.or(Some(*chap));
            }
            // RFC 7143 §9.2.1: a response that this side would have given is a failure, whoever knows the secret.
            reflected |= chap.target.as_ref().is_some_and(|us| self.is_from(us));
        }
        proven.filter(|_| !reflected)
    }

    fn is_from(&self, credentials: &Credentials) -> bool {
        let expected = self.challenge.response(&credentials.secret);
        chap::equal(self.response, &expected)
    }
}

#[cfg(test)]
mod tests {
    use scsi::{LogicalUnit, UnitIdentity};
    use volume::{Features, Geometry, Limits, VolumeId};

    use super::*;
    use crate::chap::Secret;

    fn account(user: &str) -> Chap {
        let secret = alloc::format!("the secret of {user}").into_bytes();
        let initiator = Credentials { user: user.into(), secret: Secret::new(secret) };
        Chap { initiator, target: None, algorithms: Algorithm::ALL.to_vec() }
    }

    fn unit(lun: u16) -> LogicalUnit {
        LogicalUnit {
            lun,
            volume: VolumeId::new(lun, 0),
            geometry: Geometry { blocks: 8, block_size: 512, physical_block_size: 512 },
            limits: Limits::default(),
            features: Features::empty(),
            identity: UnitIdentity {
                vendor: "V".into(),
                product: "P".into(),
                revision: "1".into(),
                serial: "1".into(),
                naa: [0; 8],
                uuid: [0; 16],
                incarnation: None,
            },
        }
    }

    fn iqn(name: &str) -> Iqn {
        alloc::format!("iqn.2026-11.test:{name}").parse().unwrap()
    }

    fn rule(names: &[&str], user: Option<&str>, luns: Option<&[u16]>) -> Rule {
        let initiators = (!names.is_empty()).then(|| names.iter().map(|name| iqn(name)).collect());
        Rule { initiators, chap: user.map(account), luns: luns.map(<[u16]>::to_vec) }
    }

    /// Who asks, whether it may log in, the accounts of which it must prove one, the account that it proves, what it then sees.
    type Row<'a> = (&'a str, bool, &'a [&'a str], Option<&'a str>, &'a [u16]);

    fn check(rules: Vec<Rule>, rows: &[Row<'_>]) {
        let device = Arc::new(TargetDevice {
            port_name: "p".into(),
            device_name: "d".into(),
            relative_port: 1,
            port_group: 1,
            units: [0, 1, 5].map(unit).to_vec(),
        });
        let access = Access::Rules(rules);
        for &(name, allowed, users, proves, luns) in rows {
            let initiator = iqn(name);
            assert_eq!(access.allows(&initiator), allowed, "{access:?} {name}");
            let accounts = access.accounts(&initiator);
            let found: Vec<&str> = accounts.iter().map(|chap| &*chap.initiator.user).collect();
            assert_eq!(found, users, "{access:?} {name}");
            let proven = proves.map(|user| account(user).initiator);
            let seen =
                access.mask(&device, ProvenInitiator { initiator: &initiator, account: proven.as_ref() });
            let seen: Vec<u16> = seen.units.iter().map(|unit| unit.lun).collect();
            assert_eq!(seen, luns, "{access:?} {name} {proves:?}");
        }
    }

    #[test]
    fn table_of_rules() {
        check(Vec::new(), &[("a", false, &[], None, &[])]);
        check(
            alloc::vec![rule(&["a"], None, None)],
            &[
                ("a", true, &[], None, &[0, 1, 5]),
                ("A", true, &[], None, &[0, 1, 5]),
                ("b", false, &[], None, &[]),
            ],
        );
        check(
            alloc::vec![rule(&["a"], None, Some(&[0])), rule(&["b"], None, Some(&[1]))],
            &[("a", true, &[], None, &[0]), ("b", true, &[], None, &[1])],
        );
        check(
            alloc::vec![rule(&["a"], Some("ua"), Some(&[0])), rule(&["b"], Some("ub"), Some(&[1]))],
            &[
                ("a", true, &["ua"], Some("ua"), &[0]),
                ("b", true, &["ub"], Some("ub"), &[1]),
                ("a", true, &["ua"], Some("ub"), &[]),
            ],
        );
        // A rule without a proof beside one with: the proof is asked for, and both then count.
        check(
            alloc::vec![rule(&["a"], None, Some(&[5])), rule(&[], Some("u"), Some(&[1]))],
            &[("a", true, &["u"], Some("u"), &[1, 5]), ("b", true, &["u"], Some("u"), &[1])],
        );
        // Two accounts of one initiator open what each is for.
        check(
            alloc::vec![rule(&["a"], Some("u"), Some(&[0])), rule(&["a"], Some("v"), Some(&[1, 5]))],
            &[("a", true, &["u", "v"], Some("u"), &[0]), ("a", true, &["u", "v"], Some("v"), &[1, 5])],
        );
    }
}
