//! Namespace identification descriptors (CNS 03h; NVMe Base §5.1.13.2.3).

use wire::{Full, Reader, Truncated, Writer};

const EUI64: u8 = 1;
const NGUID: u8 = 2;
const UUID: u8 = 3;
const COMMAND_SET: u8 = 4;

/// What identifies a namespace everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamespaceIds {
    /// Globally unique identifier.
    pub nguid: Option<[u8; 16]>,
    /// IEEE extended unique identifier.
    pub eui64: Option<[u8; 8]>,
    /// UUID.
    pub uuid: Option<[u8; 16]>,
    /// The I/O command set (CSI).
    pub command_set: Option<u8>,
}

/// Writes the list of descriptors; the rest is left as it is.
pub fn write_descriptors(ids: &NamespaceIds, target: &mut [u8]) -> Result<(), Full> {
    let mut writer = Writer::new(target);
    let parts = [
        (EUI64, ids.eui64.as_ref().map(<[u8; 8]>::as_slice)),
        (NGUID, ids.nguid.as_ref().map(<[u8; 16]>::as_slice)),
        (UUID, ids.uuid.as_ref().map(<[u8; 16]>::as_slice)),
        (COMMAND_SET, ids.command_set.as_ref().map(core::slice::from_ref)),
    ];
    for (kind, value) in parts {
        let Some(value) = value else { continue };
        writer.put(&[kind, u8::try_from(value.len()).unwrap_or(0), 0, 0])?;
        writer.put(value)?;
    }
    Ok(())
}

/// Reads a list of descriptors; unknown ones are passed over, and a type of zero ends it.
pub fn read_descriptors(bytes: &[u8]) -> Result<NamespaceIds, Truncated> {
    let mut reader = Reader::new(bytes);
    let mut ids = NamespaceIds::default();
    while !reader.is_empty() {
        let [kind, length, ..] = reader.array::<4>()?;
        if kind == 0 {
            break;
        }
        let mut value = reader.sub(usize::from(length))?;
        match (kind, length) {
            (EUI64, 8) => ids.eui64 = Some(value.array()?),
            (NGUID, 16) => ids.nguid = Some(value.array()?),
            (UUID, 16) => ids.uuid = Some(value.array()?),
            (COMMAND_SET, 1) => ids.command_set = Some(value.u8()?),
            _ => {}
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let ids = NamespaceIds {
            nguid: Some([2; 16]),
            eui64: Some([1; 8]),
            uuid: Some([3; 16]),
            command_set: Some(super::super::CSI_NVM),
        };
        let mut bytes = [0; 64];
        write_descriptors(&ids, &mut bytes).unwrap();
        assert_eq!(&bytes[..12], &[1, 8, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(&bytes[12..16], &[2, 16, 0, 0]);
        assert_eq!(&bytes[32..36], &[3, 16, 0, 0]);
        assert_eq!(&bytes[52..58], &[4, 1, 0, 0, 0, 0]);
        assert_eq!(read_descriptors(&bytes), Ok(ids));
        assert_eq!(read_descriptors(&bytes[..40]), Err(Truncated));
    }
}
