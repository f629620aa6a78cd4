//! Folders that are served as file systems, and the networks of their clients.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::net::IpAddr;

use crate::options::{Options, Writer, flag, split_query};
use crate::parse::parse_by_read;
use crate::piece::{Fault, Piece};
use crate::source::{path, write_path};

/// The options of a folder.
pub(crate) const FOLDER_OPTIONS: [&str; 1] = ["readonly"];

/// `dir:PATH`: a folder of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderUrl {
    /// Its path.
    pub path: String,
    /// Nobody may change anything in it.
    pub read_only: bool,
}

impl FolderUrl {
    fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let Some(rest) = piece.strip_prefix("dir:") else {
            return Err(piece.fault("a share is a folder", "begin with dir:, such as dir:/srv/files"));
        };
        let (name, query) = split_query(rest);
        let options = Options::read(query, "dir:", &FOLDER_OPTIONS)?;
        Ok(Self { path: path(name)?, read_only: options.get("readonly", flag)?.unwrap_or(false) })
    }
}

impl fmt::Display for FolderUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dir:")?;
        write_path(f, &self.path)?;
        Writer::new(f).put_flag("readonly", self.read_only)
    }
}

parse_by_read!(FolderUrl, "folder");

/// Addresses that begin alike: `192.0.2.0/24`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// Its address.
    pub address: IpAddr,
    /// How many of the address' bits count.
    pub prefix: u8,
}

impl Network {
    fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let (address, bits) = piece.split_once('/').map_or((piece, None), |(one, bits)| (one, Some(bits)));
        let parsed = address.text.parse::<IpAddr>();
        let address = parsed.map_err(|_| {
            address.fault("this is no IP address", "write an address, or a network such as 192.0.2.0/24")
        })?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = bits.map_or(Ok(most), |bits| {
            let number = bits.text.parse::<u8>().ok().filter(|number| *number <= most);
            number.ok_or_else(|| {
                bits.fault(
                    "so many bits an address does not have",
                    format!("write a number from 0 to {most}"),
                )
            })
        })?;
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

parse_by_read!(Network, "network");

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_folder_is_written_as_it_is_read() {
        for (text, path, read_only) in [
            ("dir:/srv/files", "/srv/files", false),
            ("dir:files?readonly=1", "files", true),
            ("dir:/a%3Fb", "/a?b", false),
        ] {
            let url: FolderUrl = text.parse().unwrap();
            assert_eq!((url.path.as_str(), url.read_only), (path, read_only));
            assert_eq!(url.to_string(), text);
        }
        assert_eq!("dir:/a?readonly=0".parse::<FolderUrl>().unwrap().to_string(), "dir:/a");
        for wrong in ["file:/a", "dir:", "dir:/a?size=1G", "dir:/a?readonly=yes"] {
            wrong.parse::<FolderUrl>().unwrap_err();
        }
    }

    #[test]
    fn a_network_has_as_many_bits_as_its_address() {
        for (text, written) in [
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::1", "::1/128"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), written);
        }
        for wrong in ["host", "192.0.2.0/33", "192.0.2.0/", "::/129", ""] {
            wrong.parse::<Network>().unwrap_err();
        }
    }
}
