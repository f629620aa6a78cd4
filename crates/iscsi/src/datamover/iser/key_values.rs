//! What RDMA makes of a login's keys, and what it needs of them (RFC 7145 §6).

use crate::datamover::{KeyValues, Unacceptable};
use crate::keys::SessionType;
use crate::violation::Violation;

const NO_RDMA: &str = "RDMAExtensions=Yes, which iSER is: use a portal for iSER";

/// Whether the peer has agreed to RDMA without Hello messages. A discovery session does not ask for it.
pub(super) fn check_rdma(values: KeyValues<'_>) -> Result<(), Unacceptable> {
    let KeyValues { agreed, wanted, session } = values;
    if session == SessionType::Discovery || agreed.agree_on_rdma(wanted) {
        return Ok(());
    }
    Err(Unacceptable { violation: Violation::RdmaRequired, advice: NO_RDMA })
}
