//! From a new connection to an open file: one COMPOUND after the other, each with its state.
//!
//! ```text
//!  a session is left:  Binding ─► Settling ──────────────────────────────────────┐
//!                        │ it is gone                                            ▼
//!  Destroying ─► Exchanging ─► Creating ─► Completing ─► LookingUp ─► Opening ─► Examining ─► Trying ─► Mounted
//!                                │          ▲ │                      ▲           │ ▲
//!                                ├─► Reclaiming                      │      Growing│
//!                                └─► Freeing ─┘└─── reclaimed ───────┴───────────┘
//! ```
//!
//! `Destroying` ends a session that is of no use any more: what it still carries out is over when that is answered (RFC 8881 §18.37). `Freeing` acknowledges that the server
//! has taken back what was open: until then it says so with each SEQUENCE (§18.46.3). `Trying` finds out whether the server deallocates, which no attribute tells.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use rpc::xdr::Writer;

use super::arguments::{Arguments, Compound, Opening};
use super::config::{Access, Config, Versions};
use super::found::FileFacts;
use super::limits::COMPONENTS;
use super::remote::{RemoteFile, RemoteFileParts, Version, geometry_of, shown, wrong_kind};
use super::results::Results;
use super::session::{OpenFile, Session};
use super::subject::SlotUse;
use super::verdict::{Verdict, remedy, verdict};
use crate::v4::operation::{CONFIRMED, OpNumber};
use crate::v4::{SessionId, Stateid, Status, Verifier};

/// Where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// BIND_CONN_TO_SESSION: the session of before goes on here.
    Binding,
    /// What the connection of before left in slots.
    Settling,
    /// DESTROY_SESSION of one that is of no use any more.
    Destroying,
    /// EXCHANGE_ID.
    Exchanging,
    /// CREATE_SESSION.
    Creating,
    /// OPEN, of what was open before the server restarted.
    Reclaiming,
    /// FREE_STATEID, of what was open at a server that still knows the client.
    Freeing,
    /// RECLAIM_COMPLETE.
    Completing,
    /// LOOKUP, of some names.
    LookingUp,
    /// OPEN.
    Opening,
    /// GETATTR, and COMMIT for the write verifier.
    Examining,
    /// VERIFY that the size is still what it was, and SETATTR of the new one: a file that another client has made larger is never cut.
    Growing,
    /// DEALLOCATE, behind the end.
    Trying,
    /// All is done.
    Mounted,
}

/// What an answer led to.
#[derive(Debug)]
pub(super) enum Mounting {
    /// The next step is to be sent.
    Next,
    /// The same step is to be sent again, a little later.
    Later,
    /// It cannot be mounted.
    Failed(String),
    /// The session, or what was open, is no more: a new connection begins without it.
    Lost(Verdict),
    /// The file is open.
    Mounted(RemoteFile),
}

/// A file that is being opened.
#[derive(Debug)]
pub(super) struct Mount {
    pub(super) stage: Stage,
    pub(super) minor: u32,
    pub(super) session: Option<Session>,
    pub(super) file: Option<OpenFile>,
    pub(super) obsolete: Option<SessionId>,
    exchanged: Option<super::found::Exchanged>,
    /// Names that were looked up.
    looked_up: usize,
    /// The directory that was reached; none is the root.
    directory: Option<Vec<u8>>,
    facts: FileFacts,
    verifier: Option<Verifier>,
    reclaimed: bool,
    /// The server has said that the file has grown.
    grown: bool,
}

impl Mount {
    /// Begins with what a connection before has left.
    pub(super) fn new(config: &Config, remains: super::session::Remains) -> Self {
        let minor = remains.minor.unwrap_or(if config.versions == Versions::One { 1 } else { 2 });
        let stage = match (&remains.session, remains.obsolete) {
            (Some(_), _) => Stage::Binding,
            (None, Some(_)) => Stage::Destroying,
            (None, None) => Stage::Exchanging,
        };
        Self {
            stage,
            minor,
            session: remains.session,
            file: remains.file,
            obsolete: remains.obsolete,
            exchanged: None,
            looked_up: 0,
            directory: None,
            facts: FileFacts::default(),
            verifier: None,
            reclaimed: false,
            grown: false,
        }
    }

