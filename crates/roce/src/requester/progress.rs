//! How far a request is. `progress.table` has every transition.

use verbs::WorkError;

use crate::psn::Psn;

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has not begun.
    Waiting,
    /// Its packets have these numbers; for a read they are those of the response. Some are sent, some may be acknowledged.
    UnderWay {
        /// Of the first one.
        first: Psn,
        /// How many.
        packets: u32,
    },
    /// It is over, but for its completion.
    Done,
    /// The peer refuses it.
    Refused,
}

impl Progress {
    /// Its first packet is about to be sent.
    pub(crate) fn begin(&mut self, first: Psn, packets: u32) {
        if *self == Self::Waiting {
            *self = Self::UnderWay { first, packets };
        }
    }

    /// All of it is acknowledged, or the response is there.
    pub(crate) fn acknowledge(&mut self) {
        if matches!(self, Self::UnderWay { .. }) {
            *self = Self::Done;
        }
    }

    /// The region of this side has ended.
    pub(crate) fn release(&mut self) {
        if *self == Self::Waiting {
            *self = Self::Done;
        }
    }

    /// The peer refuses it, or would.
    pub(crate) fn refuse(&mut self) {
        if matches!(self, Self::Waiting | Self::UnderWay { .. }) {
            *self = Self::Refused;
        }
    }

    /// What it came to.
    pub(crate) fn result(self) -> Option<Result<(), WorkError>> {
        match self {
            Self::Done => Some(Ok(())),
            Self::Refused => Some(Err(WorkError::RemoteAccess)),
            Self::Waiting | Self::UnderWay { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        type Event = fn(&mut Progress);
        let events: [(&str, Event); 4] = [
            ("first packet", |state| state.begin(Psn::new(7), 3)),
            ("acknowledged", Progress::acknowledge),
            ("region released", Progress::release),
            ("refused", Progress::refuse),
        ];
        let under_way = Progress::UnderWay { first: Psn::new(7), packets: 3 };
        let mut table = String::new();
        for state in [Progress::Waiting, under_way, Progress::Done, Progress::Refused] {
            for (name, event) in &events {
                let mut next = state;
                event(&mut next);
                if next != state {
                    writeln!(table, "{state:?} --{name}--> {next:?}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("progress.table"));
    }
}
