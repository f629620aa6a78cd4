//! Where volumes keep their state, and what they find there when the server begins.
//!
//! A volume whose data does not outlive the process keeps nothing. The others have a folder each, in the state folder that the user names or in the
//! usual place. In a folder that the user names they go by their names alone: who names it says which servers share it. The usual place belongs
//! to all servers of a user, so volumes go there by name and by what they lie on: two servers' volumes of one name are two.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use backends::FolderState;
use host::{StateStore, VolumeState};
use names::Source;
use protocol::Entropy;
use reactor::SystemFolder;
use sha2::{Digest as _, Sha256};

use crate::config::{Config, NFS_STATE, PortalEntry, Protocol, ShareEntry, VolumeEntry};
use crate::identity::{Identity, uuid_of};
use crate::kept::{Kept, seen};

/// The usual place for the system's own services.
const SYSTEM: &str = "/var/lib/linerate";

/// The state of a server's volumes.
#[derive(Debug)]
pub(crate) struct States {
    /// `None` if nobody says where.
    store: Option<Arc<dyn StateStore>>,
    /// The user has named the folder.
    named: bool,
}

/// What is known of a volume before it is opened.
#[derive(Debug)]
pub(crate) struct Before {
    state: VolumeState,
    seen: Vec<u8>,
}

impl Before {
    /// A volume of which this is kept, and nothing was seen.
    #[cfg(test)]
    pub(crate) fn of(state: VolumeState) -> Self {
        Self { state, seen: Vec::new() }
    }

    /// What was kept of it.
    pub(crate) fn state(&self) -> &VolumeState {
        &self.state
    }
}

impl States {
    /// In the folder that the configuration names, or in the usual place.
    pub(crate) fn new(config: &Config) -> Self {
        let usual = || usual(|name| std::env::var_os(name), rustix::process::geteuid().is_root());
        let named = config.daemon.state.clone();
        let path = named.clone().or_else(usual);
        Self { store: path.map(|path| folder(&path)), named: named.is_some() }
    }

    /// True when volumes of one name have one state, whatever they lie on.
    pub(crate) fn go_by_name(&self) -> bool {
        self.named
    }

    /// Looks at a volume that is about to be opened. Nothing is made: it may not be there.
    pub(crate) fn look(&self, entry: &VolumeEntry) -> Result<Before> {
        let source = &entry.url.source;
        if is_ephemeral(source) {
            return Ok(Before { state: VolumeState::ephemeral(), seen: Vec::new() });
        }
        let store = self.store.as_ref().ok_or_else(|| no_place("the volume", &entry.name))?;
        let name =
            if self.named { entry.name.clone() } else { format!("{}-{}", entry.name, telling(source)) };
        Ok(Before { state: VolumeState::new(Arc::clone(store), name), seen: seen(source) })
    }

    /// Where a share keeps the key of its handles.
    pub(crate) fn of_share(&self, entry: &ShareEntry) -> Result<VolumeState> {
        let ShareEntry { name, url, .. } = entry;
        let store = self.store.as_ref().ok_or_else(|| no_place("the share", name))?;
        let place = canonical(Path::new(&url.path)).display().to_string();
        let named =
            if self.named { name.clone() } else { format!("{name}-{}", digits(&format!("dir {place}"))) };
        Ok(VolumeState::new(Arc::clone(store), named))
    }

    /// Where the records of NFS clients are kept. In the usual place they go by where clients come to; a server that takes any free port is found by no client again.
    pub(crate) fn of_nfs(&self, portals: &[PortalEntry]) -> Result<VolumeState> {
        let mut listens = portals.iter().filter(|portal| portal.protocol == Protocol::Nfs);
        let fixed = listens.find(|portal| portal.listen.port != 0);
        let Some(portal) = fixed else { return Ok(VolumeState::ephemeral()) };
        let store = self.store.as_ref().ok_or_else(|| no_place("the server", NFS_STATE))?;
        let listen = portal.listen.to_string();
        let named =
            if self.named { NFS_STATE.to_owned() } else { format!("{NFS_STATE}-{}", digits(&listen)) };
        Ok(VolumeState::new(Arc::clone(store), named))
    }

    /// What is kept of a volume that was opened. It is this process's from now on.
    pub(crate) fn keep(entry: &VolumeEntry, before: Before, entropy: &mut dyn Entropy) -> Result<Kept> {
        let Before { state, seen } = before;
        let uuid = uuid_of(entry.uuid, &state, entropy)
            .with_context(|| format!("the volume {:?} cannot be served", entry.name))?;
        let identity = Identity::new(uuid, entry.serial.as_deref());
        Ok(Kept { identity, state, source: entry.url.source.clone(), seen, mark: [0; 16] })
    }
}

fn no_place(what: &str, name: &str) -> anyhow::Error {
    anyhow!(
        "there is no place for the state of {what} {name:?}, as HOME is not set: name a folder with --state DIR"
    )
}

fn folder(path: &Path) -> Arc<dyn StateStore> {
    Arc::new(FolderState::new(Arc::new(SystemFolder::new(path))))
}

