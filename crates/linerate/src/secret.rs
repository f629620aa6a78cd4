//! Secrets for initiators: read from the file or the environment variable that the URL names, never part of an error.

use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;

use engine::remote::Secrets;
use names::{IscsiOptions, SecretPlace};
use volume::OpenError;

/// The secrets that a URL's options name, if any.
pub(crate) fn of(options: &IscsiOptions) -> Result<Option<Secrets>, OpenError> {
    let Some(chap) = &options.chap else { return Ok(None) };
    let mutual = chap.mutual.as_ref().map(|mutual| read(&mutual.secret)).transpose()?;
    Ok(Some((read(&chap.secret)?, mutual)))
}

/// The secret in a place, without a line end.
fn read(place: &SecretPlace) -> Result<Vec<u8>, OpenError> {
    let (name, mut secret) = match place {
        SecretPlace::File(path) => {
            let name = format!("the secret file {path}");
            let content = std::fs::read(path);
            (
                name.clone(),
                content.map_err(|error| {
                    OpenError::new(format!("{name} cannot be read: {error}; {}", remedy(&error)))
                })?,
            )
        }
        SecretPlace::Environment(variable) => {
            let name = format!("the environment variable {variable}, which is to hold a secret,");
            // The system knows no variable whose name is empty or has one of these; asking would be an error.
            let value = (!variable.contains(['=', '\0'])).then(|| std::env::var_os(variable)).flatten();
            let value = value.ok_or_else(|| OpenError::new(format!("{name} is not set: export it")))?;
            (name, value.into_vec())
        }
    };
    while secret.last().is_some_and(|&byte| byte == b'\n' || byte == b'\r') {
        secret.pop();
    }
    if secret.is_empty() {
        return Err(OpenError::new(format!("{name} is empty: put the secret there")));
    }
    Ok(secret)
}

/// What helps against a secret file that cannot be read.
fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "check the path, or put the secret there, for this user alone (chmod 600)",
        ErrorKind::PermissionDenied => "let this user read it (chown, chmod 600), or use another",
        _ => "check the path",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_read_from_both_places_and_never_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "hunter2\r\n").unwrap();
        let file = SecretPlace::File(path.display().to_string());
        assert_eq!(read(&file).unwrap(), b"hunter2");
        // Cargo sets this variable for every test.
        let variable = |name: &str| SecretPlace::Environment(name.to_owned());
        assert_eq!(read(&variable("CARGO_PKG_NAME")).unwrap(), b"linerate");
        std::fs::write(&path, "\n").unwrap();
        for (place, problem) in [
            (file, "is empty"),
            (SecretPlace::File("/no/such/file".to_owned()), "check the path, or put the secret there"),
            (SecretPlace::File("/".to_owned()), "check the path"),
            (variable("LINERATE_NO_SUCH_SECRET"), "is not set"),
            (variable("A=B"), "is not set"),
        ] {
            let error = read(&place).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
