//! How much memory of no pool waits for a peer that may not read: every protocol counts it alike.

/// Bytes in memory of no pool: of what waits to be sent or is being sent, and of the latter alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unsent {
    bytes: usize,
    leaving: usize,
}

impl Unsent {
    /// Bytes that wait or are being sent.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many more wait.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// So many of those that wait are being sent.
    #[inline]
    pub fn leave(&mut self, bytes: usize) {
        self.leaving = self.leaving.saturating_add(bytes);
    }

    /// Everything that was being sent has gone out.
    #[inline]
    pub fn sent(&mut self) {
        self.bytes = self.bytes.saturating_sub(self.leaving);
        self.leaving = 0;
    }

    /// Nothing of what waits is sent any more; what is being sent still is.
    pub fn drop_waiting(&mut self) {
        self.bytes = self.leaving;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_they_have_gone_out_or_are_dropped() {
        let mut unsent = Unsent::default();
        unsent.add(700);
        unsent.add(300);
        unsent.leave(700);
        assert_eq!(unsent.bytes(), 1000, "what is being sent still has its memory");
        unsent.drop_waiting();
        assert_eq!(unsent.bytes(), 700);
        unsent.add(50);
        unsent.sent();
        assert_eq!(unsent.bytes(), 50);
    }
}
