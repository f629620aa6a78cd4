//! A volume's incarnation mark, and how it outlives a clean stop.
//!
//! A server shows a mark with each volume (docs/decisions/0003-reconnect.md). The same mark says: nothing that was acknowledged is lost. A process
//! that has flushed a volume after its last request may say so to the next one, by a record; whoever begins removes the record, durably, before the
//! mark is shown, and shows the same. Without a record, or with one that does not fit, the mark is new. So a process that ends in any other way leaves
//! nothing behind that the next could take for a clean stop.

use host::{StateError, StateErrorKind, VolumeState};
use protocol::Entropy;

/// The record of a clean stop: the mark, and what was seen of the volume then.
const RECORD: &str = "clean-stop";

/// A mark: never the same by chance.
pub type Mark = [u8; 16];

/// The mark with which a volume begins. `seen` is what is seen of it before it is opened (such as when its file was last changed): unless it is what
/// was seen at the stop, somebody else has written to the volume meanwhile.
pub fn begin(state: &VolumeState, seen: &[u8], entropy: &mut dyn Entropy) -> Result<Mark, StateError> {
    let kept = match state.read(RECORD) {
        // What cannot be trusted was not clean.
        Err(StateError { kind: StateErrorKind::Damaged(_), .. }) => None,
        other => other?,
    };
    state.remove(RECORD)?;
    let split = kept.as_ref().and_then(|bytes| bytes.split_first_chunk::<16>());
    Ok(split.filter(|(_, then)| *then == seen).map_or_else(|| fresh(entropy), |(mark, _)| *mark))
}

/// Keeps the mark for the next process: every request has ended, and a flush after the last has succeeded.
pub fn end(state: &VolumeState, mark: &Mark, seen: &[u8]) -> Result<(), StateError> {
    state.write(RECORD, &[mark, seen].concat())
}

fn fresh(entropy: &mut dyn Entropy) -> Mark {
    let mut mark = [0; 16];
    entropy.fill(&mut mark);
    mark
}

#[cfg(test)]
mod tests {
    use protocol::SeededEntropy;

    use super::*;

    #[test]
    fn a_mark_is_kept_once_by_a_clean_stop_of_what_nobody_else_has_changed() {
        let state = VolumeState::ephemeral();
        let mut entropy = SeededEntropy::new(1);
        let first = begin(&state, b"seen", &mut entropy).unwrap();
        assert_ne!(begin(&state, b"seen", &mut entropy).unwrap(), first, "it was not stopped");
        end(&state, &first, b"seen").unwrap();
        assert_eq!(begin(&state, b"seen", &mut entropy).unwrap(), first);
        assert_ne!(begin(&state, b"seen", &mut entropy).unwrap(), first, "the record is used up");
        for then in [&b""[..], b"see", b"seen!", b"sees"] {
            end(&state, &first, then).unwrap();
            assert_ne!(begin(&state, b"seen", &mut entropy).unwrap(), first, "{then:?}");
        }
        state.write(RECORD, &first[..15]).unwrap();
        assert_ne!(begin(&state, b"", &mut entropy).unwrap(), first, "a part of a mark is none");
    }
}