    /// True if the step goes into a slot of the session.
    pub(super) fn needs_slot(&self) -> bool {
        !matches!(
            self.stage,
            Stage::Binding
                | Stage::Destroying
                | Stage::Exchanging
                | Stage::Creating
                | Stage::Settling
                | Stage::Mounted
        )
    }

    fn opening(config: &Config) -> Opening {
        Opening {
            writes: config.access != Access::ReadOnly,
            excludes_writers: config.access == Access::Exclusive,
        }
    }

    fn begin(&self, writer: Writer, of: Option<SlotUse>) -> Option<Arguments> {
        let cache = matches!(self.stage, Stage::Opening | Stage::Reclaiming | Stage::Growing);
        Some(self.session.as_ref()?.begin(writer, of?, cache))
    }

    /// The COMPOUND of this step.
    pub(super) fn step(&self, config: &Config, writer: Writer, of: Option<SlotUse>) -> Option<Compound> {
        let bare = |writer| Arguments::new(writer, self.minor);
        let opening = Self::opening(config);
        let client = self.session.as_ref().map(|session| session.client);
        let file = self.file.as_ref();
        let arguments = match self.stage {
            Stage::Settling | Stage::Mounted => return None,
            Stage::Binding => bare(writer).bind(self.session.as_ref()?.id),
            Stage::Destroying => bare(writer).destroy_session(self.obsolete?),
            Stage::Exchanging => bare(writer).exchange_id(&config.owner, config.verifier),
            Stage::Creating => {
                let exchanged = self.exchanged?;
                bare(writer).create_session(exchanged.client, exchanged.sequence)
            }
            Stage::Reclaiming => {
                let arguments = self.begin(writer, of)?.put_handle(&file?.handle);
                arguments.reclaim(opening, client?, &config.owner)
            }
            Stage::Freeing => self.begin(writer, of)?.free(file?.stateid),
            Stage::Completing => self.begin(writer, of)?.reclaim_complete(),
            Stage::LookingUp => {
                let lookups = self.session.as_ref()?.lookups;
                let names = config.path.get(self.looked_up..directories(config)).unwrap_or_default();
                let arguments = self.at_directory(self.begin(writer, of)?);
                names
                    .iter()
                    .take(lookups)
                    .fold(arguments, |arguments, name| arguments.lookup(name))
                    .get_handle()
            }
            Stage::Opening => {
                let arguments = self.at_directory(self.begin(writer, of)?);
                arguments.open(opening, client?, &config.owner, config.path.last()?).get_handle()
            }
            Stage::Examining => {
                let arguments = self.begin(writer, of)?.put_handle(&file?.handle);
                let arguments = arguments.get_attributes(&FileFacts::OPENING);
                if opening.writes { arguments.commit(0, 1) } else { arguments }
            }
            Stage::Growing => {
                let file = file?;
                let arguments = self.begin(writer, of)?.put_handle(&file.handle);
                arguments.verify_size(self.facts.size?).set_size(file.stateid, config.size?)
            }
            Stage::Trying => {
                let file = file?;
                let end = self.facts.size?;
                self.begin(writer, of)?.put_handle(&file.handle).deallocate(file.stateid, end, 4096)
            }
        };
        Some(arguments.finish())
    }

    fn at_directory(&self, arguments: Arguments) -> Arguments {
        match &self.directory {
            Some(handle) => arguments.put_handle(handle),
            None => arguments.put_root(),
        }
    }

