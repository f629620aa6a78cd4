//! How long a machine may take for what it is asked, in one place with unit and reason.

use std::time::Duration;

/// Time that a named action on the host (`iscsiadm`, `nvme`, `mount`, `targetcli`, `nvmetcli`) may take: logins retry for a while.
pub const ACTION_TIMEOUT: Duration = Duration::from_secs(30);
