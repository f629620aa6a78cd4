//! Secrets for initiators: read from the file that the URL names, never part of an error.

use engine::remote::Secrets;
use names::IscsiOptions;
use volume::OpenError;

/// The secrets that a URL's options name, if any.
pub(crate) fn of(options: &IscsiOptions) -> Result<Option<Secrets>, OpenError> {
    let Some(chap) = &options.chap else { return Ok(None) };
    let mutual = chap.mutual.as_ref().map(|mutual| read(&mutual.secret_file)).transpose()?;
    Ok(Some((read(&chap.secret_file)?, mutual)))
}

/// The file's content without the line end.
fn read(path: &str) -> Result<Vec<u8>, OpenError> {
    let mut secret = std::fs::read(path)
        .map_err(|error| OpenError::new(format!("the secret file {path} cannot be read: {error}")))?;
    while secret.last().is_some_and(|&byte| byte == b'\n' || byte == b'\r') {
        secret.pop();
    }
    if secret.is_empty() {
        return Err(OpenError::new(format!("the secret file {path} is empty")));
    }
    Ok(secret)
}
