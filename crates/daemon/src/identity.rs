//! Names that hosts know a volume by: derived from its exported name, so that they survive a restart.
//!
//! Hosts put paths to the same volume together by these (VPD page 83h, NGUID, UUID), and lose their mounts when
//! they change. They are the SHA-256 of a fixed label and the volume's name.

use sha2::{Digest, Sha256};

/// What all our names begin with; NAME follows.
pub const IQN_PREFIX: &str = "iqn.2026-11.org.linerate:";
/// As [`IQN_PREFIX`], for subsystems.
pub const NQN_PREFIX: &str = "nqn.2026-11.org.linerate:";

/// A volume's identifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// 20 hexadecimal digits: the unit serial number and the subsystem's serial number.
    pub serial: String,
    /// A locally assigned NAA identifier, 8 bytes (SPC-4 §7.8.6.6.4).
    pub naa: [u8; 8],
    /// A name-based UUID (RFC 9562 version 8).
    pub uuid: [u8; 16],
    /// The namespace's globally unique identifier, 16 bytes.
    pub nguid: [u8; 16],
}

impl Identity {
    /// The identifiers that belong to `name`.
    pub fn of(name: &str) -> Self {
        let serial = half(digest("serial", name));
        // 80 of its bits, as 20 digits.
        let serial = format!("{:020x}", u128::from_be_bytes(serial) >> 48);
        let mut naa = [0; 8];
        naa.copy_from_slice(&digest("naa", name)[..8]);
        naa[0] = 0x30 | naa[0] & 0x0f;
        Self { serial, naa, uuid: uuid(digest("uuid", name)), nguid: half(digest("nguid", name)) }
    }
}

fn digest(label: &str, name: &str) -> [u8; 32] {
    Sha256::new()
        .chain_update("linerate ")
        .chain_update(label)
        .chain_update(" ")
        .chain_update(name)
        .finalize()
        .into()
}

fn half(bytes: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&bytes[..16]);
    half
}

fn uuid(bytes: [u8; 32]) -> [u8; 16] {
    let mut uuid = half(bytes);
    uuid[6] = 0x80 | uuid[6] & 0x0f;
    uuid[8] = 0x80 | uuid[8] & 0x3f;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_depend_on_the_name_alone() {
        let disk = Identity::of("disk");
        assert_eq!(disk, Identity::of("disk"));
        assert_ne!(disk, Identity::of("disk2"));
        assert_eq!(disk.serial.len(), 20);
        assert_eq!((disk.naa[0] >> 4, disk.uuid[6] >> 4, disk.uuid[8] >> 6), (3, 8, 2));
    }
}