    /// Takes the answer to this step.
    pub(super) fn answer(&mut self, config: &Config, results: &mut Results) -> Mounting {
        let status = results.status();
        if matches!(status, Status::DELAY | Status::GRACE)
            && !(self.stage == Stage::Reclaiming && status == Status::GRACE)
        {
            return Mounting::Later;
        }
        if !status.is_ok() {
            return self.refused(config, results, status);
        }
        let found = results.found.take().unwrap_or_default();
        match self.stage {
            Stage::Binding => self.stage = Stage::Settling,
            Stage::Destroying => {
                self.obsolete = None;
                self.stage = Stage::Exchanging;
            }
            Stage::Exchanging => {
                self.exchanged = found.exchanged;
                self.stage = Stage::Creating;
            }
            Stage::Creating => {
                let Some(exchanged) = self.exchanged else { return Mounting::Next };
                let made = found.session;
                let session = made
                    .and_then(|made| Session::new(exchanged.client, made.session, self.minor, &made.channel));
                let Some(session) = session else {
                    return Mounting::Failed(
                        "the server grants sessions of messages that hold no block of 4096 bytes, or of less than four operations: raise its limits"
                            .to_owned(),
                    );
                };
                self.session = Some(session);
                let is_known = exchanged.flags & CONFIRMED != 0;
                self.stage = match (&self.file, is_known) {
                    (None, _) => Stage::Completing,
                    (Some(_), true) => Stage::Freeing,
                    (Some(_), false) => Stage::Reclaiming,
                };
            }
            Stage::Freeing => self.stage = Stage::Completing,
            Stage::Reclaiming => {
                self.keep_stateid(found.stateid);
                self.reclaimed = true;
                self.stage = Stage::Completing;
            }
            Stage::Completing => self.complete(config),
            Stage::LookingUp => {
                let step = self.session.as_ref().map_or(1, |session| session.lookups);
                self.looked_up = self.looked_up.saturating_add(step).min(directories(config));
                self.directory = found.handle;
                self.stage = next_name(self.looked_up, config);
            }
            Stage::Opening => {
                let (Some(handle), Some(stateid)) = (found.handle, found.stateid) else {
                    return Mounting::Failed("the server's answer to OPEN has no handle".to_owned());
                };
                self.file = Some(OpenFile { handle, stateid: newest(stateid) });
                self.stage = Stage::Examining;
            }
            Stage::Examining => {
                return self.examined(config, &found.facts.unwrap_or_default(), results.data.verifier);
            }
            Stage::Growing => {
                self.grown = true;
                self.stage = Stage::Examining;
            }
            Stage::Trying => return self.mounted(config, true),
            Stage::Settling | Stage::Mounted => {}
        }
        Mounting::Next
    }

    fn keep_stateid(&mut self, stateid: Option<Stateid>) {
        if let (Some(file), Some(stateid)) = (&mut self.file, stateid) {
            file.stateid = newest(stateid);
        }
    }

    /// What was not reclaimed is opened as if for the first time.
    fn complete(&mut self, config: &Config) {
        if self.reclaimed {
            self.stage = Stage::Examining;
        } else {
            self.file = None;
            self.stage = next_name(0, config);
        }
    }

    /// What is left in slots is settled.
    pub(super) fn settled(&mut self) {
        self.stage = Stage::Examining;
    }

    fn examined(&mut self, config: &Config, facts: &FileFacts, verifier: Option<Verifier>) -> Mounting {
        // A server that does not tell the type has told of no file.
        if let Some(wrong) = wrong_kind(&config.path, facts.kind.unwrap_or_default()) {
            return Mounting::Failed(wrong);
        }
        let Some(size) = facts.size else {
            return Mounting::Failed("the server does not tell the file's size".to_owned());
        };
        let grows = config.size.is_some_and(|wanted| wanted > size) && config.access != Access::ReadOnly;
        (self.facts, self.verifier) = (*facts, verifier);
        if grows && self.grown {
            return Mounting::Failed(format!(
                "{} has {size} bytes although the server says that it has grown: make it as large as the volume is to be",
                shown(&config.path)
            ));
        }
        if grows {
            self.stage = Stage::Growing;
            return Mounting::Next;
        }
        if self.minor >= 2 && config.access != Access::ReadOnly {
            self.stage = Stage::Trying;
            return Mounting::Next;
        }
        self.mounted(config, false)
    }

    fn mounted(&mut self, config: &Config, deallocates: bool) -> Mounting {
        let size = self.facts.size.unwrap_or_default();
        let geometry = match geometry_of(&config.path, size, config.block_size) {
            Ok(geometry) => geometry,
            Err(error) => return Mounting::Failed(error.to_string()),
        };
        let Some(session) = &mut self.session else { return Mounting::Lost(Verdict::NoSession) };
        let least = |limit: u32, told: Option<u64>| {
            let told = told.map_or(u32::MAX, wire::saturate::<u32>);
            (limit.min(told) / config.block_size).max(1).saturating_mul(config.block_size)
        };
        session.read_limit = least(session.read_limit, self.facts.max_read);
        session.write_limit = least(session.write_limit, self.facts.max_write);
        let parts = RemoteFileParts {
            geometry,
            deallocates,
            writes: config.access != Access::ReadOnly,
            max_transfer: session.read_limit.min(session.write_limit),
            identity: (self.facts.fsid.unwrap_or_default(), self.facts.fileid.unwrap_or_default()),
            verifier: self.verifier,
            version: Version::Four { minor: self.minor },
        };
        self.stage = Stage::Mounted;
        Mounting::Mounted(RemoteFile::new(&parts))
    }

