//! SCSI: SAM, SPC and SBC as a device server, and command builders for the initiator
