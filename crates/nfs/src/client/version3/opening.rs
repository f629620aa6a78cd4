//! From a new connection to an open file: one call after the other, each with its state.
//!
//! ```text
//!  the file's handle is known:  Examining on, and LookingUp if it is stale
//!
//!  LookingUp ─► Examining ─► Checking ─► Sizing ─► Committing ─► Opened
//!                 │  ▲
//!                 ▼  │
//!               Growing
//! ```

use alloc::format;
use alloc::string::{String, ToString as _};

use rpc::xdr::Writer;
use volume::Geometry;

use super::config::Nfs3Config;
use super::results::Results;
use super::verdict::{remedy, verdict};
use crate::client::config::Access;
use crate::client::limits::PAYLOAD;
use crate::client::remote::{RemoteFile, RemoteFileParts, Version, geometry_of, shown, wrong_kind};
use crate::client::verdict::Verdict;
use crate::v3::procedure::{Handle, Number};
use crate::v3::results::{FileAttributes, Success};
use crate::v3::{Status, arguments};
use crate::v4::Verifier;

/// ACCESS3_READ, ACCESS3_MODIFY (RFC 1813 §3.3.4).
const READ: u32 = 0x01;
const MODIFY: u32 = 0x04;

/// Where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// LOOKUP, of one name.
    LookingUp,
    /// GETATTR.
    Examining,
    /// SETATTR of the size, unless another client has changed the file meanwhile.
    Growing,
    /// ACCESS: nothing is opened, so nothing else says who may write.
    Checking,
    /// FSINFO: how large READs and WRITEs may be.
    Sizing,
    /// COMMIT, for the write verifier.
    Committing,
    /// All is done.
    Opened,
}

/// What an answer led to.
#[derive(Debug)]
pub(super) enum Opening {
    /// The next step is to be sent.
    Next,
    /// The same step is to be sent again, a little later.
    Later,
    /// It cannot be opened.
    Failed(String),
    /// The file is open.
    Opened(RemoteFile),
}

/// A file that is being opened.
#[derive(Debug)]
pub(super) struct Opened {
    stage: Stage,
    /// Names of the path that have led to `handle`.
    reached: usize,
    /// The directory that was reached; from Examining on the file.
    handle: Handle,
    /// The handle is that of the connection before.
    kept: bool,
    attributes: Option<FileAttributes>,
    verifier: Option<Verifier>,
    /// Bytes of the largest READ and WRITE.
    pub(super) read_limit: u32,
    pub(super) write_limit: u32,
    /// The server has said that the file has grown.
    grown: bool,
}

impl Opened {
    /// Begins with the file that the connection before has found, or with the export.
    pub(super) fn new(config: &Nfs3Config) -> Self {
        let kept = config.keep.get();
        let mut opened = Self {
            stage: Stage::Examining,
            reached: config.export.path.len(),
            kept: kept.is_some(),
            handle: kept.unwrap_or_default(),
            attributes: None,
            verifier: None,
            read_limit: PAYLOAD,
            write_limit: PAYLOAD,
            grown: false,
        };
        if !opened.kept {
            opened.look_up(config);
        }
        opened
    }

    /// The way begins at the export.
    fn look_up(&mut self, config: &Nfs3Config) {
        self.kept = false;
        self.reached = config.export.mounted;
        self.handle.clone_from(&config.export.root);
        self.stage = Stage::LookingUp;
    }

    /// The file, once it is found.
    pub(super) fn file(&self) -> &[u8] {
        &self.handle
    }

    /// Writes the call of this step.
    pub(super) fn step(&self, config: &Nfs3Config, out: &mut Writer) -> Option<Number> {
        Some(match self.stage {
            Stage::LookingUp => {
                arguments::lookup(out, &self.handle, config.export.path.get(self.reached)?);
                Number::LOOKUP
            }
            Stage::Examining => {
                arguments::object(out, &self.handle);
                Number::GETATTR
            }
            Stage::Growing => {
                arguments::set_size(out, &self.handle, config.size?, self.attributes?.changed);
                Number::SETATTR
            }
            Stage::Checking => {
                arguments::access(out, &self.handle, wanted(config));
                Number::ACCESS
            }
            Stage::Sizing => {
                arguments::object(out, &config.export.root);
                Number::FSINFO
            }
            Stage::Committing => {
                arguments::commit(out, &self.handle, 0, 1);
                Number::COMMIT
            }
            Stage::Opened => return None,
        })
    }

    /// Takes the answer to this step.
    pub(super) fn answer(&mut self, config: &Nfs3Config, results: Results) -> Opening {
        let number = results.number();
        match results.outcome {
            Some(Ok(success)) => self.advance(config, success),
            Some(Err(Status::JUKEBOX)) => Opening::Later,
            Some(Err(status)) => self.refused(config, number, status),
            None => Opening::Failed(format!("the server's answer to {} is empty", number.name())),
        }
    }

