//! What a trial has met, so that none passes because nothing happened.

/// What a trial has met: a trial that meets nothing shows nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub crashes: usize,
    pub cuts: usize,
    /// Requests that were sent again.
    pub sent_again: usize,
    /// Answers that came once more, and were the same.
    pub replays: usize,
    /// DELAY by SEQUENCE: the request is being carried out.
    pub busy: usize,
    pub recalls: usize,
    pub recalled_slots: usize,
    /// Client IDs that clients have got.
    pub identities: usize,
    pub granted: usize,
    pub denied: usize,
    pub locked: usize,
    pub reclaimed: usize,
    pub refused: usize,
    /// Opens that another got after a lease was over.
    pub tainted: usize,
    pub committed: usize,
    pub lost: usize,
    pub written_again: usize,
    /// Requests that only one execution is allowed for.
    pub once: usize,
    pub failed_records: usize,
}

impl Seen {
    fn all(&mut self) -> [(&'static str, &mut usize); 19] {
        [
            ("crashes", &mut self.crashes),
            ("cuts", &mut self.cuts),
            ("sent again", &mut self.sent_again),
            ("replays", &mut self.replays),
            ("busy", &mut self.busy),
            ("recalls", &mut self.recalls),
            ("recalled slots", &mut self.recalled_slots),
            ("identities", &mut self.identities),
            ("granted", &mut self.granted),
            ("denied", &mut self.denied),
            ("locked", &mut self.locked),
            ("reclaimed", &mut self.reclaimed),
            ("refused", &mut self.refused),
            ("tainted", &mut self.tainted),
            ("committed", &mut self.committed),
            ("lost", &mut self.lost),
            ("written again", &mut self.written_again),
            ("once", &mut self.once),
            ("failed records", &mut self.failed_records),
        ]
    }

    pub fn add(&mut self, other: &Self) {
        let mut other = *other;
        for ((_, sum), (_, more)) in self.all().into_iter().zip(other.all()) {
            *sum += *more;
        }
    }

    /// Fails where something was never met.
    pub fn demand(&mut self) {
        for (what, count) in self.all() {
            assert!(*count > 0, "no trial has met: {what}");
        }
    }
}
