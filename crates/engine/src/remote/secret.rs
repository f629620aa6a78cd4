//! Secrets for initiators: read from the file or the environment variable that the URL names, never part of an error.

use std::io::ErrorKind;

use ::volume::{OpenError, OpenStage};
use host::SecretReader;
use names::{IscsiOptions, SecretPlace};

use super::access::Secrets;

/// The secrets that a URL's options name, if any. May block.
pub fn read_secrets(options: &IscsiOptions, reader: &dyn SecretReader) -> Result<Option<Secrets>, OpenError> {
    let Some(chap) = &options.chap else { return Ok(None) };
    let read = |place| read(place, reader).map_err(|error| error.at(OpenStage::Secret));
    let mutual = chap.mutual.as_ref().map(|mutual| read(&mutual.secret)).transpose()?;
    Ok(Some(Secrets { initiator: read(&chap.secret)?, target: mutual }))
}

/// The secret in a place, without a line end.
fn read(place: &SecretPlace, reader: &dyn SecretReader) -> Result<Vec<u8>, OpenError> {
    let (name, mut secret) = match place {
        SecretPlace::File(path) => {
            let name = format!("the secret file {path}");
            let content = reader.file(path).map_err(|error| {
                OpenError::new(format!("{name} cannot be read: {error}; {}", remedy(&error))).because(error)
            })?;
            (name, content)
        }
        SecretPlace::Environment(variable) => {
            let name = format!("the environment variable {variable}, which is to hold a secret,");
            let value = reader.variable(variable);
            let value = value.ok_or_else(|| OpenError::new(format!("{name} is not set: export it")))?;
            (name, value)
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
    use std::io;

    use super::*;

    /// Files and variables that hold these.
    struct Places;

    impl SecretReader for Places {
        fn file(&self, path: &str) -> io::Result<Vec<u8>> {
            match path {
                "/secret" => Ok(b"hunter2\r\n".to_vec()),
                "/empty" => Ok(b"\n".to_vec()),
                "/" => Err(ErrorKind::IsADirectory.into()),
                _ => Err(ErrorKind::NotFound.into()),
            }
        }
        fn variable(&self, name: &str) -> Option<Vec<u8>> {
            (name == "SECRET").then(|| b"hunter3".to_vec())
        }
    }

    #[test]
    fn secrets_are_read_from_both_places_and_never_told() {
        let file = |path: &str| SecretPlace::File(path.to_owned());
        let variable = |name: &str| SecretPlace::Environment(name.to_owned());
        assert_eq!(read(&file("/secret"), &Places).unwrap(), b"hunter2");
        assert_eq!(read(&variable("SECRET"), &Places).unwrap(), b"hunter3");
        for (place, problem) in [
            (file("/empty"), "is empty"),
            (file("/no/such/file"), "check the path, or put the secret there"),
            (file("/"), "check the path"),
            (variable("NO_SUCH_SECRET"), "is not set"),
        ] {
            let error = read(&place, &Places).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