    fn advance(&mut self, config: &Nfs3Config, success: Success) -> Opening {
        match (self.stage, success) {
            (Stage::LookingUp, Success::Found(handle)) => {
                self.handle = handle;
                self.reached = self.reached.saturating_add(1);
                if self.reached >= config.export.path.len() {
                    self.stage = Stage::Examining;
                }
            }
            (Stage::Examining, Success::Attributes(attributes)) => return self.examined(config, attributes),
            (Stage::Growing, Success::Changed) => {
                self.grown = true;
                self.stage = Stage::Examining;
            }
            (Stage::Checking, Success::Granted(granted)) => {
                let wanted = wanted(config);
                if granted & wanted != wanted {
                    return Opening::Failed(not_granted(config, granted));
                }
                self.stage = Stage::Sizing;
            }
            (Stage::Sizing, Success::Information { max_read, max_write }) => {
                let least = |told: u32| {
                    (PAYLOAD.min(told) / config.block_size).max(1).saturating_mul(config.block_size)
                };
                (self.read_limit, self.write_limit) = (least(max_read), least(max_write));
                if config.access == Access::ReadOnly {
                    return self.opened(config);
                }
                self.stage = Stage::Committing;
            }
            (Stage::Committing, Success::Committed(verifier)) => {
                self.verifier = Some(verifier);
                return self.opened(config);
            }
            _ => {}
        }
        Opening::Next
    }

    fn examined(&mut self, config: &Nfs3Config, attributes: FileAttributes) -> Opening {
        let path = &config.export.path;
        if let Some(wrong) = wrong_kind(path, attributes.file_type) {
            return Opening::Failed(wrong);
        }
        let size = attributes.size;
        let grows = config.size.is_some_and(|wanted| wanted > size) && config.access != Access::ReadOnly;
        self.attributes = Some(attributes);
        if grows && self.grown {
            return Opening::Failed(format!(
                "{} has {size} bytes although the server says that it has grown: make it as large as the volume is to be",
                shown(path)
            ));
        }
        self.stage = if grows { Stage::Growing } else { Stage::Checking };
        Opening::Next
    }

    fn opened(&mut self, config: &Nfs3Config) -> Opening {
        let Some(FileAttributes { size, fsid, fileid, .. }) = self.attributes else { return Opening::Next };
        let geometry: Geometry = match geometry_of(&config.export.path, size, config.block_size) {
            Ok(geometry) => geometry,
            Err(error) => return Opening::Failed(error.to_string()),
        };
        self.stage = Stage::Opened;
        config.keep.set(Some(self.handle.clone()));
        Opening::Opened(RemoteFile::new(&RemoteFileParts {
            geometry,
            deallocates: false,
            writes: config.access != Access::ReadOnly,
            max_transfer: self.read_limit.min(self.write_limit),
            identity: ([0, fsid], fileid),
            verifier: self.verifier,
            version: Version::Three,
        }))
    }

    /// A step has failed.
    fn refused(&mut self, config: &Nfs3Config, number: Number, status: Status) -> Opening {
        match (self.stage, verdict(status)) {
            // Another file may have its name by now.
            (Stage::Examining, Verdict::NoState) if self.kept => {
                config.keep.set(None);
                self.look_up(config);
                return Opening::Next;
            }
            // Another client was faster.
            (Stage::Growing, _) if status == Status::NOT_SYNC => {
                self.stage = Stage::Examining;
                return Opening::Later;
            }
            _ => {}
        }
        let path = &config.export.path;
        let place = match self.stage {
            Stage::LookingUp => path.get(..self.reached.saturating_add(1)).unwrap_or(path),
            _ => path,
        };
        let what = match self.stage {
            Stage::LookingUp => "is not found",
            Stage::Growing => "cannot be made larger",
            _ => "cannot be opened",
        };
        let (place, name) = (shown(place), number.name());
        Opening::Failed(format!("{place} {what}: {name} answers {status}; {}", remedy(status)))
    }
}

/// What is asked of ACCESS.
fn wanted(config: &Nfs3Config) -> u32 {
    if config.access == Access::ReadOnly { READ } else { READ | MODIFY }
}

/// Why a file cannot be used that ACCESS does not grant.
fn not_granted(config: &Nfs3Config, granted: u32) -> String {
    let place = shown(&config.export.path);
    if config.access == Access::ReadOnly || granted & READ == 0 {
        return format!("{place} cannot be opened: ACCESS does not grant reading; {}", remedy(Status::ACCES));
    }
    let remedy = remedy(Status::ACCES);
    format!(
        "{place} cannot be opened for reading and writing: ACCESS does not grant writing; {remedy}; if the export is read-only, write readonly+ before the URL"
    )
}
