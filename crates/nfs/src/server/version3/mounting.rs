//! MOUNT: a path becomes a handle (RFC 1813 appendix I).

use alloc::sync::Arc;
use alloc::vec::Vec;

use filesystem::{Credentials, FileType, Name, Operation, Outcome};
use rpc::message::Flavor;
use rpc::xdr::{Stream, Writer};

use super::super::context::{Input, Shared};
use super::super::executor::Wait;
use super::super::exports::Place;
use crate::limits::HANDLE_V3;
use crate::mount::{Call, Procedure, Status, components};

/// A procedure of MOUNT under way.
#[derive(Debug)]
pub(crate) struct Mounting {
    caller: Option<Arc<Credentials>>,
    out: Writer,
    procedure: Option<Procedure>,
    /// MNT: names that are not looked up yet, the next one last, and how far it is.
    names: Vec<Vec<u8>>,
    at: Option<Place>,
}

impl Mounting {
    /// Begins; [`Mounting::advance`] goes on.
    pub(crate) fn new(call: Call, caller: Option<Arc<Credentials>>, out: Writer) -> Self {
        Self { caller, out, procedure: call.into_procedure(), names: Vec::new(), at: None }
    }

    /// Goes on until it waits or is finished.
    pub(crate) fn advance(&mut self, shared: &Shared, input: Option<Input>) -> Wait {
        match self.procedure.take() {
            Some(Procedure::Mount(path)) => {
                match components(&path) {
                    Ok(names) => self.names = names,
                    Err(status) => return self.fail(status),
                }
                self.at = Some(shared.exports.root());
            }
            // Nobody is known to have mounted anything: an empty list.
            Some(Procedure::Dump) => {
                self.out.put(&false);
                return Wait::Finished;
            }
            Some(Procedure::Exports) => {
                self.tell_exports(shared);
                return Wait::Finished;
            }
            Some(Procedure::Unmount) => return Wait::Finished,
            None => {}
        }
        match self.walk(shared, input) {
            Ok(wait) => wait,
            Err(status) => self.fail(status),
        }
    }

    /// Goes on along the path.
    fn walk(&mut self, shared: &Shared, input: Option<Input>) -> Result<Wait, Status> {
        let mut at = self.at.ok_or(Status::SERVERFAULT)?;
        if let (Place::File { export, .. }, Some(input)) = (at, input) {
            let Input::File(result) = input else { return Err(Status::SERVERFAULT) };
            let (handle, file_type) = match result.map_err(Status::of)? {
                Outcome::Found(object) => (object.handle, object.attributes.file_type),
                _ => return Err(Status::SERVERFAULT),
            };
            // Nobody but the client follows symbolic links.
            if file_type != FileType::Directory {
                return Err(Status::NOTDIR);
            }
            at = Place::File { export, handle };
        }
        loop {
            self.at = Some(at);
            let Some(name) = self.names.pop() else { return self.tell(shared, at) };
            match at {
                Place::Pseudo(node) => {
                    at = shared.exports.lookup(node, &name).ok_or(Status::NOENT)?;
                }
                Place::File { export, handle } => {
                    let filesystem = shared.exports.get(export).ok_or(Status::NOENT)?.filesystem;
                    let grant = shared.grants.get(export).copied().flatten().ok_or(Status::ACCES)?;
                    let credentials = grant.credentials(self.caller.as_ref());
                    let name = Name::new(&name).map_err(Status::of)?;
                    let request = Operation::Lookup { directory: handle, name };
                    return Ok(Wait::File { filesystem, credentials, request });
                }
            }
        }
    }

    /// `mountres3_ok`. Directories that only lead to exports cannot be mounted in version 3.
    fn tell(&mut self, shared: &Shared, at: Place) -> Result<Wait, Status> {
        let Place::File { export, .. } = at else { return Err(Status::ACCES) };
        shared.grants.get(export).copied().flatten().ok_or(Status::ACCES)?;
        let handle = shared.exports.handle(at);
        if handle.len() > HANDLE_V3 {
            return Err(Status::NOTSUPP);
        }
        self.out.u32(Status::OK.0);
        self.out.opaque(&handle);
        self.out.array(&[Flavor::SYS.0]);
        Ok(Wait::Finished)
    }

    fn fail(&mut self, status: Status) -> Wait {
        let mut out = Writer::reuse(core::mem::take(&mut self.out).finish());
        out.u32(status.0);
        self.out = out;
        Wait::Finished
    }

    /// `exports`: what this client may mount. Who else may is nobody's business.
    fn tell_exports(&mut self, shared: &Shared) {
        for (export, grant) in shared.exports.iter().zip(&shared.grants) {
            if grant.is_none() {
                continue;
            }
            let mut path = Vec::new();
            for name in &export.path {
                path.push(b'/');
                path.extend_from_slice(name);
            }
            if path.is_empty() {
                path.push(b'/');
            }
            self.out.put(&true);
            self.out.opaque(&path);
            // No groups: everybody who sees the list.
            self.out.put(&false);
        }
        self.out.put(&false);
    }

    /// The answer.
    pub(crate) fn finish(self) -> Stream {
        self.out.finish()
    }
}
