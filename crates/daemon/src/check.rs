//! Trying what a start would try, without starting: also beside a server that runs with the same configuration.
//!
//! Nothing is made, locked, listened at or written, and no other machine is asked. A volume that is in use is no mistake then: it is what a running
//! server looks like.

use std::sync::Arc;

use host::Storage;
use linerate::Tried;
use reactor::Look;

use crate::config::{Config, ShareEntry, VolumeEntry};
use crate::findings::Findings;
use crate::prepare::prepare;
use crate::state::States;

/// Checks a configuration whole, as [`serve`](crate::serve()) does before it begins (names, numbers, secrets, and who could reach its portals), and tries
/// to open its volumes as far as that changes nothing.
pub fn check(config: &Config) -> Findings {
    let (_, mut findings) = prepare(config);
    try_volumes(config, &mut findings);
    for ShareEntry { name, url, .. } in &config.shares {
        let found = std::fs::metadata(&url.path).map(|known| known.is_dir());
        let problem = match found {
            Ok(true) => continue,
            Ok(false) => "it is no folder".to_owned(),
            Err(error) => error.to_string(),
        };
        findings.problems.push(format!("the share {name:?} cannot be opened: {url}: {problem}"));
    }
    findings
}

fn try_volumes(config: &Config, findings: &mut Findings) {
    let look = Arc::new(Look::default());
    let storage: Arc<dyn Storage> = Arc::clone(&look) as Arc<dyn Storage>;
    let states = States::new(config);
    let mut missing = Vec::new();
    for entry in &config.volumes {
        let VolumeEntry { name, url, .. } = entry;
        let tried = linerate::try_here(url, &storage)
            .map_err(|error| format!("the volume {name:?} cannot be opened: {url}: {error}"))
            .and_then(|tried| states.look(entry).map(|_| tried).map_err(|error| format!("{error:#}")));
        let in_use = look.found_in_use();
        match tried {
            Err(why) if entry.nofail => missing.push(why),
            Err(why) => findings.problems.push(why),
            Ok(Tried::Elsewhere) => findings.untried.push(format!(
                "the volume {name:?} was not tried: {url} is on another machine; linerate inspect connects to it"
            )),
            Ok(Tried::Here) if in_use => findings.untried.push(format!(
                "the volume {name:?} is in use: {url} is open for another process, such as a server that runs; another server \
                 cannot start until that has ended"
            )),
            Ok(Tried::Here) => {}
        }
    }
    if !missing.is_empty() && missing.len() == config.volumes.len() {
        findings.problems.push(format!("no volume can be served: {}", missing.join("; ")));
    } else {
        let left_out = |why| format!("{why}; the others are served without it");
        findings.warnings.extend(missing.into_iter().map(left_out));
    }
}
