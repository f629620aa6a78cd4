//! What the driver asks of a connection that serves, whatever its protocol and whatever carries it.
//!
//! Each protocol's connections have these methods of their own, over each of their transports: no crate below this one knows both the protocols and
//! what they serve, so the trait is here, and the macro `serving_connection` names who has it.

use protocol::{Connection, Notice, Parties};

use crate::kind::ServedId;

/// The server's end of a connection.
pub(crate) trait ServingConnection: Connection {
    /// What carries it, for people, unless it is TCP.
    const CARRIER: Option<&'static str>;

    /// What people are to be told.
    fn poll_notice(&mut self) -> Option<Notice>;

    /// Who is at the other end, and what it asked for.
    fn parties(&self) -> Parties;

    /// True while it has a use of this: a unit or namespace on the volume.
    fn uses(&self, served: ServedId) -> bool;

    /// True when its host is to leave because of what has changed behind the portal.
    fn is_withdrawn(&self) -> bool;

    /// True when it tells its host what has changed behind the portal.
    fn reports_changes(&self) -> bool;
}

/// Has a connection's own methods called, and says what carries it.
macro_rules! serving_connection {
    ($connection:ty, $carrier:expr) => {
        impl $crate::serving_connection::ServingConnection for $connection {
            const CARRIER: Option<&'static str> = $carrier;

            fn poll_notice(&mut self) -> Option<protocol::Notice> {
                self.poll_notice()
            }

            fn parties(&self) -> protocol::Parties {
                self.parties()
            }

            fn uses(&self, served: $crate::kind::ServedId) -> bool {
                self.uses(served)
            }

            fn is_withdrawn(&self) -> bool {
                self.is_withdrawn()
            }

            fn reports_changes(&self) -> bool {
                self.reports_changes()
            }
        }
    };
}

pub(crate) use serving_connection;
