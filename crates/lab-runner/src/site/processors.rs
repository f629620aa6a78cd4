//! Which processors do what on one machine.

use serde::{Deserialize, Serialize};

use lab_model::scenario::AdapterCore;

/// Which processors do what, counted from 0. Empty: the lab's choice, the target apart from the rest where there are two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Processors {
    /// The load and the kernel path of the host.
    pub host: Vec<usize>,
    /// The process that speaks the protocol for the host.
    pub adapter: Vec<usize>,
    /// The target.
    pub target: Vec<usize>,
}

impl Processors {
    /// Where an adapter runs.
    pub fn adapter(&self, core: AdapterCore) -> &[usize] {
        match core {
            AdapterCore::Apart if self.adapter == self.host => &self.target,
            _ => &self.adapter,
        }
    }

    /// The site's choice where it made one; else, of two or more processors, the first for the target and the second for
    /// host and adapter, and the third for the adapter if there is one.
    #[must_use]
    pub fn or_usual(&self, online: usize) -> Self {
        let one = |number: usize| if online > number { vec![number] } else { Vec::new() };
        let or = |own: &[usize], usual: Vec<usize>| if own.is_empty() { usual } else { own.to_vec() };
        let host = if online > 1 { one(1) } else { Vec::new() };
        let adapter = if online > 2 { one(2) } else { host.clone() };
        let target = if online > 1 { one(0) } else { Vec::new() };
        Self {
            host: or(&self.host, host),
            adapter: or(&self.adapter, adapter),
            target: or(&self.target, target),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_stands_apart_where_there_is_room() {
        let usual = |online| {
            let chosen = Processors::default().or_usual(online);
            (chosen.host, chosen.adapter, chosen.target)
        };
        assert_eq!(usual(1), (vec![], vec![], vec![]));
        assert_eq!(usual(2), (vec![1], vec![1], vec![0]));
        assert_eq!(usual(8), (vec![1], vec![2], vec![0]));
        let two = Processors::default().or_usual(2);
        assert_eq!((two.adapter(AdapterCore::Usual), two.adapter(AdapterCore::Apart)), (&[1][..], &[0][..]));
        assert_eq!(Processors::default().or_usual(3).adapter(AdapterCore::Apart), [2]);
        let own = Processors { host: vec![5], ..Processors::default() };
        assert_eq!(own.or_usual(8).host, [5]);
    }
}
