//! The answer to SendTargets: which targets an initiator is told of, and where they are (RFC 7143 Appendix C).

use alloc::format;
use core::net::SocketAddr;

use names::Iqn;

use super::portal::{Node, Portal};
use crate::text::Text;

/// What there is to tell of over a connection, and whom.
#[derive(Debug)]
pub(super) struct SendTargets<'a> {
    pub(super) portal: &'a Portal,
    /// The session's own target; none in a discovery session.
    pub(super) own: Option<&'a Node>,
    pub(super) initiator: Option<&'a Iqn>,
    /// The address that the initiator came to, for a portal that names none.
    pub(super) came_to: SocketAddr,
}

impl SendTargets<'_> {
    /// RFC 7143 Appendix C: all targets only in a discovery session; an empty value is the session's own target.
    pub(super) fn answer(&self, value: &str, answer: &mut Text) {
        match (value, self.own) {
            ("All", None) => self.portal.nodes.iter().for_each(|node| self.describe(node, answer)),
            ("All", Some(_)) | ("", None) => answer.put("SendTargets", "Reject"),
            ("", Some(node)) => self.describe(node, answer),
            _ => {
                if let Some(node) = value.parse().ok().and_then(|name| self.portal.find(&name)) {
                    self.describe(node, answer);
                }
            }
        }
    }

    /// One target's record, unless this initiator may not know of it.
    fn describe(&self, node: &Node, answer: &mut Text) {
        if !self.initiator.is_some_and(|initiator| node.access.allows(initiator)) {
            return;
        }
        answer.put("TargetName", node.name.as_str());
        let came_to = [self.came_to];
        let addresses =
            if self.portal.addresses.is_empty() { &came_to } else { self.portal.addresses.as_slice() };
        for address in addresses {
            answer.put("TargetAddress", &format!("{address},{}", node.portal_group));
        }
    }
}
