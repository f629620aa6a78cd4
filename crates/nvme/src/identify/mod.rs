//! The Identify command and its data structures (NVMe Base §5.1.13), one file each.

use crate::opcode::admin;
use crate::sqe::SubmissionQueueEntry;

mod controller;
mod descriptors;
mod independent;
mod namespace;
mod nvm_controller;
mod nvm_namespace;

pub(crate) use controller::{
    CMIC_SHARED, CQES, CTRATT_HOSTID, FRMW_ONE_FIXED, LPA, OACS_LBA_STATUS, OAES_DISCOVERY, OAES_NAMESPACE,
    ONCS_COMPARE, ONCS_DATASET, ONCS_RESERVATIONS, ONCS_VERIFY, ONCS_WRITE_ZEROES, SQES, VWC_FLUSH_ALL,
    VWC_PRESENT, sgls,
};
pub use controller::{IdentifyController, put_padded};
pub use descriptors::{NamespaceIds, read_descriptors, write_descriptors};
pub use independent::IndependentNamespace;
pub(crate) use independent::NSTAT_READY;
pub(crate) use namespace::{
    DLFEAT_WRITE_ZEROES, DLFEAT_ZEROS, NMIC_SHARED, NSATTR_READ_ONLY, NSFEAT_PREFERRED, NSFEAT_THIN, RESCAP,
};
pub use namespace::{IdentifyNamespace, LbaFormat};
pub use nvm_controller::NvmController;
pub use nvm_namespace::NvmNamespace;

/// Bytes of every Identify data structure.
pub const SIZE: usize = 4096;

/// Values of CNS: which structure.
pub mod cns {
    /// Namespace.
    pub const NAMESPACE: u8 = 0x00;
    /// Controller.
    pub const CONTROLLER: u8 = 0x01;
    /// Active namespace list.
    pub const NAMESPACE_LIST: u8 = 0x02;
    /// Namespace identification descriptors.
    pub const DESCRIPTORS: u8 = 0x03;
    /// Namespace, as an I/O command set has it.
    pub const SET_NAMESPACE: u8 = 0x05;
    /// Controller, as an I/O command set has it.
    pub const SET_CONTROLLER: u8 = 0x06;
    /// Active namespace list of an I/O command set.
    pub const SET_NAMESPACE_LIST: u8 = 0x07;
    /// Namespace, independent of the I/O command set.
    pub const INDEPENDENT: u8 = 0x08;
    /// I/O command sets.
    pub const COMMAND_SETS: u8 = 0x1c;
}

/// The NVM command set's identifier (CSI).
pub const CSI_NVM: u8 = 0;

/// The command's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identify {
    /// Which structure.
    pub cns: u8,
    /// Which controller, for structures that ask.
    pub cntid: u16,
    /// Which I/O command set, for structures that ask.
    pub csi: u8,
}

impl Identify {
    /// The fields of `entry`.
    pub fn decode(entry: &SubmissionQueueEntry) -> Self {
        let [cns, _, low, high] = entry.dword(10).to_le_bytes();
        let [_, _, _, csi] = entry.dword(11).to_le_bytes();
        Self { cns, cntid: u16::from_le_bytes([low, high]), csi }
    }

    /// The command for namespace `nsid`.
    pub fn encode(&self, nsid: u32) -> SubmissionQueueEntry {
        let [low, high] = self.cntid.to_le_bytes();
        SubmissionQueueEntry::new(admin::IDENTIFY, nsid)
            .with(10, u32::from_le_bytes([self.cns, 0, low, high]))
            .with(11, u32::from_le_bytes([0, 0, 0, self.csi]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    #[test]
    fn golden_vector() {
        let command = Identify { cns: 0x06, cntid: 0x0102, csi: 3 };
        let entry = command.encode(7);
        assert_eq!(&entry.as_bytes()[40..48], &[6, 0, 2, 1, 0, 0, 0, 3]);
        assert_eq!(Identify::decode(&entry), command);
    }
}
