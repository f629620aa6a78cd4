//! Initiators inside fio: Linerate's engine, and fio's own for libiscsi, each a shared library that fio loads.
//!
//! fio's own threads do the protocol's work then: there is no adapter, and all of the time is the host's. Debian's fio comes
//! without the engine for libiscsi, which the same source builds. Both libraries work in one release of fio, and fio
//! refuses them in another.

use std::path::Path;

use anyhow::{Context, Result};
use names::Span;

use super::super::assignment::Assignment;
use super::super::settings::Settings;
use lab_model::scenario::Initiator;

/// The file of Linerate's engine.
pub const LINERATE_ENGINE: &str = "liblinerate-fio.so";
/// The file of fio's engine for libiscsi.
pub const LIBISCSI_ENGINE: &str = "libiscsi-fio.so";

/// The engine, in a folder, and the volume, as fio's options; `None` for an initiator that is not inside fio.
pub(crate) fn engine(initiator: Initiator, folder: &Path, url: &str) -> Option<[String; 2]> {
    let external = |file: &str| format!("--ioengine=external:{}", folder.join(file).display());
    match initiator {
        Initiator::LinerateFio | Initiator::LinerateVhostUser | Initiator::LibiscsiVhostUser => {
            Some([external(LINERATE_ENGINE), format!("--uri={url}")])
        }
        Initiator::LibiscsiFio => Some([external(LIBISCSI_ENGINE), format!("--filename={}", escaped(url))]),
        _ => None,
    }
}

/// A name for fio, which takes a colon as the end of one.
pub(super) fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace(':', "\\:")
}

/// How long Linerate's engine looks for an answer before it sleeps, in its own option's microseconds.
pub(super) fn spin(assignment: &Assignment<'_>) -> Result<Option<String>> {
    let asked = Settings(assignment.settings).get("spin");
    let is_ours = matches!(
        assignment.initiator,
        Initiator::LinerateFio | Initiator::LinerateVhostUser | Initiator::LibiscsiVhostUser
    );
    let Some(text) = asked.filter(|_| is_ours) else {
        return Ok(None);
    };
    let Span(span) = text.parse().with_context(|| format!("setting spin = {text:?}"))?;
    Ok(Some(format!("--spin={}", span.as_micros())))
}
