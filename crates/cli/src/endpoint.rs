//! An end of a copy: a volume, or `-` for a stream.

use std::fmt;
use std::str::FromStr;

use names::{NameError, VolumeUrl};

/// Where data comes from or goes to.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    /// A volume.
    Volume(Box<VolumeUrl>),
    /// Standard input or standard output.
    Stream,
}

impl FromStr for Endpoint {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text {
            "-" => Ok(Self::Stream),
            url => url.parse().map(|url| Self::Volume(Box::new(url))),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(url) => url.fmt(f),
            Self::Stream => f.write_str("-"),
        }
    }
}
