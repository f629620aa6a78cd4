//! The login phase's stages, as both roles see them (RFC 7143 §6.3, §11.12).

use crate::pdu::Stage;
use crate::violation::Violation;

/// Where a login is when a request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Before its first request, which chooses where to begin, at this stage or behind it.
    First(Stage),
    /// In this stage.
    Later(Stage),
}

/// What a login request's stages mean to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// The negotiation goes on where it is.
    Stay,
    /// The initiator proposes to go on to this stage.
    Propose(Stage),
}

/// Judges CSG, and NSG where T says that there is one.
pub fn judge(
    position: Position,
    current: Option<Stage>,
    next: Option<Option<Stage>>,
) -> Result<Move, Violation> {
    let current = current.filter(|stage| *stage != Stage::FullFeature).ok_or(Violation::BadStage)?;
    // An initiator may skip the security stage at the beginning, never go back or ahead by itself.
    let is_here = match position {
        Position::First(at) => current == at || current == Stage::Operational,
        Position::Later(at) => current == at,
    };
    if !is_here {
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
        for position in [
            Position::First(Stage::Security),
            Position::Later(Stage::Security),
            Position::Later(Stage::Operational),
        ] {
            for current in STAGES {
                let nexts = core::iter::once(None).chain(STAGES.map(Some));
                let row: alloc::vec::Vec<String> = nexts
                    .map(|next| match judge(position, current, next) {
                        Ok(Move::Stay) => "stay".into(),
                        Ok(Move::Propose(stage)) => format!("→{}", short(Some(stage))),
                        Err(_) => "✗".into(),
                    })
                    .collect();
                let begin = match position {
                    Position::First(_) => "first",
                    Position::Later(at) => short(Some(at)),
                };
                writeln!(table, "{begin} {}: {}", short(current), row.join(" ")).unwrap();
            }
        }
        assert_eq!(table, include_str!("login.table"));
    }
}
