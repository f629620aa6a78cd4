//! What a directory of an NFS server holds: `linerate ls`.

use backends::SystemResolver;
use engine::remote;
use names::NfsUrl;
use nfs::client::names::{Entry, NameOperation, NamesOutcome};

use crate::metadata::NamesError;
use crate::metadata::wire::Wire;

/// What errors call a listing.
const PHASE: &str = "listing";

/// Gives each entry of the directory that `url` names to `tell`, in the server's order and as answers come: no more than one of them is held. What `tell` fails
/// with ends it.
///
/// # Errors
/// See [`NamesError`]; or what `tell` gives.
pub fn list_directory<E: From<NamesError>>(
    url: &NfsUrl,
    mut tell: impl FnMut(Entry) -> Result<(), E>,
) -> Result<(), E> {
    let addresses = remote::resolve(&url.portal, &SystemResolver).map_err(NamesError::from)?;
    let (mut wire, ready) = Wire::connect(&addresses, url)?;
    let mut from = None;
    loop {
        wire.submit(0, NameOperation::Entries { directory: ready.directory.clone(), from });
        let answer = loop {
            if let Some((_, answer)) = wire.poll()? {
                break answer;
            }
            wire.turn()?;
        };
        let name = || url.path();
        let outcome =
            answer.map_err(|status| NamesError::Operation { phase: PHASE, name: name(), status })?;
        let wrong = |what: &str| NamesError::Wrong { phase: PHASE, name: name(), what: what.to_owned() };
        let NamesOutcome::Entries(entries, listed) = outcome else {
            return Err(wrong("the answer is of something else").into());
        };
        if entries.is_empty() && !listed.at_end {
            return Err(wrong("an answer has no names, and is not the last").into());
        }
        entries.into_iter().try_for_each(&mut tell)?;
        if listed.at_end {
            break;
        }
        from = Some(listed);
    }
    Ok(wire.leave()?)
}
