//! `iscsi://host[:3260]/target/lun?options`, and the same over RDMA as `iser://`.

use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::duration::Span;
use crate::iqn::Iqn;
use crate::options::{Options, Writer, positive, split_query, text};
use crate::percent;
use crate::piece::{Fault, Piece};
use crate::portal::{ISCSI_PORT, Portal};
use crate::rdma::{Carrier, RdmaOptions, refuse_digests};

pub(crate) const OPTIONS: &[&str] = &[
    "header_digest",
    "data_digest",
    "initiator",
    "isid",
    "timeout",
    "reconnect",
    "chap_user",
    "chap_secret_file",
    "chap_secret_env",
    "chap_mutual_user",
    "chap_mutual_secret_file",
    "chap_mutual_secret_env",
];
pub(crate) const ISER_OPTIONS: &[&str] = &[
    "transport",
    "udp_port",
    "crc",
    "initiator",
    "isid",
    "timeout",
    "reconnect",
    "chap_user",
    "chap_secret_file",
    "chap_secret_env",
    "chap_mutual_user",
    "chap_mutual_secret_file",
    "chap_mutual_secret_env",
];
const SHAPE: &str = "write iscsi://HOST[:PORT]/TARGET/LUN, or iser:// for RDMA";
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
    /// RDMA carries it, as iSER; without it TCP does.
    pub rdma: Option<RdmaOptions>,
    /// Offer CRC32C for headers; over TCP alone.
    pub header_digest: bool,
    /// Offer CRC32C for data; likewise.
    pub data_digest: bool,
    /// The initiator's name; a default if not given.
    pub initiator: Option<Iqn>,
    /// The session's own part of the initiator port's name, for whoever must be known again; a random one if not given.
    pub isid: Option<Isid>,
    /// How long a command may take before its task is aborted, above zero; a default if not given.
    pub timeout: Option<Span>,
    /// How long requests wait for a lost connection to come back; zero never to reconnect, a default if not given.
    pub reconnect: Option<Span>,
    /// Answer the target's challenge.
    pub chap: Option<Chap>,
}

/// An initiator session identifier (RFC 7143 §11.12.5): with the initiator's name it is the initiator port's name. Written as twelve
/// hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Isid(pub [u8; 6]);

impl Isid {
    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let bad =
            |problem: String| piece.fault(problem, "write twelve hexadecimal digits, such as 800000000001");
        let digits = piece.text.strip_prefix("0x").unwrap_or(piece.text);
        let hexadecimal = digits.len() == 12 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u64::from_str_radix(digits, 16).ok().filter(|_| hexadecimal);
        let number = number.ok_or_else(|| bad(format!("\"{}\" is not an ISID", piece.text)))?;
        let [_, _, bytes @ ..] = number.to_be_bytes();
        if bytes[0] >> 6 == 0b11 {
            return Err(bad(format!("the type of \"{}\", its first two bits, is reserved", piece.text)));
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Isid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Where a secret stands: never in the URL itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretPlace {
    /// In the file of this path.
    File(String),
    /// In the environment variable of this name.
    Environment(String),
}

/// CHAP as the initiator does it (RFC 1994).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chap {
    /// The initiator's user name.
    pub user: String,
    /// Where the initiator's secret is.
    pub secret: SecretPlace,
    /// Challenge the target too.
    pub mutual: Option<MutualChap>,
}

/// What the target must prove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutualChap {
    /// The target's user name.
    pub user: String,
    /// Where the target's secret is.
    pub secret: SecretPlace,
}

impl IscsiUrl {
    pub(crate) fn read(piece: Piece<'_>, carrier: Carrier) -> Result<Self, Fault> {
        let (place, query) = split_query(piece);
        let (portal, path) = Portal::read_authority(place, ISCSI_PORT, SHAPE)?;
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
        Ok(Self { portal, target, lun: number, options: IscsiOptions::read(query, carrier)? })
    }

    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "//{}/{}/{}", self.portal, self.target, self.lun)?;
        self.options.write(f)
    }
}