/// The usual state folder: what systemd has made for the service, the system's, or the user's own (XDG Base Directory Specification).
fn usual(variable: impl Fn(&str) -> Option<OsString>, root: bool) -> Option<PathBuf> {
    let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // systemd names all folders of the service, with colons between them.
    let service = variable("STATE_DIRECTORY").and_then(|folders| {
        let first = folders.to_str()?.split(':').next().map(PathBuf::from);
        first.filter(|path| path.is_absolute())
    });
    service
        .or_else(|| root.then(|| PathBuf::from(SYSTEM)))
        .or_else(|| folder("XDG_STATE_HOME").map(|path| path.join("linerate")))
        .or_else(|| folder("HOME").map(|path| path.join(".local/state/linerate")))
}

/// True for what is gone when the process ends. No two volumes have it in common.
pub(crate) fn is_ephemeral(source: &Source) -> bool {
    matches!(source, Source::Ram(_) | Source::Null(_))
}

/// What a volume lies on, whatever the options are.
pub(crate) fn place(source: &Source) -> String {
    let place = match source {
        Source::File(file) => canonical(Path::new(&file.path)).display().to_string(),
        // Where a link to a device leads may change from one boot to the next.
        Source::Device(device) => device.path.clone(),
        Source::Iscsi(url) => format!("{}/{}/{}", url.portal, url.target, url.lun),
        Source::Nvme(url) => format!("{}/{}/{}", url.portal, url.subsystem, url.nsid),
        Source::Nfs(url) => format!("{}{}", url.portal, url.path()),
        _ => String::new(),
    };
    format!("{} {place}", source.scheme())
}

/// Some digits that depend on what a volume lies on, whatever the options are.
fn telling(source: &Source) -> String {
    digits(&place(source))
}

/// Some digits that depend on a place.
fn digits(place: &str) -> String {
    let digest = Sha256::new().chain_update(place).finalize();
    let number = digest.first_chunk().copied().map_or(0, u64::from_be_bytes);
    format!("{number:016x}")
}

/// The path without links, also if the file is yet to be made.
fn canonical(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(std::fs::canonicalize(folder).ok()?.join(path.file_name()?))
    };
    std::fs::canonicalize(path).ok().or_else(of_folder).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use protocol::SeededEntropy;

    use super::*;

    fn entry(text: &str) -> VolumeEntry {
        VolumeEntry::alone("disk".to_owned(), text.parse().unwrap())
    }

    fn states(folder: &Path, named: bool) -> States {
        States { store: Some(super::folder(folder)), named }
    }

    fn keep(states: &States, entry: &VolumeEntry, seed: u64) -> Result<Kept> {
        States::keep(entry, states.look(entry)?, &mut SeededEntropy::new(seed))
    }

    fn identity(states: &States, entry: &VolumeEntry, seed: u64) -> Identity {
        keep(states, entry, seed).unwrap().identity
    }

    #[test]
    fn the_usual_place() {
        for (variables, root, expected) in [
            (&[("HOME", "/h")][..], false, Some("/h/.local/state/linerate")),
            (&[("HOME", "/h"), ("XDG_STATE_HOME", "/x")], false, Some("/x/linerate")),
            (&[("HOME", "/h"), ("XDG_STATE_HOME", "relative")], false, Some("/h/.local/state/linerate")),
            (&[("HOME", "/h"), ("XDG_STATE_HOME", "/x")], true, Some("/var/lib/linerate")),
            (&[("STATE_DIRECTORY", "/var/lib/one:/var/lib/two")], true, Some("/var/lib/one")),
            (&[("STATE_DIRECTORY", "/var/lib/one"), ("HOME", "/h")], false, Some("/var/lib/one")),
            (&[("HOME", "")], false, None),
            (&[], false, None),
        ] {
            let variable =
                |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
            assert_eq!(usual(variable, root), expected.map(PathBuf::from), "{variables:?} {root}");
        }
    }

    #[test]
    fn volumes_of_one_name_are_one_in_a_folder_that_is_named_and_two_in_the_usual_place() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| entry(&format!("file:{}/{name}", folder.path().display()));
        let (one, two) = (at("one.img"), at("two.img?size=1M&direct=1"));
        for named in [false, true] {
            let place = folder.path().join(named.to_string());
            let first = identity(&states(&place, named), &one, 1);
            assert_eq!(identity(&states(&place, named), &one, 2), first, "it is stable");
            assert_eq!(identity(&states(&place, named), &two, 3) == first, named);
        }
        assert_eq!(telling(&two.url.source), telling(&at("two.img").url.source), "options do not matter");
        std::fs::write(folder.path().join("two.img"), "").unwrap();
        std::os::unix::fs::symlink("two.img", folder.path().join("link.img")).unwrap();
        assert_eq!(telling(&at("link.img").url.source), telling(&two.url.source), "nor how it is reached");
    }

    #[test]
    fn what_does_not_outlive_the_process_is_new_each_time_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let states = states(folder.path(), true);
        assert_ne!(identity(&states, &entry("ram:1M"), 1), identity(&states, &entry("ram:1M"), 2));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn another_server_with_the_same_state_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = entry("file:disk.img");
        let one = states(folder.path(), true);
        identity(&one, &file, 1);
        let refusal = keep(&states(folder.path(), true), &file, 2).unwrap_err();
        assert!(format!("{refusal:#}").contains("is in use"), "{refusal:#}");
    }
}
