//! A client's lease: active, courteous, over (RFC 8881 §8.3, §8.4.2).

use protocol::Instant;

use crate::limits::{COURTESY, LEASE, RENEWAL};

/// Where a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The client is there: its state stands against everybody.
    Active,
    /// The lease is over, and nobody has wanted what the client holds: it may come back.
    Courteous,
    /// Even courtesy is over.
    Over,
}

/// One lease.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    renewed: Instant,
}

impl Lease {
    /// Begins now.
    pub fn new(now: Instant) -> Self {
        Self { renewed: now }
    }

    /// The client was there. Connections tell this at most every [`RENEWAL`]: that much later a lease ends.
    pub fn renew(&mut self, now: Instant) {
        self.renewed = self.renewed.max(now);
    }

    /// When the client was last there, as far as the group knows.
    pub fn renewed(&self) -> Instant {
        self.renewed
    }

    /// Where the lease stands.
    pub fn standing(&self, now: Instant) -> Standing {
        if now < self.ends() {
            Standing::Active
        } else if now < self.ends() + COURTESY {
            Standing::Courteous
        } else {
            Standing::Over
        }
    }

    /// When it ends.
    pub fn ends(&self) -> Instant {
        self.renewed + LEASE + RENEWAL
    }

    /// When the next change of its standing is due.
    pub fn next_change(&self, now: Instant) -> Instant {
        match self.standing(now) {
            Standing::Active => self.ends(),
            Standing::Courteous | Standing::Over => self.ends() + COURTESY,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn standing_by_time() {
        let mut lease = Lease::new(Instant::ZERO);
        let full = LEASE + RENEWAL;
        let tick = Duration::from_nanos(1);
        let at = |span| Instant::ZERO + span;
        assert_eq!(lease.standing(at(full.saturating_sub(tick))), Standing::Active);
        assert_eq!(lease.standing(at(full)), Standing::Courteous);
        assert_eq!(lease.standing(at((full + COURTESY).saturating_sub(tick))), Standing::Courteous);
        assert_eq!(lease.standing(at(full + COURTESY)), Standing::Over);
        lease.renew(at(full));
        lease.renew(at(tick));
        assert_eq!(
            (lease.standing(at(full + LEASE)), lease.next_change(at(full))),
            (Standing::Active, at(full + full))
        );
    }

    /// A SEQUENCE that the group was not told of lies less than [`RENEWAL`] after the one that it was told of.
    #[test]
    fn what_was_not_told_costs_no_client_its_lease() {
        let told = Instant::from_nanos(5);
        let last = told + RENEWAL;
        assert!(Lease::new(told).ends() >= last + LEASE);
    }
}
