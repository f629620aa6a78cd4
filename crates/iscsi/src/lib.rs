//! iSCSI, RFC 7143: target and initiator, sans-IO