impl IscsiOptions {
    /// The scheme of a URL with these.
    pub(crate) fn scheme(&self) -> &'static str {
        match Carrier::of(self.rdma) {
            Carrier::Tcp => "iscsi",
            Carrier::Rdma => "iser",
        }
    }

    pub(crate) fn read(query: Option<Piece<'_>>, carrier: Carrier) -> Result<Self, Fault> {
        let options = match carrier {
            Carrier::Tcp => Options::read(query, "iscsi:", OPTIONS)?,
            Carrier::Rdma => {
                refuse_digests(query, "iser:")?;
                Options::read(query, "iser:", ISER_OPTIONS)?
            }
        };
        Ok(Self {
            rdma: carrier.read(&options)?,
            header_digest: options.get("header_digest", digest)?.unwrap_or(false),
            data_digest: options.get("data_digest", digest)?.unwrap_or(false),
            initiator: options.get("initiator", Iqn::read)?,
            isid: options.get("isid", Isid::read)?,
            timeout: options.get("timeout", positive)?,
            reconnect: options.get("reconnect", Span::read)?,
            chap: read_chap(&options)?,
        })
    }

    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Writer::new(f);
        if let Some(rdma) = self.rdma {
            rdma.write(&mut options)?;
        }
        options.put("header_digest", self.header_digest.then_some("crc32c"))?;
        options.put("data_digest", self.data_digest.then_some("crc32c"))?;
        options.put("initiator", self.initiator.as_ref())?;
        options.put("isid", self.isid)?;
        options.put("timeout", self.timeout)?;
        options.put("reconnect", self.reconnect)?;
        let Some(chap) = &self.chap else { return Ok(()) };
        options.put("chap_user", Some(&chap.user))?;
        put_place(&mut options, OWN, &chap.secret)?;
        let Some(mutual) = &chap.mutual else { return Ok(()) };
        options.put("chap_mutual_user", Some(&mutual.user))?;
        put_place(&mut options, MUTUAL, &mutual.secret)
    }
}

fn digest(value: Piece<'_>) -> Result<bool, Fault> {
    match value.text {
        "none" => Ok(false),
        "crc32c" => Ok(true),
        other => Err(value.fault(format!("there is no digest \"{other}\""), "write crc32c or none")),
    }
}

/// The options of one proof: the user, and the two places where its secret may stand.
type Proof = [&'static str; 3];

/// The initiator's own proof.
const OWN: Proof = ["chap_user", "chap_secret_file", "chap_secret_env"];
/// The target's.
const MUTUAL: Proof = ["chap_mutual_user", "chap_mutual_secret_file", "chap_mutual_secret_env"];

fn put_place(options: &mut Writer<'_, '_>, [_, file, env]: Proof, place: &SecretPlace) -> fmt::Result {
    match place {
        SecretPlace::File(path) => options.put(file, Some(path)),
        SecretPlace::Environment(name) => options.put(env, Some(name)),
    }
}

fn read_chap(options: &Options<'_>) -> Result<Option<Chap>, Fault> {
    let own = read_proof(options, OWN)?;
    let mutual = read_proof(options, MUTUAL)?.map(|(user, secret)| MutualChap { user, secret });
    match (own, mutual) {
        (Some((user, secret)), mutual) => Ok(Some(Chap { user, secret, mutual })),
        (None, None) => Ok(None),
        (None, Some(_)) => {
            let place = options.place("chap_mutual_user").unwrap_or(Piece::whole(""));
            let remedy = "give chap_user and chap_secret_file or chap_secret_env too";
            Err(place.fault("mutual CHAP needs CHAP", remedy))
        }
    }
}

/// A user and a secret, which only make sense together.
fn read_proof(
    options: &Options<'_>,
    [user, file, env]: Proof,
) -> Result<Option<(String, SecretPlace)>, Fault> {
    let lonely = |present: &str, missing: String| {
        let place = options.place(present).unwrap_or(Piece::whole(""));
        place.fault(format!("{present} stands without {missing}"), format!("give {missing} too"))
    };
    let in_file = options.get(file, text)?.map(SecretPlace::File);
    let in_env = options.get(env, text)?.map(SecretPlace::Environment);
    let (place, present) = match (in_file, in_env) {
        (Some(_), Some(_)) => {
            let place = options.place(env).unwrap_or(Piece::whole(""));
            return Err(
                place.fault(format!("{file} and {env} both say where the secret is"), "give one of them")
            );
        }
        (Some(place), None) => (Some(place), file),
        (None, place) => (place, env),
    };
    match (options.get(user, text)?, place) {
        (Some(user), Some(place)) => Ok(Some((user, place))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(lonely(user, format!("{file} or {env}"))),
        (None, Some(_)) => Err(lonely(present, user.into())),
    }
}
