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
    ("config", targets::config::file),
    ("iscsi_chap", targets::iscsi_text::chap_values),
    ("iscsi_initiator", targets::iscsi::initiator),
    ("iscsi_keys", targets::iscsi_text::negotiation),
    ("iscsi_login", targets::iscsi_text::login_text),
    ("iscsi_pdu", targets::iscsi_pdu::headers),
    ("iscsi_target", targets::iscsi::target),
    ("iscsi_target_digests", targets::iscsi_peer::target_with_digests),
    ("iscsi_unit", targets::iscsi_peer::unit),
    ("iser_initiator", targets::iser::initiator),
    ("iser_target", targets::iser::target),
    ("iwarp", targets::iwarp::conversation),
    ("iwarp_ulpdus", targets::iwarp::ulpdus),
    ("names", targets::names::urls),
    ("nbd_negotiation", targets::nbd::negotiation),
    ("nbd_transmission", targets::nbd::transmission),
    ("nfs_arguments", targets::nfs::arguments),
    ("nfs_calls", targets::nfs::calls),
    ("nfs_client", targets::nfs_client::changed_answers),
    ("nfs_client3", targets::nfs_client::changed_answers3),
    ("nfs_client_stream", targets::nfs_client::stream),
    ("nfs_stream", targets::nfs::stream),
    ("nvme_admin", targets::nvme::controller),
    ("nvme_commands", targets::nvme_structures::commands),
    ("nvme_host", targets::nvme::host),
    ("nvme_host_digests", targets::nvme_peer::host_with_digests),
    ("nvme_io", targets::nvme::io_queue),
    ("nvme_io_digests", targets::nvme_peer::queue_with_digests),
    ("nvme_namespace", targets::nvme_peer::namespace),
    ("nvme_pages", targets::nvme_structures::pages),
    ("nvme_pdu", targets::nvme_pdu::headers),
    ("roce_endpoint", targets::roce_endpoint::conversation),
    ("roce_packet", targets::roce::packet),
    ("nvme_rdma_controller", targets::nvme_rdma::controller),
    ("nvme_rdma_host", targets::nvme_rdma::host),
    ("rpc_rdma_headers", targets::rpc::rdma_headers),
    ("rpc_records", targets::rpc::records),
    ("rpc_stream", targets::rpc::stream),
    ("scsi_command", targets::scsi::command),
    ("scsi_initiator", targets::scsi::answers),
    ("scsi_parameter_lists", targets::scsi::parameter_lists),
    ("virtio_device", targets::virtio::device),
    ("virtio_driver", targets::virtio::driver),
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
