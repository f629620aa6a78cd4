//! `iscsi://host[:3260]/target/lun?options`.

use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::iqn::Iqn;
use crate::options::{Options, Writer, number, text};
use crate::percent;
use crate::piece::{Fault, Piece};
use crate::portal::{ISCSI_PORT, Portal};
use crate::source::split_query;

const OPTIONS: &[&str] = &[
    "header_digest",
    "data_digest",
    "initiator",
    "connections",
    "chap_user",
    "chap_secret_file",
    "chap_mutual_user",
    "chap_mutual_secret_file",
];
const SHAPE: &str = "write iscsi://HOST[:PORT]/TARGET/LUN";
/// The largest LUN that the flat addressing of SAM-5 §4.7.7.3 holds.
const LAST_LUN: u16 = 16_383;

/// A logical unit of an iSCSI target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IscsiUrl {
    /// Where the target is reached.
    pub portal: Portal,
    /// The target's name.
    pub target: Iqn,
    /// The logical unit's number, at most 16383.
    pub lun: u16,
    /// How to log in.
    pub options: IscsiOptions,
}

/// How an initiator is to log in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IscsiOptions {
    /// Offer CRC32C for headers.
    pub header_digest: bool,
    /// Offer CRC32C for data.
    pub data_digest: bool,
    /// The initiator's name; a default if not given.
    pub initiator: Option<Iqn>,
    /// Connections in the session, at least 1; 1 if not given.
    pub connections: Option<u16>,
    /// Answer the target's challenge.
    pub chap: Option<Chap>,
}

/// CHAP as the initiator does it (RFC 1994). The secrets stand in files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chap {
    /// The initiator's user name.
    pub user: String,
    /// The file with the initiator's secret.
    pub secret_file: String,
    /// Challenge the target too.
    pub mutual: Option<MutualChap>,
}

/// What the target must prove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutualChap {
    /// The target's user name.
    pub user: String,
    /// The file with the target's secret.
    pub secret_file: String,
}

impl IscsiUrl {
    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let (place, query) = split_query(piece);
        let (portal, path) = read_portal(place, ISCSI_PORT, SHAPE)?;
        let parts = path.and_then(|path| path.split_once('/'));
        let Some((target, lun)) = parts else {
            return Err(place.from(place.text.len()).fault("target or logical unit is missing", SHAPE));
        };
        let number = lun.number::<u16>().filter(|number| *number <= LAST_LUN).ok_or_else(|| {
            lun.fault(
                format!("\"{}\" is not a LUN", lun.text),
                format!("write a number from 0 to {LAST_LUN}"),
            )
        })?;
        let name = percent::decode(target)?;
        let target = Iqn::read(Piece { text: &name, at: target.at })?;
        Ok(Self { portal, target, lun: number, options: IscsiOptions::read(query)? })
    }

    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "//{}/{}/{}", self.portal, self.target, self.lun)?;
        self.options.write(f)
    }
}

/// Reads `//host[:port]` and gives what follows the next slash.
pub(crate) fn read_portal<'a>(
    place: Piece<'a>,
    port: u16,
    shape: &str,
) -> Result<(Portal, Option<Piece<'a>>), Fault> {
    let Some(rest) = place.strip_prefix("//") else {
        return Err(place.fault("two slashes must follow the colon", shape));
    };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, Some(path)),
        None => (rest, None),
    };
    if authority.text.contains('@') {
        let remedy = "give chap_user= and chap_secret_file= as options: a URL holds no secrets";
        return Err(authority.fault("a user stands before the host", remedy).hiding());
    }
    Ok((Portal::read_with(authority, Some(port))?, path))
}

impl IscsiOptions {
    pub(crate) fn read(query: Option<Piece<'_>>) -> Result<Self, Fault> {
        let options = Options::read(query, "iscsi:", OPTIONS)?;
        Ok(Self {
            header_digest: options.get("header_digest", digest)?.unwrap_or(false),
            data_digest: options.get("data_digest", digest)?.unwrap_or(false),
            initiator: options.get("initiator", Iqn::read)?,
            connections: options.get("connections", |value| number(value, &1))?,
            chap: read_chap(&options)?,
        })
    }

    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Writer::new(f);
        options.put("header_digest", self.header_digest.then_some("crc32c"))?;
        options.put("data_digest", self.data_digest.then_some("crc32c"))?;
        options.put("initiator", self.initiator.as_ref())?;
        options.put("connections", self.connections)?;
        let Some(chap) = &self.chap else { return Ok(()) };
        options.put("chap_user", Some(&chap.user))?;
        options.put("chap_secret_file", Some(&chap.secret_file))?;
        options.put("chap_mutual_user", chap.mutual.as_ref().map(|mutual| &mutual.user))?;
        options.put("chap_mutual_secret_file", chap.mutual.as_ref().map(|mutual| &mutual.secret_file))
    }
}

fn digest(value: Piece<'_>) -> Result<bool, Fault> {
    match value.text {
        "none" => Ok(false),
        "crc32c" => Ok(true),
        other => Err(value.fault(format!("there is no digest \"{other}\""), "write crc32c or none")),
    }
}

fn read_chap(options: &Options<'_>) -> Result<Option<Chap>, Fault> {
    let own = read_pair(options, "chap_user", "chap_secret_file")?;
    let mutual = read_pair(options, "chap_mutual_user", "chap_mutual_secret_file")?;
    let mutual = mutual.map(|(user, secret_file)| MutualChap { user, secret_file });
    match (own, mutual) {
        (Some((user, secret_file)), mutual) => Ok(Some(Chap { user, secret_file, mutual })),
        (None, None) => Ok(None),
        (None, Some(_)) => {
            let place = options.place("chap_mutual_user").unwrap_or(Piece::whole(""));
            Err(place.fault("mutual CHAP needs CHAP", "give chap_user and chap_secret_file too"))
        }
    }
}

/// Two options that only make sense together.
fn read_pair(options: &Options<'_>, one: &str, two: &str) -> Result<Option<(String, String)>, Fault> {
    let lonely = |present: &str, missing: &str| {
        let place = options.place(present).unwrap_or(Piece::whole(""));
        place.fault(format!("{present} stands without {missing}"), format!("give {missing} too"))
    };
    match (options.get(one, text)?, options.get(two, text)?) {
        (Some(first), Some(second)) => Ok(Some((first, second))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(lonely(one, two)),
        (None, Some(_)) => Err(lonely(two, one)),
    }
}
