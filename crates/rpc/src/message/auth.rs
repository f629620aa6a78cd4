//! Credentials and verifiers (RFC 5531 §8.2, §10.1, appendix A).

use alloc::vec::Vec;

use crate::limits::{AUTH_BODY, GIDS, MACHINE_NAME};
use crate::xdr::{Encode, Error, Reader, Writer};

/// How a caller or a server says who it is (RFC 5531 §8.2; the numbers are IANA's).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flavor(pub u32);

impl Flavor {
    /// AUTH_NONE: it does not say.
    pub const NONE: Self = Self(0);
    /// AUTH_SYS: numbers of a user and its groups.
    pub const SYS: Self = Self(1);
    /// RPCSEC_GSS (RFC 2203).
    pub const RPCSEC_GSS: Self = Self(6);
}

/// A credential or a verifier as it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpaqueAuth<'a> {
    /// What the body is.
    pub flavor: Flavor,
    /// At most 400 bytes.
    pub body: &'a [u8],
}

impl<'a> OpaqueAuth<'a> {
    /// AUTH_NONE (RFC 5531 §10.1).
    pub const NONE: OpaqueAuth<'static> = OpaqueAuth { flavor: Flavor::NONE, body: &[] };

    /// Reads one.
    ///
    /// # Errors
    /// [`Error::TooLong`] for a body above 400 bytes.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { flavor: Flavor(reader.u32()?), body: reader.opaque(AUTH_BODY)? })
    }

    /// What a body of AUTH_SYS says; `None` for another flavor.
    ///
    /// # Errors
    /// For a body that is no authsys_parms.
    pub fn sys(&self) -> Result<Option<AuthSys<'a>>, Error> {
        if self.flavor != Flavor::SYS {
            return Ok(None);
        }
        AuthSys::decode(self.body).map(Some)
    }
}

impl Encode for OpaqueAuth<'_> {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.flavor.0);
        writer.opaque(self.body);
    }
}

/// Groups of AUTH_SYS besides the first: at most 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gids {
    numbers: [u32; GIDS],
    count: usize,
}

impl Gids {
    /// The groups.
    pub fn as_slice(&self) -> &[u32] {
        self.numbers.get(..self.count).unwrap_or_default()
    }
}

/// The body of AUTH_SYS (RFC 5531 appendix A, authsys_parms). Nothing proves what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// A number of the caller's choice.
    pub stamp: u32,
    /// The caller's machine, at most 255 bytes, in no particular encoding.
    pub machine_name: &'a [u8],
    /// The effective user.
    pub uid: u32,
    /// The effective group.
    pub gid: u32,
    /// Further groups.
    pub gids: Gids,
}

impl<'a> AuthSys<'a> {
    /// Reads a body, which must have nothing behind.
    fn decode(body: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(body);
        let (stamp, machine_name) = (reader.u32()?, reader.opaque(MACHINE_NAME)?);
        let (uid, gid) = (reader.u32()?, reader.u32()?);
        let mut gids = Gids { count: reader.length(GIDS)?, ..Gids::default() };
        for number in gids.numbers.iter_mut().take(gids.count) {
            *number = reader.u32()?;
        }
        reader.end()?;
        Ok(Self { stamp, machine_name, uid, gid, gids })
    }
}

/// A credential of AUTH_SYS that a caller sends, encoded once for all its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSysToSend(Vec<u8>);

impl AuthSysToSend {
    /// A credential. Of the machine's name 255 bytes count, of the groups 16: that is what the standard allows, and what clients do.
    pub fn new(machine_name: &str, uid: u32, gid: u32, gids: &[u32]) -> Self {
        let mut end = machine_name.len().min(MACHINE_NAME);
        while !machine_name.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        let mut writer = Writer::new();
        writer.u32(0);
        writer.opaque(machine_name.get(..end).unwrap_or_default().as_bytes());
        writer.u32(uid);
        writer.u32(gid);
        writer.array(gids.get(..gids.len().min(GIDS)).unwrap_or_default());
        Self(writer.finish().bytes().to_vec())
    }

    /// The credential as it is sent.
    pub fn as_auth(&self) -> OpaqueAuth<'_> {
        OpaqueAuth { flavor: Flavor::SYS, body: &self.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn golden_auth_sys() {
        let sent = AuthSysToSend::new("host", 1000, 100, &[4, 24]);
        let expected = [
            [0, 0, 0, 0, 0, 0, 0, 4],
            [b'h', b'o', b's', b't', 0, 0, 3, 0xe8],
            [0, 0, 0, 100, 0, 0, 0, 2],
            [0, 0, 0, 4, 0, 0, 0, 24],
        ];
        assert_eq!(sent.as_auth().body, expected.concat());
        let sys = sent.as_auth().sys().unwrap().unwrap();
        assert_eq!((sys.stamp, sys.machine_name, sys.uid, sys.gid), (0, &b"host"[..], 1000, 100));
        assert_eq!(sys.gids.as_slice(), [4, 24]);
        assert_eq!(OpaqueAuth::NONE.sys(), Ok(None));
    }

    #[test]
    fn what_a_caller_has_too_much_of_is_left_out() {
        let long = "ä".repeat(200);
        let groups: Vec<u32> = (0..40).collect();
        let sent = AuthSysToSend::new(&long, 1, 2, &groups);
        assert!(sent.as_auth().body.len() <= AUTH_BODY);
        let sys = sent.as_auth().sys().unwrap().unwrap();
        assert_eq!((sys.machine_name.len(), sys.gids.as_slice().len()), (254, GIDS));
    }

    #[test]
    fn bounds_of_what_is_received() {
        let auth = |body: &[u8]| OpaqueAuth { flavor: Flavor::SYS, body }.sys().map(|_| ()).map_err(|_| ());
        let body = |name: u32, gids: u32| {
            let mut writer = Writer::new();
            writer.u32(0);
            writer.opaque(&vec![b'n'; name as usize]);
            writer.u64(0);
            writer.array(&vec![7; gids as usize]);
            writer.finish().bytes().to_vec()
        };
        assert_eq!(auth(&body(255, 16)), Ok(()));
        assert_eq!(auth(&body(256, 16)), Err(()));
        assert_eq!(auth(&body(1, 17)), Err(()));
        assert_eq!(auth(&[body(1, 1), vec![0; 4]].concat()), Err(()));
        assert_eq!(auth(&body(1, 1)[..8]), Err(()));
    }
}
