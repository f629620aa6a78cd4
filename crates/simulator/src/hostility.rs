//! What makes an honest end of a connection hostile, whatever carries it.

use std::ops::RangeInclusive;

use host::{DatagramEndpoint, Endpoint};

use crate::dice::Dice;

/// A server's end of a stream before it is hostile.
#[derive(Debug, Clone, Copy)]
pub struct Honesty {
    /// It speaks iSCSI, and not NVMe.
    pub is_iscsi: bool,
    /// What it passes on honestly.
    pub lasts: usize,
}

/// How much passes honestly before an end is hostile: each range half of the time.
#[derive(Debug, Clone)]
pub struct Patience {
    /// While the connection is made.
    pub early: RangeInclusive<usize>,
    /// Among requests.
    pub late: RangeInclusive<usize>,
}

impl Patience {
    /// How much it is this time.
    pub(crate) fn lasts(&self, dice: &mut Dice) -> usize {
        let range = if dice.coin() { &self.early } else { &self.late };
        dice.within(range.clone())
    }
}

/// A way in which a far end is hostile.
pub trait Hostility: Copy + std::fmt::Debug + Send + Sync + 'static {
    /// Puts it before an end of a stream, which is honest for a while.
    fn before(self, inner: Box<dyn Endpoint>, _honesty: Honesty, _dice: Dice) -> Box<dyn Endpoint> {
        inner
    }

    /// Puts it before a socket, each of whose connections is honest for a while and hostile in one of these ways then.
    fn before_socket(
        _evils: Vec<Self>,
        inner: Box<dyn DatagramEndpoint>,
        _patience: Patience,
        _dice: Dice,
    ) -> Box<dyn DatagramEndpoint> {
        inner
    }

    /// True where a write may go to any block without anybody's noticing, so that what is read cannot be checked.
    fn strays(self) -> bool {
        false
    }
}
