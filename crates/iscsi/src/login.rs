//! The login phase's stages, as both roles see them (RFC 7143 §6.3, §11.12).

use crate::pdu::Stage;
use crate::violation::Violation;

/// What a login request's stages mean to a target that is in stage `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// The negotiation goes on where it is.
    Stay,
    /// The initiator proposes to go on to this stage.
    Propose(Stage),
}

/// Judges CSG, T and NSG. `first` is true for the first request of a login, which chooses where to begin.
pub fn judge(
    at: Stage,
    first: bool,
    current: Option<Stage>,
    next: Option<Option<Stage>>,
) -> Result<Move, Violation> {
    let current = current.filter(|stage| *stage != Stage::FullFeature).ok_or(Violation::BadStage)?;
    // An initiator may skip the security stage at the beginning, never go back or ahead by itself.
    if current != at && !(first && current == Stage::Operational) {
        return Err(Violation::BadStage);
    }
    match next {
        None => Ok(Move::Stay),
        Some(Some(next)) if next > current => Ok(Move::Propose(next)),
        Some(_) => Err(Violation::BadStage),
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use core::fmt::Write as _;

    use super::*;

    /// Every stage × request. A changed line here is a changed login.
    #[test]
    fn table_of_all_moves() {
        const STAGES: [Option<Stage>; 4] =
            [Some(Stage::Security), Some(Stage::Operational), Some(Stage::FullFeature), None];
        let short = |stage: Option<Stage>| match stage {
            Some(Stage::Security) => "security",
            Some(Stage::Operational) => "operational",
            Some(Stage::FullFeature) => "full",
            None => "reserved",
        };
        let mut table = String::new();
        for (at, first) in [(Stage::Security, true), (Stage::Security, false), (Stage::Operational, false)] {
            for current in STAGES {
                let nexts = core::iter::once(None).chain(STAGES.map(Some));
                let row: alloc::vec::Vec<String> = nexts
                    .map(|next| match judge(at, first, current, next) {
                        Ok(Move::Stay) => "stay".into(),
                        Ok(Move::Propose(stage)) => format!("→{}", short(Some(stage))),
                        Err(_) => "✗".into(),
                    })
                    .collect();
                let begin = if first { "first" } else { short(Some(at)) };
                writeln!(table, "{begin} {}: {}", short(current), row.join(" ")).unwrap();
            }
        }
        assert_eq!(table, include_str!("login.table"));
    }
}