    /// A step has failed.
    fn refused(&mut self, config: &Config, results: &Results, status: Status) -> Mounting {
        match (self.stage, status) {
            (Stage::Exchanging, Status::MINOR_VERS_MISMATCH)
                if self.minor == 2 && config.versions == Versions::Newest =>
            {
                self.minor = 1;
                return Mounting::Next;
            }
            // The session is gone; so is what it carried out.
            (Stage::Binding, Status::BADSESSION | Status::DEADSESSION) => {
                self.session = None;
                self.stage = Stage::Exchanging;
                return Mounting::Next;
            }
            // It may still carry something out.
            (Stage::Binding, _) => {
                self.obsolete = self.session.take().map(|session| session.id);
                self.stage = Stage::Destroying;
                return Mounting::Next;
            }
            (Stage::Destroying, _) => {
                self.obsolete = None;
                self.stage = Stage::Exchanging;
                return Mounting::Next;
            }
            (Stage::Creating, Status::STALE_CLIENTID | Status::SEQ_MISORDERED) => {
                self.stage = Stage::Exchanging;
                return Mounting::Later;
            }
            // There is nothing to reclaim, or to free.
            (Stage::Reclaiming | Stage::Freeing, _) if results.failed() != Some(OpNumber::SEQUENCE) => {
                self.stage = Stage::Completing;
                return Mounting::Next;
            }
            (Stage::Completing, Status::COMPLETE_ALREADY) => {
                self.complete(config);
                return Mounting::Next;
            }
            // Another client was faster.
            (Stage::Growing, Status::NOT_SAME) => {
                self.stage = Stage::Examining;
                return Mounting::Later;
            }
            (Stage::Trying, _)
                if results.failed() == Some(OpNumber::DEALLOCATE)
                    && matches!(verdict(status), Verdict::Fails(_)) =>
            {
                return self.mounted(config, false);
            }
            _ => {}
        }
        let opened = matches!(self.stage, Stage::Examining | Stage::Growing | Stage::Trying);
        match verdict(status) {
            lost @ Verdict::NoSession if self.needs_slot() => Mounting::Lost(lost),
            lost @ Verdict::NoState if opened => Mounting::Lost(lost),
            _ => Mounting::Failed(self.explain(config, results, status)),
        }
    }

    /// Why it cannot be opened, for people.
    fn explain(&self, config: &Config, results: &Results, status: Status) -> String {
        let index = results.stopped.map_or(0, |stopped| stopped.index);
        let place = match self.stage {
            Stage::LookingUp => {
                // Behind SEQUENCE and PUTFH.
                let name = self.looked_up.saturating_add(wire::index(u64::from(index.saturating_sub(1))));
                shown(config.path.get(..name.min(config.path.len())).unwrap_or_default())
            }
            _ => shown(&config.path),
        };
        let what = match self.stage {
            Stage::LookingUp => format!("{place} is not found"),
            Stage::Opening if config.access != Access::ReadOnly => {
                format!("{place} cannot be opened for reading and writing")
            }
            Stage::Opening | Stage::Reclaiming => format!("{place} cannot be opened"),
            Stage::Growing => format!("{place} cannot be made larger"),
            Stage::Examining | Stage::Trying => format!("{place} cannot be examined"),
            _ => "the server takes no client".to_owned(),
        };
        let operation = results.failed().map_or("COMPOUND", OpNumber::name);
        format!("{what}: {operation} answers {status}; {}", remedy(status))
    }
}

/// How many names are directories.
fn directories(config: &Config) -> usize {
    config.path.len().min(COMPONENTS).saturating_sub(1)
}

fn next_name(looked_up: usize, config: &Config) -> Stage {
    if looked_up < directories(config) { Stage::LookingUp } else { Stage::Opening }
}

/// A stateid that means its newest version.
fn newest(stateid: Stateid) -> Stateid {
    Stateid { seqid: 0, ..stateid }
}
