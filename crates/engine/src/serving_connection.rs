//! What the driver asks of a connection that serves, whatever its protocol and whatever carries it.
//!
//! Each protocol's connections have these methods of their own, over each of their transports: no crate below this one knows both the protocols and
//! what they serve, so the trait is here, and the macro `serving_connection` names who has it.

use protocol::{Notice, Parties};

use crate::carried::Carried;
use crate::served_id::ServedId;

/// The server's end of a connection.
pub(crate) trait ServingConnection: Carried {
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

    /// True while something of it is under way elsewhere than in a queue: it stays until that has ended.
    fn is_busy(&self) -> bool {
        false
    }
}

/// Has a connection's own methods called, or those of a part of it, and says what carries it.
macro_rules! serving_connection {
    ($connection:ty, $carrier:expr) => {
        $crate::serving_connection::serving_connection!($connection, $carrier, |connection| connection);
    };
    ($connection:ty, $carrier:expr, |$this:ident| $end:expr) => {
        impl $crate::serving_connection::ServingConnection for $connection {
            const CARRIER: Option<&'static str> = $carrier;

            fn poll_notice(&mut self) -> Option<protocol::Notice> {
                let $this = self;
                $end.poll_notice()
            }

            fn parties(&self) -> protocol::Parties {
                let $this = self;
                $end.parties()
            }

            fn uses(&self, served: $crate::served_id::ServedId) -> bool {
                let $this = self;
                $end.uses(served)
            }

            fn is_withdrawn(&self) -> bool {
                let $this = self;
                $end.is_withdrawn()
            }

            fn reports_changes(&self) -> bool {
                let $this = self;
                $end.reports_changes()
            }
        }
    };
}

pub(crate) use serving_connection;
