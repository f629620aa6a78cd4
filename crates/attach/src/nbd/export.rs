//! What is exported: a volume's shape in the protocol's words.

use volume::{Features, Geometry, Limits, VolumeErrorKind};

use super::limits::PAYLOAD;
use super::wire::{Failure, TransmissionFlags};

/// A volume as an export. It is the default export, whose name is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// What it is, for the user.
    pub description: String,
    /// Size and blocks.
    pub geometry: Geometry,
    /// What requests to the volume may look like.
    pub limits: Limits,
    /// What the volume can do.
    pub features: Features,
    /// Writes are refused, whatever the volume would do.
    pub read_only: bool,
}

impl Export {
    /// Bytes.
    pub fn size(&self) -> u64 {
        self.geometry.bytes()
    }

    /// The least request in bytes, which every request is a multiple of.
    pub fn block(&self) -> u32 {
        self.geometry.block_size
    }

    /// What clients do best to ask for at least, in bytes.
    pub fn preferred(&self) -> u32 {
        self.geometry.physical_block_size.max(4096)
    }

    /// The longest read or write in bytes.
    pub fn longest(&self) -> u32 {
        PAYLOAD
    }

    /// Bytes of the longest request to the volume.
    pub fn piece(&self) -> u32 {
        self.limits.max_transfer.clamp(self.block(), PAYLOAD)
    }

    /// Bytes of the longest discard or zeroing of the volume.
    pub fn most_discard(&self) -> u64 {
        self.limits.max_discard.max(1).saturating_mul(u64::from(self.block()))
    }

    /// True when nothing may be written.
    pub fn is_read_only(&self) -> bool {
        self.read_only || self.features.contains(Features::READ_ONLY)
    }

    /// What the export can do, for a client whose replies have this form.
    ///
    /// A flush covers every write that the volume has completed, through whichever queue: so connections may be many.
    pub fn flags(&self, replies: ReplyForm) -> TransmissionFlags {
        let mut flags =
            TransmissionFlags::HAS_FLAGS | TransmissionFlags::SEND_FLUSH | TransmissionFlags::CAN_MULTI_CONN;
        flags.set(TransmissionFlags::SEND_DF, replies == ReplyForm::Structured);
        if self.is_read_only() {
            return flags | TransmissionFlags::READ_ONLY;
        }
        flags |= TransmissionFlags::SEND_FUA | TransmissionFlags::SEND_WRITE_ZEROES;
        flags.set(TransmissionFlags::SEND_TRIM, self.features.contains(Features::DISCARD));
        flags.set(TransmissionFlags::SEND_FAST_ZERO, self.features.contains(Features::WRITE_ZEROES));
        flags
    }
}

/// What replies that carry data or errors look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplyForm {
    /// One header, and the data behind it.
    #[default]
    Simple,
    /// Chunks that say what they are: the client has asked for structured replies.
    Structured,
}

/// The error number for what went wrong in the volume.
pub fn failure(kind: VolumeErrorKind) -> Failure {
    match kind {
        VolumeErrorKind::ReadOnly => Failure::PERM,
        VolumeErrorKind::NoSpace => Failure::NOSPC,
        VolumeErrorKind::OutOfRange | VolumeErrorKind::Misaligned => Failure::INVAL,
        VolumeErrorKind::Unsupported => Failure::NOTSUP,
        VolumeErrorKind::ShuttingDown => Failure::SHUTDOWN,
        _ => Failure::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_tell_what_the_volume_can_do() {
        let geometry = Geometry::of(1 << 20, 512).unwrap();
        let mut export = Export {
            description: String::new(),
            geometry,
            limits: Limits::default(),
            features: Features::DISCARD,
            read_only: false,
        };
        let flags = export.flags(ReplyForm::Simple);
        assert!(flags.contains(TransmissionFlags::SEND_TRIM | TransmissionFlags::SEND_FUA));
        assert!(!flags.intersects(TransmissionFlags::SEND_FAST_ZERO | TransmissionFlags::SEND_DF));
        export.read_only = true;
        let flags = export.flags(ReplyForm::Structured);
        assert!(flags.contains(TransmissionFlags::READ_ONLY | TransmissionFlags::SEND_DF));
        assert!(!flags.intersects(TransmissionFlags::SEND_TRIM | TransmissionFlags::SEND_WRITE_ZEROES));
    }
}
