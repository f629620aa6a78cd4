//! How many packets a requester sends ahead of acknowledgements: fewer after each loss, slowly more while all goes well.
//!
//! Whoever misses a packet is sent everything again from there, which is up to a whole window (IBTA §9.7.5.1.1). Where packets are lost because a receiver or a link is
//! overloaded, full windows sent again make it worse: a hundred connections sent twice what they had to say. So a loss halves the window and silence leaves the least, as
//! TCP does (RFC 5681 §3.1); each window that is acknowledged whole adds a packet.

use crate::limits::{LEAST_WINDOW, WINDOW};

/// The window of a connection, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    packets: u32,
    /// Packets that were acknowledged since it changed.
    acknowledged: u32,
}

impl Window {
    /// As wide as it becomes: nothing was lost yet.
    pub(crate) const fn new() -> Self {
        Self { packets: WINDOW, acknowledged: 0 }
    }

    /// Packets that may be under way.
    pub(crate) const fn packets(self) -> u32 {
        self.packets
    }

    /// So many more packets have come.
    pub(crate) fn acknowledge(&mut self, packets: u32) {
        if self.packets == WINDOW {
            return;
        }
        self.acknowledged = self.acknowledged.saturating_add(packets);
        if self.acknowledged >= self.packets {
            *self = Self { packets: self.packets.saturating_add(1), acknowledged: 0 };
        }
    }

    /// The peer tells of a packet that was lost.
    pub(crate) fn shrink(&mut self) {
        *self = Self { packets: (self.packets / 2).max(LEAST_WINDOW), acknowledged: 0 };
    }

    /// The peer tells of nothing.
    pub(crate) fn close(&mut self) {
        *self = Self { packets: LEAST_WINDOW, acknowledged: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_halves_it_and_never_below_the_least() {
        let mut window = Window::new();
        let mut seen = [0; 3];
        for one in &mut seen {
            window.shrink();
            *one = window.packets();
        }
        assert_eq!(seen, [24, 16, 16]);
    }

    #[test]
    fn silence_leaves_the_least_and_whole_windows_open_it_again_up_to_the_limit() {
        let mut window = Window::new();
        window.close();
        assert_eq!(window.packets(), LEAST_WINDOW);
        window.acknowledge(LEAST_WINDOW - 1);
        assert_eq!(window.packets(), LEAST_WINDOW);
        window.acknowledge(1);
        assert_eq!(window.packets(), LEAST_WINDOW + 1);
        for _ in 0..10_000 {
            window.acknowledge(1);
        }
        assert_eq!(window, Window::new());
    }

    #[test]
    fn a_full_window_remembers_nothing() {
        let mut window = Window::new();
        window.acknowledge(WINDOW);
        assert_eq!(window, Window::new());
        window.shrink();
        window.acknowledge(23);
        window.shrink();
        window.acknowledge(15);
        assert_eq!(window.packets(), LEAST_WINDOW);
    }
}
