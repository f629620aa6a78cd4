//! A slot of a session: exactly-once (RFC 8881 §2.10.6).
//!
//! Whoever holds the slot, a connection or the session at rest, has its sequence ID and the reply of its last request.

use buf::SharedBuf;

use crate::v4::{Principal, Status};

/// What tells a false retry from a true one (RFC 8881 §2.10.6.1.3.1): length, beginning and sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// Bytes of the request.
    pub len: usize,
    /// The checksum of its beginning.
    pub sum: u32,
    /// Who sent it.
    pub principal: Principal,
}

/// The reply of a slot's last request.
#[derive(Debug, Clone)]
enum Last {
    /// There was none yet.
    Never,
    /// It was not kept: the client did not ask for it.
    Uncached(Fingerprint),
    /// It is kept.
    Cached(Fingerprint, SharedBuf),
    /// It is being worked on.
    InProgress(Fingerprint),
}

/// What SEQUENCE comes to.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// A new request: execute it, and then [`Slot::finish`].
    Execute,
    /// A retry of a finished one: send this again.
    Replay(SharedBuf),
    /// Neither.
    Refuse(Status),
}

/// A slot.
#[derive(Debug, Clone)]
pub struct Slot {
    sequence: u32,
    last: Last,
}

impl Slot {
    /// A slot of a new session: its first request has sequence ID one (RFC 8881 §2.10.6.1).
    pub fn new() -> Self {
        Self { sequence: 0, last: Last::Never }
    }

    /// Judges a SEQUENCE by its sequence ID. [`Verdict::Execute`] occupies the slot.
    pub fn begin(&mut self, sequence: u32, request: Fingerprint) -> Verdict {
        if sequence == self.sequence {
            return self.retry(request);
        }
        if let Last::InProgress(_) = self.last {
            // The client has not waited for its answer.
            return Verdict::Refuse(Status::SEQ_MISORDERED);
        }
        if sequence != self.sequence.wrapping_add(1) {
            return Verdict::Refuse(Status::SEQ_MISORDERED);
        }
        self.sequence = sequence;
        self.last = Last::InProgress(request);
        Verdict::Execute
    }

    fn retry(&self, request: Fingerprint) -> Verdict {
        match &self.last {
            Last::Never => Verdict::Refuse(Status::SEQ_MISORDERED),
            Last::Uncached(first) | Last::Cached(first, _) | Last::InProgress(first) if *first != request => {
                Verdict::Refuse(Status::SEQ_FALSE_RETRY)
            }
            Last::Uncached(_) => Verdict::Refuse(Status::RETRY_UNCACHED_REP),
            Last::InProgress(_) => Verdict::Refuse(Status::DELAY),
            Last::Cached(_, reply) => Verdict::Replay(reply.clone()),
        }
    }

    /// The request has its answer: kept as `reply`, or not.
    pub fn finish(&mut self, reply: Option<SharedBuf>) {
        let Last::InProgress(request) = self.last else { return };
        self.last = reply.map_or(Last::Uncached(request), |reply| Last::Cached(request, reply));
    }

    /// True while a request is worked on.
    pub fn is_busy(&self) -> bool {
        matches!(self.last, Last::InProgress(_))
    }

    /// Bytes of the reply that it keeps.
    pub fn reply_bytes(&self) -> usize {
        if let Last::Cached(_, reply) = &self.last { reply.len() } else { 0 }
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;
    use core::fmt::Write as _;

    use super::*;

    fn print(text: &[u8]) -> Fingerprint {
        Fingerprint { len: text.len(), sum: wire::crc32c(text), principal: Principal::User(1) }
    }

    fn slot(state: &str) -> Slot {
        let mut slot = Slot::new();
        if state == "new" {
            return slot;
        }
        assert!(matches!(slot.begin(1, print(b"first")), Verdict::Execute));
        match state {
            "uncached" => slot.finish(None),
            "cached" => slot.finish(Some(SharedBuf::from(vec![1, 2, 3]))),
            _ => {}
        }
        slot
    }

    #[test]
    fn table_of_states_and_sequence_ids() {
        let mut table = String::new();
        for state in ["new", "in progress", "uncached", "cached"] {
            for sequence in [0, 1, 2, 3, u32::MAX] {
                for text in ["first", "other"] {
                    let verdict = match slot(state).begin(sequence, print(text.as_bytes())) {
                        Verdict::Execute => "execute".into(),
                        Verdict::Replay(reply) => format!("replay {} bytes", reply.len()),
                        Verdict::Refuse(status) => format!("{status}"),
                    };
                    writeln!(table, "{state}: sequence {sequence}, {text} request -> {verdict}").unwrap();
                }
            }
        }
        if std::env::var_os("UPDATE_TABLES").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/state/slot.table"), &table).unwrap();
        }
        assert_eq!(table, include_str!("slot.table"));
    }

    #[test]
    fn a_sequence_id_wraps_to_zero() {
        let mut slot = Slot { sequence: u32::MAX, last: Last::Uncached(print(b"x")) };
        assert!(matches!(slot.begin(0, print(b"y")), Verdict::Execute));
    }

    #[test]
    fn another_principal_is_a_false_retry() {
        let mut slot = slot("cached");
        let other = Fingerprint { principal: Principal::User(2), ..print(b"first") };
        assert!(matches!(slot.begin(1, other), Verdict::Refuse(Status::SEQ_FALSE_RETRY)));
        assert_eq!(slot.reply_bytes(), 3);
    }
}
