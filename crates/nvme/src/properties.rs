//! Controller properties (NVMe Base §3.1.4): what a memory-mapped controller calls registers.

/// Offsets of the properties that a fabrics controller has.
pub mod offset {
    /// Controller Capabilities, 8 bytes.
    pub const CAP: u32 = 0x00;
    /// Version, 4 bytes.
    pub const VS: u32 = 0x08;
    /// Controller Configuration, 4 bytes.
    pub const CC: u32 = 0x14;
    /// Controller Status, 4 bytes.
    pub const CSTS: u32 = 0x1c;
    /// Controller Ready Timeouts, 4 bytes.
    pub const CRTO: u32 = 0x68;
}

/// Controller Capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Capabilities of a controller with queues of up to `entries` entries, contiguous queues, the NVM
    /// command set, 4 KiB pages, and `timeout` × 500 ms to become ready, with all namespaces (CRMS.CRWMS, which NVMe Base 2.0 asks of
    /// every controller).
    pub const fn new(entries: u16, timeout: u8) -> Self {
        let mqes = entries.saturating_sub(1) as u64;
        Self(mqes | 1 << 16 | (timeout as u64) << 24 | 1 << 37 | Self::CRWMS)
    }

    /// CRMS.CRWMS: ready means that the namespaces are, too, and CRTO says how long that may take.
    const CRWMS: u64 = 1 << 59;

    /// True when CRTO may say more about the time to become ready than TO, whose largest value stands for all longer times.
    pub const fn has_longer_time(self) -> bool {
        self.0 & Self::CRWMS != 0 && self.timeout() == u8::MAX
    }

    /// The same, of a controller that can also be enabled with all I/O command sets that it supports (CSS bit 6).
    #[must_use]
    pub const fn with_command_sets(self) -> Self {
        Self(self.0 | 1 << 43)
    }

    /// True when a host must enable all I/O command sets (CC.CSS 110b) because the controller does not offer the NVM
    /// command set alone. Controllers with namespaces of other command sets are so. One that offers nothing at all is
    /// taken for an NVM controller, as other hosts do.
    pub const fn needs_command_sets(self) -> bool {
        self.0 & (1 << 37 | 1 << 43) == 1 << 43
    }

    /// MQES: the highest queue index.
    pub const fn mqes(self) -> u16 {
        let [low, high, ..] = self.0.to_le_bytes();
        u16::from_le_bytes([low, high])
    }

    /// TO: the time to become ready, in units of 500 ms.
    pub const fn timeout(self) -> u8 {
        self.0.to_le_bytes()[3]
    }

    /// MPSMIN as bytes: what MDTS counts in.
    pub const fn min_page(self) -> u32 {
        4096 << ((self.0 >> 48) & 0xf)
    }
}

/// Controller Ready Timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyTimeouts(pub u32);

impl ReadyTimeouts {
    /// Those of a controller that becomes ready with all namespaces within `timeout` × 500 ms, and in no other mode.
    pub const fn new(timeout: u8) -> Self {
        Self(timeout as u32)
    }

    /// CRWMT: the time to become ready with all namespaces, in units of 500 ms.
    pub const fn with_media(self) -> u16 {
        let [low, high, ..] = self.0.to_le_bytes();
        u16::from_le_bytes([low, high])
    }
}

/// Controller Configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Configuration(pub u32);

impl Configuration {
    /// What a host writes to enable the controller: NVM command set, 4 KiB pages, 64-byte submission and
    /// 16-byte completion queue entries.
    pub const ENABLE: Self = Self(1 | 6 << 16 | 4 << 20);

    /// The same with CC.CSS 110b: all I/O command sets that the controller supports.
    pub const ENABLE_COMMAND_SETS: Self = Self(Self::ENABLE.0 | 6 << 4);

    /// EN.
    pub const fn enabled(self) -> bool {
        self.0 & 1 != 0
    }

    /// True when SHN asks for a shutdown, normal or abrupt.
    pub const fn shutdown(self) -> bool {
        matches!((self.0 >> 14) & 3, 1 | 2)
    }

    /// The same, asking for a normal shutdown.
    #[must_use]
    pub const fn with_shutdown(self) -> Self {
        Self(self.0 & !(3 << 14) | 1 << 14)
    }

    /// True when command set, page size and entry sizes are ones that this controller has.
    pub const fn is_supported(self) -> bool {
        let css = (self.0 >> 4) & 7;
        let mps = (self.0 >> 7) & 0xf;
        let submission = (self.0 >> 16) & 0xf;
        let completion = (self.0 >> 20) & 0xf;
        // The NVM command set, or all that there are, which is the same here. Entry sizes may be left at zero until I/O
        // queues are made.
        matches!(css, 0 | 6) && mps == 0 && matches!(submission, 0 | 6) && matches!(completion, 0 | 4)
    }
}

/// Controller Status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ControllerStatus(pub u32);

impl ControllerStatus {
    /// RDY.
    pub const READY: Self = Self(1);
    /// CFS: the controller failed.
    pub const FATAL: Self = Self(1 << 1);
    /// SHST 01b: shutdown under way.
    pub const SHUTTING_DOWN: Self = Self(1 << 2);
    /// SHST 10b: shutdown complete.
    pub const SHUT_DOWN: Self = Self(2 << 2);

    /// True when all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// RDY and CFS as they are, SHST as said.
    #[must_use]
    pub const fn with_shutdown(self, shutdown: Self) -> Self {
        Self(self.0 & !(3 << 2) | shutdown.0)
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vectors() {
        let capabilities = Capabilities::new(128, 15);
        assert_eq!(capabilities.0, 0x0800_0020_0f01_007f);
        assert_eq!(ReadyTimeouts::new(15), ReadyTimeouts(0x0000_000f));
        assert_eq!(ReadyTimeouts(0x0001_0203).with_media(), 0x0203);
        let longer = [(255, true), (254, false)].map(|(time, longer)| (Capabilities::new(128, time), longer));
        assert!(longer.iter().all(|(capabilities, longer)| capabilities.has_longer_time() == *longer));
        assert!(!Capabilities(255 << 24).has_longer_time(), "a controller of before 2.0 has no CRTO");
        assert_eq!((capabilities.mqes(), capabilities.timeout(), capabilities.min_page()), (127, 15, 4096));
        // What Linux writes to enable a controller.
        let linux = Configuration(0x0046_0001);
        assert_eq!(linux, Configuration::ENABLE);
        assert!(linux.enabled() && linux.is_supported() && !linux.shutdown());
        assert!(linux.with_shutdown().shutdown());
        // What Linux and SPDK write where CAP offers all I/O command sets.
        assert_eq!(Configuration::ENABLE_COMMAND_SETS, Configuration(0x0046_0061));
        assert!(Configuration::ENABLE_COMMAND_SETS.is_supported());
        let unsupported = [0x0046_0071, 0x0046_0011, 0x0046_0081, 0x0056_0001];
        assert!(unsupported.iter().all(|value| !Configuration(*value).is_supported()));
        assert_eq!(capabilities.with_command_sets().0, 0x0800_0820_0f01_007f);
        let needs = [0, 1 << 37, 1 << 37 | 1 << 43, 1 << 43, 1 << 44];
        assert_eq!(
            needs.map(|css| Capabilities(css).needs_command_sets()),
            [false, false, false, true, false]
        );
    }
}
