//! Why a call has no results, in words for people: what RPC says instead of them (RFC 5531 §9).

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use rpc::CallError;
use rpc::message::{AcceptStat, ReplyStatus};

/// What was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Called {
    /// NFS, version 4.
    Version4,
    /// NFS, version 3.
    Version3,
    /// MOUNT, version 3.
    Mount,
}

/// Why a call has no results.
pub(super) fn refusal(called: Called, error: CallError) -> String {
    match error {
        CallError::Refused(ReplyStatus::Accepted(AcceptStat::ProgramMismatch(range))) => {
            let (program, wanted, remedy) = match called {
                Called::Version4 => ("NFS", 4, "enable version 4.1 or 4.2 there"),
                Called::Version3 => ("NFS", 3, "enable version 3 there, or leave version=3 out"),
                Called::Mount => ("MOUNT", 3, "enable version 3 of NFS there, or leave version=3 out"),
            };
            let (low, high) = (range.low, range.high);
            format!("the server has {program} of versions {low} to {high}, and not {wanted}: {remedy}")
        }
        CallError::Refused(ReplyStatus::Accepted(AcceptStat::ProgramUnavailable)) => match called {
            Called::Version4 | Called::Version3 => "what answers there is no NFS server: check the port",
            Called::Mount => {
                "the server has no MOUNT at this port, which version 3 of NFS begins with: name its port with mountport= (`rpcinfo -p HOST` shows it as mountd)"
            }
        }
        .to_owned(),
        CallError::Refused(ReplyStatus::Denied(why)) => {
            format!(
                "the server refuses the user's credential ({why:?}): check its export's security flavors and clients"
            )
        }
        CallError::Refused(status) => format!("the server refuses the call: {status:?}"),
        CallError::Undecodable(error) => format!("the server breaks the protocol: {error}"),
        CallError::Chunks => "the server could not use the memory that was named to it".to_owned(),
    }
}
