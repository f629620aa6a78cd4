//! Names that hosts know a volume by.
//!
//! Hosts put paths to the same volume together by these (VPD page 83h, NGUID, UUID), and lose their mounts when they change. All follow from one
//! UUID, which is random, drawn when the volume is first served, and kept with its state: two servers never have the same by chance, and
//! servers that share the state, or are given the same UUID by their configurations, are paths to one volume.

use host::{StateError, StateErrorKind, VolumeState};
use names::Uuid;
use protocol::Entropy;
use sha2::{Digest, Sha256};

/// What all our targets' names begin with, unless the configuration says otherwise; the target's own name follows.
pub const IQN_PREFIX: &str = "iqn.2026-11.org.linerate:";
/// As [`IQN_PREFIX`], for subsystems.
pub const NQN_PREFIX: &str = "nqn.2026-11.org.linerate:";
/// The record that keeps the UUID, as text.
const RECORD: &str = "identity";

/// A volume's identifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The unit serial number: 20 hexadecimal digits, unless the configuration has another.
    pub serial: String,
    /// A locally assigned NAA identifier, 8 bytes (SPC-4 §7.8.6.6.4).
    pub naa: [u8; 8],
    /// The UUID that the others follow from.
    pub uuid: [u8; 16],
    /// The namespace's globally unique identifier, 16 bytes. There is no EUI-64: its 8 bytes are for those to whom the IEEE has assigned some.
    pub nguid: [u8; 16],
}

impl Identity {
    /// The identifiers that follow from `uuid`; the serial number may be given.
    pub fn new(uuid: Uuid, serial: Option<&str>) -> Self {
        let mut naa = first::<8>(digest("naa", uuid.bytes()));
        naa[0] = 0x30 | naa[0] & 0x0f;
        let mut nguid = first::<16>(digest("nguid", uuid.bytes()));
        // Bytes 8 to 10 are an OUI (NVMe Base §4.7.1.5): one that is locally administered, and no group's.
        nguid[8] = nguid[8] & 0xfc | 0x02;
        let uuid = uuid.bytes();
        Self { serial: serial_of(uuid, serial), naa, uuid, nguid }
    }

    /// What the identifiers would no longer be if the configuration gave these, by the name of the key.
    pub(crate) fn changed_by(&self, uuid: Option<Uuid>, serial: Option<&str>) -> Option<&'static str> {
        match () {
            () if uuid.is_some_and(|uuid| uuid.bytes() != self.uuid) => Some("uuid"),
            () if serial_of(self.uuid, serial) != self.serial => Some("serial"),
            () => None,
        }
    }
}

/// The serial number of a volume with this UUID.
fn serial_of(uuid: [u8; 16], given: Option<&str>) -> String {
    // 80 bits, as 20 digits.
    let digits = || format!("{:020x}", u128::from_be_bytes(first(digest("serial", uuid))) >> 48);
    given.map_or_else(digits, str::to_owned)
}

/// The UUID of a volume: the one that the configuration gives, else the one that is kept, else a new one. Whichever it is, it is kept.
pub(crate) fn uuid_of(
    given: Option<Uuid>,
    state: &VolumeState,
    entropy: &mut dyn Entropy,
) -> Result<Uuid, StateError> {
    let kept = state.read(RECORD)?.map(|bytes| decode(&bytes)).transpose()?;
    let uuid = given.or(kept).unwrap_or_else(|| {
        let mut bits = [0; 16];
        entropy.fill(&mut bits);
        Uuid::random(bits)
    });
    if kept != Some(uuid) {
        state.write(RECORD, uuid.to_string().as_bytes())?;
    }
    Ok(uuid)
}

fn decode(bytes: &[u8]) -> Result<Uuid, StateError> {
    let uuid = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    uuid.ok_or_else(|| StateError::new(RECORD, StateErrorKind::Damaged("it holds no UUID")))
}

fn digest(label: &str, uuid: [u8; 16]) -> [u8; 32] {
    Sha256::new()
        .chain_update("linerate ")
        .chain_update(label)
        .chain_update(" ")
        .chain_update(uuid)
        .finalize()
        .into()
}

fn first<const N: usize>(digest: [u8; 32]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&digest[..N]);
    bytes
}

#[cfg(test)]
mod tests {
    use protocol::SeededEntropy;

    use super::*;

    fn uuid(text: &str) -> Uuid {
        text.parse().unwrap()
    }

    const ONE: &str = "0b3f5f0e-6a1d-4c58-9f2b-7d1f0c9a4e21";

    #[test]
    fn all_identifiers_follow_from_the_uuid_and_have_legal_bits() {
        let one = Identity::new(uuid(ONE), None);
        assert_eq!(one, Identity::new(uuid(ONE), None));
        let two = Identity::new(uuid("1b3f5f0e-6a1d-4c58-9f2b-7d1f0c9a4e21"), None);
        assert!(one.serial != two.serial && one.naa != two.naa && one.nguid != two.nguid);
        for identity in [&one, &two] {
            assert_eq!(identity.serial.len(), 20);
            assert_eq!(identity.naa[0] >> 4, 3, "locally assigned");
            assert_eq!(identity.nguid[8] & 3, 2, "a local OUI of one");
        }
        assert_eq!(one.uuid, uuid(ONE).bytes());
        let named = Identity::new(uuid(ONE), Some("SN-7"));
        assert_eq!((named.serial.as_str(), named.naa), ("SN-7", one.naa));
    }

    #[test]
    fn a_uuid_is_drawn_once_and_kept_and_the_configuration_has_the_last_word() {
        let state = VolumeState::ephemeral();
        let mut entropy = SeededEntropy::new(7);
        let drawn = uuid_of(None, &state, &mut entropy).unwrap();
        assert_eq!(drawn.bytes()[6] >> 4, 4, "random");
        assert_eq!(uuid_of(None, &state, &mut entropy), Ok(drawn));
        assert_eq!(uuid_of(Some(uuid(ONE)), &state, &mut entropy), Ok(uuid(ONE)));
        assert_eq!(uuid_of(None, &state, &mut entropy), Ok(uuid(ONE)), "it stays when the entry goes");
        assert_ne!(uuid_of(None, &VolumeState::ephemeral(), &mut entropy), Ok(drawn));
        state.write(RECORD, b"no uuid").unwrap();
        assert!(uuid_of(None, &state, &mut entropy).is_err(), "a new identity would be another disk");
    }
}
