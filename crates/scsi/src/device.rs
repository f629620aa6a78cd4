//! What is served: a target device and its logical units (SAM-5 §4.5, §4.6).

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use volume::{Features, Geometry, Limits, VolumeId};

use crate::lun::decode_lun;

/// A target device with its logical units, as one target port shows it.
#[derive(Debug, Clone)]
pub struct TargetDevice {
    /// The target port's name (SPC-4 §7.8.6.11), such as `iqn.…,t,0x0001`.
    pub port_name: Arc<str>,
    /// The target device's name, such as `iqn.…`.
    pub device_name: Arc<str>,
    /// The relative target port identifier, from 1.
    pub relative_port: u16,
    /// The target port group.
    pub port_group: u16,
    /// The logical units in the order of their numbers.
    pub units: Vec<LogicalUnit>,
}

impl TargetDevice {
    /// The place in [`TargetDevice::units`] of the unit that eight LUN bytes name.
    pub fn find(&self, lun: [u8; 8]) -> Option<usize> {
        let number = decode_lun(lun)?;
        self.units.iter().position(|unit| unit.lun == number)
    }

    /// The volume has this size from now on.
    pub fn resize(&mut self, volume: VolumeId, geometry: Geometry) {
        for unit in self.units.iter_mut().filter(|unit| unit.volume == volume) {
            unit.geometry = geometry;
        }
    }
}

/// A logical unit: a volume under a number.
#[derive(Debug, Clone)]
pub struct LogicalUnit {
    /// Its number, at most 16383.
    pub lun: u16,
    /// The volume.
    pub volume: VolumeId,
    /// The volume's size.
    pub geometry: Geometry,
    /// What requests may look like.
    pub limits: Limits,
    /// What the volume can do.
    pub features: Features,
    /// How hosts know it.
    pub identity: UnitIdentity,
}

impl LogicalUnit {
    /// True when blocks can be unmapped (logical block provisioning management, SBC-4 §4.7).
    pub fn thin(&self) -> bool {
        self.features.contains(Features::DISCARD)
    }
}

/// The names that hosts know a logical unit by; the same through every port.
#[derive(Debug, Clone)]
pub struct UnitIdentity {
    /// T10 vendor identification, at most 8 ASCII characters.
    pub vendor: String,
    /// Product identification, at most 16 ASCII characters.
    pub product: String,
    /// Product revision level, at most 4 ASCII characters.
    pub revision: String,
    /// Unit serial number, ASCII.
    pub serial: Arc<str>,
    /// A locally assigned NAA designator (SPC-4 §7.8.6.6.4).
    pub naa: [u8; 8],
    /// A UUID (SPC-5 §7.7.6.12).
    pub uuid: [u8; 16],
    /// What changes whenever the process begins anew and its volatile caches are lost; `None` shows no such mark.
    pub incarnation: Option<[u8; 16]>,
}
