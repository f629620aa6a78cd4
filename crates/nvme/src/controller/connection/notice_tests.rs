//! What the operator is told of a connection: every violation by its end, everything else by a notice.

use alloc::sync::Arc;

use buf::Pool;
use protocol::{CloseReason, Connection as _, Instant};

use super::Connection;
use crate::controller::Portal;
use crate::violation::tests::ALL;

#[test]
fn no_violation_passes_in_silence() {
    for &violation in ALL {
        let portal = Portal {
            subsystems: alloc::vec::Vec::new(),
            advertised: alloc::vec::Vec::new(),
            referrals: alloc::vec::Vec::new(),
            generation: 1,
            log: crate::controller::DiscoveryLog::default(),
            require_digests: false,
        };
        let mut connection = Connection::new(Arc::new(portal), Pool::new(1 << 20), Instant::ZERO);
        connection.violate(violation, &[0; 24]);
        assert_eq!(connection.poll_close(), Some(CloseReason::Violation(violation.describe())));
    }
}
