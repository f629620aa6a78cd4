//! What the fuzzer feeds: one target per decoder, one per whole connection.
//!
//! A target is a plain function of bytes that must neither panic nor run without end. `fuzz/run.sh` builds the fuzzer and lets
//! it look for bytes that break one; `cargo test -p fuzz` replays what is in `fuzz/corpus`, so that what was found
//! once stays mended.
#![forbid(unsafe_code)]

pub mod targets;

/// A target.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also its corpus's folder.
pub const TARGETS: &[(&str, Target)] = &[
    ("iscsi_chap", targets::iscsi::chap_values),
    ("iscsi_initiator", targets::iscsi::initiator),
    ("iscsi_login", targets::iscsi::login_text),
    ("iscsi_target", targets::iscsi::target),
    ("names", targets::names::urls),
    ("nvme_admin", targets::nvme::controller),
    ("nvme_decoders", targets::nvme::decoders),
    ("nvme_host", targets::nvme::host),
    ("nvme_io", targets::nvme::io_queue),
    ("scsi_command", targets::scsi::command),
    ("scsi_initiator", targets::scsi::answers),
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
